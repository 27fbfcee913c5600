// SPDX-License-Identifier: GPL-2.0

//! The operations of a device, except those on queues.

#![expect(
    clippy::missing_safety_doc,
    reason = "the contract of each operation is that of its field in `struct ib_device_ops`, on a \
              device made by `crate::driver`"
)]

use crate::{
    cq_entry,
    driver::{
        self,
        adapter, //
    },
    ext::base::compat::eopnotsupp,
    one_port,
    prelude::*,
    queue,
    umem::{
        Range,
        Umem,
        PAGE_SIZES, //
    }, //
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
    reg_user_mr: Some(reg_user_mr),
    reg_user_mr_dmabuf: Some(reg_user_mr_dmabuf),
    rereg_user_mr: Some(rereg_user_mr),
    dereg_mr: Some(dereg_mr),
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
    attr.max_mr_size = MAX_MR_SIZE;
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

const MAX_MR_SIZE: u64 = 1 << 40;

/// The access flags that an MR can have.
const ACCESS: u32 = rdma::ib_access_flags_IB_ACCESS_LOCAL_WRITE
    | rdma::ib_access_flags_IB_ACCESS_REMOTE_WRITE
    | rdma::ib_access_flags_IB_ACCESS_REMOTE_READ
    | rdma::ib_access_flags_IB_ACCESS_REMOTE_ATOMIC;

/// Returns the access flags without the optional ones. `EOPNOTSUPP` if there are flags that the
/// device does not know.
fn known_access(access: c_int) -> Result<u32> {
    let access = access as u32 & !rdma::ib_access_flags_IB_ACCESS_OPTIONAL;
    if access & !ACCESS != 0 {
        return Err(eopnotsupp());
    }
    Ok(access)
}

/// Returns the memory of an MR. `EINVAL` if no MR has that length.
fn range(start: u64, len: u64, iova: u64) -> Result<Range> {
    if len == 0 || len > MAX_MR_SIZE {
        return Err(EINVAL);
    }
    Ok(Range { start, len, iova })
}

fn checked(
    start: u64,
    length: u64,
    iova: u64,
    access: c_int,
    dmah: *mut rdma::ib_dmah,
) -> Result<(u32, Range)> {
    if !dmah.is_null() {
        return Err(eopnotsupp());
    }
    Ok((known_access(access)?, range(start, length, iova)?))
}

/// Creates the C object of an MR and adds the memory.
///
/// # Safety
///
/// `dev` must be the device of an operation that is being called.
unsafe fn register(
    dev: *mut rdma::ib_device,
    umem: Umem,
    range: Range,
    access: u32,
) -> Result<*mut rdma::ib_mr> {
    let mut mr = KBox::new(pin_init::zeroed::<rdma::ib_mr>(), GFP_KERNEL)?;
    // SAFETY: By this function's safety contract.
    let key = unsafe { adapter(dev) }.insert(umem, range, access)?;
    (mr.lkey, mr.rkey) = (key, key);
    (mr.iova, mr.length) = (range.iova, range.len);
    Ok(KBox::into_raw(mr))
}

unsafe extern "C" fn reg_user_mr(
    pd: *mut rdma::ib_pd,
    start: u64,
    length: u64,
    iova: u64,
    access: c_int,
    dmah: *mut rdma::ib_dmah,
    _udata: *mut rdma::ib_udata,
) -> *mut rdma::ib_mr {
    // SAFETY: The PD is valid.
    let dev = unsafe { (*pd).device };
    let make = || {
        let (access, range) = checked(start, length, iova, access, dmah)?;
        // SAFETY: The device is registered while it has MRs.
        let umem = unsafe { Umem::of_user(dev, range, access) }?;
        // SAFETY: The device is that of this operation.
        unsafe { register(dev, umem, range, access) }
    };
    make().unwrap_or_else(|e| e.to_ptr())
}

unsafe extern "C" fn reg_user_mr_dmabuf(
    pd: *mut rdma::ib_pd,
    offset: u64,
    length: u64,
    iova: u64,
    fd: c_int,
    access: c_int,
    dmah: *mut rdma::ib_dmah,
    _attrs: *mut rdma::uverbs_attr_bundle,
) -> *mut rdma::ib_mr {
    // SAFETY: The PD is valid.
    let dev = unsafe { (*pd).device };
    let make = || {
        let (access, range) = checked(offset, length, iova, access, dmah)?;
        // SAFETY: The device is that of this operation.
        let mode = unsafe { adapter(dev) }.mode().ok_or_else(eopnotsupp)?;
        // SAFETY: The device is registered while it has MRs.
        let umem = unsafe { Umem::of_dma_buf(dev, mode, fd, range, access) }?;
        // SAFETY: The device is that of this operation.
        unsafe { register(dev, umem, range, access) }
    };
    make().unwrap_or_else(|e| e.to_ptr())
}

/// Changes the MR in place; new memory is that at an address of the process. ib_core serializes the
/// calls on an MR, and its deregistration.
unsafe extern "C" fn rereg_user_mr(
    mr: *mut rdma::ib_mr,
    flags: c_int,
    start: u64,
    length: u64,
    iova: u64,
    access: c_int,
    _pd: *mut rdma::ib_pd,
    _udata: *mut rdma::ib_udata,
) -> *mut rdma::ib_mr {
    // SAFETY: The MR is valid.
    let (dev, key) = unsafe { ((*mr).device, (*mr).lkey) };
    let flags = flags as u32;
    let has = |flag| flags & flag != 0;
    let change = || {
        if has(!rdma::ib_mr_rereg_flags_IB_MR_REREG_SUPPORTED) {
            return Err(eopnotsupp());
        }
        // SAFETY: The device is that of this operation.
        let adapter = unsafe { adapter(dev) };
        let access = if has(rdma::ib_mr_rereg_flags_IB_MR_REREG_ACCESS) {
            Some(known_access(access)?)
        } else {
            None
        };
        let mut new = None;
        if has(rdma::ib_mr_rereg_flags_IB_MR_REREG_TRANS) {
            let range = range(start, length, iova)?;
            let access = access.map_or_else(|| adapter.access_of(key), Ok)?;
            // SAFETY: The device is registered while it has MRs.
            new = Some((unsafe { Umem::of_user(dev, range, access) }?, range));
        }
        // ib_core keeps the PD.
        adapter.change(key, new, access)
    };
    // NULL: the MR is the same object.
    change().map_or_else(|e: Error| e.to_ptr(), |()| ptr::null_mut())
}

unsafe extern "C" fn dereg_mr(mr: *mut rdma::ib_mr, _udata: *mut rdma::ib_udata) -> c_int {
    // SAFETY: The MR is valid.
    let (dev, key) = unsafe { ((*mr).device, (*mr).lkey) };
    from_result(|| {
        // SAFETY: The device is that of this operation.
        drop(unsafe { adapter(dev) }.remove(key).ok_or(EINVAL)?);
        // SAFETY: `register` made the box, and ib_core does not use the MR any more.
        drop(unsafe { KBox::from_raw(mr) });
        Ok(0)
    })
}
