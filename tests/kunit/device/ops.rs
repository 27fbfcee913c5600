// SPDX-License-Identifier: GPL-2.0

//! The operations of a fake device on queues and work requests.

use super::{
    mrs,
    register::Raw,
    Completion, //
};
use crate::{
    one_port,
    prelude::*, //
};

#[repr(C)]
struct Qp {
    ib: rdma::ib_qp,
    /// A work request has failed; all others fail until a reset.
    broken: bool,
}

/// The operations of all fake devices.
pub(super) const OPS: rdma::ib_device_ops = rdma::ib_device_ops {
    query_device: Some(query_device),
    create_cq: Some(create_cq),
    destroy_cq: Some(destroy_cq),
    poll_cq: Some(poll_cq),
    req_notify_cq: Some(req_notify_cq),
    create_qp: Some(create_qp),
    modify_qp: Some(modify_qp),
    destroy_qp: Some(destroy_qp),
    post_send: Some(post_send),
    post_recv: Some(post_recv),
    get_dma_mr: Some(mrs::get_dma_mr),
    alloc_mr: Some(mrs::alloc_mr),
    map_mr_sg: Some(mrs::map_mr_sg),
    reg_user_mr: Some(mrs::reg_user_mr),
    rereg_user_mr: Some(mrs::rereg_user_mr),
    dereg_mr: Some(mrs::dereg_mr),
    size_ib_cq: size_of::<rdma::ib_cq>(),
    size_ib_qp: size_of::<Qp>(),
    ..one_port::OPS
};

/// Returns the device's own side.
///
/// # Safety
///
/// `dev` must be the device of a [`super::Registered`] that outlives `'a`.
pub(super) unsafe fn fake<'a>(dev: *mut rdma::ib_device) -> &'a FakeDevice {
    // SAFETY: By the safety requirements the device belongs to a `Registered`. `Registered` keeps
    // the object while the device exists.
    unsafe { &*(*dev.cast::<Raw>()).fake }
}

unsafe extern "C" fn query_device(
    _dev: *mut rdma::ib_device,
    attr: *mut rdma::ib_device_attr,
    _udata: *mut rdma::ib_udata,
) -> c_int {
    // SAFETY: ib_core passes attributes to fill in.
    let attr = unsafe { &mut *attr };
    attr.max_mr_size = u64::MAX;
    attr.page_size_cap = PAGE | (64 * K) | (2 * M);
    attr.device_cap_flags = rdma::ib_device_cap_flags_IB_DEVICE_MEM_MGT_EXTENSIONS as u64;
    attr.kernel_cap_flags = (rdma::ib_kernel_cap_flags_IBK_ON_DEMAND_PAGING
        | rdma::ib_kernel_cap_flags_IBK_LOCAL_DMA_LKEY)
        .into();
    attr.odp_caps.general_caps = rdma::ib_odp_general_cap_bits_IB_ODP_SUPPORT.into();
    attr.max_fast_reg_page_list_len = 512;
    attr.max_qp = 16;
    attr.max_qp_wr = 16;
    attr.max_send_sge = 1;
    attr.max_recv_sge = 1;
    attr.max_cq = 16;
    attr.max_cqe = 16;
    attr.max_mr = 64;
    attr.max_pd = 16;
    attr.max_pkeys = 1;
    0
}

unsafe extern "C" fn create_cq(
    cq: *mut rdma::ib_cq,
    _attr: *const rdma::ib_cq_init_attr,
    _attrs: *mut rdma::uverbs_attr_bundle,
) -> c_int {
    // SAFETY: ib_core has set the device, which belongs to a `Registered`.
    let fake = unsafe { fake((*cq).device) };
    from_result(|| {
        fake.reach(Point::CreateCq)?;
        fake.inner.lock().cqs += 1;
        Ok(0)
    })
}

unsafe extern "C" fn destroy_cq(cq: *mut rdma::ib_cq, _udata: *mut rdma::ib_udata) -> c_int {
    // SAFETY: ib_core has set the device, which belongs to a `Registered`.
    let fake = unsafe { fake((*cq).device) };
    fake.inner.lock().cqs -= 1;
    0
}

unsafe extern "C" fn poll_cq(cq: *mut rdma::ib_cq, _n: c_int, wc: *mut rdma::ib_wc) -> c_int {
    // SAFETY: ib_core has set the device, which belongs to a `Registered`.
    let fake = unsafe { fake((*cq).device) };
    let mut inner = fake.inner.lock();
    if inner.is_held() {
        return 0;
    }
    let Some(c) = inner.completion(cq.expose_provenance()).map(mem::take) else {
        return 0;
    };
    // Key 0 is that of unused records.
    if let Some(r) = inner.record(c.invalidates) {
        r.valid = false;
    }
    let mut entry: rdma::ib_wc = pin_init::zeroed();
    entry.__bindgen_anon_1.wr_cqe = ptr::with_exposed_provenance_mut(c.wr_cqe);
    entry.status = c.status;
    entry.qp = ptr::with_exposed_provenance_mut(c.qp);
    // SAFETY: ib_core passes an array with at least one entry.
    unsafe { wc.write(entry) };
    1
}

unsafe extern "C" fn req_notify_cq(
    cq: *mut rdma::ib_cq,
    _flags: rdma::ib_cq_notify_flags,
) -> c_int {
    // SAFETY: ib_core has set the device, which belongs to a `Registered`.
    let fake = unsafe { fake((*cq).device) };
    let mut inner = fake.inner.lock();
    let missed = !inner.is_held() && inner.completion(cq.addr()).is_some();
    missed.into()
}

