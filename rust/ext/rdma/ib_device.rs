// SPDX-License-Identifier: GPL-2.0

//! Devices.
//!
//! [`Device`] wraps the C object, and [`Name`] is the name of a device. Used by all code that
//! handles a registration.

use super::quirks::{
    FastRegLimits,
    Quirks, //
};
use crate::shared::{
    ext::base::device::as_raw,
    prelude::raw::*, //
};
use core::ops::Deref;
use kernel::sync::aref::AlwaysRefCounted;

/// `struct ib_device`. Unregistering a device waits until all references are dropped.
///
/// # Invariants
///
/// The device is registered.
#[repr(transparent)]
pub struct Device(Opaque<rdma::ib_device>);

// SAFETY: A device is not bound to a task.
unsafe impl Send for Device {}
// SAFETY: The fields that `&self` methods read do not change while the device is registered, except
// for the name, which is read byte by byte.
unsafe impl Sync for Device {}

// SAFETY: `ib_device.refcount` counts the references; unregistering waits until the count is zero.
unsafe impl AlwaysRefCounted for Device {
    fn inc_ref(&self) {
        // SAFETY: `self` is a reference, so the device is registered and the count is not zero.
        unsafe { bindings::refcount_inc(&raw mut (*self.as_raw()).refcount) };
    }

    unsafe fn dec_ref(obj: NonNull<Self>) {
        // SAFETY: By the safety requirements of `dec_ref` the caller owns the reference that the
        // call puts.
        unsafe { rdma::ib_device_put(obj.cast().as_ptr()) };
    }
}

impl Device {
    /// Wraps a device.
    ///
    /// # Safety
    ///
    /// `ptr` must be a device that stays registered during `'a`.
    pub(super) unsafe fn from_raw<'a>(ptr: *mut rdma::ib_device) -> &'a Self {
        // SAFETY:
        // - `Self` is a transparent wrapper of `struct ib_device`.
        // - By the safety requirements the device is valid during `'a`.
        unsafe { &*ptr.cast() }
    }

    pub(super) fn as_raw(&self) -> *mut rdma::ib_device {
        self.0.get()
    }

    pub fn get(&self) -> ARef<Self> {
        self.into()
    }

    /// Returns a copy of the device's name, as `rdma link` shows it.
    ///
    /// A concurrent rename may give a mix of both names.
    pub fn name(&self) -> Name {
        // A rename frees the name of the kobject, so the name is read from `ib_device.name`.
        // SAFETY: By the type invariants the device is valid; only the address is taken.
        let name = unsafe { &raw const (*self.as_raw()).name };
        let mut bytes = [0; NAME_MAX];
        for (i, byte) in bytes[..NAME_MAX - 1].iter_mut().enumerate() {
            // SAFETY: `i` is less than the length of the array, and the array lives as long as the
            // device. The read is volatile, as ib_core may write the array meanwhile.
            // CAST: `c_char` is `u8` in the kernel.
            *byte = unsafe { name.cast::<u8>().add(i).read_volatile() };
            if *byte == 0 {
                break;
            }
        }
        // INVARIANT: The loop leaves the last byte at 0.
        Name(bytes)
    }

    pub fn is(&self, other: &Self) -> bool {
        self.as_raw() == other.as_raw()
    }

    /// Returns whether the device uses virtual addresses as DMA addresses (software RDMA).
    ///
    /// Such a device has no DMA device.
    pub fn is_virt_dma(&self) -> bool {
        // SAFETY: By the type invariants the device is registered; the function reads `dma_device`,
        // set before registration.
        unsafe { rdma::ib_uses_virt_dma(self.as_raw()) }
    }

    /// Returns the device that performs the DMA, or `None` for software RDMA.
    pub fn dma_device(&self) -> Option<&device::Device> {
        // SAFETY: By the type invariants the device is registered, and the field is set before the
        // registration.
        let dev: *mut bindings::device = unsafe { (*self.as_raw()).dma_device };
        if dev.is_null() {
            return None;
        }
        // SAFETY: The driver keeps the DMA device valid while the RDMA device is registered.
        Some(unsafe { device::Device::from_raw(dev) })
    }

    /// Returns whether the PCI function that performs the DMA is gone from the bus, so that the
    /// function cannot access memory any more. Software RDMA is never gone.
    pub fn is_gone(&self) -> bool {
        self.dma_device()
            // SAFETY: The device is valid, and is part of a PCI function if the bus type is PCI.
            .is_some_and(|dma| unsafe { helpers::ext_dma_is_gone(as_raw(dma)) })
    }

