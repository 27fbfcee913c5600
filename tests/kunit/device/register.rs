// SPDX-License-Identifier: GPL-2.0

//! Registers and unregisters fake devices.

use super::{
    import,
    mrs,
    ops, //
};
use crate::{
    prelude::*,
    sync, //
};

/// `enum rdma_node_type`, a UAPI value.
const RDMA_NODE_IB_CA: u8 = 1;

/// The C object, and the pointer to the device's own side.
#[repr(C)]
pub(super) struct Raw {
    pub(super) ib: rdma::ib_device,
    pub(super) fake: *const FakeDevice,
}

/// Returns the device's own side.
///
/// # Safety
///
/// `dev` must be the device of a [`Registered`] that exists.
pub(super) unsafe fn shared(dev: *mut rdma::ib_device) -> Arc<FakeDevice> {
    // SAFETY: By the safety requirements the device belongs to a `Registered`. `Registered` keeps
    // the `Arc` behind the pointer.
    unsafe { ArcBorrow::from_raw((*dev.cast::<Raw>()).fake) }.into()
}

/// A device that is registered with ib_core. Drop unregisters the device.
///
/// # Invariants
///
/// - `raw` was allocated by ib_core, and is registered while `registered` is true.
/// - `platform` is NULL or registered.
/// - `pci` is NULL or a reference to a function on the bus.
pub(crate) struct Registered {
    raw: *mut Raw,
    platform: *mut bindings::platform_device,
    pci: *mut bindings::pci_dev,
    registered: Atomic<bool>,
    fake: Arc<FakeDevice>,
}

// SAFETY: ib_core takes its own locks.
unsafe impl Send for Registered {}
// SAFETY: ib_core takes its own locks; `registered` lets only one task unregister.
unsafe impl Sync for Registered {}

impl Registered {
    pub(crate) fn new(name: &'static CStr, kind: Kind) -> Result<Arc<Self>> {
        Self::prepared(name, kind, |_| ())
    }

    /// Registers a device after `prepare`.
    pub(crate) fn prepared(
        name: &'static CStr,
        kind: Kind,
        prepare: impl FnOnce(&FakeDevice),
    ) -> Result<Arc<Self>> {
        let fake = FakeDevice::new(kind)?;
        prepare(&fake);
        // SAFETY: The size is the size of a structure whose first field is an ib_device.
        let raw = unsafe { rdma::_ib_alloc_device(size_of::<Raw>(), &raw mut bindings::init_net) };
        if raw.is_null() {
            return Err(ENOMEM);
        }
        // INVARIANT: Just allocated, and not registered.
        let mut this = Self {
            raw: raw.cast(),
            platform: ptr::null_mut(),
            pci: ptr::null_mut(),
            registered: Atomic::new(false),
            fake,
        };
        match kind {
            Kind::Virtual => (),
            Kind::Pci => {
                // QEMU's edu function. Without it, or if it has a driver, the test fails.
                // INVARIANT: A reference, or NULL.
                // SAFETY: The search begins with the first function.
                this.pci = unsafe { bindings::pci_get_device(0x1234, 0x11e8, ptr::null_mut()) };
                // SAFETY: The function is NULL, or valid because of the reference.
                let dev = unsafe { this.pci.as_ref() }.ok_or(ENODEV)?;
                if !dev.dev.driver.is_null() {
                    return Err(EBUSY);
                }
            }
            // INVARIANT: Just registered.
            _ => this.platform = Self::platform(name)?,
        }
        this.announce(name, kind)?;
        Ok(Arc::new(this, GFP_KERNEL)?)
    }

    fn announce(&self, name: &CStr, kind: Kind) -> Result {
        // SAFETY: The device is allocated and not registered, so the device has no other user.
        let raw = unsafe { &mut *self.raw };
        raw.fake = Arc::as_ptr(&self.fake);
        raw.ib.node_type = RDMA_NODE_IB_CA;
        raw.ib.phys_port_cnt = 1;
        raw.ib.num_comp_vectors = 1;
        raw.ib.local_dma_lkey = 1;
        raw.ib.node_guid = 1;
        // SAFETY: By the type invariants each is NULL or valid.
        let dma = match unsafe { (self.platform.as_mut(), self.pci.as_mut()) } {
            (Some(platform), _) => &raw mut platform.dev,
            (_, Some(pci)) => &raw mut pci.dev,
            _ => ptr::null_mut(),
        };
        // SAFETY: The device is allocated and not registered; the operations are `'static`.
        unsafe { rdma::ib_set_device_ops(&mut raw.ib, &ops::OPS) };
        if kind == Kind::Virtual {
            raw.ib.ops.driver_id = rdma::rdma_driver_id_RDMA_DRIVER_RXE;
        }
        if kind == Kind::Importer(Mode::Dynamic) {
            raw.ib.ops.driver_id = rdma::rdma_driver_id_RDMA_DRIVER_MLX5;
        }
        if let Kind::Importer(_) = kind {
            // SAFETY: The device is allocated and not registered; the operations are `'static`.
            unsafe { rdma::ib_set_device_ops(&mut raw.ib, &import::OPS) };
        }
        // SAFETY: The device is allocated and initialised; the DMA device outlives the RDMA device.
        to_result(unsafe { rdma::ib_register_device(&mut raw.ib, name.as_char_ptr(), dma) })?;
        // INVARIANT: Just registered.
        self.registered.store(true, Relaxed);
        Ok(())
    }

