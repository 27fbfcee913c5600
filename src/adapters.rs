// SPDX-License-Identifier: GPL-2.0

//! The list of RDMA devices that the core serves.
//!
//! The hooks add and remove an [`Adapter`]; hints and debugfs look adapters up, and the export of
//! memory checks importers by [`trust_of`]. Context: may sleep.

use crate::{
    adapter::Adapter,
    backend::Trust,
    prelude::*, //
};
use kernel::device;

/// The devices. The list is locked for a look-up or a change, and while debugfs prints the list.
type List = Mutex<KVec<Arc<Adapter>>>;

static LIST: Snapshot<List> = Snapshot::new();

/// The open list. Dropping the list closes it. No device is in the list then.
pub(crate) type Open = Published<List>;

/// Opens the list. Context: may sleep.
pub(crate) fn open() -> Result<Open> {
    let list = Arc::pin_init(new_mutex!(KVec::new(), "adapters::LIST"), GFP_KERNEL)?;
    Ok(LIST.publish(list))
}

/// Adds a device. Context: may sleep.
pub(crate) fn add(adapter: &Arc<Adapter>) -> Result {
    let list = LIST.load().ok_or(ENODEV)?;
    list.lock().push(adapter.clone(), GFP_KERNEL)?;
    Ok(())
}

/// Removes a device. Context: may sleep.
pub(crate) fn remove(adapter: &Adapter) {
    let Some(list) = LIST.load() else {
        return;
    };
    let mut list = list.lock();
    let removed = match list.iter().position(|a| ptr::eq(&**a, adapter)) {
        Some(i) => list.remove(i).ok(),
        None => None,
    };
    drop(list);
    drop(removed);
}

/// Returns the adapter of `dev`. Fails with `ENODEV` if the core does not serve the device.
/// Context: may sleep.
pub(crate) fn by_device(dev: &Device) -> Result<Arc<Adapter>> {
    let list = LIST.load().ok_or(ENODEV)?;
    let list = list.lock();
    let found = list.iter().find(|a| a.dev.is(dev));
    found.cloned().ok_or(ENODEV)
}

/// Looks up the adapters of DMA device `dev`; see [`TrustOf`](crate::backend::TrustOf). A function may
/// have several RDMA devices, and which of them imports is not known: an error of one counts for all.
/// Context: may sleep.
pub(crate) fn trust_of(dev: &device::Device) -> Option<Option<Arc<Trust>>> {
    let list = LIST.load()?;
    let list = list.lock();
    let mut found = None;
    for adapter in list.iter() {
        let dma = adapter.dev.dma_device();
        if dma.is_some_and(|dma| ptr::eq(dma, dev)) {
            let trust = adapter.backend.trust();
            let is_fatal = trust.as_ref().is_some_and(|trust| trust.is_fatal());
            if found.is_none() || is_fatal {
                found = Some(trust);
            }
        }
    }
    found
}

/// Calls `f` for each device until it fails. Context: may sleep.
pub(crate) fn try_for_each(f: impl FnMut(&Arc<Adapter>) -> fmt::Result) -> fmt::Result {
    match LIST.load() {
        Some(list) => list.lock().iter().try_for_each(f),
        None => Ok(()),
    }
}
