// SPDX-License-Identifier: GPL-2.0

//! Arguments of registration and re-registration.
//!
//! [`Request`] has the arguments of one call, and [`Change`] says what a re-registration changes.

use super::{
    ib_device::Device,
    mr::{
        Access,
        Pd,
        UserMr, //
    }, //
};
use crate::shared::{
    ext::base::{
        compat,
        pinned::MemoryKind, //
    },
    prelude::raw::*, //
};

/// A number that identifies a user context while the context exists.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct UcontextId(pub(super) usize);

impl UcontextId {
    /// Returns the number and the device of a user context.
    ///
    /// # Safety
    ///
    /// `ucontext` must be a user context that is valid during `'a`.
    pub unsafe fn from_raw<'a>(ucontext: *mut rdma::ib_ucontext) -> (Self, &'a Device) {
        // SAFETY: By the safety requirements `ucontext` is valid during `'a`. The device stays
        // registered while a user context exists.
        let dev = unsafe { Device::from_raw((*ucontext).device) };
        (Self(ucontext.addr()), dev)
    }
}

/// Arguments of a registration (IBTA, Register Memory Region), for the duration of the call.
///
/// The public fields have no invariants: a caller may change them in a clone.
///
/// # Invariants
///
/// `dmah` and `udata` are NULL, or the arguments of a call of an operation of the device of `pd`
/// that does not return during `'a`.
#[derive(Clone)]
pub struct Request<'a> {
    pub pd: &'a Pd,
    /// Start address in the calling process.
    pub start: u64,
    pub length: u64,
    /// Address of `start` in the address space of the MR.
    pub iova: u64,
    pub access: Access,
    /// What is known of the memory at `start`.
    pub memory: MemoryKind,
    dmah: *mut rdma::ib_dmah,
    udata: *mut rdma::ib_udata,
}

// SAFETY: By the type invariants the pointers stay valid while any task has a reference. The
// pointers are only passed to the driver, in a call for which another task waits.
unsafe impl Sync for Request<'_> {}

impl<'a> Request<'a> {
    /// Wraps the arguments of `ib_device_ops.reg_user_mr` or `rereg_user_mr`.
    ///
    /// # Safety
    ///
    /// - `pd` must be a PD, valid during `'a`, of a device that stays registered during `'a`.
    /// - `dmah` must be NULL or a DMA handle that is valid during `'a`.
    /// - `udata` must be NULL or valid during `'a`, and part of an attribute bundle.
    pub(super) unsafe fn new(
        pd: *mut rdma::ib_pd,
        start: u64,
        length: u64,
        iova: u64,
        access: i32,
        dmah: *mut rdma::ib_dmah,
        udata: *mut rdma::ib_udata,
    ) -> Self {
        // INVARIANT: By the safety requirements both pointers are NULL or valid during `'a`.
        Self {
            // SAFETY: By the safety requirements `pd` is valid during `'a`.
            pd: unsafe { Pd::from_raw(pd) },
            start,
            length,
            iova,
            // CAST: The C argument is an `int` that holds flags.
            access: Access(access as u32),
            memory: MemoryKind::Unknown,
            dmah,
            udata,
        }
    }

    /// Returns the DMA handle and the udata for the driver. Either may be NULL.
    pub(super) fn driver_args(&self) -> (*mut rdma::ib_dmah, *mut rdma::ib_udata) {
        (self.dmah, self.udata)
    }

    /// Returns whether the request has a DMA handle (TPH hints).
    pub fn has_dmah(&self) -> bool {
        !self.dmah.is_null()
    }

    /// Returns the user context of the request, or `None` for a request of the kernel.
    pub fn ucontext(&self) -> Option<UcontextId> {
        self.pd.ucontext().map(|p| UcontextId(p.addr()))
    }

    /// Calls the driver's `reg_user_mr_dmabuf` for the dma-buf `fd`, from the byte `offset` of the
    /// dma-buf on.
    ///
    /// The bundle carries no attributes: attributes of REG_MR do not apply to REG_DMABUF_MR.
    /// Context: process context; may sleep.
    pub fn import(&self, fd: i32, offset: u64, access: Access) -> Result<UserMr> {
        // SAFETY: The device of a PD that is in use is registered.
        let import = unsafe { (*self.pd.device().as_raw()).ops.reg_user_mr_dmabuf };
        let import = import.ok_or_else(compat::eopnotsupp)?;
        let mut attrs: rdma::uverbs_attr_bundle = pin_init::zeroed();
        if !self.udata.is_null() {
            // SAFETY: By the type invariants `udata` is valid, and ib_core embeds the udata of a
            // call in a bundle. The reference covers only the fields before the attributes.
            let from = unsafe {
                &(*rdma::rdma_udata_to_uverbs_attr_bundle(self.udata))
                    .__bindgen_anon_1
                    .hdr
            };
            // SAFETY: `attrs` is zeroed, and zero is valid for the header.
            let to = unsafe { &mut attrs.__bindgen_anon_1.hdr };
            (to.ufile, to.context) = (from.ufile, from.context);
        }
        // SAFETY:
        // - The PD is valid. By the type invariants `dmah` is NULL or valid.
        // - The bundle has no attributes, and is valid during the call.
        // CAST: The C argument is an `int` that holds flags.
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
        UserMr::from_ptr(mr)
    }
}

/// Properties that a re-registration changes (`IB_MR_REREG_*`). Any value is valid here.
#[derive(Clone, Copy)]
pub struct Change(pub(super) i32);

impl Change {
    pub fn range(self) -> bool {
        // CAST: The flag is less than 8.
        self.0 & rdma::ib_mr_rereg_flags_IB_MR_REREG_TRANS as i32 != 0
    }

    pub fn access(self) -> bool {
        // CAST: The flag is less than 8.
        self.0 & rdma::ib_mr_rereg_flags_IB_MR_REREG_ACCESS as i32 != 0
    }
}
