// SPDX-License-Identifier: GPL-2.0

//! A kernel-owned queue pair connected to itself, for work requests on memory keys.

use super::super::{
    bindings::rdma,
    compat, //
};
use super::{
    device::{
        Device,
        Pd, //
    },
    fast_mr::FastRegKey, //
};
use core::{
    mem::offset_of,
    ptr, //
};
use kernel::{
    error::{
        from_err_ptr,
        to_result, //
    },
    new_condvar,
    new_mutex,
    new_spinlock,
    prelude::*,
    sync::{
        aref::ARef,
        CondVar,
        Mutex,
        SpinLock, //
    },
    types::Opaque, //
};

/// The one work request that is on its way.
#[pin_data]
struct Pending {
    #[pin]
    cqe: Opaque<rdma::ib_cqe>,
    /// The completion's status, once it is there.
    #[pin]
    status: SpinLock<Option<rdma::ib_wc_status>>,
    #[pin]
    done: CondVar,
}

/// A reliable-connected queue pair whose peer is itself.
///
/// It counts as a user of its PD. Work requests are executed one at a time; each call waits for
/// its completion.
///
/// # Invariants
///
/// `qp` and `cq` are valid and owned by this object, `qp` uses `cq`. At most one work request is
/// on its way, and while it is `busy` is held; its `wr_cqe` is `pending.cqe`.
#[pin_data(PinnedDrop)]
pub struct LoopbackQp {
    qp: *mut rdma::ib_qp,
    cq: *mut rdma::ib_cq,
    port: u32,
    #[pin]
    pending: Pending,
    /// Serialises work requests: held across the wait for one, it sleeps.
    #[pin]
    busy: Mutex<()>,
    dev: ARef<Device>,
}

// SAFETY: QPs and CQs may be used from any thread.
unsafe impl Send for LoopbackQp {}
// SAFETY: `busy` serialises what must be.
unsafe impl Sync for LoopbackQp {}

impl LoopbackQp {
    /// Makes and connects a queue pair on `pd`. May sleep.
    ///
    /// `EOPNOTSUPP` where the device has no InfiniBand or RoCE port.
    pub fn new(pd: &Pd) -> Result<Pin<KBox<Self>>> {
        let dev = pd.device();
        let port = dev.ib_port().ok_or_else(compat::eopnotsupp)?;
        // SAFETY: The device is registered. The CQ is polled by ib_core's workqueue.
        let cq = from_err_ptr(unsafe {
            rdma::ib_alloc_cq(
                dev.as_raw(),
                ptr::null_mut(),
                4,
                0,
                rdma::ib_poll_context_IB_POLL_WORKQUEUE,
            )
        })?;
        let mut init = rdma::ib_qp_init_attr {
            send_cq: cq,
            recv_cq: cq,
            sq_sig_type: rdma::ib_sig_type_IB_SIGNAL_ALL_WR,
            qp_type: rdma::ib_qp_type_IB_QPT_RC,
            ..pin_init::zeroed()
        };
        init.cap.max_send_wr = 2;
        init.cap.max_recv_wr = 1;
        init.cap.max_send_sge = 1;
        init.cap.max_recv_sge = 1;
        // SAFETY: PD and attributes are valid for the call.
        let qp = from_err_ptr(unsafe { rdma::ib_create_qp(pd.as_raw(), &mut init) })
            // SAFETY: The CQ is ours and nothing uses it.
            .inspect_err(|_| unsafe { rdma::ib_free_cq(cq) })?;

        // INVARIANT: Both were just made and have no other owner; nothing has been posted.
        let this = pin_init!(Self {
            qp,
            cq,
            port,
            pending <- pin_init!(Pending {
                cqe: Opaque::new(rdma::ib_cqe { done: Some(Self::done) }),
                status <- new_spinlock!(None, "LoopbackQp::status"),
                done <- new_condvar!("LoopbackQp::done"),
            }),
            busy <- new_mutex!((), "LoopbackQp::busy"),
            dev: dev.get(),
        });
        let this = KBox::pin_init(this, GFP_KERNEL_ACCOUNT).inspect_err(|_| {
            // SAFETY: The object was not made, so both are still ours alone.
            unsafe { rdma::ib_destroy_qp(qp) };
            // SAFETY: As above; its only user is gone.
            unsafe { rdma::ib_free_cq(cq) };
        })?;
        this.connect()?;
        Ok(this)
    }

