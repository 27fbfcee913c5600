// SPDX-License-Identifier: GPL-2.0

//! Shared receive queues: RMPs, and those of XRC. The entries of a queue are a list, each with the
//! index of the next one, or the entries of a cyclic RMP follow each other.

use crate::bits::be16;
use crate::buffer::Buffer;
use crate::command::{user, Refusal, Reply, BAD_PARAM};
use crate::function::Function;
use crate::ifc::{
    arm_xrc_srq_in, create_rmp_in, create_xrc_srq_in, destroy_rmp_in, modify_rmp_in, op,
    query_rmp_out, query_xrc_srq_out, rmpc, wq, xrc_srqc,
};
use crate::objects::Kind;
use crate::trace;
use crate::umem::{QueueMemory, Record, Ring};

/// The types of the work queue of an RMP.
const LIST: u64 = 0;
const CYCLIC: u64 = 1;

/// One shared receive queue.
#[derive(Default)]
pub struct Srq {
    pub buffer: Buffer,
    pub log_size: u32,
    pub stride: u64,
    /// The index of the next entry.
    pub head: u16,
    /// How many were taken.
    pub taken: u16,
    pub dbr: u64,
    /// An event is due when fewer than this are left; 0 for none.
    pub limit: u16,
    pub user_index: u32,
    cyclic: bool,
    pd: u32,
    /// The CQ of the completions.
    pub cq: u32,
    /// The user context that owns the object.
    pub uid: u32,
    /// The umems that have the memory.
    pub umems: Vec<u32>,
    xrc: bool,
    context: Vec<u8>,
}

impl Srq {
    fn new(memory: QueueMemory, uid: u32, context: &[u8]) -> Self {
        Self {
            buffer: memory.buffer,
            dbr: memory.dbr,
            umems: memory.umems,
            uid,
            context: context.to_vec(),
            ..Self::default()
        }
    }

    /// Returns the protection domain.
    pub fn pd(&self) -> u32 {
        self.pd
    }

    /// Returns the index of the entry after `entry`, the one at the head.
    pub fn after(&self, entry: &[u8]) -> u16 {
        if self.cyclic {
            self.head.wrapping_add(1)
        } else {
            be16(entry, 2)
        }
    }

    /// Returns whether it is for XRC.
    pub fn is_xrc(&self) -> bool {
        self.xrc
    }
}

impl Function {
    /// CREATE_RMP, CREATE_XRC_SRQ.
    pub fn create_srq(
        &mut self,
        opcode: u16,
        input: &[u8],
        out: &mut Reply,
    ) -> Result<(), Refusal> {
        let uid = user(input);
        let srq = if opcode == op::CREATE_RMP {
            let context = create_rmp_in::ctx.slice(input);
            let queue = rmpc::wq.rest(context);
            let kind = wq::wq_type.get(queue);
            if !matches!(kind, LIST | CYCLIC) {
                let why = format!("a work queue of type {kind} is not announced");
                return Err(Refusal::new(BAD_PARAM, why));
            }
            let list = rmpc::wq.rest(create_rmp_in::ctx.rest(input));
            let list = list.get(wq::BYTES..).unwrap_or_default();
            let log_size = wq::log_wq_sz.get32(queue);
            let stride = 1 << wq::log_wq_stride.get32(queue);
            let memory = self.work_queue_memory(queue, list, stride << log_size)?;
            Srq {
                log_size,
                stride,
                limit: wq::lwm.get(queue) as u16,
                cyclic: kind == CYCLIC,
                pd: wq::pd.get32(queue),
                ..Srq::new(memory, uid, context)
            }
        } else {
            let context = create_xrc_srq_in::xrc_srq_context_entry.slice(input);
            if create_xrc_srq_in::xrc_srq_umem_valid.is_set(input)
                || xrc_srqc::dbr_umem_valid.is_set(context)
            {
                let why = "an XRC SRQ on a umem is not announced";
                return Err(Refusal::new(BAD_PARAM, why));
            }
            let ring = Ring::pages(
                create_xrc_srq_in::pas.rest(input),
                xrc_srqc::log_page_size.get32(context) + 12,
                xrc_srqc::page_offset.get(context),
            );
            let record = Record::Address(
                xrc_srqc::db_record_addr_h.get(context) << 32
                    | xrc_srqc::db_record_addr_l.get(context) << 2,
            );
            let log_size = xrc_srqc::log_xrc_srq_size.get32(context);
            let stride = 16 << xrc_srqc::log_rq_stride.get32(context);
            let memory = self.queue_memory(ring, record, stride << log_size)?;
            Srq {
                log_size,
                stride,
                limit: xrc_srqc::lwm.get(context) as u16,
                user_index: xrc_srqc::user_index.get32(context),
                pd: xrc_srqc::pd.get32(context),
                cq: xrc_srqc::cqn.get32(context),
                xrc: true,
                ..Srq::new(memory, uid, context)
            }
        };
        self.hca.objects.usable(Kind::Pd, srq.pd)?;
        if srq.cq != 0 {
            self.cq(srq.cq)?;
        }
        let number = self.queue_number();
        trace!(2, self, "SRQ {number:#x}: {} entries", 1 << srq.log_size);
        self.hca.srqs.insert(number, srq);
        out.put(8, &number.to_be_bytes());
        Ok(())
    }

