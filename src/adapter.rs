// SPDX-License-Identifier: GPL-2.0

//! One RDMA device: what the interposer asks of us there, and the regions that its MRs are on.

use crate::{
    attach::Backend,
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
    },
    hint::Hints,
    region::Region,
    registry::{
        self,
        Registry, //
    }, //
};
use kernel::{
    new_spinlock,
    prelude::*,
    rbtree::{
        RBTree,
        RBTreeNode, //
    },
    sync::{
        aref::ARef,
        Arc,
        SpinLock, //
    },
};

/// A device that can serve peer memory.
#[pin_data]
pub(crate) struct Adapter {
    dev: ARef<Device>,
    backend: Backend,
    /// The regions by the local key of their MR. Held for a look-up, never across a call.
    #[pin]
    regions: SpinLock<RBTree<u32, Arc<Region>>>,
    /// What is known of the memory of its user contexts.
    #[pin]
    hints: Hints,
}

impl Adapter {
    /// The RDMA device.
    pub(crate) fn device(&self) -> &Device {
        &self.dev
    }

    /// How it is served.
    pub(crate) fn backend(&self) -> &Backend {
        &self.backend
    }

    /// What is known of the memory of its user contexts.
    pub(crate) fn hints(&self) -> &Hints {
        &self.hints
    }

    /// Enters a region under its MR's key. An MR that had the key before is gone from the device,
    /// or the driver would not have given it out again.
    pub(crate) fn insert(&self, entry: RBTreeNode<u32, Arc<Region>>) {
        let old = self.regions.lock().insert(entry);
        drop(old);
    }

    /// Takes a region out, unless another MR has come under its key.
    pub(crate) fn forget(&self, region: &Arc<Region>, lkey: u32) {
        let mut regions = self.regions.lock();
        let entry = match regions.get(&lkey) {
            Some(found) if Arc::ptr_eq(found, region) => regions.remove_node(&lkey),
            _ => None,
        };
        drop(regions);
        drop(entry);
    }

    /// The region that an MR is on.
    fn region(&self, mr: &Mr) -> Option<Arc<Region>> {
        let region = self.regions.lock().get(&mr.lkey()).cloned();
        region.filter(|r| r.is_of(mr))
    }
}

impl Hooks for Adapter {
    fn add(dev: &Device) -> Result<Arc<Self>> {
        let backend = Backend::choose(dev)?;
        pr_info!("{}: serves peer memory by {}\n", dev.name(), backend.name());
        let adapter = Arc::pin_init(
            pin_init!(Self {
                dev: dev.get(),
                backend,
                regions <- new_spinlock!(RBTree::new(), "Adapter::regions"),
                hints <- Hints::new(),
            }),
            GFP_KERNEL,
        )?;
        Registry::get()?.add_adapter(&adapter)?;
        Ok(adapter)
    }

    fn remove(&self) {
        if let Ok(registry) = Registry::get() {
            registry.remove_adapter(self);
        }
        loop {
            let region = self.regions.lock().values().next().cloned();
            match region {
                Some(region) => region.part(),
                None => break,
            }
        }
    }

    fn reg_user_mr(self: &Arc<Self>, req: &Request<'_>) -> Result<Option<UserMr>> {
        // Pages that come and go with the page table are the driver's business.
        if req.access.is_on_demand() {
            return Ok(None);
        }
        registry::register_memory(self, req)
    }

    fn rereg_user_mr<'a>(
        self: &Arc<Self>,
        mr: &Mr,
        change: Change,
        req: &Request<'a>,
    ) -> Result<Rereg<'a>> {
        let Some(old) = self.region(mr) else {
            // From host memory: to peer memory, or none of our business. Which access the old MR
            // has only its driver knows, so one that keeps it is the driver's to make.
            let new = if change.range() && change.access() {
                self.reg_user_mr(req)?
            } else {
                None
            };
            return Ok(new.map_or(Rereg::Original, Rereg::Replace));
        };
        // An MR of ours cannot be changed by the driver; a new one takes its place.
        let mut req = req.clone();
        old.complete(&mut req, change);
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
        self.hints.clear(ucontext);
    }
}
