// SPDX-License-Identifier: GPL-2.0

//! Bringing an RDMA device into being, and taking it away.

use crate::{
    bindings::rdma,
    device::Adapter,
    engine::Engine,
    ext::pci as ext_pci,
    mode::Mode,
    ops,
    Number, //
};
use core::mem::size_of;
use kernel::{
    bindings,
    device::Bound,
    error::to_result,
    pci,
    prelude::*,
    sync::Arc, //
};

/// `enum rdma_node_type`, a UAPI value.
const RDMA_NODE_IB_CA: u8 = 1;

/// The C object, with the way to ours.
#[repr(C)]
struct Raw {
    ib: rdma::ib_device,
    adapter: *const Adapter,
}

/// Our side of a device.
///
/// # Safety
///
/// `dev` must have been made by [`Registered`]; the result is not used after the call of the
/// operation that gave it.
pub(crate) unsafe fn adapter<'a>(dev: *mut rdma::ib_device) -> &'a Adapter {
    // SAFETY: The caller's promise; `Registered` keeps the object as long as the device.
    unsafe { &*(*dev.cast::<Raw>()).adapter }
}

/// A device that is registered with ib_core. Dropping it takes it away, with all of its MRs.
///
/// # Invariants
///
/// `raw` was allocated by ib_core; it is registered if `there` is true.
pub(crate) struct Registered {
    raw: *mut Raw,
    there: bool,
    adapter: Arc<Adapter>,
    number: Number,
}

// SAFETY: ib_core locks for itself.
unsafe impl Send for Registered {}

impl Registered {
    /// Makes and registers the RDMA device of `dev`, which is being bound. May sleep.
    pub(crate) fn new(
        dev: &pci::Device<Bound>,
        number: Number,
        mode: Mode,
        engine: Engine,
    ) -> Result<Self> {
        let adapter = Adapter::new(mode, engine)?;
        // SAFETY: The size is that of a structure that begins with an ib_device.
        let raw = unsafe { rdma::_ib_alloc_device(size_of::<Raw>(), &raw mut bindings::init_net) };
        if raw.is_null() {
            return Err(ENOMEM);
        }
        // INVARIANT: Allocated; not registered yet.
        let mut this = Self {
            raw: raw.cast(),
            there: false,
            adapter,
            number,
        };
        this.announce(dev)?;
        Ok(this)
    }

    /// Fills the device in and registers it.
    fn announce(&mut self, dev: &pci::Device<Bound>) -> Result {
        let name = self.number.name()?;
        // SAFETY: The function is valid, and outlives the RDMA device, which goes when it is
        // unbound.
        let parent = unsafe { &raw mut (*ext_pci::as_raw(dev)).dev };
        // SAFETY: The device is ours alone.
        let raw = unsafe { &mut *self.raw };
        raw.adapter = Arc::as_ptr(&self.adapter);
        raw.ib.node_type = RDMA_NODE_IB_CA;
        raw.ib.phys_port_cnt = 1;
        raw.ib.num_comp_vectors = 1;
        raw.ib.node_guid = u64::from(self.number.get() + 1).to_be();
        raw.ib.__bindgen_anon_1.dev.parent = parent;
        // SAFETY: The device is allocated and not registered. The operations are copied.
        unsafe { rdma::ib_set_device_ops(&mut raw.ib, &ops::OPS) };
        // SAFETY: As above; the parent is a PCI device, and set up for DMA.
        to_result(unsafe { rdma::ib_register_device(&mut raw.ib, name.as_char_ptr(), parent) })?;
        // INVARIANT: Just registered.
        self.there = true;
        Ok(())
    }

    /// What the device does and knows.
    pub(crate) fn adapter(&self) -> &Arc<Adapter> {
        &self.adapter
    }
}

impl Drop for Registered {
    fn drop(&mut self) {
        if self.there {
            // SAFETY: By the type invariants it is registered.
            unsafe { rdma::ib_unregister_device(self.raw.cast()) };
        }
        // SAFETY: By the type invariants; it is not registered any more.
        unsafe { rdma::ib_dealloc_device(self.raw.cast()) };
    }
}
