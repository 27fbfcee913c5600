// SPDX-License-Identifier: GPL-2.0

//! The options of functions that a write to the driver's file `bind_with` is binding.
//!
//! The write adds an [`Entry`] to [`Pending`] and binds the driver. The probe function reads the
//! options.
//!
//! Locking: [`Pending::entries`] is a leaf.

use crate::{
    options::Given,
    prelude::*, //
};
use kernel::pci;

/// The options of each function that is being bound by `bind_with`.
#[pin_data]
pub(crate) struct Pending {
    #[pin]
    entries: Mutex<KVec<(ARef<pci::Device>, Given)>>,
}

fn same(a: &pci::Device, b: &pci::Device) -> bool {
    core::ptr::eq(a, b)
}

impl Pending {
    pub(crate) fn new() -> Result<Arc<Self>> {
        Arc::pin_init(
            pin_init!(Self {
                entries <- new_mutex!(KVec::new(), "io_peer_mem::Pending::entries"),
            }),
            GFP_KERNEL,
        )
    }

    /// Sets the options of `dev` until the result is dropped. Returns `EBUSY` if `dev` has options
    /// already.
    pub(crate) fn add(this: Arc<Self>, dev: ARef<pci::Device>, given: Given) -> Result<Entry> {
        let mut entries = this.entries.lock();
        if entries.iter().any(|(other, _)| same(other, &dev)) {
            return Err(EBUSY);
        }
        entries.push((dev.clone(), given), GFP_KERNEL)?;
        drop(entries);
        Ok(Entry { pending: this, dev })
    }

    /// Returns the options of `dev`. A function that is not in the set has empty options.
    pub(crate) fn of(&self, dev: &pci::Device) -> Given {
        let entries = self.entries.lock();
        let found = entries.iter().find(|(other, _)| same(other, dev));
        found.map(|(_, given)| *given).unwrap_or_default()
    }
}

/// The options of a function. Drop removes the options from the set.
pub(crate) struct Entry {
    pending: Arc<Pending>,
    dev: ARef<pci::Device>,
}

impl Drop for Entry {
    fn drop(&mut self) {
        let mut entries = self.pending.entries.lock();
        entries.retain(|(other, _)| !same(other, &self.dev));
    }
}