unsafe extern "C" fn create_qp(
    qp: *mut rdma::ib_qp,
    _attr: *mut rdma::ib_qp_init_attr,
    _udata: *mut rdma::ib_udata,
) -> c_int {
    // SAFETY: ib_core has set the device, which belongs to a `Registered`.
    let fake = unsafe { fake((*qp).device) };
    from_result(|| {
        fake.reach(Point::CreateQp)?;
        // SAFETY: ib_core passes a queue pair without other users.
        unsafe { (*qp).qp_num = 17 };
        fake.inner.lock().qps += 1;
        Ok(0)
    })
}

unsafe extern "C" fn modify_qp(
    qp: *mut rdma::ib_qp,
    attr: *mut rdma::ib_qp_attr,
    _mask: c_int,
    _udata: *mut rdma::ib_udata,
) -> c_int {
    // SAFETY: ib_core has set the device, which belongs to a `Registered`.
    let fake = unsafe { fake((*qp).device) };
    // SAFETY: The attributes are valid for the call.
    if unsafe { (*attr).qp_state } == rdma::ib_qp_state_IB_QPS_RESET {
        // SAFETY: ib_core has allocated a `Qp`, by `size_ib_qp`. Nothing is posted during a modify.
        unsafe { (*qp.cast::<Qp>()).broken = false };
    }
    fake.script.pass(Point::ModifyQp)
}

unsafe extern "C" fn destroy_qp(qp: *mut rdma::ib_qp, _udata: *mut rdma::ib_udata) -> c_int {
    // SAFETY: ib_core has set the device, which belongs to a `Registered`.
    let fake = unsafe { fake((*qp).device) };
    fake.inner.lock().qps -= 1;
    0
}

/// May sleep if the script says so, unlike a real device.
unsafe extern "C" fn post_send(
    qp: *mut rdma::ib_qp,
    wr: *const rdma::ib_send_wr,
    _bad: *mut *const rdma::ib_send_wr,
) -> c_int {
    // SAFETY: ib_core has set the device, which belongs to a `Registered`.
    let fake = unsafe { fake((*qp).device) };
    // SAFETY: The work request is valid for the call.
    let (opcode, cqe, rkey) = unsafe {
        (
            (*wr).opcode,
            (*wr).__bindgen_anon_1.wr_cqe,
            (*wr).ex.invalidate_rkey,
        )
    };
    let registers = opcode == rdma::ib_wr_opcode_IB_WR_REG_MR;
    let point = if registers {
        Point::PostReg
    } else {
        Point::PostInv
    };
    let errno = fake.script.pass(point);
    if errno != 0 {
        return errno;
    }
    // SAFETY: ib_core has allocated a `Qp`, by `size_ib_qp`.
    let (qp_raw, cq) = unsafe { (&mut *qp.cast::<Qp>(), (*qp).send_cq) };
    let mut done = Completion {
        cq: cq.expose_provenance(),
        qp: qp.expose_provenance(),
        wr_cqe: cqe.expose_provenance(),
        ..Default::default()
    };
    let mut inner = fake.inner.lock();
    if mem::take(&mut inner.quirks.fails_work_request) {
        done.status = rdma::ib_wc_status_IB_WC_MW_BIND_ERR;
    }
    if qp_raw.broken {
        done.status = rdma::ib_wc_status_IB_WC_WR_FLUSH_ERR;
    }
    if done.status == rdma::ib_wc_status_IB_WC_SUCCESS {
        let key = if registers {
            // SAFETY: A REG_MR work request is an ib_reg_wr.
            unsafe { (*wr.cast::<rdma::ib_reg_wr>()).key }
        } else {
            rkey
        };
        let record = inner.record(key).filter(|_| key != 0);
        done.status = match record {
            Some(r) if registers => {
                // SAFETY: A REG_MR work request is an ib_reg_wr.
                r.access = unsafe { (*wr.cast::<rdma::ib_reg_wr>()).access };
                r.valid = true;
                rdma::ib_wc_status_IB_WC_SUCCESS
            }
            // As in rxe, LOCAL_INV works only on MRs for fast registration.
            Some(r) => {
                let mr: *mut rdma::ib_mr = ptr::with_exposed_provenance_mut(r.mr);
                done.invalidates = key;
                // SAFETY: The MR is in the table, so the MR exists.
                if unsafe { (*mr).type_ } == rdma::ib_mr_type_IB_MR_TYPE_MEM_REG {
                    rdma::ib_wc_status_IB_WC_SUCCESS
                } else {
                    rdma::ib_wc_status_IB_WC_MW_BIND_ERR
                }
            }
            None => rdma::ib_wc_status_IB_WC_LOC_PROT_ERR,
        };
    }
    if done.status != rdma::ib_wc_status_IB_WC_SUCCESS {
        done.invalidates = 0;
        qp_raw.broken = true;
    }
    let Some(place) = inner.completion(0) else {
        return ENOMEM.to_errno();
    };
    *place = done;
    let held = inner.is_held();
    drop(inner);
    if !held {
        FakeDevice::notify(cq);
    }
    0
}

unsafe extern "C" fn post_recv(
    _qp: *mut rdma::ib_qp,
    _wr: *const rdma::ib_recv_wr,
    _bad: *mut *const rdma::ib_recv_wr,
) -> c_int {
    EINVAL.to_errno()
}
