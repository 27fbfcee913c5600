// SPDX-License-Identifier: GPL-2.0

//! The operations of a device, but for those on MRs.
//!
//! All `# Safety` sections: as the operation of that name in `struct ib_device_ops`, on a device
//! that was made by [`crate::register::Registered`].

use crate::{
    bindings::rdma,
    driver,
    ext::compat::eopnotsupp,
    memory,
    one_port,
    umem::PAGE_SIZES, //
};
use core::mem::size_of;
use kernel::{
    bindings,
    prelude::*, //
};

/// `RXE_UVERBS_ABI_VERSION`: the user-space driver of rxe opens the device. Contexts, PDs and MRs
/// are without anything of rxe's own there.
const UVERBS_ABI: u32 = 2;

/// Queue pairs and completion queues are there in name only: many of ib_core's clients see no
/// device without.
pub(crate) const OPS: rdma::ib_device_ops = rdma::ib_device_ops {
    owner: &raw mut bindings::__this_module,
    driver_id: rdma::rdma_driver_id_RDMA_DRIVER_RXE,
    uverbs_abi_ver: UVERBS_ABI,
    query_device: Some(query_device),
    alloc_ucontext: Some(alloc_ucontext),
    // That a context can be taken from its process at all is what lets the device go while
    // somebody has it open.
    disassociate_ucontext: Some(one_port::no_ucontext),
    // No get_dma_mr, and so no verbs for the kernel: as efa.
    reg_user_mr: Some(memory::reg_user_mr),
    reg_user_mr_dmabuf: Some(memory::reg_user_mr_dmabuf),
    rereg_user_mr: Some(memory::rereg_user_mr),
    dereg_mr: Some(memory::dereg_mr),
    create_cq: Some(create_cq),
    destroy_cq: Some(destroy_cq),
    poll_cq: Some(poll_cq),
    req_notify_cq: Some(req_notify_cq),
    create_qp: Some(create_qp),
    modify_qp: Some(modify_qp),
    destroy_qp: Some(destroy_qp),
    post_send: Some(post_send),
    post_recv: Some(post_recv),
    size_ib_ucontext: size_of::<rdma::ib_ucontext>(),
    size_ib_cq: size_of::<rdma::ib_cq>(),
    size_ib_qp: size_of::<rdma::ib_qp>(),
    ..one_port::OPS
};

/// # Safety
///
/// See the module.
unsafe extern "C" fn query_device(
    _dev: *mut rdma::ib_device,
    attr: *mut rdma::ib_device_attr,
    _udata: *mut rdma::ib_udata,
) -> c_int {
    // SAFETY: ib_core gives attributes to fill in.
    let attr = unsafe { &mut *attr };
    attr.vendor_id = driver::VENDOR.into();
    attr.vendor_part_id = driver::DEVICE.into();
    attr.max_mr_size = memory::MAX_MR_SIZE;
    attr.page_size_cap = PAGE_SIZES as u64;
    attr.max_mr = 1 << 16;
    attr.max_pd = 1 << 16;
    attr.max_pkeys = 1;
    0
}

/// # Safety
///
/// See the module.
unsafe extern "C" fn alloc_ucontext(
    _context: *mut rdma::ib_ucontext,
    _udata: *mut rdma::ib_udata,
) -> c_int {
    0
}

/// # Safety
///
/// See the module.
unsafe extern "C" fn create_cq(
    _cq: *mut rdma::ib_cq,
    _attr: *const rdma::ib_cq_init_attr,
    _attrs: *mut rdma::uverbs_attr_bundle,
) -> c_int {
    eopnotsupp().to_errno()
}

/// # Safety
///
/// See the module.
unsafe extern "C" fn destroy_cq(_cq: *mut rdma::ib_cq, _udata: *mut rdma::ib_udata) -> c_int {
    0
}

/// # Safety
///
/// See the module.
unsafe extern "C" fn poll_cq(_cq: *mut rdma::ib_cq, _n: c_int, _wc: *mut rdma::ib_wc) -> c_int {
    eopnotsupp().to_errno()
}

/// # Safety
///
/// See the module.
unsafe extern "C" fn req_notify_cq(
    _cq: *mut rdma::ib_cq,
    _flags: rdma::ib_cq_notify_flags,
) -> c_int {
    eopnotsupp().to_errno()
}

/// # Safety
///
/// See the module.
unsafe extern "C" fn create_qp(
    _qp: *mut rdma::ib_qp,
    _attr: *mut rdma::ib_qp_init_attr,
    _udata: *mut rdma::ib_udata,
) -> c_int {
    eopnotsupp().to_errno()
}

/// # Safety
///
/// See the module.
unsafe extern "C" fn modify_qp(
    _qp: *mut rdma::ib_qp,
    _attr: *mut rdma::ib_qp_attr,
    _mask: c_int,
    _udata: *mut rdma::ib_udata,
) -> c_int {
    eopnotsupp().to_errno()
}

/// # Safety
///
/// See the module.
unsafe extern "C" fn destroy_qp(_qp: *mut rdma::ib_qp, _udata: *mut rdma::ib_udata) -> c_int {
    0
}

/// # Safety
///
/// See the module.
unsafe extern "C" fn post_send(
    _qp: *mut rdma::ib_qp,
    _wr: *const rdma::ib_send_wr,
    _bad: *mut *const rdma::ib_send_wr,
) -> c_int {
    eopnotsupp().to_errno()
}

/// # Safety
///
/// See the module.
unsafe extern "C" fn post_recv(
    _qp: *mut rdma::ib_qp,
    _wr: *const rdma::ib_recv_wr,
    _bad: *mut *const rdma::ib_recv_wr,
) -> c_int {
    eopnotsupp().to_errno()
}
