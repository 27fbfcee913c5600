// SPDX-License-Identifier: GPL-2.0

//! The options of functions to which the driver is being bound by its file `bind_with`.
//!
//! Locking: [`Pending::entries`] is a leaf.

use crate::options::Given;
use kernel::{
    new_mutex,
    pci,
    prelude::*,
    sync::{
        aref::ARef,
        Arc,
        Mutex, //
    }, //
};

/// The options of each such function.
#[pin_data]
pub(crate) struct Pending {
    /// The functions.
    #[pin]
    entries: Mutex<KVec<(ARef<pci::Device>, Given)>>,
}

/// Returns whether both are the same function.
fn same(a: &pci::Device, b: &pci::Device) -> bool {
    core::ptr::eq(a, b)
}

impl Pending {
    /// Creates an empty set.
    ///
    /// Context: may sleep.
    pub(crate) fn new() -> Result<Arc<Self>> {
        Arc::pin_init(
            pin_init!(Self {
                entries <- new_mutex!(KVec::new(), "io_peer_mem::Pending::entries"),
            }),
            GFP_KERNEL,
        )
    }

    /// Sets the options of `dev` until the result is dropped. Returns `EBUSY` if it has some.
    ///
    /// Context: may sleep.
    pub(crate) fn add(this: Arc<Self>, dev: ARef<pci::Device>, given: Given) -> Result<Entry> {
        let mut entries = this.entries.lock();
        if entries.iter().any(|(other, _)| same(other, &dev)) {
            return Err(EBUSY);
        }
        entries.push((dev.clone(), given), GFP_KERNEL)?;
        drop(entries);
        Ok(Entry { pending: this, dev })
    }

    /// Returns the options of `dev`; those of a function that is not in the set are empty.
    ///
    /// Context: may sleep.
    pub(crate) fn of(&self, dev: &pci::Device) -> Given {
        let entries = self.entries.lock();
        let found = entries.iter().find(|(other, _)| same(other, dev));
        found.map(|(_, given)| *given).unwrap_or_default()
    }
}

/// The options of a function, which are gone when this is dropped.
pub(crate) struct Entry {
    /// The set.
    pending: Arc<Pending>,
    /// The function.
    dev: ARef<pci::Device>,
}

impl Drop for Entry {
    fn drop(&mut self) {
        let mut entries = self.pending.entries.lock();
        entries.retain(|(other, _)| !same(other, &self.dev));
    }
}
