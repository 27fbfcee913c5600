// SPDX-License-Identifier: GPL-2.0

//! Exported memory: the user chooses the importing device.
//!
//! [`Exported`] is the access of importers, an [`Attachment`](super::Attachment) of the region.
//! [`Importer`] is what is known of the device: the region sets the device at the first import. The
//! lock, `Importer::known`, is a leaf.

use super::{
    trust::{
        Revocation,
        Trust, //
    },
    DeviceAccess,
    Distrust, //
};
use crate::ext::dma_buf::Revoker;
use crate::prelude::*;
use kernel::device;

/// Looks up the adapter of a DMA device, and what is known of its invalidations. Outer `None`: there is
/// none; inner `None`: the driver does not fail silently. May sleep.
pub(crate) type TrustOf = fn(&device::Device) -> Option<Option<Arc<Trust>>>;

/// An importing device, and what was known when last asked.
type Known = (ARef<device::Device>, TrustOf, Arc<Trust>);

#[pin_data]
pub(crate) struct Importer {
    /// `None` before the first import, and for a device that belongs to no adapter.
    #[pin]
    known: SpinLock<Option<Known>>,
}

impl Importer {
    /// Creates the importer of an export that was not imported yet. Context: may sleep.
    pub(crate) fn new() -> Result<Arc<Self>> {
        let importer = pin_init!(Self { known <- new_spinlock!(None, "Importer::known") });
        Arc::pin_init(importer, GFP_KERNEL_ACCOUNT)
    }

    /// Sets the importing device. Returns what is known of it. Context: may sleep.
    pub(crate) fn set(&self, dev: &device::Device, trust_of: TrustOf) -> Option<Arc<Trust>> {
        let trust = trust_of(dev).flatten();
        self.replace(trust.clone().map(|trust| (dev.into(), trust_of, trust)));
        trust
    }

    fn replace(&self, known: Option<Known>) {
        let mut current = self.known.lock();
        let old = core::mem::replace(&mut *current, known);
        drop(current);
        drop(old);
    }

    /// Returns what is known of the importing device now: it may have had an error since the import,
    /// or be another RDMA device of the same function. Context: may sleep.
    fn trust(&self) -> Option<Arc<Trust>> {
        let (dev, trust_of, last) = self.known.lock().clone()?;
        let Some(trust) = trust_of(&dev).flatten() else {
            // Removed.
            return Some(last);
        };
        self.replace(Some((dev, trust_of, trust.clone())));
        Some(trust)
    }
}

/// The access of importers to exported memory.
pub(crate) struct Exported {
    revoker: Revoker,
    importer: Arc<Importer>,
    revocation: Revocation,
}

impl Exported {
    pub(crate) fn new(revoker: Revoker, importer: Arc<Importer>) -> Self {
        Self {
            revoker,
            importer,
            revocation: Revocation::default(),
        }
    }

    /// Returns an error if the device is not trusted to have invalidated. Context: may sleep.
    fn check(&self) -> Result {
        match self.importer.trust() {
            Some(trust) => self.revocation.check(&trust),
            None => Ok(()),
        }
    }
}

impl DeviceAccess for Exported {
    fn can_fence(&self) -> bool {
        self.revoker.can_revoke()
    }

    fn distrust(&self) -> Option<Distrust> {
        self.revocation.distrust(&*self.importer.trust()?)
    }

    fn stop(&mut self) -> Result {
        let trust = self.importer.trust();
        let watch = trust.as_deref().map(Trust::watch).transpose()?;
        self.revoker.begin_revoke();
        if let Some(watch) = watch {
            self.revocation.record(watch);
        }
        Ok(())
    }

    fn fence(&mut self, fences: &FenceBudget) -> Result {
        self.check()?;
        self.stop()?;
        self.revoker.wait_revoked(fences)?;
        // The error may have come meanwhile.
        self.check()
    }
}
