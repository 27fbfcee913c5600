// SPDX-License-Identifier: GPL-2.0

//! The hook where memory is pinned by its address, `ib_umem_get()`: on 7.0 and 7.1. A trial at
//! load shows that calls are redirected, and scripts/checks/umem-paths that no function has this one inlined.

use super::super::{
    enter,
    redirection::Redirection,
    trial,
    Buffer, //
};
use crate::shared::{
    ext::base::pinned::could_not_pin,
    prelude::raw::*, //
};

/// Replaces `ib_umem_get()`.
///
/// # Safety
///
/// The requirement of the replaced function: `dev` is a registered device.
unsafe extern "C" fn get(
    dev: *mut rdma::ib_device,
    va: usize,
    len: usize,
    access: c_int,
) -> *mut rdma::ib_umem {
    enter(|| {
        // SAFETY: The arguments come from the driver's call, and are valid for the original.
        let umem = unsafe { rdma::ib_umem_get(dev, va, len, access) };
        match from_err_ptr(umem) {
            Err(error) if could_not_pin(error) => {}
            _ => return umem,
        }
        let buffer = Buffer::new(dev, va as u64, len, access);
        // SAFETY: By the safety requirements `dev` is a registered device.
        unsafe { buffer.serve_or(umem) }
    })
}

/// Imports a part of the dma-buf `fd`, from `offset` on, as the umem of `buffer`. Context: may
/// sleep.
pub(in super::super) fn import(
    buffer: &Buffer,
    offset: u64,
    fd: c_int,
) -> Result<*mut rdma::ib_umem> {
    // CAST: `usize` has 64 bits.
    let (offset, len) = (offset as usize, buffer.len as usize);
    // SAFETY: The device is an argument of the driver's call, and the driver's call waits for this
    // call.
    let umem = from_err_ptr(unsafe {
        rdma::ib_umem_dmabuf_get_pinned(buffer.dev, offset, len, fd, buffer.access)
    })?;
    // SAFETY: The umem is valid, and the call has returned it to this function alone.
    Ok(unsafe { &raw mut (*umem).umem })
}

/// Pins memory by its address, as drivers do. Context: may sleep.
///
/// # Safety
///
/// `dev` must be a registered device, or the range must wrap around: the function rejects such a range
/// before it uses the device.
pub(in super::super) unsafe fn pin(
    dev: *mut rdma::ib_device,
    va: u64,
    len: usize,
) -> *mut rdma::ib_umem {
    // SAFETY: By the safety requirements the device is valid, or not used.
    // CAST: `usize` has 64 bits.
    unsafe { rdma::ib_umem_get(dev, va as usize, len, 0) }
}

/// Returns the redirection of the function that pins memory, and `other`. The replacement has the signature and
/// the requirements of the replaced function.
pub(in super::super) fn redirections(other: helpers::ext_redirect) -> [helpers::ext_redirect; 2] {
    [
        helpers::ext_redirect {
            from: rdma::ib_umem_get as *const () as usize,
            to: get as *const () as usize,
        },
        other,
    ]
}

/// Tries the function with which drivers pin memory. Redirects no other function.
///
/// Returns `ENXIO` if the function pins memory past the hook. Context: may sleep.
pub(in super::super) fn redirect_inlined() -> Result<Option<Redirection>> {
    let mut args = trial::Arguments::new()?;
    let (dev, va, len) = (args.device(), args.va, args.len);
    // SAFETY: The original rejects the range, and the replacement uses no argument.
    if trial::passes(|| unsafe { pin(dev, va, len) }) {
        Ok(None)
    } else {
        Err(ENXIO)
    }
}
