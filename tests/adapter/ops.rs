// SPDX-License-Identifier: GPL-2.0

//! The operations of a device, except those on MRs and queues.

#![expect(
    clippy::missing_safety_doc,
    reason = "the contract of each operation is that of its field in `struct ib_device_ops`, on a \
              device made by `crate::driver`"
)]

use crate::{
    bindings::rdma,
    cq_entry,
    driver,
    ext::base::compat::eopnotsupp,
    memory,
    one_port,
    queue,
    umem::PAGE_SIZES, //
};
use core::mem::size_of;
use kernel::{
    bindings,
    prelude::*, //
};

/// `RXE_UVERBS_ABI_VERSION`: the user-space driver of rxe opens the device. It adds nothing of its
/// own to the requests for contexts, PDs and MRs.
const UVERBS_ABI: u32 = 2;

/// The operations of a device. Completion queues have memory but do no work, and there are no queue pairs:
/// clients of ib_core do not see a device that lacks their operations.
pub(crate) const OPS: rdma::ib_device_ops = rdma::ib_device_ops {
    owner: &raw mut bindings::__this_module,
    driver_id: rdma::rdma_driver_id_RDMA_DRIVER_RXE,
    uverbs_abi_ver: UVERBS_ABI,
    query_device: Some(query_device),
    alloc_ucontext: Some(alloc_ucontext),
    // With this operation the device can be removed while a process has it open.
    disassociate_ucontext: Some(one_port::no_ucontext),
    // No get_dma_mr, so the kernel has no verbs here: as with efa.
    reg_user_mr: Some(memory::reg_user_mr),
    reg_user_mr_dmabuf: Some(memory::reg_user_mr_dmabuf),
    rereg_user_mr: Some(memory::rereg_user_mr),
    dereg_mr: Some(memory::dereg_mr),
    destroy_cq: Some(queue::destroy_cq),
    poll_cq: Some(poll_cq),
    req_notify_cq: Some(req_notify_cq),
    size_ib_ucontext: size_of::<rdma::ib_ucontext>(),
    size_ib_cq: queue::CQ_SIZE,
    ..cq_entry::OPS
};

/// The same for a device that imports no dma-bufs.
pub(crate) const NO_DMA_BUF_OPS: rdma::ib_device_ops = rdma::ib_device_ops {
    reg_user_mr_dmabuf: None,
    ..OPS
};

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

unsafe extern "C" fn alloc_ucontext(
    _context: *mut rdma::ib_ucontext,
    _udata: *mut rdma::ib_udata,
) -> c_int {
    0
}

/// Operations that the device has but does not support.
macro_rules! unsupported {
    ($($name:ident($($argument:ty),*);)*) => {
        $(unsafe extern "C" fn $name($(_: $argument),*) -> c_int {
            eopnotsupp().to_errno()
        })*
    };
}

unsupported! {
    poll_cq(*mut rdma::ib_cq, c_int, *mut rdma::ib_wc);
    req_notify_cq(*mut rdma::ib_cq, rdma::ib_cq_notify_flags);
}
