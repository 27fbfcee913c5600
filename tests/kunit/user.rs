// SPDX-License-Identifier: GPL-2.0

//! The user of the verbs: PDs and MRs, made as by a kernel consumer or by uverbs.

mod context;
mod control;

pub(crate) use context::*;
pub(crate) use control::*;

use crate::{
    prelude::*,
    sync, //
};

pub(crate) const LOCAL_WRITE: u32 = rdma::ib_access_flags_IB_ACCESS_LOCAL_WRITE;
pub(crate) const REMOTE_READ: u32 = rdma::ib_access_flags_IB_ACCESS_REMOTE_READ;
pub(crate) const REMOTE_WRITE: u32 = rdma::ib_access_flags_IB_ACCESS_REMOTE_WRITE;
pub(crate) const REMOTE_ATOMIC: u32 = rdma::ib_access_flags_IB_ACCESS_REMOTE_ATOMIC;
pub(crate) const MW_BIND: u32 = rdma::ib_access_flags_IB_ACCESS_MW_BIND;
pub(crate) const ON_DEMAND: u32 = rdma::ib_access_flags_IB_ACCESS_ON_DEMAND;
pub(crate) const OPTIONAL_LAST: u32 = 1 << 29;
pub(crate) const HUGETLB: u32 = rdma::ib_access_flags_IB_ACCESS_HUGETLB;
pub(crate) const RELAXED: u32 = rdma::ib_access_flags_IB_ACCESS_RELAXED_ORDERING;
/// The flags of most users.
pub(crate) const USUAL: u32 = LOCAL_WRITE | REMOTE_READ | REMOTE_WRITE;

// Properties changed by a re-registration.
pub(crate) const TRANS: u32 = rdma::ib_mr_rereg_flags_IB_MR_REREG_TRANS;
pub(crate) const ACCESS: u32 = rdma::ib_mr_rereg_flags_IB_MR_REREG_ACCESS;
pub(crate) const PD: u32 = rdma::ib_mr_rereg_flags_IB_MR_REREG_PD;

/// A protection domain of a fake device.
///
/// # Invariants
///
/// `raw` is valid and owned by this object.
pub(crate) struct Pd {
    raw: *mut rdma::ib_pd,
    dev: Arc<Registered>,
}

// SAFETY: ib_core and the drivers take their own locks.
unsafe impl Send for Pd {}
// SAFETY: ib_core and the drivers take their own locks.
unsafe impl Sync for Pd {}

impl Pd {
    pub(crate) fn new(dev: &Arc<Registered>) -> Result<Arc<Self>> {
        // SAFETY: The device is registered, and `dev` keeps it allocated.
        let raw = from_err_ptr(unsafe {
            rdma::__ib_alloc_pd(dev.as_raw(), 0, c"peer_mem_kunit".as_char_ptr())
        })?;
        // INVARIANT: Just made.
        let pd = Self {
            raw,
            dev: dev.clone(),
        };
        Ok(Arc::new(pd, GFP_KERNEL)?)
    }

    pub(crate) fn dev(&self) -> &Arc<Registered> {
        &self.dev
    }

    fn count(&self) -> &Atomic<i32> {
        // SAFETY: By the type invariants the PD is valid; ib_core changes the counter atomically.
        unsafe { Atomic::from_ptr(&raw mut (*self.raw).usecnt.counter) }
    }

    pub(crate) fn users(&self) -> i32 {
        self.count().load(Relaxed)
    }

    pub(crate) fn reg(self: &Arc<Self>, start: u64, length: u64, access: u32) -> Result<Mr> {
        self.reg_at(start, length, start, access)
    }

    /// Like [`Self::reg`], with another iova.
    pub(crate) fn reg_at(
        self: &Arc<Self>,
        start: u64,
        length: u64,
        iova: u64,
        access: u32,
    ) -> Result<Mr> {
        // SAFETY: By the type invariants the PD is valid.
        let raw = from_err_ptr(unsafe {
            rdma::ib_reg_user_mr(self.raw, start, length, iova, access as i32)
        })?;
        Ok(Mr {
            raw: Atomic::new(raw.expose_provenance()),
            pd: self.clone(),
        })
    }

    /// Registers as uverbs does for a user, whose call has the addresses of [`VERB`].
    pub(crate) fn reg_by_verb(self: &Arc<Self>, start: u64, length: u64) -> Result<Mr> {
        let (ufile, context, dmah) = VERB;
        let mut bundle: rdma::uverbs_attr_bundle = pin_init::zeroed();
        // SAFETY: The bundle is zeroed, so both variants of the union are initialised.
        let hdr = unsafe { &mut bundle.__bindgen_anon_1.hdr };
        hdr.ufile = ptr::without_provenance_mut(ufile);
        hdr.context = ptr::without_provenance_mut(context);
        // Attributes of another verb must not reach the driver.
        hdr.attr_present[0] = !0;
        // SAFETY: By the type invariants the PD is valid, so the device is valid.
        let op = unsafe { (*(*self.raw).device).ops.reg_user_mr }.ok_or(EINVAL)?;
        // `driver_udata` is the first field of the bundle.
        let udata: *mut rdma::ib_udata = (&raw mut bundle).cast();
        // SAFETY: Called as uverbs does. The fake device never dereferences the addresses.
        let new = from_err_ptr(unsafe {
            op(
                self.raw,
                start,
                length,
                start,
                USUAL as i32,
                ptr::without_provenance_mut(dmah),
                udata,
            )
        })?;
        Ok(self.adopt(new))
    }

