// SPDX-License-Identifier: GPL-2.0

//! The interposed verbs of a device: memory that a client claims becomes a region, and everything
//! else falls through to the driver.

use crate::{
    adapter::Adapter,
    adapters,
    backend::Backend,
    dispatch,
    ext::{
        key_set::KeySet,
        rdma::{
            bypass,
            Asked,
            AskedCell,
            Change,
            Device,
            Driver,
            Hooks,
            Mr,
            Original,
            Request,
            UcontextId,
            UserMr, //
        },
    },
    order::ASKED,
    registered, //
};
use kernel::{
    prelude::*,
    sync::Arc, //
};

impl Hooks for Adapter {
    fn add(dev: &Device) -> Result<Arc<Self>> {
        let adapter = Adapter::new(dev)?;
        pr_info!(
            "{}: serves peer memory by {}\n",
            dev.name(),
            adapter.backend().name()
        );
        adapters::add(&adapter)?;
        Ok(adapter)
    }

    fn remove(&self) {
        adapters::remove(self);
        registered::disassociate_all(self.mrs(), self.backend());
    }

    fn fatal(&self) {
        self.backend().set_fatal();
    }

    fn asked(&self) -> &'static AskedCell {
        /// The hook on umems serves what the driver pins, so the driver's calls must not be exempt from it.
        static ALWAYS: AskedCell = AskedCell::new(Asked::Always);
        match self.backend() {
            Backend::Umem => &ALWAYS,
            _ => &ASKED,
        }
    }

    fn keys(&self) -> &KeySet {
        self.mrs().keys()
    }

    fn reg_user_mr(self: &Arc<Self>, req: &Request<'_>, driver: Driver<'_>) -> Result<UserMr> {
        // The driver pages on-demand memory by itself, and the hook on umems serves what it pins.
        if req.access.is_on_demand() || matches!(self.backend(), Backend::Umem) {
            return driver.reg_user_mr(req);
        }
        // The hook on umems must not serve the driver's attempt: its MR could not be fenced.
        dispatch::register_memory(self, req, || bypass(|| driver.reg_user_mr(req)))
    }

    fn reg_failed(self: &Arc<Self>, req: &Request<'_>, error: Error) -> Result<UserMr> {
        dispatch::register_after_driver(self, req, error)
    }

    fn rereg_user_mr(
        self: &Arc<Self>,
        mr: &Mr,
        change: Change,
        req: &Request<'_>,
        driver: Driver<'_>,
    ) -> Result<Option<UserMr>> {
        let Some(registered) = self.registered(mr) else {
            // An MR on host memory can become one on peer memory. Only the driver knows its access
            // flags, so only the driver can change it if these stay.
            let falls_through =
                req.access.is_on_demand() || matches!(self.backend(), Backend::Umem);
            if falls_through || !change.range() || !change.access() {
                return driver.rereg_user_mr();
            }
            return dispatch::register_memory(self, req, || bypass(|| driver.rereg_user_mr()));
        };
        // The driver cannot change an MR on a dma-buf; a new MR replaces it.
        let mut req = req.clone();
        registered.fill_unchanged(&mut req, change);
        if change.range() {
            self.reg_user_mr(&req, driver).map(Some)
        } else {
            registered.replace_mr(self.backend(), &req).map(Some)
        }
    }

    fn dereg_mr(&self, mr: &Mr, original: Original<'_>) -> Result {
        match self.registered_to_end(mr) {
            Some(registered) => registered.deregister(mr, &original),
            None => original.call(),
        }
    }

    fn dealloc_ucontext(&self, ucontext: UcontextId) {
        self.hints().clear(ucontext);
    }
}
