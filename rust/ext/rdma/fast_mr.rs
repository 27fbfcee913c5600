// SPDX-License-Identifier: GPL-2.0

//! Memory regions that are bound to pages by work request.

use super::super::compat;
use super::super::{
    bindings::{
        helpers,
        rdma, //
    },
    sg::Table, //
};
use super::device::{
    Device,
    Pd,
    UserMr, //
};
use core::{
    mem::ManuallyDrop,
    ptr::{
        self,
        NonNull, //
    },
};
use kernel::{
    dma::DataDirection,
    error::from_err_ptr,
    prelude::*,
    time::{
        delay::fsleep,
        Delta, //
    },
};

/// A fast-registration MR that nobody else has yet. Dropping it deregisters it.
///
/// # Invariants
///
/// `mr` is valid, was made by the driver's `alloc_mr`, and is owned by this object.
pub struct FastMr {
    mr: NonNull<rdma::ib_mr>,
}

impl FastMr {
    /// Allocates an MR for `pages` pages. May sleep.
    ///
    /// Unlike `ib_alloc_mr()` it does not count the MR as a user of the PD, nor track it: whoever
    /// gets it as a [`UserMr`] does that, as for any MR that a driver's `reg_user_mr` makes.
    pub fn alloc(pd: &Pd, pages: u32) -> Result<Self> {
        // SAFETY: The device is registered; its operations may be called while a PD of it is
        // in use.
        let alloc = unsafe { (*pd.device().as_raw()).ops.alloc_mr };
        let alloc = alloc.ok_or_else(compat::eopnotsupp)?;
        // SAFETY: As the driver's contract says.
        let mr = unsafe { alloc(pd.as_raw(), rdma::ib_mr_type_IB_MR_TYPE_MEM_REG, pages) };
        let mr = from_err_ptr(mr)?;
        let mr = NonNull::new(mr).ok_or(ENOMEM)?;
        // SAFETY: The MR was just made and nobody else knows it.
        let raw = unsafe { &mut *mr.as_ptr() };
        raw.device = pd.device().as_raw();
        raw.pd = pd.as_raw();
        raw.dm = ptr::null_mut();
        raw.sig_attrs = ptr::null_mut();
        raw.__bindgen_anon_1.uobject = ptr::null_mut();
        raw.type_ = rdma::ib_mr_type_IB_MR_TYPE_MEM_REG;
        // INVARIANT: Just made, and nobody else's.
        Ok(Self { mr })
    }

    /// Binds the MR to `table`, from `offset` bytes into its first entry, as `length` bytes at
    /// `iova`. `iova` and the memory must be congruent modulo `page_size`. May sleep.
    ///
    /// `EINVAL` for a table of pages on a device that needs DMA addresses.
    pub fn map(
        &mut self,
        table: &Table<'_>,
        offset: u32,
        length: u64,
        iova: u64,
        page_size: u32,
    ) -> Result {
        let (sgl, n) = table.as_raw();
        let n = i32::try_from(n).map_err(|_| EINVAL)?;
        // SAFETY: The MR is ours, so its device is registered.
        let dev = unsafe { Device::from_raw((*self.mr.as_ptr()).device) };
        if !table.is_mapped() {
            if !dev.is_virt_dma() {
                return Err(EINVAL);
            }
            // There is no unmapping for a device that takes virtual addresses.
            // SAFETY: The list has `n` entries.
            let mapped = unsafe {
                rdma::ib_dma_map_sg(dev.as_raw(), sgl, n, DataDirection::Bidirectional.into())
            };
            if mapped != n {
                return Err(EIO);
            }
        }
        let mut offset = offset;
        // SAFETY: The MR is ours and the entries have DMA addresses.
        let set = unsafe { rdma::ib_map_mr_sg(self.mr.as_ptr(), sgl, n, &mut offset, page_size) };
        if set < 0 {
            return Err(Error::from_errno(set));
        }
        if set != n {
            return Err(EINVAL);
        }
        // SAFETY: The MR is ours.
        let raw = unsafe { &mut *self.mr.as_ptr() };
        raw.iova = iova;
        raw.length = length;
        Ok(())
    }

    /// The MR's keys, for work requests.
    pub fn key(&self) -> FastRegKey {
        FastRegKey { mr: self.mr }
    }

    /// Gives the MR away.
    pub fn into_user(self) -> UserMr {
        UserMr(ManuallyDrop::new(self).mr)
    }
}

impl Drop for FastMr {
    fn drop(&mut self) {
        // SAFETY: The MR is ours, so its device is registered.
        let op = unsafe { (*(*self.mr.as_ptr()).device).ops.dereg_mr };
        if let Some(op) = op {
            // SAFETY: By the type invariants the MR is ours to give up; kernel callers pass no
            // udata.
            let ret = unsafe { op(self.mr.as_ptr(), ptr::null_mut()) };
            if ret != 0 {
                pr_warn!("an unused MR could not be deregistered: error {}\n", ret);
            }
        }
    }
}

/// Names a fast-registration MR in work requests.
///
/// # Invariants
///
/// The MR exists while the key is used: whoever keeps a key does not use it after the MR has
/// been deregistered.
pub struct FastRegKey {
    mr: NonNull<rdma::ib_mr>,
}

// SAFETY: An MR may be named from any thread.
unsafe impl Send for FastRegKey {}
// SAFETY: As above.
unsafe impl Sync for FastRegKey {}

impl FastRegKey {
    /// The C object.
    pub(super) fn as_raw(&self) -> *mut rdma::ib_mr {
        self.mr.as_ptr()
    }

    /// The remote key.
    pub(super) fn rkey(&self) -> u32 {
        // SAFETY: By the type invariants.
        unsafe { (*self.mr.as_ptr()).rkey }
    }

    /// Runs `f` while the MR says that it is a fast-registration MR.
    ///
    /// Once an MR has been given away, its new owner calls it a user MR; drivers look at that
    /// when they execute an invalidation. The new owner does so soon after `reg_user_mr` has
    /// returned, without sleeping: this waits for it, so that it cannot come between.
    pub fn as_fast_reg<R>(&self, f: impl FnOnce() -> R) -> R {
        // SAFETY: By the type invariants the MR is valid; the field is only ever read and written
        // whole.
        let field = unsafe { &raw mut (*self.mr.as_ptr()).type_ };
        for _ in 0..1000 {
            // SAFETY: As above.
            if unsafe { field.read_volatile() } == rdma::ib_mr_type_IB_MR_TYPE_USER {
                break;
            }
            fsleep(Delta::from_millis(1));
        }
        // SAFETY: As above.
        unsafe { field.write_volatile(rdma::ib_mr_type_IB_MR_TYPE_MEM_REG) };
        let result = f();
        // SAFETY: As above.
        unsafe { field.write_volatile(rdma::ib_mr_type_IB_MR_TYPE_USER) };
        result
    }
}

/// Waits until software RDMA drivers, whose work items copy with the CPU, have left every copy
/// that was under way: a work item does not sleep between looking a key up and having copied.
///
/// May sleep, for some tenths of a second.
pub fn drain_software_copies(dev: &Device) {
    if dev.is_virt_dma() {
        // SAFETY: Just a grace period: every task passes a voluntary context switch.
        unsafe { helpers::ext_synchronize_rcu_tasks() };
    }
}