    /// DESTROY_RMP, DESTROY_XRC_SRQ. The numbers are at the same place.
    pub fn destroy_srq(&mut self, input: &[u8]) -> Result<(), Refusal> {
        let number = destroy_rmp_in::rmpn.get32(input);
        let srq = self.srq(number)?;
        if self.hca.qps.values().any(|qp| qp.srq == Some(number)) && !srq.xrc {
            return Err(Refusal::busy(format!("SRQ {number:#x} has queue pairs")));
        }
        self.hca.srqs.remove(&number);
        Ok(())
    }

    /// QUERY_RMP, QUERY_XRC_SRQ.
    pub fn query_srq(&mut self, opcode: u16, input: &[u8], out: &mut Reply) -> Result<(), Refusal> {
        let srq = self.srq(destroy_rmp_in::rmpn.get32(input))?;
        let mut context = srq.context.clone();
        let limit = u64::from(srq.limit);
        if opcode == op::QUERY_RMP {
            wq::lwm.set(rmpc::wq.rest_mut(&mut context), limit);
            out.put(query_rmp_out::rmp_context.byte(), &context);
        } else {
            xrc_srqc::lwm.set(&mut context, limit);
            out.put(query_xrc_srq_out::xrc_srq_context_entry.byte(), &context);
        }
        Ok(())
    }

    /// MODIFY_RMP, ARM_XRC_SRQ: the limit below which an event is due.
    pub fn arm_srq(&mut self, opcode: u16, input: &[u8]) -> Result<(), Refusal> {
        let (number, limit) = if opcode == op::MODIFY_RMP {
            let queue = rmpc::wq.rest(modify_rmp_in::ctx.rest(input));
            (modify_rmp_in::rmpn.get32(input), wq::lwm.get(queue))
        } else {
            (
                arm_xrc_srq_in::xrc_srqn.get32(input),
                arm_xrc_srq_in::lwm.get(input),
            )
        };
        self.srq(number)?;
        if let Some(srq) = self.hca.srqs.get_mut(&number) {
            srq.limit = limit as u16;
        }
        self.srq_limit(number);
        Ok(())
    }

    /// Posts the event of a limit that was reached.
    pub fn srq_limit(&mut self, number: u32) {
        let Some(srq) = self.hca.srqs.get(&number) else {
            return;
        };
        let (dbr, taken, limit) = (srq.dbr, srq.taken, srq.limit);
        let left = self.producers(dbr).0.wrapping_sub(taken);
        if limit == 0 || left >= limit {
            return;
        }
        if let Some(srq) = self.hca.srqs.get_mut(&number) {
            srq.limit = 0;
        }
        self.post_queue_event(crate::eq::event::SRQ_LIMIT, 0, number);
    }

    /// Returns a shared receive queue .
    pub(crate) fn srq(&self, number: u32) -> Result<&Srq, Refusal> {
        let srq = self.hca.srqs.get(&number);
        srq.ok_or_else(|| Refusal::missing("SRQ", number))
    }
}
