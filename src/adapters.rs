// SPDX-License-Identifier: GPL-2.0

//! The list of RDMA devices that the core serves.

use crate::{
    adapter::Adapter,
    backend::Trust,
    ext::{
        rdma::Device,
        snapshot::{
            Published,
            Snapshot, //
        }, //
    }, //
};
use core::ptr;
use kernel::{
    device, fmt, new_mutex,
    prelude::*,
    sync::{
        Arc,
        Mutex, //
    },
};

/// The devices of a list, which is locked for one look-up or change, and while debugfs prints it.
type List = Mutex<KVec<Arc<Adapter>>>;

/// The list of the loaded module.
static LIST: Snapshot<List> = Snapshot::new();

/// The open list. Dropping it closes the list, which must be empty then.
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
    let found = list.iter().find(|a| a.device().is(dev));
    found.cloned().ok_or(ENODEV)
}

/// Returns `None` if `dev` does not perform the DMA of a device in the list, and otherwise what is known
/// of the invalidations of that device. Context: may sleep.
pub(crate) fn trust_of(dev: &device::Device) -> Option<Option<Arc<Trust>>> {
    let performs = |adapter: &&Arc<Adapter>| {
        let dma = adapter.device().dma_device();
        dma.is_some_and(|dma| ptr::eq(dma, dev))
    };
    let list = LIST.load()?;
    let list = list.lock();
    let found = list.iter().find(performs)?;
    Some(found.backend().trust())
}

/// Calls `f` for each device until it fails. Context: may sleep.
pub(crate) fn try_for_each(f: impl FnMut(&Arc<Adapter>) -> fmt::Result) -> fmt::Result {
    match LIST.load() {
        Some(list) => list.lock().iter().try_for_each(f),
        None => Ok(()),
    }
}