    /// Binds a fast-registration MR to the pages that were mapped into it. May sleep.
    pub fn register(&self, key: &FastRegKey, access: super::Access) -> Result {
        let mut wr = rdma::ib_reg_wr {
            mr: key.as_raw(),
            key: key.rkey(),
            access: access.0 as i32,
            ..pin_init::zeroed()
        };
        wr.wr.opcode = rdma::ib_wr_opcode_IB_WR_REG_MR;
        self.execute(&mut wr.wr)
    }

    /// Invalidates the keys of a fast-registration MR: once this has returned the device begins
    /// no new access to it. May sleep.
    pub fn invalidate(&self, key: &FastRegKey) -> Result {
        let mut wr: rdma::ib_send_wr = pin_init::zeroed();
        wr.opcode = rdma::ib_wr_opcode_IB_WR_LOCAL_INV;
        wr.ex.invalidate_rkey = key.rkey();
        self.execute(&mut wr)
    }

    /// Posts one work request and waits for it. `EIO` where it failed; the queue pair is then
    /// made ready for the next one.
    fn execute(&self, wr: &mut rdma::ib_send_wr) -> Result {
        let _busy = self.busy.lock();

        wr.send_flags = rdma::ib_send_flags_IB_SEND_SIGNALED;
        wr.__bindgen_anon_1.wr_cqe = self.pending.cqe.get();
        *self.pending.status.lock() = None;
        let mut bad = ptr::null();
        // INVARIANT: `busy` is held until the completion is there.
        // SAFETY: The queue pair is ours; drivers copy the work request before they return.
        to_result(unsafe { rdma::ib_post_send(self.qp, wr, &mut bad) })?;

        let status = {
            let mut status = self.pending.status.lock();
            loop {
                match *status {
                    Some(status) => break status,
                    None => self.pending.done.wait(&mut status),
                }
            }
        };
        if status == rdma::ib_wc_status_IB_WC_SUCCESS {
            return Ok(());
        }
        pr_warn!(
            "{}: memory key work request: status {}\n",
            self.dev.name(),
            status
        );
        // A failed work request leaves the queue pair in the error state.
        self.connect()?;
        Err(EIO)
    }

    /// Completion handler; runs in ib_core's workqueue.
    ///
    /// # Safety
    ///
    /// `wc` must be a completion of a work request of a `LoopbackQp`.
    unsafe extern "C" fn done(_cq: *mut rdma::ib_cq, wc: *mut rdma::ib_wc) {
        // SAFETY: The completion is valid for this call and has the `wr_cqe` that was posted.
        let (cqe, status) = unsafe { ((*wc).__bindgen_anon_1.wr_cqe, (*wc).status) };
        // SAFETY: By the type invariants `wr_cqe` is `cqe` of a `Pending`, whose owner waits for
        // this call: it frees the CQ, which drains this workqueue, before it goes.
        let pending = unsafe { &*cqe.byte_sub(offset_of!(Pending, cqe)).cast::<Pending>() };
        *pending.status.lock() = Some(status);
        pending.done.notify_all();
    }

