// SPDX-License-Identifier: GPL-2.0

//! The list of RDMA devices that the core serves.

use crate::{
    adapter::Adapter,
    ext::{
        rdma::Device,
        snapshot::Snapshot, //
    }, //
};
use core::ptr;
use kernel::{
    fmt, new_mutex,
    prelude::*,
    sync::{
        Arc,
        Mutex, //
    },
};

/// The list of the loaded module.
static ADAPTERS: Snapshot<Adapters> = Snapshot::new();

/// The list.
#[pin_data]
struct Adapters {
    /// Held for one look-up or change, and while debugfs prints the list.
    #[pin]
    list: Mutex<KVec<Arc<Adapter>>>,
}

/// The open list. Dropping it closes the list, which must be empty then.
pub(crate) struct Open(());

/// Opens the list. Context: may sleep.
pub(crate) fn open() -> Result<Open> {
    let adapters = Arc::pin_init(
        pin_init!(Adapters {
            list <- new_mutex!(KVec::new(), "Adapters::list"),
        }),
        GFP_KERNEL,
    )?;
    drop(ADAPTERS.replace(Some(adapters)));
    Ok(Open(()))
}

impl Drop for Open {
    fn drop(&mut self) {
        drop(ADAPTERS.replace(None));
    }
}

/// Adds a device. Context: may sleep.
pub(crate) fn add(adapter: &Arc<Adapter>) -> Result {
    let adapters = ADAPTERS.load().ok_or(ENODEV)?;
    adapters.list.lock().push(adapter.clone(), GFP_KERNEL)?;
    Ok(())
}

/// Removes a device. Context: may sleep.
pub(crate) fn remove(adapter: &Adapter) {
    let Some(adapters) = ADAPTERS.load() else {
        return;
    };
    let mut list = adapters.list.lock();
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
    let adapters = ADAPTERS.load().ok_or(ENODEV)?;
    let list = adapters.list.lock();
    let found = list.iter().find(|a| a.device().is(dev));
    found.cloned().ok_or(ENODEV)
}

/// Calls `f` for each device until it fails. Context: may sleep.
pub(crate) fn try_for_each(f: impl FnMut(&Arc<Adapter>) -> fmt::Result) -> fmt::Result {
    match ADAPTERS.load() {
        Some(adapters) => adapters.list.lock().iter().try_for_each(f),
        None => Ok(()),
    }
}
