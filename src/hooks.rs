// SPDX-License-Identifier: GPL-2.0

//! The interposed verbs of a device: memory that a client claims becomes a region, and everything
//! else falls through to the driver.

use crate::{
    adapter::Adapter,
    adapters,
    dispatch,
    ext::rdma::{
        Change,
        Device,
        Hooks,
        Mr,
        Original,
        Request,
        Rereg,
        UcontextId,
        UserMr, //
    }, //
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
        while let Some(region) = self.mrs().first() {
            region.disassociate();
        }
    }

    fn reg_user_mr(self: &Arc<Self>, req: &Request<'_>) -> Result<Option<UserMr>> {
        // The driver pages on-demand memory by itself.
        if req.access.is_on_demand() {
            return Ok(None);
        }
        dispatch::register_memory(self, req)
    }

    fn rereg_user_mr<'a>(
        self: &Arc<Self>,
        mr: &Mr,
        change: Change,
        req: &Request<'a>,
    ) -> Result<Rereg<'a>> {
        let Some(region) = self.region(mr) else {
            // An MR on host memory can become one on peer memory. Only the driver knows its access
            // flags, so it is the driver's to change if these stay.
            let new = if change.range() && change.access() {
                self.reg_user_mr(req)?
            } else {
                None
            };
            return Ok(new.map_or(Rereg::Original, Rereg::Replace));
        };
        // The driver cannot change an MR on peer memory; a new MR replaces it.
        let mut req = req.clone();
        region.fill_unchanged(&mut req, change);
        Ok(match self.reg_user_mr(&req)? {
            Some(new) => Rereg::Replace(new),
            None => Rereg::Register(req),
        })
    }

    fn dereg_mr(&self, mr: &Mr, original: Original<'_>) -> Result {
        match self.region(mr) {
            Some(region) => region.deregister(&original),
            None => original.call(),
        }
    }

    fn dealloc_ucontext(&self, ucontext: UcontextId) {
        self.hints().clear(ucontext);
    }
}