    /// Registers `length` bytes of a dma-buf from `offset` on, as uverbs does for a user.
    pub(crate) fn import(
        self: &Arc<Self>,
        dma_buf: &DmaBuf,
        offset: u64,
        length: u64,
    ) -> Result<Mr> {
        let mut bundle: rdma::uverbs_attr_bundle = pin_init::zeroed();
        // SAFETY: By the type invariants the PD is valid, so the device is valid.
        let op = unsafe { (*(*self.raw).device).ops.reg_user_mr_dmabuf }.ok_or(EINVAL)?;
        // SAFETY: Called as uverbs does.
        let new = from_err_ptr(unsafe {
            op(
                self.raw,
                offset,
                length,
                offset,
                dma_buf.fd(),
                USUAL as i32,
                ptr::null_mut(),
                &mut bundle,
            )
        })?;
        Ok(self.adopt(new))
    }

    /// Completes a new MR as uverbs does.
    fn adopt(self: &Arc<Self>, new: *mut rdma::ib_mr) -> Mr {
        // SAFETY: The callers have just received the MR from the driver.
        let raw = unsafe { &mut *new };
        raw.device = self.dev.as_raw();
        raw.pd = self.raw;
        raw.type_ = rdma::ib_mr_type_IB_MR_TYPE_USER;
        // ib_dereg_mr_user() decrements it.
        self.count().add(1, Relaxed);
        Mr {
            raw: Atomic::new(new.expose_provenance()),
            pd: self.clone(),
        }
    }
}

impl Drop for Pd {
    fn drop(&mut self) {
        if sync::is_stuck() {
            return;
        }
        // SAFETY: By the type invariants the PD is valid, and this is the last user of the PD.
        let ret = unsafe { rdma::ib_dealloc_pd_user(self.raw, ptr::null_mut()) };
        if ret != 0 {
            diagnostic!("ib_dealloc_pd_user() returned {}", ret);
        }
    }
}

/// A memory region. Drop deregisters the MR.
///
/// # Invariants
///
/// `raw` is the address of a valid MR owned by this object, or 0.
pub(crate) struct Mr {
    raw: Atomic<usize>,
    pd: Arc<Pd>,
}

impl Mr {
    fn as_raw(&self) -> *mut rdma::ib_mr {
        ptr::with_exposed_provenance_mut(self.raw.load(Relaxed))
    }

    pub(crate) fn key(&self) -> u32 {
        // SAFETY: By the type invariants; tests do not call this function during a deregistration.
        unsafe { (*self.as_raw()).lkey }
    }

    pub(crate) fn state(&self) -> Result<MrState> {
        self.pd.dev.fake().mr(self.key()).ok_or(ENOENT)
    }

    /// Returns whether the device can access the memory.
    pub(crate) fn is_valid(&self) -> bool {
        self.state().is_ok_and(|s| s.valid)
    }

    /// Returns whether the device can access memory of a client through the MR.
    pub(crate) fn is_served(&self) -> bool {
        self.state().is_ok_and(|s| s.valid && !s.original)
    }

    pub(crate) fn is_alive(&self) -> bool {
        !self.as_raw().is_null()
    }

    pub(crate) fn place(&self) -> (u64, u64) {
        // SAFETY: By the type invariants the MR is valid.
        unsafe { ((*self.as_raw()).iova, (*self.as_raw()).length) }
    }

    /// Undoes the completion of the MR by uverbs.
    pub(crate) fn uncomplete(&self) {
        // SAFETY: By the type invariants the MR is valid; the field is written as a whole.
        unsafe { (*self.as_raw()).type_ = rdma::ib_mr_type_IB_MR_TYPE_MEM_REG };
    }

    /// Deregisters the MR, once. After an error the MR is still registered.
    pub(crate) fn dereg(&self) -> Result {
        let raw = self.as_raw();
        if raw.is_null() {
            return Ok(());
        }
        // SAFETY: By the type invariants the MR is valid.
        to_result(unsafe { rdma::ib_dereg_mr_user(raw, ptr::null_mut()) })?;
        // INVARIANT: 0 is allowed.
        self.raw.store(0, Relaxed);
        Ok(())
    }

    /// Re-registers as uverbs does. Returns the new MR if the driver makes a new MR; the old MR is
    /// then deregistered.
    pub(crate) fn rereg(
        &self,
        flags: u32,
        pd: &Arc<Pd>,
        args: (u64, u64),
        access: u32,
    ) -> Result<Option<Mr>> {
        let new = self.rereg_only(flags, pd, args, access)?;
        if new.is_some() {
            self.dereg()?;
        }
        Ok(new)
    }

    /// Re-registers without the deregistration of the old MR.
    pub(crate) fn rereg_only(
        &self,
        flags: u32,
        pd: &Arc<Pd>,
        args: (u64, u64),
        access: u32,
    ) -> Result<Option<Mr>> {
        let old = self.as_raw();
        // SAFETY: By the type invariants the MR is valid, so the device is valid.
        let op = unsafe { (*(*old).device).ops.rereg_user_mr }.ok_or(EINVAL)?;
        // SAFETY: Called as uverbs does; without udata.
        let new = unsafe {
            op(
                old,
                flags as i32,
                args.0,
                args.1,
                args.0,
                access as i32,
                pd.raw,
                ptr::null_mut(),
            )
        };
        let new = from_err_ptr(new)?;
        if new.is_null() {
            return Ok(None);
        }
        Ok(Some(pd.adopt(new)))
    }
}

impl Drop for Mr {
    fn drop(&mut self) {
        if sync::is_stuck() {
            return;
        }
        for _ in 0..3 {
            if self.dereg().is_ok() {
                return;
            }
        }
        diagnostic!("an MR cannot be deregistered");
    }
}
