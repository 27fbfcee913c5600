// SPDX-License-Identifier: GPL-2.0

//! How a kernel has a driver create CQs. Belongs to the room of `rust/ext/base/compat.rs`.

#![expect(
    clippy::missing_safety_doc,
    reason = "the contract of each operation is that of its field in `struct ib_device_ops`, on a \
              device made by `crate::driver`"
)]

use crate::{
    ext::base::compat::eopnotsupp,
    one_port,
    prelude::*,
    queue, //
};

pub(crate) const OPS: rdma::ib_device_ops = rdma::ib_device_ops {
    create_cq: Some(create_cq),
    #[cfg(have_user_cq)]
    create_user_cq: Some(create_user_cq),
    #[cfg(not(have_user_cq))]
    create_cq_umem: Some(create_cq_umem),
    ..one_port::OPS
};

/// No CQs for the kernel. Without `create_user_cq` (7.0) the operation is for processes as well.
unsafe extern "C" fn create_cq(
    cq: *mut rdma::ib_cq,
    attr: *const rdma::ib_cq_init_attr,
    attrs: *mut rdma::uverbs_attr_bundle,
) -> c_int {
    if cfg!(have_user_cq) || attrs.is_null() {
        return eopnotsupp().to_errno();
    }
    // SAFETY: No umem is borrowed.
    unsafe { queue::create_cq(cq, attr, ptr::null_mut(), attrs) }
}

#[cfg(have_user_cq)]
unsafe extern "C" fn create_user_cq(
    cq: *mut rdma::ib_cq,
    attr: *const rdma::ib_cq_init_attr,
    attrs: *mut rdma::uverbs_attr_bundle,
) -> c_int {
    #[cfg(have_umem_desc)]
    let borrowed = ptr::null_mut();
    // On 7.1 ib_uverbs pins the buffer that the request names, and releases the buffer after the CQ.
    // SAFETY: ib_uverbs gives a CQ of this device.
    #[cfg(not(have_umem_desc))]
    let borrowed = unsafe { (*cq).umem };
    // SAFETY: The umem stays until the CQ has been destroyed.
    unsafe { queue::create_cq(cq, attr, borrowed, attrs) }
}

/// On 7.0 the driver owns the umem if this function succeeds.
#[cfg(not(have_user_cq))]
unsafe extern "C" fn create_cq_umem(
    cq: *mut rdma::ib_cq,
    attr: *const rdma::ib_cq_init_attr,
    umem: *mut rdma::ib_umem,
    attrs: *mut rdma::uverbs_attr_bundle,
) -> c_int {
    // SAFETY: The umem stays until the CQ has been destroyed, if the call succeeds.
    let result = unsafe { queue::create_cq(cq, attr, umem, attrs) };
    if result == 0 {
        // SAFETY: The CQ was created above.
        unsafe { queue::give(cq, umem) };
    }
    result
}
