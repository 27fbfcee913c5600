// SPDX-License-Identifier: GPL-2.0

//! Bringing a fake device into being, and taking it away.

use super::{
    import,
    memory,
    ops,
    FakeDevice,
    Kind, //
};
use crate::{
    bindings::rdma,
    helpers,
    sync, //
};
use core::{
    mem::size_of,
    ptr, //
};
use kernel::{
    bindings,
    error::{
        from_err_ptr,
        to_result, //
    },
    prelude::*,
    sync::{
        atomic::{
            Atomic,
            Full, //
        },
        Arc, //
    },
};

/// `enum rdma_node_type`, a UAPI value.
const RDMA_NODE_IB_CA: u8 = 1;

/// The C object, with the way to ours.
#[repr(C)]
pub(super) struct Raw {
    pub(super) ib: rdma::ib_device,
    pub(super) fake: *const FakeDevice,
}

/// A device that is registered with ib_core. Dropping it takes it away.
///
/// # Invariants
///
/// `raw` was allocated by ib_core; it is registered while `there` is true. `platform` is NULL or
/// registered.
pub(crate) struct Registered {
    raw: *mut Raw,
    platform: *mut bindings::platform_device,
    there: Atomic<bool>,
    fake: Arc<FakeDevice>,
}

// SAFETY: ib_core locks for itself.
unsafe impl Send for Registered {}
// SAFETY: As above; `there` lets only one task unregister.
unsafe impl Sync for Registered {}

impl Registered {
    /// Registers a device. May sleep.
    pub(crate) fn new(name: &'static CStr, kind: Kind) -> Result<Arc<Self>> {
        let fake = FakeDevice::new(kind)?;
        let platform = match kind {
            Kind::Virtual => ptr::null_mut(),
            _ => Self::platform(name)?,
        };
        // SAFETY: The size is that of a structure that begins with an ib_device.
        let raw = unsafe { rdma::_ib_alloc_device(size_of::<Raw>(), &raw mut bindings::init_net) };
        if raw.is_null() {
            // SAFETY: It is registered and nobody uses it.
            unsafe { bindings::platform_device_unregister(platform) };
            return Err(ENOMEM);
        }
        // INVARIANT: Allocated; not registered yet.
        let this = Self {
            raw: raw.cast(),
            platform,
            there: Atomic::new(false),
            fake,
        };
        this.announce(name, kind)?;
        Ok(Arc::new(this, GFP_KERNEL)?)
    }

    /// Fills the device in and registers it.
    fn announce(&self, name: &CStr, kind: Kind) -> Result {
        // SAFETY: The device is ours alone.
        let raw = unsafe { &mut *self.raw };
        raw.fake = Arc::as_ptr(&self.fake);
        raw.ib.node_type = RDMA_NODE_IB_CA;
        raw.ib.phys_port_cnt = 1;
        raw.ib.num_comp_vectors = 1;
        raw.ib.local_dma_lkey = 1;
        raw.ib.node_guid = 1;
        let dma = if self.platform.is_null() {
            ptr::null_mut()
        } else {
            // SAFETY: By the type invariants it is registered.
            unsafe { &raw mut (*self.platform).dev }
        };
        // SAFETY: The device is allocated and not registered; the operations are `'static`.
        unsafe { rdma::ib_set_device_ops(&mut raw.ib, &ops::OPS) };
        if kind.imports() {
            // SAFETY: As above.
            unsafe { rdma::ib_set_device_ops(&mut raw.ib, &import::OPS) };
        }
        // SAFETY: As above; the DMA device outlives it.
        to_result(unsafe { rdma::ib_register_device(&mut raw.ib, name.as_char_ptr(), dma) })?;
        // INVARIANT: Just registered.
        self.there.store(true, kernel::sync::atomic::Relaxed);
        Ok(())
    }

    /// A device that can do DMA.
    fn platform(name: &CStr) -> Result<*mut bindings::platform_device> {
        let info = bindings::platform_device_info {
            name: name.as_char_ptr(),
            id: -1,
            dma_mask: u64::MAX,
            ..pin_init::zeroed()
        };
        // SAFETY: The description is valid for the call.
        let pdev = from_err_ptr(unsafe { bindings::platform_device_register_full(&info) })?;
        // SAFETY: Just registered, and no driver uses it.
        unsafe { helpers::kt_set_max_seg_size(&raw mut (*pdev).dev, 2 << 20) };
        Ok(pdev)
    }

    /// What the device does and knows.
    pub(crate) fn fake(&self) -> &Arc<FakeDevice> {
        &self.fake
    }

    /// The C object.
    pub(crate) fn as_raw(&self) -> *mut rdma::ib_device {
        self.raw.cast()
    }

    /// The address of its DMA device; 0: none.
    pub(crate) fn dma_device(&self) -> usize {
        // SAFETY: Set at registration, does not change.
        unsafe { (*self.as_raw()).dma_device }.addr()
    }

    /// Changes the most pages that an MR can have, and returns what it was.
    pub(crate) fn set_max_pages(&self, pages: u32) -> u32 {
        // SAFETY: The field is only read while memory is being registered, which the test that
        // calls this is not doing.
        let slot = unsafe { &mut (*self.as_raw()).attrs.max_fast_reg_page_list_len };
        core::mem::replace(slot, pages)
    }

    /// Changes the longest piece of memory that it takes, and returns what it was.
    pub(crate) fn set_max_segment(&self, bytes: u32) -> u32 {
        // SAFETY: As `set_max_pages`; the device has a DMA device.
        unsafe { helpers::kt_set_max_seg_size((*self.as_raw()).dma_device, bytes) }
    }

    /// Are its operations the driver's own?
    pub(crate) fn is_bare(&self) -> bool {
        let own = memory::dereg_mr as *const ();
        // SAFETY: The device is allocated; the field is only ever written whole.
        let there = unsafe { (&raw const (*self.as_raw()).ops.dereg_mr).cast::<*const ()>() };
        // SAFETY: As above; an optional function is a pointer that may be NULL.
        ptr::eq(unsafe { there.read_volatile() }, own)
    }

    /// Takes the device away from everybody, as a driver's removal does. May sleep.
    pub(crate) fn unregister(&self) {
        if self.there.xchg(false, Full) {
            // SAFETY: By the type invariants it is registered; nobody else unregisters it.
            unsafe { rdma::ib_unregister_device(self.as_raw()) };
        }
    }
}

impl Drop for Registered {
    fn drop(&mut self) {
        if sync::is_stuck() {
            return;
        }
        self.unregister();
        // SAFETY: By the type invariants; it is not registered.
        unsafe { rdma::ib_dealloc_device(self.as_raw()) };
        // SAFETY: By the type invariants; NULL is no device.
        unsafe { bindings::platform_device_unregister(self.platform) };
    }
}
