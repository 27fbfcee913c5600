// SPDX-License-Identifier: GPL-2.0

//! Whether a device has carried out the invalidations of the driver.
//!
//! The importer's function that invalidates a dma-buf has no result. mlx5 unmaps even when the
//! device rejects the request; the dma-buf then looks idle although DMA may continue. Two signs show
//! a failure: the event of a fatal error, and a probe on the driver's function that has the result.
//!
//! [`Trust`] is what is known of a device, and [`Revocation`] what is known of one import. The
//! dma-buf backend and exported memory use both.

use super::Distrust;
use crate::ext::{
    rdma::dma_is_off,
    task::return_probe::{
        self,
        ReturnProbe, //
    }, //
};
use crate::prelude::*;
use kernel::device;

/// What is known of a device that invalidates. Keeps no reference to the RDMA device.
pub(crate) struct Trust {
    name: Name,
    dma: ARef<device::Device>,
    fatal: Atomic<bool>,
    removed: Atomic<bool>,
    probe: Option<ReturnProbe>,
}

impl Trust {
    /// Creates the record of a device without an error. `dma`: the device that does the DMA.
    /// Context: may sleep.
    pub(super) fn new(dev: &Device, dma: &device::Device) -> Self {
        let probe = dev.quirks().ignored_invalidation.and_then(|function| {
            ReturnProbe::new(function)
                .inspect_err(|e| {
                    pr_warn!(
                        "{}: cannot probe {} ({:?}): an invalidation that the driver fails to do \
                         is not noticed\n",
                        dev.name(),
                        function,
                        e
                    )
                })
                .ok()
        });
        Self {
            name: dev.name(),
            dma: dma.into(),
            fatal: Atomic::new(false),
            removed: Atomic::new(false),
            probe,
        }
    }

    pub(crate) fn name(&self) -> Name {
        self.name
    }

    /// Records a fatal error. The error ends with the device: a recovered device is added again.
    pub(super) fn set_fatal(&self) {
        self.fatal.store(true, Release);
    }

    pub(super) fn set_removed(&self) {
        self.removed.store(true, Release);
    }

    pub(super) fn is_removed(&self) -> bool {
        self.removed.load(Acquire)
    }

    /// Returns whether the device has a fatal error, and may still access memory.
    pub(crate) fn is_fatal(&self) -> bool {
        self.fatal.load(Acquire) && !self.is_off()
    }

    /// Returns whether the device cannot access any memory.
    pub(super) fn is_off(&self) -> bool {
        dma_is_off(&self.dma)
    }

    /// Watches the driver's invalidations in the current task, until [`Revocation::record`]. Fails if
    /// the kernel cannot watch now; the importer must not be asked to invalidate then. Context: may
    /// sleep.
    pub(super) fn watch(&self) -> Result<Watch<'_>> {
        let errors = self.probe.as_ref().map(ReturnProbe::watch).transpose()?;
        Ok(Watch {
            trust: self,
            errors,
        })
    }
}

/// A task that makes the driver invalidate.
pub(super) struct Watch<'a> {
    trust: &'a Trust,
    /// `None`: the driver does not ignore its errors, or the kernel cannot probe the function.
    errors: Option<return_probe::Watch<'a>>,
}

#[derive(Default)]
pub(super) struct Revocation {
    /// The error of the driver's invalidation, which cannot be repeated.
    failed: Option<Error>,
}

impl Revocation {
    /// Returns why the device is not trusted to have invalidated.
    pub(super) fn distrust(&self, trust: &Trust) -> Option<Distrust> {
        let is_fatal = trust.is_fatal();
        // Ends with the driver's `dereg_mr`, which returns errors of the device.
        let has_failed = self.failed.is_some() && !trust.is_off();
        (is_fatal || has_failed).then_some(Distrust {
            device: trust.name,
            is_fatal,
        })
    }

    /// Returns an error if the device is not trusted to have invalidated.
    pub(super) fn check(&self, trust: &Trust) -> Result {
        match self.distrust(trust) {
            None => Ok(()),
            Some(_) => Err(self.failed.unwrap_or(EIO)),
        }
    }

    /// Records an error of the driver's invalidation. Context: may sleep.
    pub(super) fn record(&mut self, watch: Watch<'_>) {
        let Some(Err(e)) = watch.errors.map(|errors| errors.error()) else {
            return;
        };
        self.failed = Some(e);
        // mlx5 has given up the device, and reports the fatal error later, or never if the device
        // hangs.
        if e == EIO {
            watch.trust.set_fatal();
        }
    }
}
