// SPDX-License-Identifier: GPL-2.0

//! The interposed verbs of a device.
//!
//! [`Adapter`] implements [`Hooks`]: ib_uverbs calls the interposed verbs, and the verbs call these
//! functions. Memory that a client claims becomes a region, a dma-buf of another exporter becomes
//! an import, and all other memory goes to the driver.
//!
//! Context: as each method of [`Hooks`] states. No lock of the core is held.

use crate::{
    adapter::Adapter,
    adapters,
    backend::Backend,
    dispatch,
    ext::rdma::{
        bypass,
        key_filter::KeyFilter,
        Change,
        DispatchCell,
        Driver,
        Hooks, //
    },
    policy::order::DISPATCH,
    prelude::*,
    registered, //
};

pub(crate) fn add(dev: &Device) -> Result<Arc<dyn Hooks>> {
    let adapter = Adapter::new(dev)?;
    pr_info!(
        "{}: serves peer memory by {}\n",
        dev.name(),
        adapter.backend.name()
    );
    adapters::add(&adapter)?;
    Ok(adapter)
}

impl Hooks for Adapter {
    fn remove(&self) {
        adapters::remove(self);
        registered::disassociate_all(&self.mrs, &self.backend);
    }

    fn fatal(&self) {
        self.backend.set_fatal();
    }

    fn dispatch(&self) -> &'static DispatchCell {
        /// For the umem backend. A driver that is called before the hooks are asked is exempt from
        /// the hook on `ib_umem_get_desc()`, which must serve the memory that the driver pins.
        static ALWAYS: DispatchCell = DispatchCell::new(Dispatch::ClientsFirst);
        match &self.backend {
            Backend::Umem => &ALWAYS,
            _ => &DISPATCH,
        }
    }

    fn keys(&self) -> &KeyFilter {
        self.mrs.keys()
    }

    fn reg_user_mr(&self, req: &Request<'_>, driver: Driver<'_>) -> Result<UserMr> {
        // With the umem backend, the hook on `ib_umem_get_desc()` serves the memory that the driver
        // pins.
        if matches!(self.backend, Backend::Umem) {
            return driver.reg_user_mr(req);
        }
        if req.access.is_on_demand() {
            return dispatch::register_on_demand(self, req, || driver.reg_user_mr(req));
        }
        // If the hook on `ib_umem_get_desc()` served this call, the MR could not be fenced.
        dispatch::register_memory(self, req, || bypass(|| driver.reg_user_mr(req)))
    }

    fn reg_failed(&self, req: &Request<'_>, error: Error) -> Result<UserMr> {
        dispatch::register_after_driver(self, req, error)
    }

    fn rereg_user_mr(
        &self,
        mr: &Mr,
        change: Change,
        req: &Request<'_>,
        driver: Driver<'_>,
    ) -> Result<Option<UserMr>> {
        let Some(registered) = self.registered(mr) else {
            let falls_through = req.access.is_on_demand() || matches!(self.backend, Backend::Umem);
            if falls_through || !change.range() {
                return driver.rereg_user_mr();
            }
            // An MR on host memory can become an MR on peer memory. Only the driver knows the
            // access flags of an MR on host memory, so the request must have the flags.
            let driver = || bypass(|| driver.rereg_user_mr());
            if change.access() {
                return dispatch::register_memory(self, req, driver);
            }
            return driver().map_err(|e| dispatch::without_access(self, req, e));
        };
        // Drivers cannot change an MR on a dma-buf, so a new MR replaces the old MR.
        let mut req = req.clone();
        registered.fill_unchanged(&mut req, change);
        if change.range() {
            self.reg_user_mr(&req, driver).map(Some)
        } else {
            registered.replace_mr(&self.backend, &req).map(Some)
        }
    }

    fn dereg_mr(&self, mr: &Mr, original: Original<'_>) -> Result {
        match self.registered_to_end(mr) {
            Some(registered) => registered.deregister(mr, &original),
            None => original.call(),
        }
    }

    fn dealloc_ucontext(&self, ucontext: UcontextId) {
        self.hints.clear(ucontext);
    }
}
