// SPDX-License-Identifier: GPL-2.0

//! The function that pins user memory for drivers, before 7.2: `ib_umem_get()`, which is in another
//! module than all its callers but one, and in another object than that one.

use super::super::{
    enter,
    redirection::Redirection,
    trial,
    Buffer, //
};
use crate::shared::{
    bindings::{
        helpers,
        rdma, //
    },
    ext::base::pinned::could_not_pin, //
};
use core::ffi::c_int;
use kernel::{
    error::from_err_ptr,
    prelude::*, //
};

/// Calls the function that pins user memory, as drivers do.
///
/// # Safety
///
/// `dev` must be a registered device, or the range must wrap around.
pub(in super::super) unsafe fn pin(dev: *mut rdma::ib_device, va: u64, len: usize) -> *mut rdma::ib_umem {
    // SAFETY: By the safety requirements the device is registered, or the function rejects the range
    // before it uses the device.
    // CAST: A virtual address has at most the bits of a `usize`.
    unsafe { rdma::ib_umem_get(dev, va as usize, len, 0) }
}

/// Imports a buffer from byte `offset` of the dma-buf `fd` on.
///
/// # Safety
///
/// The device of the buffer must be registered.
pub(in super::super) unsafe fn import(buffer: &Buffer, fd: c_int, offset: u64) -> *mut rdma::ib_umem {
    // CAST: Both are parts of the address space.
    let (offset, len) = (offset as usize, buffer.len as usize);
    // SAFETY: By the safety requirements the device is registered. `struct ib_umem` is the first field
    // of the result, and the cast keeps an error.
    unsafe { rdma::ib_umem_dmabuf_get_pinned(buffer.dev, offset, len, fd, buffer.access).cast() }
}

/// Returns the redirection of the function, and `last`.
pub(in super::super) fn redirections(last: helpers::ext_redirect) -> [helpers::ext_redirect; 2] {
    [
        helpers::ext_redirect {
            from: rdma::ib_umem_get as *const () as usize,
            to: get as *const () as usize,
        },
        last,
    ]
}

/// Tries the function. Returns `ENXIO` if it pins memory past the hooks.
///
/// Context: may sleep.
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

/// Replaces `ib_umem_get()`.
///
/// # Safety
///
/// The requirements of the replaced function: `dev` is a registered device.
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
        let buffer = Buffer {
            dev,
            // CAST: `usize` has at most 64 bits.
            va: va as u64,
            len: len as u64,
            access,
        };
        // SAFETY: By the safety requirements `dev` is a registered device.
        unsafe { buffer.serve_or(umem) }
    })
}
