// SPDX-License-Identifier: GPL-2.0

//! Whether a device has invalidated what its driver was asked to.
//!
//! The function of a dma-buf importer that invalidates has no result. mlx5 unmaps the memory in it also if
//! its device does not take the request, so that no importer would seem to be left. What shows this is
//! the event of a fatal error, and a probe on the function of the driver that has the result.

use crate::ext::{
    rdma::{
        dma_is_off,
        Device, //
    },
    return_probe::{
        Armed,
        ReturnProbe, //
    }, //
};
use kernel::{
    device,
    prelude::*,
    sync::{
        aref::ARef,
        atomic::{
            Acquire,
            Atomic,
            Release, //
        }, //
    },
};

/// What is known of a device that invalidates. It does not keep the RDMA device.
pub(super) struct Trust {
    dma: ARef<device::Device>,
    /// The driver has reported a fatal error.
    fatal: Atomic<bool>,
    /// The device is removed.
    removed: Atomic<bool>,
    probe: Option<ReturnProbe>,
}

impl Trust {
    /// Creates it for a device without an error whose DMA is done by `dma`. Context: may sleep.
    pub(super) fn new(dev: &Device, dma: &device::Device) -> Self {
        let probe = dev.ignored_invalidation().and_then(|function| {
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
            dma: dma.into(),
            fatal: Atomic::new(false),
            removed: Atomic::new(false),
            probe,
        }
    }

    /// Records a fatal error. It ends with the device: a recovered one is new.
    pub(super) fn set_fatal(&self) {
        self.fatal.store(true, Release);
    }

    /// Records that the device is removed.
    pub(super) fn set_removed(&self) {
        self.removed.store(true, Release);
    }

    /// Returns whether the device is removed.
    pub(super) fn is_removed(&self) -> bool {
        self.removed.load(Acquire)
    }

    /// Returns whether the device has a fatal error, and may still access memory.
    pub(super) fn is_fatal(&self) -> bool {
        self.fatal.load(Acquire) && !self.is_off()
    }

    /// Returns whether the device cannot access any memory.
    pub(super) fn is_off(&self) -> bool {
        dma_is_off(&self.dma)
    }

    /// Makes the driver's errors visible to [`Invalidation::watch`]. Context: may sleep.
    pub(super) fn arm(&self) -> Invalidation<'_> {
        let armed = self.probe.as_ref().and_then(|probe| {
            probe
                .arm()
                .inspect_err(|e| pr_err!("the probe on the driver cannot be armed: {:?}\n", e))
                .ok()
        });
        Invalidation(armed)
    }
}

/// An invalidation that is to begin.
pub(super) struct Invalidation<'a>(Option<Armed<'a>>);

impl Invalidation<'_> {
    /// Calls `invalidate`. Fails if the driver was seen to fail.
    pub(super) fn watch(&self, invalidate: &dyn Fn()) -> Result {
        match &self.0 {
            Some(armed) => armed.watch(invalidate),
            None => {
                invalidate();
                Ok(())
            }
        }
    }
}
