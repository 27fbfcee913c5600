// SPDX-License-Identifier: GPL-2.0

//! The operations on MRs.
//!
//! All `# Safety` sections: as the operation of that name in `struct ib_device_ops`, on a device
//! that was made by [`crate::register::Registered`].

use crate::{
    bindings::rdma,
    ext::compat::eopnotsupp,
    register::adapter,
    umem::Umem, //
};
use core::ptr;
use kernel::{
    error::from_result,
    prelude::*, //
};

/// The longest MR.
pub(crate) const MAX_MR_SIZE: u64 = 1 << 40;

/// The access that an MR can give.
const ACCESS: u32 = rdma::ib_access_flags_IB_ACCESS_LOCAL_WRITE
    | rdma::ib_access_flags_IB_ACCESS_REMOTE_WRITE
    | rdma::ib_access_flags_IB_ACCESS_REMOTE_READ
    | rdma::ib_access_flags_IB_ACCESS_REMOTE_ATOMIC;

/// What the user wants, without what a device may leave undone; `EOPNOTSUPP` where there is more to
/// it than the device knows.
fn known_access(access: c_int) -> Result<u32> {
    let access = access as u32 & !rdma::ib_access_flags_IB_ACCESS_OPTIONAL;
    if access & !ACCESS != 0 {
        return Err(eopnotsupp());
    }
    Ok(access)
}

/// Is that a length for an MR?
fn check_length(length: u64) -> Result {
    if length == 0 || length > MAX_MR_SIZE {
        return Err(EINVAL);
    }
    Ok(())
}

/// Makes the C object of an MR and enters the MR.
fn register(
    dev: *mut rdma::ib_device,
    umem: Umem,
    iova: u64,
    length: u64,
    access: u32,
) -> Result<*mut rdma::ib_mr> {
    let mut mr = KBox::new(pin_init::zeroed::<rdma::ib_mr>(), GFP_KERNEL)?;
    // SAFETY: The callers give the device of an operation that is being called.
    let key = unsafe { adapter(dev) }.insert(umem, iova, length, access)?;
    (mr.lkey, mr.rkey) = (key, key);
    (mr.iova, mr.length) = (iova, length);
    Ok(KBox::into_raw(mr))
}

/// # Safety
///
/// See the module.
pub(crate) unsafe extern "C" fn reg_user_mr(
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
        if !dmah.is_null() {
            return Err(eopnotsupp());
        }
        let access = known_access(access)?;
        check_length(length)?;
        // SAFETY: The device is registered while it has MRs.
        let umem = unsafe { Umem::host(dev, (start, length), iova, access) }?;
        register(dev, umem, iova, length, access)
    };
    make().unwrap_or_else(|e| e.to_ptr())
}

/// # Safety
///
/// See the module.
pub(crate) unsafe extern "C" fn reg_user_mr_dmabuf(
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
        if !dmah.is_null() {
            return Err(eopnotsupp());
        }
        let access = known_access(access)?;
        check_length(length)?;
        // SAFETY: The device is that of the operation.
        let mode = unsafe { adapter(dev) }.mode();
        // SAFETY: The device is registered while it has MRs.
        let umem = unsafe { Umem::dma_buf(dev, mode, fd, (offset, length), iova, access) }?;
        register(dev, umem, iova, length, access)
    };
    make().unwrap_or_else(|e| e.to_ptr())
}

/// Changes the MR in place; other memory is always host memory. Only one of these runs on an MR,
/// and no deregistration meanwhile.
///
/// # Safety
///
/// See the module.
pub(crate) unsafe extern "C" fn rereg_user_mr(
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
        // SAFETY: The device is that of the operation.
        let adapter = unsafe { adapter(dev) };
        let access = if has(rdma::ib_mr_rereg_flags_IB_MR_REREG_ACCESS) {
            Some(known_access(access)?)
        } else {
            None
        };
        let mut new = None;
        if has(rdma::ib_mr_rereg_flags_IB_MR_REREG_TRANS) {
            check_length(length)?;
            let access = access.map_or_else(|| adapter.access_of(key), Ok)?;
            // SAFETY: The device is registered while it has MRs.
            let umem = unsafe { Umem::host(dev, (start, length), iova, access) }?;
            new = Some((umem, iova, length));
        }
        // The PD is ib_core's alone.
        adapter.change(key, new, access)
    };
    // NULL: it is still the same object.
    change().map_or_else(|e: Error| e.to_ptr(), |()| ptr::null_mut())
}

/// # Safety
///
/// See the module.
pub(crate) unsafe extern "C" fn dereg_mr(
    mr: *mut rdma::ib_mr,
    _udata: *mut rdma::ib_udata,
) -> c_int {
    // SAFETY: The MR is valid.
    let (dev, key) = unsafe { ((*mr).device, (*mr).lkey) };
    from_result(|| {
        // SAFETY: The device is that of the operation.
        drop(unsafe { adapter(dev) }.remove(key).ok_or(EINVAL)?);
        // SAFETY: It was made by `register`, and nobody has it any more.
        drop(unsafe { KBox::from_raw(mr) });
        Ok(0)
    })
}
