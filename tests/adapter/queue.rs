// SPDX-License-Identifier: GPL-2.0

//! Completion queues. Only their memory is real: the buffer, which the process allocates and the driver
//! pins. It has a key, by which the commands of [`crate::files`] access it as they access an MR.

#![expect(
    clippy::missing_safety_doc,
    reason = "the contract of each operation is that of its field in `struct ib_device_ops`, on a \
              device made by `crate::driver`"
)]

use crate::{
    driver::adapter,
    prelude::*,
    umem::{
        Range,
        Umem, //
    }, //
};

/// The device writes completions.
const ACCESS: u32 = rdma::ib_access_flags_IB_ACCESS_LOCAL_WRITE;

/// What the process sends to create a queue, after what ib_core reads.
#[repr(C)]
#[derive(Clone, Copy, Zeroable)]
struct Request {
    /// The address of the buffer. Ignored if an attribute of the request has the buffer.
    buffer: u64,
    length: u64,
    /// The address that the first byte of the buffer has in commands.
    iova: u64,
}

/// A completion queue. ib_core allocates it by [`CQ_SIZE`].
#[repr(C)]
struct Cq {
    ib: rdma::ib_cq,
    /// The key of the buffer, which is also the response to its creation.
    key: u32,
    /// The umem of the buffer, if this driver releases what ib_uverbs has pinned.
    given: *mut rdma::ib_umem,
}

/// For `ib_device_ops.size_ib_cq`.
pub(crate) const CQ_SIZE: usize = size_of::<Cq>();

impl Request {
    /// Reads the request of a process.
    ///
    /// # Safety
    ///
    /// `udata` must be that of an operation that is being called.
    unsafe fn read(udata: *mut rdma::ib_udata) -> Result<Self> {
        let mut request: Self = pin_init::zeroed();
        let to = ptr::from_mut(&mut request).cast();
        // SAFETY: `request` has that size, and any bytes are valid for it.
        to_result(unsafe { rdma::ib_copy_from_udata(to, udata, size_of::<Self>()) })?;
        Ok(request)
    }

    fn buffer(&self) -> Range {
        Range {
            start: self.buffer,
            len: self.length,
            iova: self.iova,
        }
    }
}

/// Creates a CQ of a process, with the buffer in `borrowed`, or without that the buffer of the request.
///
/// # Safety
///
/// `borrowed` must be NULL, or stay valid until the end of [`destroy_cq`].
pub(crate) unsafe fn create_cq(
    cq: *mut rdma::ib_cq,
    attr: *const rdma::ib_cq_init_attr,
    borrowed: *mut rdma::ib_umem,
    attrs: *mut rdma::uverbs_attr_bundle,
) -> c_int {
    // SAFETY: ib_core gives a CQ of this device, and valid attributes.
    let (dev, cqe, udata) = unsafe {
        (
            (*cq).device,
            (*attr).cqe,
            &raw mut (*attrs).__bindgen_anon_1.hdr.driver_udata,
        )
    };
    from_result(|| {
        // SAFETY: The udata is that of this call.
        let request = unsafe { Request::read(udata) }?;
        // SAFETY: The device is registered while it has CQs; the attributes are those of the call. By
        // the safety requirements the umem stays until the CQ is destroyed.
        let umem = unsafe { Umem::of_cq(dev, attrs, borrowed, request.buffer(), ACCESS) }?;
        // SAFETY: The device is that of this operation.
        let adapter = unsafe { adapter(dev) };
        let mut key = adapter.insert(umem, request.buffer(), ACCESS)?;
        let from = ptr::from_mut(&mut key).cast();
        // SAFETY: `key` has that size.
        let response = unsafe { rdma::ib_copy_to_udata(udata, from, size_of::<u32>()) };
        to_result(response).inspect_err(|_| drop(adapter.remove(key)))?;
        // SAFETY: ib_core has allocated a `Cq`.
        unsafe { (*cq.cast::<Cq>()).key = key };
        // SAFETY: The CQ is not in use yet.
        unsafe { (*cq).cqe = cqe as c_int };
        Ok(0)
    })
}

pub(crate) unsafe extern "C" fn destroy_cq(
    cq: *mut rdma::ib_cq,
    _udata: *mut rdma::ib_udata,
) -> c_int {
    // SAFETY: The device is that of this operation.
    let adapter = unsafe { adapter((*cq).device) };
    let cq = cq.cast::<Cq>();
    // SAFETY: The CQ is one of `create_cq`, with its key.
    drop(adapter.remove(unsafe { (*cq).key }));
    // SAFETY: Nothing uses a given umem any more; it may be NULL.
    unsafe { rdma::ib_umem_release((*cq).given) };
    0
}

/// Has [`destroy_cq`] release `umem`.
///
/// # Safety
///
/// [`create_cq`] must have created `cq`, and `umem` must belong to the CQ alone.
#[allow(dead_code)] // With a kernel whose ib_uverbs pins buffers.
pub(crate) unsafe fn give(cq: *mut rdma::ib_cq, umem: *mut rdma::ib_umem) {
    // SAFETY: By the safety requirements this is a `Cq`.
    unsafe { (*cq.cast::<Cq>()).given = umem };
}
