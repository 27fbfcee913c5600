// SPDX-License-Identifier: GPL-2.0

//! Completion queues and queue pairs. Only their memory is real: the buffer and the doorbell page,
//! which the process allocates and the driver pins. Each has a key, by which the commands of
//! [`crate::command`] access it as they access an MR.

#![expect(
    clippy::missing_safety_doc,
    reason = "the contract of each operation is that of its field in `struct ib_device_ops`, on a \
              device made by `crate::register::Registered`"
)]

use crate::{
    bindings::rdma,
    register::adapter,
    umem::{
        Range,
        Umem, //
    }, //
};
use core::{
    mem::size_of,
    ptr, //
};
use kernel::{
    error::{
        from_result,
        to_result, //
    },
    page::{
        PAGE_MASK,
        PAGE_SIZE, //
    },
    prelude::*, //
};

/// The device writes completions and reads and writes doorbells and work requests.
const ACCESS: u32 = rdma::ib_access_flags_IB_ACCESS_LOCAL_WRITE;

/// What the process sends to create a queue, after what ib_core reads.
#[repr(C)]
#[derive(Clone, Copy, Zeroable)]
struct Request {
    /// The address of the buffer. Ignored if an attribute of the request has the buffer.
    buffer: u64,
    /// The length of the buffer.
    length: u64,
    /// The address that the first byte of the buffer has in commands.
    iova: u64,
    /// The address of a doorbell; its whole page is pinned. 0: none.
    doorbell: u64,
}

/// The keys of a queue's memory, which are also the response to its creation. 0: none.
#[repr(C)]
#[derive(Clone, Copy, Zeroable)]
struct Keys {
    buffer: u32,
    doorbell: u32,
}

/// A completion queue. ib_core allocates it by [`CQ_SIZE`].
#[repr(C)]
struct Cq {
    ib: rdma::ib_cq,
    keys: Keys,
    /// The umem of the buffer, if this driver releases what ib_uverbs has pinned.
    given: *mut rdma::ib_umem,
}

/// A queue pair. ib_core allocates it by [`QP_SIZE`].
#[repr(C)]
struct Qp {
    ib: rdma::ib_qp,
    keys: Keys,
}

/// For `ib_device_ops.size_ib_cq`.
pub(crate) const CQ_SIZE: usize = size_of::<Cq>();
/// For `ib_device_ops.size_ib_qp`.
pub(crate) const QP_SIZE: usize = size_of::<Qp>();

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

    /// Pins the page of the doorbell, if there is one. Context: may sleep.
    ///
    /// # Safety
    ///
    /// `dev` must be registered until the umem is dropped.
    unsafe fn pin_doorbell(&self, dev: *mut rdma::ib_device) -> Result<Option<(Umem, Range)>> {
        if self.doorbell == 0 {
            return Ok(None);
        }
        let page = self.doorbell & PAGE_MASK as u64;
        let range = Range {
            start: page,
            len: PAGE_SIZE as u64,
            iova: page,
        };
        // SAFETY: By this function's safety contract.
        Ok(Some((unsafe { Umem::of_user(dev, range, ACCESS) }?, range)))
    }
}

impl Keys {
    /// Enters the memory of a queue, and sends the keys to the process. Context: may sleep.
    ///
    /// # Safety
    ///
    /// - `dev` must be the device of an operation that is being called, `udata` that of the call.
    /// - The device must stay registered until [`Self::remove`].
    unsafe fn insert(
        dev: *mut rdma::ib_device,
        buffer: Umem,
        request: &Request,
        udata: *mut rdma::ib_udata,
    ) -> Result<Self> {
        // SAFETY: By the second requirement.
        let doorbell = unsafe { request.pin_doorbell(dev) }?;
        // SAFETY: By the first requirement.
        let adapter = unsafe { adapter(dev) };
        let mut keys = Self {
            buffer: adapter.insert(buffer, request.buffer(), ACCESS)?,
            doorbell: 0,
        };
        let respond = |keys: &mut Self| {
            if let Some((umem, range)) = doorbell {
                keys.doorbell = adapter.insert(umem, range, ACCESS)?;
            }
            let from = ptr::from_mut(keys).cast();
            // SAFETY: `keys` has that size and no padding.
            to_result(unsafe { rdma::ib_copy_to_udata(udata, from, size_of::<Self>()) })
        };
        match respond(&mut keys) {
            Ok(()) => Ok(keys),
            Err(e) => {
                // SAFETY: By the first requirement.
                unsafe { keys.remove(dev) };
                Err(e)
            }
        }
    }

    /// Removes the memory of a queue. Context: may sleep.
    ///
    /// # Safety
    ///
    /// `dev` must be the device of an operation that is being called.
    unsafe fn remove(self, dev: *mut rdma::ib_device) {
        // SAFETY: By this function's safety contract.
        let adapter = unsafe { adapter(dev) };
        for key in [self.buffer, self.doorbell] {
            if key != 0 {
                drop(adapter.remove(key));
            }
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
        // SAFETY: The device and the udata are those of this call; the device is registered while
        // it has CQs.
        let keys = unsafe { Keys::insert(dev, umem, &request, udata) }?;
        // SAFETY: ib_core has allocated a `Cq`.
        unsafe { (*cq.cast::<Cq>()).keys = keys };
        // SAFETY: The CQ is not in use yet.
        unsafe { (*cq).cqe = cqe as c_int };
        Ok(0)
    })
}

pub(crate) unsafe extern "C" fn destroy_cq(
    cq: *mut rdma::ib_cq,
    _udata: *mut rdma::ib_udata,
) -> c_int {
    let cq = cq.cast::<Cq>();
    // SAFETY: The CQ is one of `create_cq`, with its keys. Nothing uses a given umem any more; it may be
    // NULL.
    unsafe {
        (*cq).keys.remove((*cq).ib.device);
        rdma::ib_umem_release((*cq).given);
    }
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

pub(crate) unsafe extern "C" fn create_qp(
    qp: *mut rdma::ib_qp,
    _attr: *mut rdma::ib_qp_init_attr,
    udata: *mut rdma::ib_udata,
) -> c_int {
    // SAFETY: ib_core gives a QP of this device.
    let dev = unsafe { (*qp).device };
    from_result(|| {
        // SAFETY: The udata is that of this call; the device has no verbs for the kernel, so there
        // is always a process.
        let request = unsafe { Request::read(udata) }?;
        // SAFETY: The device is registered while it has QPs.
        let umem = unsafe { Umem::of_user(dev, request.buffer(), ACCESS) }?;
        // SAFETY: The device and the udata are those of this call; the device is registered while
        // it has QPs.
        let keys = unsafe { Keys::insert(dev, umem, &request, udata) }?;
        // SAFETY: ib_core has allocated a `Qp`, which is not in use yet.
        unsafe {
            (*qp.cast::<Qp>()).keys = keys;
            (*qp).qp_num = keys.buffer;
        }
        Ok(0)
    })
}

pub(crate) unsafe extern "C" fn destroy_qp(
    qp: *mut rdma::ib_qp,
    _udata: *mut rdma::ib_udata,
) -> c_int {
    // SAFETY: The QP is one of `create_qp`, with its keys.
    unsafe { (*qp.cast::<Qp>()).keys.remove((*qp).device) };
    0
}
