// SPDX-License-Identifier: GPL-2.0

//! Exported memory: the user chooses the importing device.
//!
//! [`Exported`] is the access of importers, an [`Attachment`](super::Attachment) of the region.
//! [`Importer`] is what is known of the device: the region sets the device at the first import. The
//! lock, `Importer::trust`, is a leaf.

use super::{
    trust::{
        Revocation,
        Trust, //
    },
    DeviceAccess,
    Distrust, //
};
use crate::ext::dma_buf::{
    FenceBudget,
    Revoker, //
};
use kernel::{
    new_spinlock,
    prelude::*,
    sync::{
        Arc,
        SpinLock, //
    }, //
};

/// What is known of the importing device.
#[pin_data]
pub(crate) struct Importer {
    /// `None` before the first import, and for a device that belongs to no adapter.
    #[pin]
    trust: SpinLock<Option<Arc<Trust>>>,
}

impl Importer {
    /// Creates the importer of an export that was not imported yet. Context: may sleep.
    pub(crate) fn new() -> Result<Arc<Self>> {
        let importer = pin_init!(Self { trust <- new_spinlock!(None, "Importer::trust") });
        Arc::pin_init(importer, GFP_KERNEL_ACCOUNT)
    }

    /// Sets what is known of the importing device. Context: any.
    pub(crate) fn set(&self, trust: Option<Arc<Trust>>) {
        let mut current = self.trust.lock();
        let old = core::mem::replace(&mut *current, trust);
        drop(current);
        drop(old);
    }

    /// Returns what is known of the importing device. Context: any.
    fn trust(&self) -> Option<Arc<Trust>> {
        self.trust.lock().clone()
    }
}

/// The access of importers to exported memory.
pub(crate) struct Exported {
    revoker: Revoker,
    importer: Arc<Importer>,
    revocation: Revocation,
}

impl Exported {
    /// Creates the access of the importers of an export.
    pub(crate) fn new(revoker: Revoker, importer: Arc<Importer>) -> Self {
        Self {
            revoker,
            importer,
            revocation: Revocation::default(),
        }
    }

    /// Returns an error if the device is not trusted to have invalidated. Context: any.
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
        let revoker = &self.revoker;
        match self.importer.trust() {
            Some(trust) => self
                .revocation
                .watch(&trust, |call| revoker.begin_revoke(call)),
            None => revoker.begin_revoke(|invalidate| invalidate()),
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
