// SPDX-License-Identifier: GPL-2.0

//! Protection domains and memory regions.
//!
//! [`Pd`] and [`Mr`] wrap the C objects; [`UserMr`] is an MR for a user, and [`Access`] the access
//! flags.

use super::{
    ib_device::Device,
    ops::Operations, //
};
use crate::shared::{
    ext::base::compat,
    prelude::raw::*, //
};

/// `struct ib_pd`, borrowed for the duration of a call.
#[repr(transparent)]
pub struct Pd(Opaque<rdma::ib_pd>);

impl Pd {
    /// Wraps a PD.
    ///
    /// # Safety
    ///
    /// `ptr` must be a PD, valid during `'a`, of a device that stays registered during `'a`.
    pub(super) unsafe fn from_raw<'a>(ptr: *mut rdma::ib_pd) -> &'a Self {
        // SAFETY:
        // - `Self` is a transparent wrapper of `struct ib_pd`.
        // - By the safety requirements the PD is valid during `'a`.
        unsafe { &*ptr.cast() }
    }

    pub(super) fn as_raw(&self) -> *mut rdma::ib_pd {
        self.0.get()
    }

    pub fn device(&self) -> &Device {
        // SAFETY: The device of a PD is set at its creation. By the safety requirements of
        // `from_raw` the device stays registered while `self` is borrowed.
        unsafe { Device::from_raw((*self.as_raw()).device) }
    }

    /// Returns a number that identifies the PD while it exists.
    pub fn id(&self) -> usize {
        self.as_raw().addr()
    }

    /// Returns the user context of the PD, or `None` for a PD of the kernel.
    pub(super) fn ucontext(&self) -> Option<*mut rdma::ib_ucontext> {
        // SAFETY: The PD is valid while `self` is borrowed; the field is set at the creation.
        let uobject = unsafe { (*self.as_raw()).uobject };
        // SAFETY: The uobject is NULL or lives as long as the PD.
        let context = unsafe { uobject.as_ref() }?.context;
        (!context.is_null()).then_some(context)
    }
}

/// `struct ib_mr`, borrowed for the duration of a call.
#[repr(transparent)]
pub struct Mr(Opaque<rdma::ib_mr>);

impl Mr {
    /// Wraps an MR.
    ///
    /// # Safety
    ///
    /// `ptr` must be an MR that is not deregistered during `'a`.
    pub(super) unsafe fn from_raw<'a>(ptr: *mut rdma::ib_mr) -> &'a Self {
        // SAFETY:
        // - `Self` is a transparent wrapper of `struct ib_mr`.
        // - By the safety requirements the MR is valid during `'a`.
        unsafe { &*ptr.cast() }
    }

    pub(super) fn as_raw(&self) -> *mut rdma::ib_mr {
        self.0.get()
    }

    /// Returns the local key. The key identifies the MR on the device while the MR exists.
    pub fn lkey(&self) -> u32 {
        // SAFETY: The MR is valid while `self` is borrowed; the field is set at the creation.
        unsafe { (*self.as_raw()).lkey }
    }

    /// Returns a number that identifies the MR while it exists.
    pub fn id(&self) -> usize {
        self.as_raw().addr()
    }
}

/// A new MR, to be returned to the caller of `reg_user_mr`. From then on the caller owns the MR.
pub struct UserMr(pub(super) NonNull<rdma::ib_mr>);

// SAFETY: An MR belongs to no task.
unsafe impl Send for UserMr {}

impl UserMr {
    /// Takes over the result of a driver's function that creates an MR.
    pub(super) fn from_ptr(mr: *mut rdma::ib_mr) -> Result<Self> {
        Ok(Self(NonNull::new(from_err_ptr(mr)?).ok_or(ENOMEM)?))
    }

    pub fn as_mr(&self) -> &Mr {
        // SAFETY: `self` owns the MR, and only the owner deregisters the MR.
        unsafe { Mr::from_raw(self.0.as_ptr()) }
    }

