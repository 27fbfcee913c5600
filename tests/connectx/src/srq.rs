// SPDX-License-Identifier: GPL-2.0

//! Shared receive queues: RMPs. The entries of a queue are a list, each with the index of the next one,
//! or the entries of a cyclic RMP follow each other.

use crate::bits::be16;
use crate::command::{user, Refusal, Reply, BAD_PARAM};
use crate::function::Function;
use crate::ifc::{create_rmp_in, destroy_rmp_in, query_rmp_out, rmpc, wq};
use crate::objects::Kind;
use crate::umem::QueueMemory;

/// The types of the work queue of an RMP.
const LIST: u64 = 0;
const CYCLIC: u64 = 1;

pub struct Srq {
    pub memory: QueueMemory,
    pub log_size: u32,
    pub stride: u64,
    /// The index of the next entry.
    pub head: u16,
    /// How many were taken.
    pub taken: u16,
    cyclic: bool,
    pub pd: u32,
    pub uid: u32,
    context: Vec<u8>,
}

impl Srq {
    /// Returns the index of the entry after `entry`, the one at the head.
    pub fn after(&self, entry: &[u8]) -> u16 {
        if self.cyclic {
            self.head.wrapping_add(1)
        } else {
            be16(entry, 2)
        }
    }
}

impl Function {
    pub fn create_rmp(&mut self, input: &[u8], out: &mut Reply) -> Result<(), Refusal> {
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
        let srq = Srq {
            memory,
            log_size,
            stride,
            head: 0,
            taken: 0,
            cyclic: kind == CYCLIC,
            pd: wq::pd.get32(queue),
            uid: user(input),
            context: context.to_vec(),
        };
        self.hca.objects.usable(Kind::Pd, srq.pd)?;
        let number = self.queue_number();
        self.hca.srqs.insert(number, srq);
        out.put(8, &number.to_be_bytes());
        Ok(())
    }

    pub fn destroy_rmp(&mut self, input: &[u8]) -> Result<(), Refusal> {
        let number = destroy_rmp_in::rmpn.get32(input);
        self.srq(number)?;
        if self.hca.qps.values().any(|qp| qp.srq == Some(number)) {
            return Err(Refusal::busy(format!("SRQ {number:#x} has queue pairs")));
        }
        self.hca.srqs.remove(&number);
        Ok(())
    }

    pub fn query_rmp(&mut self, input: &[u8], out: &mut Reply) -> Result<(), Refusal> {
        let srq = self.srq(destroy_rmp_in::rmpn.get32(input))?;
        out.put(query_rmp_out::rmp_context.byte(), &srq.context);
        Ok(())
    }

    pub(crate) fn srq(&self, number: u32) -> Result<&Srq, Refusal> {
        let srq = self.hca.srqs.get(&number);
        srq.ok_or_else(|| Refusal::missing("SRQ", number))
    }
}
