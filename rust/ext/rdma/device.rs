// SPDX-License-Identifier: GPL-2.0

//! Devices, protection domains and memory regions.

use super::super::{
    bindings::{
        helpers,
        rdma, //
    },
    compat, //
};
use core::ptr::{
    self,
    NonNull, //
};
use kernel::{
    bindings,
    device,
    error::to_result,
    prelude::*,
    sync::aref::{
        ARef,
        AlwaysRefCounted, //
    },
    types::Opaque, //
};

/// `struct ib_device`. A reference holds up the device's unregistration.
///
/// # Invariants
///
/// The device is registered.
#[repr(transparent)]
pub struct Device(Opaque<rdma::ib_device>);

// SAFETY: Devices are shared between all threads.
unsafe impl Send for Device {}
// SAFETY: What `&self` methods read does not change while the device is registered.
unsafe impl Sync for Device {}

// SAFETY: The count is the device's own; unregistering waits until it is zero.
unsafe impl AlwaysRefCounted for Device {
    fn inc_ref(&self) {
        // SAFETY: The existence of a reference shows that the count is not zero.
        unsafe { helpers::ext_ib_device_get(self.as_raw().cast()) };
    }

    unsafe fn dec_ref(obj: NonNull<Self>) {
        // SAFETY: The caller gives up a reference.
        unsafe { rdma::ib_device_put(obj.cast().as_ptr()) };
    }
}

impl Device {
    /// # Safety
    ///
    /// `ptr` must be a registered device for the lifetime `'a`.
    pub(super) unsafe fn from_raw<'a>(ptr: *mut rdma::ib_device) -> &'a Self {
        // SAFETY: `Self` is transparent; the rest is the caller's promise.
        unsafe { &*ptr.cast() }
    }

    /// The C device.
    pub(super) fn as_raw(&self) -> *mut rdma::ib_device {
        self.0.get()
    }

    /// Takes a reference.
    pub fn get(&self) -> ARef<Self> {
        self.into()
    }

    /// The device's name, as `rdma link` shows it. Empty while it is being renamed.
    pub fn name(&self) -> &str {
        // SAFETY: The device is registered, so its struct device has a name.
        let name = unsafe { (*self.as_raw()).__bindgen_anon_1.dev.kobj.name };
        if name.is_null() {
            return "";
        }
        // SAFETY: The name is a C string; renaming frees the old one only after an RCU grace
        // period, and users of this only print it.
        unsafe { CStr::from_char_ptr(name) }.to_str().unwrap_or("")
    }

    /// Is it the same device?
    pub fn is(&self, other: &Self) -> bool {
        self.as_raw() == other.as_raw()
    }

    /// Does the device take virtual addresses for DMA addresses (software RDMA)? Such a device
    /// has no DMA device.
    pub fn is_virt_dma(&self) -> bool {
        // SAFETY: Reads `dma_device`, which is set before registration.
        unsafe { rdma::ib_uses_virt_dma(self.as_raw()) }
    }

    /// The device that does the DMA.
    pub fn dma_device(&self) -> Option<&device::Device> {
        // SAFETY: Set before registration, and it outlives the device.
        let dev: *mut bindings::device = unsafe { (*self.as_raw()).dma_device };
        if dev.is_null() {
            return None;
        }
        // SAFETY: As above.
        Some(unsafe { device::Device::from_raw(dev) })
    }

    /// The name of the module that drives the device.
    pub fn driver(&self) -> &str {
        // SAFETY: Set before registration; a device whose driver is built in has none.
        let Some(owner) = (unsafe { (*self.as_raw()).ops.owner.as_ref() }) else {
            return "built-in";
        };
        let name = CStr::from_bytes_until_nul(&owner.name);
        name.ok().and_then(|n| n.to_str().ok()).unwrap_or("?")
    }

    /// Can MRs be made on dma-bufs?
    pub fn has_dma_buf(&self) -> bool {
        // SAFETY: Set before registration.
        unsafe { (*self.as_raw()).ops.reg_user_mr_dmabuf }.is_some()
    }

