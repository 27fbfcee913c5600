// SPDX-License-Identifier: GPL-2.0

//! What a user asks of the device when it registers memory.

use super::super::bindings::rdma;
use super::super::compat;
use super::device::{
    Access,
    Device,
    Pd,
    UserMr, //
};
use core::ptr::{
    self,
    NonNull, //
};
use kernel::{
    error::from_err_ptr,
    prelude::*, //
};

/// A user context, as a number that no other has while it exists.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct UcontextId(pub(super) usize);

impl UcontextId {
    /// Names a context and its device.
    ///
    /// # Safety
    ///
    /// `ucontext` must be a valid user context, also while the device is used.
    pub unsafe fn from_raw<'a>(ucontext: *mut rdma::ib_ucontext) -> (Self, &'a Device) {
        // SAFETY: The caller's promise; a context's device outlives it.
        let dev = unsafe { Device::from_raw((*ucontext).device) };
        (Self(ucontext.addr()), dev)
    }
}

/// Arguments of a registration (IBTA, Register Memory Region), for the time of the call.
///
/// # Invariants
///
/// `dmah` and `udata` are NULL or what the caller of the device's operation has given.
#[derive(Clone)]
pub struct Request<'a> {
    /// The protection domain.
    pub pd: &'a Pd,
    /// Start address in the calling process.
    pub start: u64,
    /// Length in bytes.
    pub length: u64,
    /// The address by which the device is to know `start`.
    pub iova: u64,
    /// Access flags.
    pub access: Access,
    dmah: *mut rdma::ib_dmah,
    udata: *mut rdma::ib_udata,
}

impl<'a> Request<'a> {
    /// The arguments of `ib_device_ops.reg_user_mr`.
    ///
    /// # Safety
    ///
    /// They must be valid for the lifetime `'a`, as that operation says.
    pub(super) unsafe fn new(
        pd: *mut rdma::ib_pd,
        (start, length, iova): (u64, u64, u64),
        access: i32,
        dmah: *mut rdma::ib_dmah,
        udata: *mut rdma::ib_udata,
    ) -> Self {
        // INVARIANT: The caller's promise.
        Self {
            // SAFETY: The caller's promise.
            pd: unsafe { Pd::from_raw(pd) },
            start,
            length,
            iova,
            access: Access(access as u32),
            dmah,
            udata,
        }
    }

    /// Is there a DMA handle (TPH hints) with it?
    pub fn has_dmah(&self) -> bool {
        !self.dmah.is_null()
    }

    /// The user context that registers; a kernel caller has none.
    pub fn ucontext(&self) -> Option<UcontextId> {
        self.pd.ucontext().map(|p| UcontextId(p.addr()))
    }

    /// Has the driver make the MR on a dma-buf instead, from `offset` bytes into it: as
    /// `ibv_reg_dmabuf_mr` does. May sleep.
    ///
    /// The driver gets no attribute of the request: what there is belongs to another verb.
    pub fn import(&self, fd: i32, offset: u64, access: Access) -> Result<UserMr> {
        // SAFETY: The device is registered; its operations may be called while a PD of it is
        // in use.
        let import = unsafe { (*self.pd.device().as_raw()).ops.reg_user_mr_dmabuf };
        let import = import.ok_or_else(compat::eopnotsupp)?;
        let mut attrs: rdma::uverbs_attr_bundle = pin_init::zeroed();
        if !self.udata.is_null() {
            // SAFETY: By the type invariants, and because the core keeps a user's data in a
            // bundle; only fields before the attributes are read.
            let from = unsafe {
                &(*rdma::rdma_udata_to_uverbs_attr_bundle(self.udata))
                    .__bindgen_anon_1
                    .hdr
            };
            // SAFETY: All bytes of both views of the union are initialised.
            let to = unsafe { &mut attrs.__bindgen_anon_1.hdr };
            (to.ufile, to.context) = (from.ufile, from.context);
        }
        // SAFETY: As the driver's contract says; the bundle has no attributes.
        let mr = unsafe {
            import(
                self.pd.as_raw(),
                offset,
                self.length,
                self.iova,
                fd,
                access.0 as i32,
                self.dmah,
                ptr::from_mut(&mut attrs),
            )
        };
        Ok(UserMr(NonNull::new(from_err_ptr(mr)?).ok_or(ENOMEM)?))
    }
}

/// What a re-registration changes.
#[derive(Clone, Copy)]
pub struct Change(pub(super) i32);

impl Change {
    /// The address range.
    pub fn range(self) -> bool {
        self.0 & rdma::ib_mr_rereg_flags_IB_MR_REREG_TRANS as i32 != 0
    }

    /// The access flags.
    pub fn access(self) -> bool {
        self.0 & rdma::ib_mr_rereg_flags_IB_MR_REREG_ACCESS as i32 != 0
    }
}
