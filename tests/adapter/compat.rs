// SPDX-License-Identifier: GPL-2.0

//! The creation of CQs, which differs between kernels. Part of the room that
//! `rust/ext/base/compat.rs` describes.
//!
//! From 7.2 on the driver asks ib_core for the buffer that the attributes of a request name. Before,
//! ib_uverbs pins that buffer: 7.1 has it in the CQ and releases it after `destroy_cq`, and with 7.0
//! it belongs to the driver once the CQ exists.

use crate::{
    bindings::rdma,
    one_port,
    queue, //
};

/// The operations that create CQs.
#[cfg(has_create_user_cq)]
pub(crate) const CQ_OPS: rdma::ib_device_ops = rdma::ib_device_ops {
    create_cq: Some(create_cq),
    create_user_cq: Some(queue::create_user_cq),
    ..one_port::OPS
};
/// The operations that create CQs.
#[cfg(not(has_create_user_cq))]
pub(crate) const CQ_OPS: rdma::ib_device_ops = rdma::ib_device_ops {
    create_cq: Some(create_cq),
    create_cq_umem: Some(create_cq_umem),
    ..one_port::OPS
};

/// Creates a CQ. There are no CQs for the kernel.
///
/// # Safety
///
/// As for [`queue::create_user_cq`], but `attrs` may be NULL.
unsafe extern "C" fn create_cq(
    cq: *mut rdma::ib_cq,
    attr: *const rdma::ib_cq_init_attr,
    attrs: *mut rdma::uverbs_attr_bundle,
) -> kernel::ffi::c_int {
    if cfg!(has_create_user_cq) || attrs.is_null() {
        return crate::ext::base::compat::eopnotsupp().to_errno();
    }
    // SAFETY: By this function's safety contract.
    unsafe { queue::create_user_cq(cq, attr, attrs) }
}

/// Creates a CQ with a buffer. If the call fails, ib_uverbs releases the buffer.
///
/// # Safety
///
/// As for [`queue::create_user_cq`]; `umem` must be a umem.
#[cfg(not(has_create_user_cq))]
unsafe extern "C" fn create_cq_umem(
    cq: *mut rdma::ib_cq,
    attr: *const rdma::ib_cq_init_attr,
    umem: *mut rdma::ib_umem,
    attrs: *mut rdma::uverbs_attr_bundle,
) -> kernel::ffi::c_int {
    // SAFETY: By this function's safety contract the CQ is a new one of this device.
    unsafe { queue::set_umem(cq, umem) };
    // SAFETY: By this function's safety contract.
    unsafe { queue::create_user_cq(cq, attr, attrs) }
}

/// Returns the buffer of a new CQ, and whether the caller must release the buffer.
///
/// # Safety
///
/// `cq` must be a new CQ of a device of this driver, and `attrs` the attributes of its request.
#[cfg(has_umem_desc)]
pub(crate) unsafe fn cq_umem(
    cq: *mut rdma::ib_cq,
    attrs: *const rdma::uverbs_attr_bundle,
    va: u64,
    len: usize,
    access: kernel::ffi::c_int,
) -> (*mut rdma::ib_umem, bool) {
    // SAFETY: The device and the attributes are valid; ib_core checks the other arguments.
    let umem = unsafe { rdma::ib_umem_get_cq_buf_or_va((*cq).device, attrs, va, len, access) };
    (umem, true)
}
/// Returns the buffer of a new CQ, and whether the caller must release the buffer.
///
/// # Safety
///
/// `cq` must be a new CQ of a device of this driver.
#[cfg(not(has_umem_desc))]
pub(crate) unsafe fn cq_umem(
    cq: *mut rdma::ib_cq,
    _attrs: *const rdma::uverbs_attr_bundle,
    va: u64,
    len: usize,
    access: kernel::ffi::c_int,
) -> (*mut rdma::ib_umem, bool) {
    #[cfg(has_cq_umem)]
    // SAFETY: By this function's safety contract the CQ is valid.
    let pinned = unsafe { (*cq).umem };
    #[cfg(not(has_cq_umem))]
    // SAFETY: By this function's safety contract the CQ is one of this driver.
    let pinned = unsafe { queue::umem(cq) };
    // SAFETY: The umem of a CQ is NULL or valid.
    match unsafe { pinned.as_ref() } {
        // CAST: `usize` has 64 bits.
        // SAFETY: The device is valid; ib_core checks the other arguments.
        None => (
            unsafe { rdma::ib_umem_get((*cq).device, va as usize, len, access) },
            true,
        ),
        Some(umem) if umem.length < len => (kernel::error::code::EINVAL.to_ptr(), false),
        Some(_) => (pinned, false),
    }
}
