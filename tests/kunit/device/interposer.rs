// SPDX-License-Identifier: GPL-2.0

//! A module that replaces operations of a device after other modules, and calls the operations
//! found there.

use super::Registered;
use crate::bindings::rdma;
use core::{
    mem,
    ptr, //
};
use kernel::{
    ffi::c_int,
    prelude::*,
    sync::{
        atomic::{
            Acquire,
            Atomic,
            Relaxed,
            Release, //
        },
        Arc, //
    },
};

/// The operations found, and the number of calls.
static REG: Atomic<usize> = Atomic::new(0);
static DEREG: Atomic<usize> = Atomic::new(0);
static CALLS: Atomic<usize> = Atomic::new(0);

type Reg = unsafe extern "C" fn(
    *mut rdma::ib_pd,
    u64,
    u64,
    u64,
    c_int,
    *mut rdma::ib_dmah,
    *mut rdma::ib_udata,
) -> *mut rdma::ib_mr;
type Dereg = unsafe extern "C" fn(*mut rdma::ib_mr, *mut rdma::ib_udata) -> c_int;

/// # Safety
///
/// As for `ib_device_ops.reg_user_mr`, while an [`OtherModule`] exists.
unsafe extern "C" fn reg_user_mr(
    pd: *mut rdma::ib_pd,
    start: u64,
    length: u64,
    iova: u64,
    access: c_int,
    dmah: *mut rdma::ib_dmah,
    udata: *mut rdma::ib_udata,
) -> *mut rdma::ib_mr {
    CALLS.fetch_add(1, Relaxed);
    // SAFETY: `OtherModule::install` has stored a pointer of this type.
    let found = unsafe { mem::transmute::<usize, Reg>(REG.load(Acquire)) };
    // SAFETY: The arguments come from this call of the same operation.
    unsafe { found(pd, start, length, iova, access, dmah, udata) }
}

/// # Safety
///
/// As for `ib_device_ops.dereg_mr`, while an [`OtherModule`] exists.
unsafe extern "C" fn dereg_mr(mr: *mut rdma::ib_mr, udata: *mut rdma::ib_udata) -> c_int {
    CALLS.fetch_add(1, Relaxed);
    // SAFETY: `OtherModule::install` has stored a pointer of this type.
    let found = unsafe { mem::transmute::<usize, Dereg>(DEREG.load(Acquire)) };
    // SAFETY: The arguments come from this call of the same operation.
    unsafe { found(mr, udata) }
}

/// A module that has replaced two operations of a device. Drop restores the operations found. Only
/// one object may exist at a time.
pub(crate) struct OtherModule(Arc<Registered>);

impl OtherModule {
    /// Replaces the operations. No other task may use the device during this call.
    pub(crate) fn install(dev: &Arc<Registered>) -> Result<Self> {
        // SAFETY: The device is allocated; no other task writes the fields now.
        let ops = unsafe { &mut (*dev.as_raw()).ops };
        let (reg, dereg) = (ops.reg_user_mr.ok_or(EINVAL)?, ops.dereg_mr.ok_or(EINVAL)?);
        REG.store(reg as *const () as usize, Release);
        DEREG.store(dereg as *const () as usize, Release);
        ops.reg_user_mr = Some(reg_user_mr);
        ops.dereg_mr = Some(dereg_mr);
        Ok(Self(dev.clone()))
    }

    /// Returns whether both operations are still the ones installed by this object.
    pub(crate) fn is_installed(&self) -> bool {
        // SAFETY: The device is allocated; the fields are written as a whole.
        let ops = unsafe { (&raw const (*self.0.as_raw()).ops).read_volatile() };
        let own = (reg_user_mr as *const (), dereg_mr as *const ());
        ops.reg_user_mr
            .is_some_and(|f| ptr::eq(f as *const (), own.0))
            && ops.dereg_mr.is_some_and(|f| ptr::eq(f as *const (), own.1))
    }

    /// Returns the number of calls so far.
    pub(crate) fn calls(&self) -> usize {
        CALLS.load(Relaxed)
    }
}

impl Drop for OtherModule {
    fn drop(&mut self) {
        // SAFETY: The device is allocated; other modules write these fields only if the fields
        // contain their own functions.
        let ops = unsafe { &mut (*self.0.as_raw()).ops };
        // SAFETY: `install` has stored pointers of these types.
        unsafe {
            ops.reg_user_mr = Some(mem::transmute::<usize, Reg>(REG.load(Acquire)));
            ops.dereg_mr = Some(mem::transmute::<usize, Dereg>(DEREG.load(Acquire)));
        }
    }
}
