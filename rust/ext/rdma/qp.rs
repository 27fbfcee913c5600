// SPDX-License-Identifier: GPL-2.0

//! A kernel-owned queue pair that is connected to itself, for work requests on memory keys.
//!
//! The main type is [`LoopbackQp`]. Used to register and invalidate fast-registration MRs, one
//! queue pair for each PD.

use super::{
    fast_mr::FastRegKey,
    ib_device::Device,
    mr::{
        Access,
        Pd, //
    }, //
};
use crate::shared::{
    ext::base::compat,
    prelude::raw::*, //
};

/// Time in milliseconds that a device has for one work request.
const TIMEOUT: u32 = 10_000;

/// The owner of the CQs in the output of `rdma resource show`.
const OWNER: &CStr = c"ib_peer_mem";

/// A completion at a fixed address.
///
/// # Invariants
///
/// The C object is initialised.
struct Completed(KBox<Opaque<bindings::completion>>);

impl Completed {
    /// Creates a completion that is not complete. Context: may sleep.
    fn new() -> Result<Self> {
        let completed = KBox::new(Opaque::uninit(), GFP_KERNEL_ACCOUNT)?;
        // SAFETY: The object is valid for writes, and stays in the box.
        unsafe { bindings::init_completion(completed.get()) };
        // INVARIANT: Just initialised.
        Ok(Self(completed))
    }

    fn as_raw(&self) -> *mut bindings::completion {
        self.0.get()
    }
}

/// A reliable-connected queue pair whose peer is itself.
///
/// The queue pair counts as a user of the PD. The queue pair executes one work request at a time,
/// and each call waits for the completion.
///
/// # Invariants
///
/// - `qp` and `cq` are valid and owned by this object. `qp` uses `cq`, and the context of `cq` is
///   `completed`.
/// - At most one work request is outstanding. If there is one, the task that posted the request
///   holds `overdue`, or `overdue` is true.
#[pin_data(PinnedDrop)]
pub struct LoopbackQp {
    qp: *mut rdma::ib_qp,
    cq: *mut rdma::ib_cq,
    port: u32,
    /// Completed when there may be an entry in `cq`. Dropped after the CQ is destroyed.
    completed: Completed,
    /// Serialises work requests. Held while waiting for a completion. True after the device has exceeded
    /// [`TIMEOUT`]: a work request may be outstanding for which no task waits.
    #[pin]
    overdue: Mutex<bool>,
    dev: ARef<Device>,
}

// SAFETY: QPs and CQs are not bound to a task.
unsafe impl Send for LoopbackQp {}
// SAFETY: `overdue` serialises the use of the QP and the CQ, and any task may complete `completed`.
unsafe impl Sync for LoopbackQp {}

