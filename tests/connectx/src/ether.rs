// SPDX-License-Identifier: GPL-2.0

//! Ethernet queues, for the network device that a RoCE port comes with. What is sent completes,
//! and goes nowhere: no wire is attached. Nothing comes to a receive queue. The fields of both are at
//! the same places.

use crate::prelude::*;

const READY: u32 = 1;
const BLOCK: u64 = 64;

/// A send queue, or a receive queue without its memory.
#[derive(Default)]
pub struct Queue {
    memory: QueueMemory,
    log_size: u32,
    next: u16,
    context: Vec<u8>,
}

impl Queue {
    fn cq(&self) -> u32 {
        sqc::cqn.get32(&self.context)
    }
}

impl Function {
    pub fn create_ethernet_queue(&mut self, kind: Kind, input: &[u8]) -> Result<u32, Refusal> {
        let context = create_sq_in::ctx.slice(input);
        let mut queue = Queue {
            context: context.to_vec(),
            ..Queue::default()
        };
        let mut uses = vec![(Kind::Cq, queue.cq())];
        if kind == Kind::Sq {
            let wq = create_sq_in::ctx.with(sqc::wq).rest(input);
            let (memory, umems) = self.work_queue_memory(wq)?;
            (queue.memory, queue.log_size) = (memory, wq::log_wq_sz.get32(wq));
            uses.extend(umems);
        }
        let number = self.hca.objects.create(kind, user(input), uses)?;
        self.hca.ethernet.insert(number, queue);
        Ok(number)
    }

    fn ethernet_queue(&mut self, number: u32) -> Result<&mut Queue, Refusal> {
        let queue = self.hca.ethernet.get_mut(&number);
        queue.ok_or_else(|| Refusal::missing(Kind::Sq, number))
    }

    pub fn modify_ethernet_queue(&mut self, input: &[u8]) -> Answer {
        let queue = self.ethernet_queue(modify_sq_in::sqn.get32(input))?;
        let state = sqc::state.get32(modify_sq_in::ctx.rest(input));
        sqc::state.set(&mut queue.context, state.into());
        if state != READY {
            queue.next = 0;
        }
        Ok(())
    }

    pub fn query_ethernet_queue(&mut self, input: &[u8], out: &mut [u8]) -> Answer {
        let queue = self.ethernet_queue(query_sq_in::sqn.get32(input))?;
        put(out, query_sq_out::sq_context.byte(), &queue.context);
        Ok(())
    }

    pub fn run_ethernet(&mut self, number: u32) {
        while let Some(queue) = self.hca.ethernet.get(&number) {
            let (index, cq) = (queue.next, queue.cq());
            let ready = sqc::state.get32(&queue.context) == READY;
            if !ready || self.record(queue.memory.dbr).1 as u16 == index {
                return;
            }
            let slot = u64::from(index) & ((1 << queue.log_size) - 1);
            let mut head = [0; 16];
            if let Err(bad) = queue.memory.buffer.read(&self.dma, slot * BLOCK, &mut head) {
                return self.unmapped(&format!("send queue {number:#x}"), bad.0);
            }
            let units = be32(&head, 4) & 0x3f;
            let cqe = Cqe {
                opcode: completion::REQUEST,
                qpn: number,
                wqe_counter: index,
                wqe_opcode: head[3],
                user_index: sqc::user_index.get32(&queue.context),
                ..Cqe::default()
            };
            if let Some(queue) = self.hca.ethernet.get_mut(&number) {
                queue.next = index.wrapping_add(units.div_ceil(4).max(1) as u16);
            }
            if head[11] & 0x08 != 0 {
                self.complete(cq, &cqe);
            }
        }
    }
}