    /// Registers a platform device that does DMA.
    fn platform(name: &CStr) -> Result<*mut bindings::platform_device> {
        let info = bindings::platform_device_info {
            name: name.as_char_ptr(),
            id: -1,
            dma_mask: u64::MAX,
            ..pin_init::zeroed()
        };
        // SAFETY: The description is valid for the call.
        let pdev = from_err_ptr(unsafe { bindings::platform_device_register_full(&info) })?;
        // SAFETY: The platform device was just registered, has no driver, and has DMA parameters.
        unsafe { (*(*pdev).dev.dma_parms).max_segment_size = 2 * M as u32 };
        Ok(pdev)
    }

    pub(crate) fn fake(&self) -> &Arc<FakeDevice> {
        &self.fake
    }

    pub(crate) fn as_raw(&self) -> *mut rdma::ib_device {
        self.raw.cast()
    }

    /// Returns the address of the DMA device; 0: none.
    pub(crate) fn dma_device(&self) -> usize {
        // SAFETY: The field is set at registration and does not change.
        unsafe { (*self.as_raw()).dma_device }.addr()
    }

    /// Sets the most pages that an MR can have, and returns the previous number.
    pub(crate) fn set_max_pages(&self, pages: u32) -> u32 {
        // SAFETY: The field is read only during registrations, and the calling test makes none at
        // the same time.
        let slot = unsafe { &mut (*self.as_raw()).attrs.max_fast_reg_page_list_len };
        mem::replace(slot, pages)
    }

    /// Sets the longest DMA segment, and returns the previous length.
    pub(crate) fn set_max_segment(&self, bytes: u32) -> u32 {
        // SAFETY: The platform device has DMA parameters, and the calling test makes no
        // registration at the same time.
        let slot = unsafe { &mut (*(*self.platform).dev.dma_parms).max_segment_size };
        mem::replace(slot, bytes)
    }

    /// Returns whether its operations are the driver's own, and not interposed.
    pub(crate) fn is_bare(&self) -> bool {
        let own = mrs::dereg_mr as *const ();
        // SAFETY: The device is allocated; the field is written as a whole.
        let current = unsafe { (&raw const (*self.as_raw()).ops.dereg_mr).cast::<*const ()>() };
        // SAFETY: The field is an optional function: a pointer that may be NULL.
        ptr::eq(unsafe { current.read_volatile() }, own)
    }

    /// Takes a device of [`Kind::Pci`] from the bus.
    pub(crate) fn leave_bus(&self) {
        self.fake.die();
        self.set_pci_state(bindings::pci_channel_io_perm_failure);
    }

    /// Sets the state that the PCI core sets when a function is pulled out.
    fn set_pci_state(&self, state: bindings::pci_channel_state_t) {
        if !self.pci.is_null() {
            // SAFETY: By the type invariants the function is valid; the field is written as a
            // whole.
            unsafe { (&raw mut (*self.pci).error_state).write_volatile(state) };
        }
    }

    /// Reports a fatal error. On return the event has been handled.
    pub(crate) fn report_fatal(&self) {
        // SAFETY: By the type invariants the device is allocated, and the calling test has not
        // unregistered it.
        unsafe { helpers::kt_report_fatal(self.as_raw().cast()) };
    }

    /// Unregisters the device, as the removal of its driver does.
    pub(crate) fn unregister(&self) {
        if self.registered.xchg(false, Full) {
            // SAFETY: By the type invariants the device was registered; because of the exchange
            // only one task unregisters the device.
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
        // SAFETY: By the type invariants the device is allocated. The device is not registered any
        // more.
        unsafe { rdma::ib_dealloc_device(self.as_raw()) };
        // SAFETY: By the type invariants `platform` is NULL or registered.
        unsafe { bindings::platform_device_unregister(self.platform) };
        self.set_pci_state(bindings::pci_channel_io_normal);
        // SAFETY: By the type invariants this object owns the reference, or the pointer is NULL.
        unsafe { bindings::pci_dev_put(self.pci) };
    }
}
