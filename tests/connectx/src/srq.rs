// SPDX-License-Identifier: GPL-2.0

//! Shared receive queues: RMPs. The entries of a queue are a list, each with the index of the next one,
//! or the entries of a cyclic RMP follow each other.

use crate::prelude::*;
use crate::qp::Ring;

const LIST: u64 = 0;
const CYCLIC: u64 = 1;

pub struct Srq {
    /// The next entry is the head of the list.
    pub ring: Ring,
    pub dbr: u64,
    /// How many were taken.
    pub taken: u16,
    cyclic: bool,
    pub pd: u32,
    context: Vec<u8>,
}

impl Srq {
    /// Returns the index of the entry after `entry`, the one at the head.
    pub fn after(&self, entry: &[u8]) -> u16 {
        if self.cyclic {
            self.ring.next.wrapping_add(1)
        } else {
            be16(entry, 2)
        }
    }
}

impl Function {
    pub fn create_rmp(&mut self, input: &[u8]) -> Result<u32, Refusal> {
        let context = create_rmp_in::ctx.slice(input);
        let queue = create_rmp_in::ctx.with(rmpc::wq).rest(input);
        let kind = wq::wq_type.get(queue);
        if !matches!(kind, LIST | CYCLIC) {
            fail!(BAD_PARAM, "a work queue of type {kind} is not announced");
        }
        let (memory, mut uses) = self.work_queue_memory(queue)?;
        let srq = Srq {
            ring: Ring {
                buffer: memory.buffer,
                log_size: wq::log_wq_sz.get32(queue),
                stride: 1 << wq::log_wq_stride.get(queue),
                next: 0,
            },
            dbr: memory.dbr,
            taken: 0,
            cyclic: kind == CYCLIC,
            pd: wq::pd.get32(queue),
            context: context.to_vec(),
        };
        uses.push((Kind::Pd, srq.pd));
        let number = self.hca.objects.create(Kind::Srq, user(input), uses)?;
        self.hca.srqs.insert(number, srq);
        Ok(number)
    }

    pub fn query_rmp(&mut self, input: &[u8], out: &mut [u8]) -> Answer {
        let number = query_rmp_in::rmpn.get32(input);
        let srq = find(&self.hca.srqs, Kind::Srq, number)?;
        put(out, query_rmp_out::rmp_context.byte(), &srq.context);
        Ok(())
    }
}