    /// Can MRs be registered by work request of the kernel's?
    pub fn has_fast_reg(&self) -> bool {
        let flag = rdma::ib_device_cap_flags_IB_DEVICE_MEM_MGT_EXTENSIONS as u64;
        // SAFETY: Set before registration.
        let (flags, ops) = unsafe {
            (
                (*self.as_raw()).attrs.device_cap_flags,
                &(*self.as_raw()).ops,
            )
        };
        // SAFETY: As above.
        let kernel_verbs = unsafe { (*self.as_raw()).kverbs_provider() } != 0;
        kernel_verbs && flags & flag != 0 && ops.alloc_mr.is_some() && ops.map_mr_sg.is_some()
    }

    /// How many pages an MR registered by work request can have: what the device says, except
    /// for drivers known to take more.
    pub fn max_fast_reg_pages(&self) -> u32 {
        // SAFETY: Set before registration.
        let (id, reported) = unsafe {
            (
                (*self.as_raw()).ops.driver_id,
                (*self.as_raw()).attrs.max_fast_reg_page_list_len,
            )
        };
        if id == rdma::rdma_driver_id_RDMA_DRIVER_RXE {
            // rxe reports 512 but only allocates an array, 16 bytes a page, with kmalloc().
            1 << 18
        } else {
            reported
        }
    }

    /// The page sizes that the device's MRs can have, a bit each.
    pub fn page_sizes(&self) -> u64 {
        // SAFETY: Set before registration.
        unsafe { (*self.as_raw()).attrs.page_size_cap }
    }

    /// The longest piece of contiguous memory that the device takes.
    pub fn max_segment(&self) -> u64 {
        // SAFETY: The device is registered.
        unsafe { rdma::ib_dma_max_seg_size(self.as_raw()) }.into()
    }

    /// The first port, where it speaks InfiniBand or RoCE.
    pub fn ib_port(&self) -> Option<u32> {
        // SAFETY: The device is registered.
        let port = unsafe { rdma::rdma_start_port(self.as_raw()) };
        // SAFETY: As above, and the port is one of its own.
        unsafe { rdma::rdma_ib_or_roce(self.as_raw(), port) }.then_some(port)
    }
}

/// `struct ib_pd`, for the time of a call.
#[repr(transparent)]
pub struct Pd(Opaque<rdma::ib_pd>);

impl Pd {
    /// # Safety
    ///
    /// `ptr` must be a valid PD for the lifetime `'a`.
    pub(super) unsafe fn from_raw<'a>(ptr: *mut rdma::ib_pd) -> &'a Self {
        // SAFETY: `Self` is transparent; the rest is the caller's promise.
        unsafe { &*ptr.cast() }
    }

    /// The C object.
    pub(super) fn as_raw(&self) -> *mut rdma::ib_pd {
        self.0.get()
    }

    /// The PD's device.
    pub fn device(&self) -> &Device {
        // SAFETY: A PD's device is set when it is made and outlives it.
        unsafe { Device::from_raw((*self.as_raw()).device) }
    }

    /// A number that no other PD has while this one exists.
    pub fn id(&self) -> usize {
        self.as_raw().addr()
    }
}

impl Pd {
    /// The user context that the PD was made in; a kernel PD has none.
    pub(super) fn ucontext(&self) -> Option<*mut rdma::ib_ucontext> {
        // SAFETY: Set when the PD is made; the object outlives it.
        let uobject = unsafe { (*self.as_raw()).uobject };
        // SAFETY: As above.
        let context = unsafe { uobject.as_ref() }?.context;
        (!context.is_null()).then_some(context)
    }
}

/// `struct ib_mr`, for the time of a call.
#[repr(transparent)]
pub struct Mr(Opaque<rdma::ib_mr>);

impl Mr {
    /// # Safety
    ///
    /// `ptr` must be a valid MR for the lifetime `'a`.
    pub(super) unsafe fn from_raw<'a>(ptr: *mut rdma::ib_mr) -> &'a Self {
        // SAFETY: `Self` is transparent; the rest is the caller's promise.
        unsafe { &*ptr.cast() }
    }

    /// The C object.
    pub(super) fn as_raw(&self) -> *mut rdma::ib_mr {
        self.0.get()
    }

