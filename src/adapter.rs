// SPDX-License-Identifier: GPL-2.0

//! One RDMA device that the core serves.

use crate::{
    backend::Backend,
    ext::rdma::{
        Device,
        Mr, //
    },
    hint::Hints,
    index::Index,
    region::Region, //
};
use kernel::{
    prelude::*,
    sync::{
        aref::ARef,
        Arc, //
    }, //
};

/// A device that can serve peer memory.
#[pin_data]
pub(crate) struct Adapter {
    dev: ARef<Device>,
    backend: Backend,
    /// The regions by the local key of their MR.
    mrs: Arc<Index<Region>>,
    /// The hints for its user contexts.
    #[pin]
    hints: Hints,
}

impl Adapter {
    /// Creates the adapter of a device. Fails with `EOPNOTSUPP` if no backend serves the device.
    /// Context: may sleep.
    pub(crate) fn new(dev: &Device) -> Result<Arc<Self>> {
        let backend = Backend::choose(dev)?;
        let mrs = Index::new()?;
        Arc::pin_init(
            pin_init!(Self {
                dev: dev.get(),
                backend,
                mrs,
                hints <- Hints::new(),
            }),
            GFP_KERNEL,
        )
    }

    /// Returns the RDMA device.
    pub(crate) fn device(&self) -> &Device {
        &self.dev
    }

    /// Returns the backend that serves the device.
    pub(crate) fn backend(&self) -> &Backend {
        &self.backend
    }

    /// Returns the regions by the local key of their MR.
    pub(crate) fn mrs(&self) -> &Arc<Index<Region>> {
        &self.mrs
    }

    /// Returns the hints for the device's user contexts.
    pub(crate) fn hints(&self) -> &Hints {
        &self.hints
    }

    /// Returns the region that `mr` is on.
    pub(crate) fn region(&self, mr: &Mr) -> Option<Arc<Region>> {
        self.mrs.get(mr.lkey()).filter(|region| region.is_of(mr))
    }

    /// Returns the region that `mr` is on, and begins the deregistration of `mr` there.
    pub(crate) fn region_to_deregister(&self, mr: &Mr) -> Option<Arc<Region>> {
        let region = self.mrs.get(mr.lkey())?;
        region.begin_dereg(mr).then_some(region)
    }
}
