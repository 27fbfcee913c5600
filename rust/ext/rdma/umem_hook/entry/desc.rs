// SPDX-License-Identifier: GPL-2.0

//! The hook where memory is pinned by a description of the buffer, `ib_umem_get_desc()`.
//!
//! The compiler inlines that function into `ib_umem_get_cq_buf_or_va()` on x86, and into
//! `ib_umem_get_attr_or_va()` on arm64. `ib_umem_get_attr_or_va()` is redirected only where
//! `ib_umem_get_desc()` was inlined into it, which a trial finds out at load.

use super::super::{
    bypass::bypass,
    enter,
    redirection::Redirection,
    trial,
    Buffer, //
};
use crate::shared::{
    ext::base::pinned::could_not_pin,
    prelude::raw::*, //
};

/// Replaces `ib_umem_get_desc()`.
///
/// # Safety
///
/// The requirements of the replaced function: `dev` is a registered device and `desc` is valid.
unsafe extern "C" fn get_desc(
    dev: *mut rdma::ib_device,
    desc: *const rdma::ib_uverbs_buffer_desc,
    access: c_int,
) -> *mut rdma::ib_umem {
    enter(|| {
        // SAFETY: The arguments come from the driver's call, and are valid for the original.
        let umem = unsafe { rdma::ib_umem_get_desc(dev, desc, access) };
        let Err(error) = from_err_ptr(umem) else {
            return umem;
        };
        // SAFETY: By the safety requirements `desc` is valid.
        let desc = unsafe { &*desc };
        let known = desc.flags & !rdma::IB_UVERBS_BUFFER_DESC_FLAGS_KNOWN_MASK == 0;
        let is_va = desc.type_ == rdma::ib_uverbs_buffer_type_IB_UVERBS_BUFFER_TYPE_VA;
        if !is_va || !known || !could_not_pin(error) {
            return umem;
        }
        let (va, len) = (desc.addr, desc.length);
        let buffer = Buffer {
            dev,
            va,
            len,
            access,
        };
        // SAFETY: By the safety requirements `dev` is a registered device.
        unsafe { buffer.serve_or(umem) }
    })
}

/// Replaces `ib_umem_get_attr_or_va()`: returns the buffer named by the attribute of the request,
/// or the buffer at `va` if the request has no such attribute.
///
/// # Safety
///
/// The requirements of the replaced function: `dev` is a registered device, `attrs` is NULL or
/// valid.
unsafe extern "C" fn get_attr_or_va(
    dev: *mut rdma::ib_device,
    attrs: *const rdma::uverbs_attr_bundle,
    id: u16,
    va: u64,
    len: usize,
    access: c_int,
) -> *mut rdma::ib_umem {
    // SAFETY: The arguments come from the driver's call, and are valid for the original.
    let call = || unsafe { rdma::ib_umem_get_attr_or_va(dev, attrs, id, va, len, access) };
    // SAFETY: The device and the attributes come from the driver's call.
    let of_attrs = || unsafe { rdma::ib_umem_get_attr(dev, attrs, id, len, access) };
    let buffer = Buffer::new(dev, va, len, access);
    // SAFETY: Outside of a trial `dev` comes from the driver's call, and is a registered device.
    enter(|| unsafe { or_va(buffer, call, of_attrs) })
}

/// Replaces `ib_umem_get_cq_buf_or_va()`: returns the buffer named by the attributes of the
/// request, or the buffer at `va` if the attributes name no buffer.
///
/// # Safety
///
/// The requirements of the replaced function: `dev` is a registered device, `attrs` is NULL or
/// valid.
unsafe extern "C" fn get_cq_buf_or_va(
    dev: *mut rdma::ib_device,
    attrs: *const rdma::uverbs_attr_bundle,
    va: u64,
    len: usize,
    access: c_int,
) -> *mut rdma::ib_umem {
    // SAFETY: The arguments come from the driver's call, and are valid for the original.
    let call = || unsafe { rdma::ib_umem_get_cq_buf_or_va(dev, attrs, va, len, access) };
    // SAFETY: The device and the attributes come from the driver's call.
    let of_attrs = || unsafe { rdma::ib_umem_get_cq_buf(dev, attrs, len, access) };
    let buffer = Buffer::new(dev, va, len, access);
    // SAFETY: Outside of a trial `dev` comes from the driver's call, and is a registered device.
    enter(|| unsafe { or_va(buffer, call, of_attrs) })
}