    pub fn quirks(&self) -> &'static Quirks {
        // SAFETY: By the type invariants the device is registered, and the field is set before the
        // registration.
        let driver = unsafe { (*self.as_raw()).ops.driver_id };
        Quirks::of(driver, self.is_virt_dma())
    }

    /// Returns the name of the driver's module, or "built-in".
    pub fn driver(&self) -> &str {
        // SAFETY: By the type invariants the device is registered. The owner is NULL or the
        // driver's module, and the module outlives the device.
        let Some(owner) = (unsafe { (*self.as_raw()).ops.owner.as_ref() }) else {
            return "built-in";
        };
        let name = CStr::from_bytes_until_nul(&owner.name);
        name.ok().and_then(|n| n.to_str().ok()).unwrap_or("?")
    }

    fn attributes(&self) -> &rdma::ib_device_attr {
        // SAFETY: By the type invariants the device is registered, and the attributes are set before the
        // registration.
        unsafe { &(*self.as_raw()).attrs }
    }

    /// Returns whether the driver can create MRs on dma-bufs.
    pub fn has_dma_buf(&self) -> bool {
        // SAFETY: By the type invariants the device is registered, and the field is set before the
        // registration.
        let imports = unsafe { (*self.as_raw()).ops.reg_user_mr_dmabuf }.is_some();
        let odp = self.attributes().odp_caps.general_caps;
        let has_odp = odp & u64::from(rdma::ib_odp_general_cap_bits_IB_ODP_SUPPORT) != 0;
        imports && (has_odp || !self.quirks().dma_buf_needs_odp)
    }

    /// Returns whether the kernel can register MRs by work request.
    pub fn has_fast_reg(&self) -> bool {
        // CAST: The flag is a bit of a 64-bit word.
        let flag = rdma::ib_device_cap_flags_IB_DEVICE_MEM_MGT_EXTENSIONS as u64;
        let flags = self.attributes().device_cap_flags;
        // SAFETY: By the type invariants the device is registered, and the fields are set before the
        // registration.
        let (alloc, map) = unsafe {
            let ops = &raw const (*self.as_raw()).ops;
            ((*ops).alloc_mr, (*ops).map_mr_sg)
        };
        // SAFETY: By the type invariants the device is registered, and the field is set before the
        // registration.
        let kernel_verbs = unsafe { (*self.as_raw()).kverbs_provider() } != 0;
        kernel_verbs && flags & flag != 0 && alloc.is_some() && map.is_some()
    }

    /// Returns the limits of MRs that are registered by work request.
    ///
    /// Drivers whose limits are not known were found to take larger pages, longer lists or more bytes
    /// than the device can describe, without an error. Their limits are those that all devices have.
    pub fn fast_reg_limits(&self) -> FastRegLimits {
        let reported = self.attributes().max_fast_reg_page_list_len;
        self.quirks().fast_reg.unwrap_or(FastRegLimits {
            pages: reported.min(512),
            page_size: PAGE_SIZE as u64,
            length: u32::MAX.into(),
        })
    }

    /// Returns the page sizes that MRs of the device can have, one bit for each size.
    pub fn page_sizes(&self) -> u64 {
        self.attributes().page_size_cap
    }

    /// Returns the length in bytes of the longest scatterlist entry that the device takes.
    pub fn max_segment(&self) -> u32 {
        // SAFETY: By the type invariants the device is registered.
        unsafe { rdma::ib_dma_max_seg_size(self.as_raw()) }
    }

    /// Returns the first port if the port is InfiniBand or RoCE.
    pub fn ib_port(&self) -> Option<u32> {
        // SAFETY: By the type invariants the device is registered.
        let port = unsafe { rdma::rdma_start_port(self.as_raw()) };
        // SAFETY: By the type invariants the device is registered, and the port is the first port.
        unsafe { rdma::rdma_ib_or_roce(self.as_raw(), port) }.then_some(port)
    }
}

/// Returns whether `dma` is a PCI function that cannot access memory: the function is gone from the
/// bus, or is not a bus master, as before the driver has enabled the function and after a reset.
pub fn dma_is_off(dma: &device::Device) -> bool {
    // SAFETY: The device is valid, and is part of a PCI function if the bus type is PCI.
    unsafe { helpers::ext_dma_is_off(as_raw(dma)) }
}

/// Size of `ib_device.name`, with the NUL: `IB_DEVICE_NAME_MAX`.
const NAME_MAX: usize = 64;

// The compiler checks the size.
const _: fn(&rdma::ib_device) -> &[c_char; NAME_MAX] = |dev| &dev.name;

/// A copy of a device's name.
///
/// # Invariants
///
/// The last byte is 0.
#[derive(Clone, Copy)]
pub struct Name([u8; NAME_MAX]);

impl Deref for Name {
    type Target = str;

    /// Returns the name, or "?" if it is not UTF-8.
    fn deref(&self) -> &str {
        let name = CStr::from_bytes_until_nul(&self.0);
        name.ok().and_then(|n| n.to_str().ok()).unwrap_or("?")
    }
}

/// For the macros of `core`, such as `write!`.
impl core::fmt::Display for Name {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.pad(self)
    }
}

/// For the macros of the kernel, such as `pr_info!`.
impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self)
    }
}