    /// Takes the queue pair from any state to ready-to-send, connected to itself.
    fn connect(&self) -> Result {
        let mut attr: KBox<rdma::ib_qp_attr> = KBox::new(pin_init::zeroed(), GFP_KERNEL)?;

        attr.qp_state = rdma::ib_qp_state_IB_QPS_RESET;
        self.modify(&mut attr, rdma::ib_qp_attr_mask_IB_QP_STATE)?;

        attr.qp_state = rdma::ib_qp_state_IB_QPS_INIT;
        attr.port_num = self.port;
        self.modify(
            &mut attr,
            rdma::ib_qp_attr_mask_IB_QP_STATE
                | rdma::ib_qp_attr_mask_IB_QP_PKEY_INDEX
                | rdma::ib_qp_attr_mask_IB_QP_PORT
                | rdma::ib_qp_attr_mask_IB_QP_ACCESS_FLAGS,
        )?;

        attr.qp_state = rdma::ib_qp_state_IB_QPS_RTR;
        attr.path_mtu = rdma::ib_mtu_IB_MTU_256;
        // SAFETY: The queue pair is ours; the number does not change.
        attr.dest_qp_num = unsafe { (*self.qp).qp_num };
        attr.max_dest_rd_atomic = 1;
        attr.min_rnr_timer = 12;
        self.address(&mut attr.ah_attr)?;
        self.modify(
            &mut attr,
            rdma::ib_qp_attr_mask_IB_QP_STATE
                | rdma::ib_qp_attr_mask_IB_QP_AV
                | rdma::ib_qp_attr_mask_IB_QP_PATH_MTU
                | rdma::ib_qp_attr_mask_IB_QP_DEST_QPN
                | rdma::ib_qp_attr_mask_IB_QP_RQ_PSN
                | rdma::ib_qp_attr_mask_IB_QP_MAX_DEST_RD_ATOMIC
                | rdma::ib_qp_attr_mask_IB_QP_MIN_RNR_TIMER,
        )?;

        attr.qp_state = rdma::ib_qp_state_IB_QPS_RTS;
        attr.timeout = 14;
        attr.retry_cnt = 7;
        attr.rnr_retry = 7;
        attr.max_rd_atomic = 1;
        self.modify(
            &mut attr,
            rdma::ib_qp_attr_mask_IB_QP_STATE
                | rdma::ib_qp_attr_mask_IB_QP_TIMEOUT
                | rdma::ib_qp_attr_mask_IB_QP_RETRY_CNT
                | rdma::ib_qp_attr_mask_IB_QP_RNR_RETRY
                | rdma::ib_qp_attr_mask_IB_QP_SQ_PSN
                | rdma::ib_qp_attr_mask_IB_QP_MAX_QP_RD_ATOMIC,
        )
    }

    /// Changes the attributes that `mask` names.
    fn modify(&self, attr: &mut rdma::ib_qp_attr, mask: rdma::ib_qp_attr_mask) -> Result {
        // SAFETY: The queue pair is ours and the attributes are valid.
        to_result(unsafe { rdma::ib_modify_qp(self.qp, attr, mask as i32) })
    }

    /// Fills in the port's own address: its LID, and the first GID there is.
    fn address(&self, ah: &mut rdma::rdma_ah_attr) -> Result {
        let dev = self.dev.as_raw();
        let mut port: KBox<rdma::ib_port_attr> = KBox::new(pin_init::zeroed(), GFP_KERNEL)?;
        // SAFETY: The device is registered and the port is one of its own.
        to_result(unsafe { rdma::ib_query_port(dev, self.port, &mut *port) })?;

        // SAFETY: As above.
        ah.type_ = unsafe { rdma::rdma_ah_find_type(dev, self.port) };
        // SAFETY: `ah` is valid.
        unsafe { rdma::rdma_ah_set_port_num(ah, self.port) };
        // SAFETY: `ah` is valid.
        unsafe { rdma::rdma_ah_set_dlid(ah, port.lid) };
        for index in 0..port.gid_tbl_len {
            let mut gid: rdma::ib_gid = pin_init::zeroed();
            // SAFETY: The device is registered; an empty or bad index is an error.
            if unsafe { rdma::rdma_query_gid(dev, self.port, index, &mut gid) } != 0 {
                continue;
            }
            // SAFETY: A GID is 16 bytes, however it is looked at.
            if unsafe { gid.raw } == [0; 16] {
                continue;
            }
            // SAFETY: `ah` and `gid` are valid.
            unsafe { rdma::rdma_ah_set_grh(ah, &mut gid, 0, index as u8, 1, 0) };
            return Ok(());
        }
        // An InfiniBand port has its LID; a RoCE port without a GID cannot address itself.
        // SAFETY: The device is registered and the port is one of its own.
        if unsafe { rdma::rdma_is_grh_required(dev, self.port) }
            || ah.type_ == rdma::rdma_ah_attr_type_RDMA_AH_ATTR_TYPE_ROCE
        {
            return Err(compat::enetunreach());
        }
        Ok(())
    }
}

#[pinned_drop]
impl PinnedDrop for LoopbackQp {
    fn drop(self: Pin<&mut Self>) {
        // SAFETY: By the type invariants the queue pair is ours, and nothing is on its way.
        unsafe { rdma::ib_destroy_qp(self.qp) };
        // SAFETY: By the type invariants the CQ is ours; its only user is gone.
        unsafe { rdma::ib_free_cq(self.cq) };
    }
}