    /// The local key, which no other MR of the device has while this one exists.
    pub fn lkey(&self) -> u32 {
        // SAFETY: Set when the MR is made.
        unsafe { (*self.as_raw()).lkey }
    }

    /// A number that no other MR has while this one exists.
    pub fn id(&self) -> usize {
        self.as_raw().addr()
    }
}

/// An MR on its way to the caller of `reg_user_mr`, who owns it from then on.
pub struct UserMr(pub(super) NonNull<rdma::ib_mr>);

impl UserMr {
    /// The MR, while it is still here.
    pub fn as_mr(&self) -> &Mr {
        // SAFETY: The MR is valid until its new owner deregisters it.
        unsafe { Mr::from_raw(self.0.as_ptr()) }
    }

    /// Deregisters the MR, which was made on `pd`, instead of giving it away. May sleep.
    pub fn discard(self, pd: &Pd) -> Result {
        // SAFETY: Nobody else knows the MR.
        let raw = unsafe { &mut *self.0.as_ptr() };
        raw.device = pd.device().as_raw();
        raw.pd = pd.as_raw();
        // SAFETY: The device is registered; its operations may be called while a PD of it is
        // in use.
        let op = unsafe { (*raw.device).ops.dereg_mr }.ok_or_else(compat::eopnotsupp)?;
        // SAFETY: The MR is ours to give up; kernel callers pass no udata.
        to_result(unsafe { op(raw, ptr::null_mut()) })
    }
}

/// Access flags of an MR (`IB_ACCESS_*`; IBTA, Register Memory Region).
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Access(pub u32);

impl Access {
    /// The bits that let somebody write: local, remote, atomic, window binding.
    const WRITABLE: u32 = rdma::ib_access_flags_IB_ACCESS_LOCAL_WRITE
        | rdma::ib_access_flags_IB_ACCESS_REMOTE_WRITE
        | rdma::ib_access_flags_IB_ACCESS_REMOTE_ATOMIC
        | rdma::ib_access_flags_IB_ACCESS_MW_BIND;
    /// The bits that a work-request registration carries.
    const FAST_REG: u32 = rdma::ib_access_flags_IB_ACCESS_LOCAL_WRITE
        | rdma::ib_access_flags_IB_ACCESS_REMOTE_WRITE
        | rdma::ib_access_flags_IB_ACCESS_REMOTE_READ
        | rdma::ib_access_flags_IB_ACCESS_REMOTE_ATOMIC;
    /// Bits that only ask for something, or say what the iova already tells.
    const HINTS: u32 = rdma::ib_access_flags_IB_ACCESS_RELAXED_ORDERING
        | rdma::ib_access_flags_IB_ACCESS_HUGETLB
        | rdma::ib_access_flags_IB_ZERO_BASED;

    /// May anybody write through an MR with these flags?
    pub fn is_writable(self) -> bool {
        self.0 & Self::WRITABLE != 0
    }

    /// Is it an MR whose pages come and go with the process's page table?
    pub fn is_on_demand(self) -> bool {
        self.0 & rdma::ib_access_flags_IB_ACCESS_ON_DEMAND != 0
    }

    /// The flags for an MR on a dma-buf; `None` where it cannot carry them. What may be asked for
    /// is what `ibv_reg_dmabuf_mr` lets through, whatever the driver would take.
    pub fn for_dma_buf(self) -> Option<Self> {
        let wanted = self.0
            & !(rdma::ib_access_flags_IB_ACCESS_HUGETLB | rdma::ib_access_flags_IB_ZERO_BASED);
        let carried = Self::FAST_REG | rdma::ib_access_flags_IB_ACCESS_RELAXED_ORDERING;
        (wanted & !carried == 0).then_some(Self(wanted))
    }

    /// The flags for a registration by work request; `None` where it cannot carry them: memory
    /// windows would outlive the fence, flushes mean host memory.
    pub fn for_fast_reg(self) -> Option<Self> {
        let wanted = self.0 & !Self::HINTS;
        (wanted & !Self::FAST_REG == 0).then_some(Self(wanted))
    }
}