impl LoopbackQp {
    /// Creates a queue pair on `pd` and connects it.
    ///
    /// Returns `EOPNOTSUPP` if the first port of the device is neither InfiniBand nor RoCE, and
    /// `ENETUNREACH` if the port has no address. Context: may sleep.
    pub fn new(pd: &Pd) -> Result<Pin<KBox<Self>>> {
        let dev = pd.device();
        let port = dev.ib_port().ok_or_else(compat::eopnotsupp)?;
        let entries = rdma::ib_cq_init_attr {
            cqe: 4,
            ..pin_init::zeroed()
        };
        // The waiting task polls the CQ. With ib_alloc_cq() a work queue would poll, so each work
        // request would wake one task more. No step may fail between the creation of the QP and the
        // creation of the object, because the object destroys the QP.
        let memory = KBox::<Self>::new_uninit(GFP_KERNEL_ACCOUNT)?;
        let completed = Completed::new()?;
        // SAFETY: The device of a PD that is in use is registered. The context is a completion, as
        // `completion` requires from here on. The context outlives the CQ: this function or the
        // object destroys the CQ first.
        let cq = from_err_ptr(unsafe {
            rdma::__ib_create_cq(
                dev.as_raw(),
                Some(Self::completion),
                None,
                completed.as_raw().cast(),
                &entries,
                OWNER.as_char_ptr(),
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
        // SAFETY: The PD and the attributes are valid during the call.
        let qp = from_err_ptr(unsafe { rdma::ib_create_qp(pd.as_raw(), &mut init) })
            // SAFETY: This function owns the CQ, and no QP uses the CQ.
            .inspect_err(|_| unsafe { rdma::ib_destroy_cq(cq) })?;

        // INVARIANT: The calls above created both objects for this function, and no work request
        // has been posted.
        let this = pin_init!(Self {
            qp,
            cq,
            port,
            completed,
            overdue <- new_mutex!(false, "LoopbackQp::overdue"),
            dev: dev.get(),
        });
        let Ok(this) = memory.write_pin_init(this);
        this.connect()?;
        Ok(this)
    }

    /// Registers a fast-registration MR with the page list that was set with
    /// [`FastMr::map`](super::FastMr::map). Context: may sleep.
    pub fn register(&self, key: &FastRegKey, access: Access) -> Result {
        let mut wr = rdma::ib_reg_wr {
            mr: key.as_raw(),
            key: key.rkey(),
            // CAST: The C field is an `int` that holds flags.
            access: access.0 as i32,
            ..pin_init::zeroed()
        };
        wr.wr.opcode = rdma::ib_wr_opcode_IB_WR_REG_MR;
        self.execute(&mut wr.wr)
    }

    /// Invalidates the keys of a fast-registration MR. On return the device begins no new access.
    /// Context: may sleep.
    pub fn invalidate(&self, key: &FastRegKey) -> Result {
        let mut wr: rdma::ib_send_wr = pin_init::zeroed();
        wr.opcode = rdma::ib_wr_opcode_IB_WR_LOCAL_INV;
        wr.ex.invalidate_rkey = key.rkey();
        self.execute(&mut wr)
    }

    /// Posts one work request and waits for the completion.
    ///
    /// Returns `EIO` if the work request fails; the queue pair is then connected again, for the
    /// next work request. Returns `ETIMEDOUT` if the device does not complete the work request in
    /// [`TIMEOUT`], and immediately while an earlier work request is not completed.
    fn execute(&self, wr: &mut rdma::ib_send_wr) -> Result {
        let mut overdue = self.overdue.lock();
        if *overdue {
            self.poll()?.ok_or(ETIMEDOUT)?;
            *overdue = false;
            self.connect()?;
        }

        wr.send_flags = rdma::ib_send_flags_IB_SEND_SIGNALED;
        let next = rdma::ib_cq_notify_flags_IB_CQ_NEXT_COMP;
        // SAFETY: By the type invariants the CQ and the context of the CQ are valid.
        to_result(unsafe { rdma::ib_req_notify_cq(self.cq, next) })?;
        let mut bad = ptr::null();
        // INVARIANT: This task holds `overdue` until the completion has arrived, or sets it below.
        // SAFETY: By the type invariants the QP is valid. The driver copies the work request before
        // the call returns.
        to_result(unsafe { rdma::ib_post_send(self.qp, wr, &mut bad) })?;

        let status = self.wait().inspect_err(|_| *overdue = true)?;
        if status == rdma::ib_wc_status_IB_WC_SUCCESS {
            return Ok(());
        }
        crate::pr_warn_limited!(
            "{}: a work request on a memory key failed (completion status {}); resetting the \
             queue pair\n",
            self.dev.name(),
            status
        );
        // A failed work request leaves the queue pair in the error state.
        self.connect()?;
        Err(EIO)
    }

    /// Waits for the completion of the outstanding work request and returns the status.
    fn wait(&self) -> Result<rdma::ib_wc_status> {
        loop {
            let completed = self.completed.as_raw();
            // SAFETY: `new` initialised the completion, and this object is valid during the call.
            let in_time = unsafe { helpers::ext_wait_for_completion_timeout(completed, TIMEOUT) };
            if let Some(status) = self.poll()? {
                return Ok(status);
            }
            // Otherwise the completion call was for an earlier work request that had exceeded the
            // time.
            if !in_time {
                pr_err!(
                    "{}: no completion of a memory key work request in {} ms; reset the device\n",
                    self.dev.name(),
                    TIMEOUT
                );
                return Err(ETIMEDOUT);
            }
        }
    }

    /// Returns the status of the completed work request, or `None` if the work request is still
    /// outstanding. The caller holds `overdue`.
    fn poll(&self) -> Result<Option<rdma::ib_wc_status>> {
        let mut wc: rdma::ib_wc = pin_init::zeroed();
        // SAFETY: By the type invariants the CQ is valid. Only this task polls the CQ, and `wc` is
        // valid for a write.
        match unsafe { rdma::ib_poll_cq(self.cq, 1, &mut wc) } {
            0 => Ok(None),
            n if n > 0 => Ok(Some(wc.status)),
            e => Err(Error::from_errno(e)),
        }
    }

    /// Completion handler of the CQ. The driver calls the handler in any context.
    ///
    /// # Safety
    ///
    /// `completed` must be the context of the CQ of a [`LoopbackQp`].
    unsafe extern "C" fn completion(_cq: *mut rdma::ib_cq, completed: *mut c_void) {
        // SAFETY: By the safety requirements and the type invariants `completed` is an initialised
        // completion. The owner destroys the CQ before freeing the completion, and the destruction
        // of the CQ waits for this call.
        unsafe { bindings::complete(completed.cast()) };
    }

    /// Moves the queue pair from any state to ready-to-send, connected to itself.
    ///
    /// On RoCE the destination MAC address stays 0: no packet is sent, so drivers do not need the
    /// address.
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
        // SAFETY: By the type invariants the QP is valid; the number of a QP does not change.
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

    fn modify(&self, attr: &mut rdma::ib_qp_attr, mask: rdma::ib_qp_attr_mask) -> Result {
        // SAFETY: By the type invariants the QP is valid. The attributes are a valid reference.
        // CAST: The C argument is an `int` that holds flags.
        to_result(unsafe { rdma::ib_modify_qp(self.qp, attr, mask as i32) })
    }

    /// Sets `ah` to the address of the port itself: the LID, and the first GID that is not zero.
    fn address(&self, ah: &mut rdma::rdma_ah_attr) -> Result {
        let dev = self.dev.as_raw();
        let mut port: KBox<rdma::ib_port_attr> = KBox::new(pin_init::zeroed(), GFP_KERNEL)?;
        // SAFETY: `self.dev` holds the device, and the device has the port.
        to_result(unsafe { rdma::ib_query_port(dev, self.port, &mut *port) })?;

        // SAFETY: `self.dev` holds the device, and the device has the port.
        ah.type_ = unsafe { rdma::rdma_ah_find_type(dev, self.port) };
        // SAFETY: `ah` is a valid exclusive reference.
        unsafe { rdma::rdma_ah_set_port_num(ah, self.port) };
        // SAFETY: `ah` is a valid exclusive reference.
        unsafe { rdma::rdma_ah_set_dlid(ah, port.lid) };
        for index in 0..port.gid_tbl_len {
            let mut gid: rdma::ib_gid = pin_init::zeroed();
            // SAFETY: `self.dev` holds the device. The function fails for an empty or invalid
            // index.
            if unsafe { rdma::rdma_query_gid(dev, self.port, index, &mut gid) } != 0 {
                continue;
            }
            // SAFETY: All views of the union are 16 bytes for which any value is valid.
            if unsafe { gid.raw } == [0; 16] {
                continue;
            }
            // SAFETY: `ah` and `gid` are valid exclusive references.
            // CAST: An address handle has 8 bits for the index.
            unsafe { rdma::rdma_ah_set_grh(ah, &mut gid, 0, index as u8, 1, 0) };
            return Ok(());
        }
        // An InfiniBand port has a LID. A RoCE port without a GID has no address.
        // SAFETY: `self.dev` holds the device, and the device has the port.
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
        // SAFETY: By the type invariants this object owns the QP, and no task is in `execute`. A
        // work request may be outstanding if the device has exceeded the time. The driver has
        // copied the work request and ends the work request with the QP. The completion is an entry
        // of the CQ, and no task reads the CQ any more.
        unsafe { rdma::ib_destroy_qp(self.qp) };
        // SAFETY: By the type invariants this object owns the CQ, and the only QP of the CQ is
        // destroyed.
        unsafe { rdma::ib_destroy_cq(self.cq) };
    }
}
