// SPDX-License-Identifier: GPL-2.0

//! A device of RDMA that the core serves: [`Adapter`].
//!
//! When ib_core adds a device, the hooks create an adapter, which stays in the list of adapters
//! until the device is removed. The dispatch registers memory with the backend of the adapter.

use crate::{
    backend::Backend,
    data::{
        hint::Hints,
        index::Index, //
    },
    imported::Imports,
    prelude::*,
    registered::{
        MrIndex,
        Registered, //
    }, //
};

/// A device that can serve peer memory.
#[pin_data]
pub(crate) struct Adapter {
    pub(crate) dev: ARef<Device>,
    pub(crate) backend: Backend,
    /// The MRs that the core has made, by local key.
    pub(crate) mrs: Arc<MrIndex>,
    pub(crate) imports: Imports,
    #[pin]
    pub(crate) hints: Hints,
}

impl Adapter {
    /// Creates the adapter of a device. Fails with `EOPNOTSUPP` if no backend serves the device.
    /// Context: may sleep.
    pub(crate) fn new(dev: &Device) -> Result<Arc<Self>> {
        let backend = Backend::choose(dev)?;
        let mrs: Arc<MrIndex> = Index::new()?;
        let imports = Imports::new(mrs.clone())?;
        Arc::pin_init(
            pin_init!(Self {
                dev: dev.get(),
                backend,
                mrs,
                imports,
                hints <- Hints::new(),
            }),
            GFP_KERNEL,
        )
    }

    /// Returns the memory that `mr` is on, if the core has made the MR. Context: any.
    pub(crate) fn registered(&self, mr: &Mr) -> Option<Arc<dyn Registered>> {
        self.mrs
            .get(mr.lkey())
            .filter(|registered| registered.is_of(mr))
    }

    /// Returns the memory that `mr` is on, if the core has made the MR, and begins the
    /// deregistration of `mr`. Context: any.
    pub(crate) fn registered_to_end(&self, mr: &Mr) -> Option<Arc<dyn Registered>> {
        let registered = self.mrs.get(mr.lkey())?;
        registered.begin_dereg(mr).then_some(registered)
    }
}