    /// Deregisters the MR, which must have been created on `pd`. Context: may sleep.
    pub fn discard(self, pd: &Pd) -> Result {
        // SAFETY: `self` owns the MR, so there is no other reference.
        let raw = unsafe { &mut *self.0.as_ptr() };
        raw.device = pd.device().as_raw();
        raw.pd = pd.as_raw();
        // SAFETY: `self` owns the MR, and the device of a PD that is in use is registered.
        unsafe { dereg_mr(self.0) }
    }
}

/// Makes the driver deregister an MR. Context: may sleep.
///
/// # Safety
///
/// The caller must own the MR. The device of the MR must be set and registered. After success the
/// MR does not exist any more.
pub(super) unsafe fn dereg_mr(mr: NonNull<rdma::ib_mr>) -> Result {
    // SAFETY: By the safety requirements the MR is valid and the device is registered.
    let ops = unsafe { Operations::of((*mr.as_ptr()).device) };
    let op = ops.dereg_mr.ok_or_else(compat::eopnotsupp)?;
    // SAFETY: By the safety requirements the caller owns the MR. A kernel caller passes NULL for
    // `udata`.
    to_result(unsafe { op(mr.as_ptr(), ptr::null_mut()) })
}

/// Access flags of an MR (`IB_ACCESS_*`; IBTA, Register Memory Region). Any value is valid here.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Access(pub u32);

impl Access {
    /// Flags that allow writes: local, remote, atomic, and binding of a memory window.
    const WRITABLE: u32 = rdma::ib_access_flags_IB_ACCESS_LOCAL_WRITE
        | rdma::ib_access_flags_IB_ACCESS_REMOTE_WRITE
        | rdma::ib_access_flags_IB_ACCESS_REMOTE_ATOMIC
        | rdma::ib_access_flags_IB_ACCESS_MW_BIND;
    const FAST_REG: u32 = rdma::ib_access_flags_IB_ACCESS_LOCAL_WRITE
        | rdma::ib_access_flags_IB_ACCESS_REMOTE_WRITE
        | rdma::ib_access_flags_IB_ACCESS_REMOTE_READ
        | rdma::ib_access_flags_IB_ACCESS_REMOTE_ATOMIC;
    /// Flags that are hints, or that describe the iova. A driver may ignore all optional flags.
    const HINTS: u32 = rdma::ib_access_flags_IB_ACCESS_OPTIONAL
        | rdma::ib_access_flags_IB_ACCESS_HUGETLB
        | rdma::ib_access_flags_IB_ZERO_BASED;

    pub fn is_writable(self) -> bool {
        self.0 & Self::WRITABLE != 0
    }

    pub fn is_on_demand(self) -> bool {
        self.0 & rdma::ib_access_flags_IB_ACCESS_ON_DEMAND != 0
    }

    pub fn without_on_demand(self) -> Self {
        Self(self.0 & !rdma::ib_access_flags_IB_ACCESS_ON_DEMAND)
    }

    /// Returns the flags for an MR on a dma-buf, or `None` if a flag is not supported.
    ///
    /// The supported flags are the flags accepted by `ibv_reg_dmabuf_mr`. Other optional flags are
    /// ignored.
    pub fn for_dma_buf(self) -> Option<Self> {
        let relaxed = self.0 & rdma::ib_access_flags_IB_ACCESS_RELAXED_ORDERING;
        let wanted = self.0 & !Self::HINTS;
        (wanted & !Self::FAST_REG == 0).then_some(Self(wanted | relaxed))
    }

    /// Returns the flags for a registration by work request, or `None` if a flag is not supported:
    /// a memory window would outlive the fence, and a flush addresses host memory.
    pub fn for_fast_reg(self) -> Option<Self> {
        let wanted = self.0 & !Self::HINTS;
        (wanted & !Self::FAST_REG == 0).then_some(Self(wanted))
    }
}
