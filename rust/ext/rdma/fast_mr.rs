// SPDX-License-Identifier: GPL-2.0

//! Memory regions that a work request binds to pages.
//!
//! [`FastMr`] is such an MR before a user owns the MR; [`FastRegKey`] has the keys for work
//! requests. Used to register memory on devices that cannot import a dma-buf.

use super::{
    ib_device::Device,
    mr::{
        dereg_mr,
        Pd,
        UserMr, //
    }, //
};
use crate::shared::{
    ext::base::sg::{
        Borrowed,
        Table, //
    },
    prelude::raw::*, //
};
use core::mem::ManuallyDrop;
use kernel::dma::DataDirection;

/// A fast-registration MR with no other owner. Drop deregisters the MR.
///
/// # Invariants
///
/// `mr` is valid, the driver's `alloc_mr` created it, and this object owns it.
pub struct FastMr {
    mr: NonNull<rdma::ib_mr>,
}

impl FastMr {
    /// Allocates an MR for `pages` pages.
    ///
    /// Unlike `ib_alloc_mr()` this function does not count the MR as a user of the PD and does not
    /// track the MR: uverbs does both for every MR that `reg_user_mr` returns. Context: may sleep.
    pub fn alloc(pd: &Pd, pages: u32) -> Result<Self> {
        // SAFETY: The PD is valid, so the device is registered. Any number of pages may be passed,
        // as by ib_alloc_mr(): a driver fails if there are too many.
        let mr = unsafe { rdma::ext_ib_alloc_mr(pd.as_raw(), pages) };
        let mr = UserMr::from_ptr(mr)?.0;
        // SAFETY: The call above created the MR, so there is no other reference.
        let raw = unsafe { &mut *mr.as_ptr() };
        raw.device = pd.device().as_raw();
        raw.pd = pd.as_raw();
        raw.dm = ptr::null_mut();
        raw.sig_attrs = ptr::null_mut();
        raw.__bindgen_anon_1.uobject = ptr::null_mut();
        raw.type_ = rdma::ib_mr_type_IB_MR_TYPE_MEM_REG;
        // INVARIANT: `alloc_mr` created the MR, and only this function has it.
        Ok(Self { mr })
    }

    /// Sets the page list of the MR to `table`, for `length` bytes at `iova`.
    ///
    /// The memory begins `offset` bytes into the first entry. `iova` and the memory must be
    /// congruent modulo `page_size`.
    ///
    /// Returns `EINVAL` for a table of pages on a device that needs DMA addresses. Context: may
    /// sleep.
    pub fn map(
        &mut self,
        table: &Table<Borrowed<'_>>,
        offset: u32,
        length: u64,
        iova: u64,
        page_size: u32,
    ) -> Result {
        let bindings::sg_table { sgl, nents, .. } = table.as_raw();
        let n = i32::try_from(nents)?;
        // SAFETY: By the type invariants the MR is valid, so its device is registered.
        let dev = unsafe { Device::from_raw((*self.mr.as_ptr()).device) };
        if !table.is_mapped() {
            if !dev.is_virt_dma() {
                return Err(EINVAL);
            }
            // A mapping for a device with virtual DMA addresses needs no unmapping.
            // SAFETY: The list has `n` entries, and each entry has pages.
            let mapped = unsafe {
                rdma::ib_dma_map_sg(dev.as_raw(), sgl, n, DataDirection::Bidirectional.into())
            };
            if mapped != n {
                return Err(EIO);
            }
        }
        let mut offset = offset;
        // SAFETY: By the type invariants this object owns the MR. The entries have DMA addresses.
        let set = unsafe { rdma::ib_map_mr_sg(self.mr.as_ptr(), sgl, n, &mut offset, page_size) };
        if set < 0 {
            return Err(Error::from_errno(set));
        }
        if set != n {
            return Err(EINVAL);
        }
        // SAFETY: By the type invariants this object owns the MR, so there is no other reference.
        let raw = unsafe { &mut *self.mr.as_ptr() };
        raw.iova = iova;
        raw.length = length;
        Ok(())
    }

    pub fn key(&self) -> FastRegKey {
        FastRegKey { mr: self.mr }
    }

    pub fn into_user(self) -> UserMr {
        UserMr(ManuallyDrop::new(self).mr)
    }
}

impl Drop for FastMr {
    fn drop(&mut self) {
        // SAFETY: By the type invariants the MR is valid, so its device is registered.
        let dev = unsafe { Device::from_raw((*self.mr.as_ptr()).device) };
        // SAFETY: By the type invariants this object owns the MR.
        if let Err(e) = unsafe { dereg_mr(self.mr) } {
            pr_warn!(
                "{}: the driver failed to deregister an unused MR: {:?}; the MR leaks\n",
                dev.name(),
                e
            );
        }
    }
}

/// Keys of a fast-registration MR, for work requests.
///
/// # Invariants
///
/// The MR is valid while the key is used: the owner of a key must not use it after the MR has been
/// deregistered.
pub struct FastRegKey {
    mr: NonNull<rdma::ib_mr>,
}

// SAFETY: The keys of an MR are not bound to a task.
unsafe impl Send for FastRegKey {}
// SAFETY: `&self` methods access fields of the MR by single loads and stores only.
unsafe impl Sync for FastRegKey {}

impl FastRegKey {
    pub(super) fn as_raw(&self) -> *mut rdma::ib_mr {
        self.mr.as_ptr()
    }

    pub(super) fn rkey(&self) -> u32 {
        // SAFETY: By the type invariants the MR is valid.
        unsafe { (*self.mr.as_ptr()).rkey }
    }

    /// Runs `f` while the type of the MR is `IB_MR_TYPE_MEM_REG`.
    ///
    /// uverbs sets the type to `IB_MR_TYPE_USER` after `reg_user_mr` has returned the MR, and
    /// drivers check the type when they execute an invalidation. The kernels in `scripts/kernels` do
    /// not sleep between the return and the write of the type. But this is an observation, not a
    /// contract, so the function waits until the type is set, up to one second. Context: may sleep.
    pub fn as_fast_reg<R>(&self, f: impl FnOnce() -> R) -> R {
        // SAFETY: By the type invariants the MR is valid; only the address is taken.
        let field = unsafe { &raw mut (*self.mr.as_ptr()).type_ };
        let start = Instant::<Monotonic>::now();
        // SAFETY: The MR is valid. Concurrent accesses are single loads and stores.
        while unsafe { field.read_volatile() } != rdma::ib_mr_type_IB_MR_TYPE_USER
            && start.elapsed() < Delta::from_secs(1)
        {
            fsleep(Delta::from_millis(1));
        }
        // SAFETY: The MR is valid, and accesses are single loads and stores.
        unsafe { field.write_volatile(rdma::ib_mr_type_IB_MR_TYPE_MEM_REG) };
        let result = f();
        // SAFETY: The MR is valid, and accesses are single loads and stores.
        unsafe { field.write_volatile(rdma::ib_mr_type_IB_MR_TYPE_USER) };
        result
    }
}

/// Waits until software RDMA drivers have finished every copy that began before this call.
///
/// rxe checks a key and copies (`rxe_mr_copy()`) in one work item without sleeping in between, so
/// an RCU-tasks grace period waits for the copy. Context: may sleep, for some tenths of a second.
pub fn wait_for_software_copies() {
    // SAFETY: The called function only sleeps, and the context of this function allows sleeping.
    unsafe { helpers::ext_synchronize_rcu_tasks() };
}
