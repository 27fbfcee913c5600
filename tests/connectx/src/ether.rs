// SPDX-License-Identifier: GPL-2.0

//! Ethernet queues, for the network device that a RoCE port comes with. What is sent completes,
//! and goes nowhere: no wire is attached.

use crate::bits::be32;
use crate::buffer::Buffer;
use crate::command::{user, Refusal, Reply, BAD_PARAM, BAD_RES};
use crate::cq::{opcode, Cqe};
use crate::function::Function;
use crate::ifc::{
    create_rq_in, create_sq_in, destroy_sq_in, modify_rq_in, modify_sq_in, op, query_rq_out,
    query_sq_out, rqc, sqc, wq,
};

const READY: u32 = 1;
const BLOCK: u64 = 64;

/// A send queue.
pub struct Sq {
    buffer: Buffer,
    log_size: u32,
    dbr: u64,
    /// The CQ of the completions.
    pub cq: u32,
    user_index: u32,
    state: u32,
    next: u16,
    /// The user context that owns the object.
    pub uid: u32,
    /// The umems that have the memory.
    pub umems: Vec<u32>,
    context: Vec<u8>,
}

/// A receive queue, to which nothing comes.
pub struct Rq {
    /// The CQ of the completions.
    pub cq: u32,
    state: u32,
    /// The user context that owns the object.
    pub uid: u32,
    context: Vec<u8>,
}

impl Function {
    /// CREATE_SQ, CREATE_RQ.
    pub fn create_ethernet_queue(
        &mut self,
        opcode: u16,
        input: &[u8],
        out: &mut Reply,
    ) -> Result<(), Refusal> {
        let number = self.queue_number();
        let uid = user(input);
        let cq = if opcode == op::CREATE_SQ {
            let context = create_sq_in::ctx.slice(input);
            let queue = sqc::wq.rest(context);
            let list = sqc::wq.rest(create_sq_in::ctx.rest(input)).get(wq::BYTES..);
            let memory = self.work_queue_memory(queue, list.unwrap_or_default(), uid)?;
            let sq = Sq {
                buffer: memory.buffer,
                log_size: wq::log_wq_sz.get32(queue),
                dbr: memory.dbr,
                cq: sqc::cqn.get32(context),
                user_index: sqc::user_index.get32(context),
                state: 0,
                next: 0,
                uid,
                umems: memory.umems,
                context: context.to_vec(),
            };
            if !sq.buffer.holds(BLOCK << sq.log_size) {
                return Err(Refusal::new(
                    BAD_PARAM,
                    "the pages are too few for the send queue",
                ));
            }
            let cq = sq.cq;
            self.hca.sqs.insert(number, sq);
            cq
        } else {
            let context = create_rq_in::ctx.slice(input);
            let rq = Rq {
                cq: rqc::cqn.get32(context),
                state: 0,
                uid,
                context: context.to_vec(),
            };
            let cq = rq.cq;
            self.hca.rqs.insert(number, rq);
            cq
        };
        if let Err(refusal) = self.cq(cq, uid) {
            self.hca.sqs.remove(&number);
            self.hca.rqs.remove(&number);
            return Err(refusal);
        }
        out.put(8, &number.to_be_bytes());
        Ok(())
    }

    /// MODIFY_SQ, MODIFY_RQ.
    pub fn modify_ethernet_queue(&mut self, opcode: u16, input: &[u8]) -> Result<(), Refusal> {
        let number = modify_sq_in::sqn.get32(input);
        let missing = Refusal::new(BAD_RES, format!("no queue {number:#x}"));
        if opcode == op::MODIFY_SQ {
            let sq = self.hca.sqs.get_mut(&number).ok_or(missing)?;
            Refusal::unless_owner(sq.uid, user(input))?;
            sq.state = sqc::state.get32(modify_sq_in::ctx.rest(input));
            sqc::state.set(&mut sq.context, u64::from(sq.state));
            if sq.state != READY {
                sq.next = 0;
            }
        } else {
            let rq = self.hca.rqs.get_mut(&number).ok_or(missing)?;
            Refusal::unless_owner(rq.uid, user(input))?;
            rq.state = rqc::state.get32(modify_rq_in::ctx.rest(input));
            rqc::state.set(&mut rq.context, u64::from(rq.state));
        }
        Ok(())
    }

    /// DESTROY_SQ, DESTROY_RQ. The numbers are at the same place.
    pub fn destroy_ethernet_queue(&mut self, opcode: u16, input: &[u8]) -> Result<(), Refusal> {
        let number = destroy_sq_in::sqn.get32(input);
        let owner = match opcode {
            op::DESTROY_SQ => self.hca.sqs.get(&number).map(|sq| sq.uid),
            _ => self.hca.rqs.get(&number).map(|rq| rq.uid),
        };
        let owner = owner.ok_or(Refusal::new(BAD_RES, format!("no queue {number:#x}")))?;
        Refusal::unless_owner(owner, user(input))?;
        self.hca.sqs.remove(&number);
        self.hca.rqs.remove(&number);
        Ok(())
    }

    /// QUERY_SQ, QUERY_RQ.
    pub fn query_ethernet_queue(
        &mut self,
        opcode: u16,
        input: &[u8],
        out: &mut Reply,
    ) -> Result<(), Refusal> {
        let number = destroy_sq_in::sqn.get32(input);
        let missing = Refusal::new(BAD_RES, format!("no queue {number:#x}"));
        if opcode == op::QUERY_SQ {
            let sq = self.hca.sqs.get(&number).ok_or(missing)?;
            out.put(query_sq_out::sq_context.byte(), &sq.context);
        } else {
            let rq = self.hca.rqs.get(&number).ok_or(missing)?;
            out.put(query_rq_out::rq_context.byte(), &rq.context);
        }
        Ok(())
    }

    /// Completes what is posted to a send queue.
    pub fn run_ethernet(&mut self, number: u32) {
        while let Some(sq) = self.hca.sqs.get(&number) {
            let (index, cq) = (sq.next, sq.cq);
            if sq.state != READY || self.producers(sq.dbr).1 == index {
                return;
            }
            let slot = u64::from(index) & ((1 << sq.log_size) - 1);
            let mut head = [0; 16];
            if let Err(bad) = sq.buffer.read(&self.dma, slot * BLOCK, &mut head) {
                return self.unmapped(&format!("send queue {number:#x}"), bad.0);
            }
            let units = be32(&head, 4) & 0x3f;
            let cqe = Cqe {
                opcode: opcode::REQUEST,
                qpn: number,
                wqe_counter: index,
                wqe_opcode: head[3],
                user_index: sq.user_index,
                ..Cqe::default()
            };
            if let Some(sq) = self.hca.sqs.get_mut(&number) {
                sq.next = index.wrapping_add(units.div_ceil(4).max(1) as u16);
            }
            if head[11] & 0x08 != 0 {
                self.complete(cq, &cqe);
            }
        }
    }
}