/// Replaces a function that pins what the attributes of a request name, or else `buffer`. `call`
/// calls the original. `of_attrs` calls the function of ib_core that handles only the attributes,
/// and returns NULL if the attributes name nothing.
///
/// # Safety
///
/// `buffer.dev` must be a registered device.
unsafe fn or_va(
    buffer: Buffer,
    call: impl FnOnce() -> *mut rdma::ib_umem,
    of_attrs: impl FnOnce() -> *mut rdma::ib_umem,
) -> *mut rdma::ib_umem {
    // If the original calls `ib_umem_get_desc()`, the hook on `ib_umem_get_desc()` must not
    // serve the buffer as well.
    let umem = bypass(call);
    let Err(error) = from_err_ptr(umem) else {
        return umem;
    };
    if !could_not_pin(error) {
        return umem;
    }
    // The hook on `ib_umem_get_desc()` serves this call.
    let of_attrs = of_attrs();
    if !of_attrs.is_null() {
        return of_attrs;
    }
    // SAFETY: By the safety requirements this is a registered device.
    unsafe { buffer.serve_or(umem) }
}

/// Imports a part of the dma-buf `fd`, from `offset` on, as the umem of `buffer`. Context: may
/// sleep.
pub(in super::super) fn import(
    buffer: &Buffer,
    offset: u64,
    fd: c_int,
) -> Result<*mut rdma::ib_umem> {
    let desc = rdma::ib_uverbs_buffer_desc {
        type_: rdma::ib_uverbs_buffer_type_IB_UVERBS_BUFFER_TYPE_DMABUF,
        fd,
        addr: offset,
        length: buffer.len,
        ..pin_init::zeroed()
    };
    // SAFETY: The device is an argument of the driver's call, and the driver's call waits for this
    // call.
    from_err_ptr(unsafe { rdma::ib_umem_get_desc(buffer.dev, &desc, buffer.access) })
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
    // SAFETY: By the safety requirements the device is valid, or not used. NULL stands for no
    // attributes.
    unsafe { rdma::ib_umem_get_attr_or_va(dev, ptr::null(), 0, va, len, 0) }
}

/// Returns the redirections of the functions that pin memory, and `other`. Each replacement has the signature
/// and the requirements of the replaced function.
pub(in super::super) fn redirections(other: helpers::ext_redirect) -> [helpers::ext_redirect; 3] {
    [
        helpers::ext_redirect {
            from: rdma::ib_umem_get_desc as *const () as usize,
            to: get_desc as *const () as usize,
        },
        helpers::ext_redirect {
            from: rdma::ib_umem_get_cq_buf_or_va as *const () as usize,
            to: get_cq_buf_or_va as *const () as usize,
        },
        other,
    ]
}

/// Tries the functions with which drivers pin memory by address. Redirects
/// `ib_umem_get_attr_or_va()` as well if its calls do not pass the hook on `ib_umem_get_desc()`.
///
/// Returns `ENXIO` if a function pins memory past the hooks all the same. Context: may sleep.
pub(in super::super) fn redirect_inlined() -> Result<Option<Redirection>> {
    let mut args = trial::Arguments::new()?;
    let (dev, va, len) = (args.device(), args.va, args.len);
    // SAFETY: The original rejects the range, and the replacement uses no argument.
    let attr = || unsafe { pin(dev, va, len) };
    // SAFETY: The original rejects the range, and accepts NULL as attributes.
    let cq = || unsafe { rdma::ib_umem_get_cq_buf_or_va(dev, ptr::null(), va, len, 0) };
    if !trial::passes(cq) {
        return Err(ENXIO);
    }
    if trial::passes(attr) {
        return Ok(None);
    }
    let list = [helpers::ext_redirect {
        from: rdma::ib_umem_get_attr_or_va as *const () as usize,
        to: get_attr_or_va as *const () as usize,
    }];
    // SAFETY: The replacement has the signature and the requirements of the replaced function.
    let redirection = unsafe { Redirection::new(&list) }?;
    if !trial::passes(attr) {
        return Err(ENXIO);
    }
    Ok(Some(redirection))
}
