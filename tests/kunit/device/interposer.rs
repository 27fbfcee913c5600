// SPDX-License-Identifier: GPL-2.0

//! A module that replaces an operation of a device after other modules, and calls the operation
//! found there.

use crate::prelude::*;

type Dereg = unsafe extern "C" fn(*mut rdma::ib_mr, *mut rdma::ib_udata) -> c_int;

/// The operation found, and the number of calls.
static DEREG: Atomic<usize> = Atomic::new(0);
static CALLS: Atomic<usize> = Atomic::new(0);

fn found() -> Dereg {
    // SAFETY: `OtherModule::install` has stored a pointer of this type.
    unsafe { mem::transmute::<usize, Dereg>(DEREG.load(Relaxed)) }
}

/// # Safety
///
/// As for `ib_device_ops.dereg_mr`, while an [`OtherModule`] exists.
unsafe extern "C" fn dereg_mr(mr: *mut rdma::ib_mr, udata: *mut rdma::ib_udata) -> c_int {
    CALLS.fetch_add(1, Relaxed);
    // SAFETY: The arguments come from this call of the same operation.
    unsafe { found()(mr, udata) }
}

/// A module that has replaced an operation of a device. Drop restores the operation found. Only one
/// object may exist at a time.
pub(crate) struct OtherModule(Arc<Registered>);

impl OtherModule {
    /// Replaces the operation. No other task may use the device during this call.
    pub(crate) fn install(dev: &Arc<Registered>) -> Result<Self> {
        let this = Self(dev.clone());
        let found = this.current().ok_or(EINVAL)?;
        DEREG.store(found as *const () as usize, Relaxed);
        this.replace(dereg_mr);
        Ok(this)
    }

    fn current(&self) -> Option<Dereg> {
        // SAFETY: The device is allocated; the field is written as a whole.
        unsafe { (&raw const (*self.0.as_raw()).ops.dereg_mr).read_volatile() }
    }

    fn replace(&self, operation: Dereg) {
        // SAFETY: The device is allocated; other modules write the field only if the field
        // contains their own function.
        unsafe { (*self.0.as_raw()).ops.dereg_mr = Some(operation) };
    }

    pub(crate) fn is_installed(&self) -> bool {
        self.current()
            .is_some_and(|f| ptr::eq(f as *const (), dereg_mr as *const ()))
    }

    pub(crate) fn calls(&self) -> usize {
        CALLS.load(Relaxed)
    }
}

impl Drop for OtherModule {
    fn drop(&mut self) {
        self.replace(found());
    }
}
