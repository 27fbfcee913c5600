// SPDX-License-Identifier: GPL-2.0

//! Receive work requests: of a queue pair's own queue, or of a shared one.

use crate::objects::INVALID_LKEY;
use crate::prelude::*;

/// Flushed, as the queue pair is in error.
pub const FLUSHED: u8 = 0x05;
const SEGMENT: usize = 16;

pub struct Receive {
    pub index: u16,
    pub cq: u32,
    pub user_index: u32,
    srq: Option<u32>,
    /// The entry after this one.
    next: u16,
    segments: Vec<u8>,
    requester: Requester,
}

impl Function {
    pub fn next_receive(&self, qp: &Qp) -> Option<Receive> {
        let srq = qp.srq.map(|number| self.hca.srqs.get(&number));
        let (ring, dbr, taken) = match srq {
            Some(srq) => srq.map(|srq| (&srq.ring, srq.dbr, srq.taken))?,
            None => qp.receive.as_ref().map(|ring| (ring, qp.dbr, ring.next))?,
        };
        if self.record(dbr).0 as u16 == taken {
            return None;
        }
        let slot = u64::from(ring.next) & ((1 << ring.log_size) - 1);
        let mut segments = vec![0; ring.stride as usize];
        let at = slot * ring.stride;
        if let Err(bad) = ring.buffer.read(&self.dma, at, &mut segments) {
            self.unmapped(&format!("receive queue of QP {:#x}", qp.number), bad.0);
            return None;
        }
        let mut receive = Receive {
            index: ring.next,
            cq: qp.get(qpc::cqn_rcv),
            user_index: qp.get(qpc::user_index),
            srq: qp.srq,
            next: ring.next.wrapping_add(1),
            segments,
            requester: qp.requester(),
        };
        if let Some(srq) = srq.flatten() {
            receive.index = slot as u16;
            receive.next = srq.after(&receive.segments);
            receive
                .segments
                .drain(..SEGMENT.min(receive.segments.len()));
            receive.requester.pd = Some(srq.pd);
        }
        Some(receive)
    }

    pub fn receive_memory(&self, receive: &Receive, wanted: usize) -> Result<Spans, AccessError> {
        let mut spans = Spans::new();
        for segment in receive.segments.chunks_exact(SEGMENT) {
            if total(&spans) >= wanted || be32(segment, 4) == INVALID_LKEY {
                break;
            }
            let request = pointed(segment, Access::LocalWrite, receive.requester);
            spans.extend(self.translate(&request)?);
        }
        Ok(spans)
    }

    fn take_receive(&mut self, qpn: u32, receive: &Receive) {
        let srq = receive
            .srq
            .and_then(|number| self.hca.srqs.get_mut(&number));
        if let Some(srq) = srq {
            srq.ring.next = receive.next;
            srq.taken = srq.taken.wrapping_add(1);
        } else if let Some(ring) = self
            .hca
            .qps
            .get_mut(&qpn)
            .and_then(|qp| qp.receive.as_mut())
        {
            ring.next = receive.next;
        }
    }

    pub fn fail_queue_pair(&mut self, number: u32) {
        if let Some(qp) = self.hca.qps.get_mut(&number) {
            qp.state = State::Error;
            qp.message = Message::default();
            let shared = qp.srq.is_some();
            self.flush(number);
            if shared {
                self.post_queue_event(event::SRQ_LAST_WQE, number);
            }
        }
    }

    /// Completes with an error all that is posted to a queue pair in the error state.
    pub fn flush(&mut self, number: u32) {
        let failed = |qp: &&Qp| qp.state == State::Error;
        while let Some(qp) = self.hca.qps.get(&number).filter(failed) {
            let (next, cqe) = match self.next_work(qp) {
                Next::Nothing => break,
                Next::Work(wqe) => (
                    wqe.index.wrapping_add(wqe.blocks.max(1)),
                    Some(wqe.completion(qp)),
                ),
                // Nothing there can be completed.
                Next::Malformed(_) => (self.posted(qp).1, None),
            };
            let cq = qp.get(qpc::cqn_snd);
            self.with_qp(number, |qp| qp.send.next = next);
            if let Some(mut cqe) = cqe {
                (cqe.opcode, cqe.syndrome) = (completion::REQUEST_ERROR, FLUSHED);
                self.complete(cq, &cqe);
            }
        }
        while let Some(qp) = self.hca.qps.get(&number).filter(failed) {
            let receive = qp.receive.as_ref().and_then(|_| self.next_receive(qp));
            let Some(receive) = receive else {
                break;
            };
            let cqe = Cqe {
                opcode: completion::RESPONSE_ERROR,
                syndrome: FLUSHED,
                ..Cqe::default()
            };
            self.complete_receive(number, &receive, cqe);
        }
    }

    /// Flushes what was posted since to queue pairs in the error state: receives ring no doorbell.
    pub fn flush_all(&mut self) {
        let numbers: Vec<u32> = self.hca.qps.keys().copied().collect();
        for number in numbers {
            self.flush(number);
        }
    }

    /// Writes the completion of a message that has come in; `cqe` has what the message says.
    pub fn complete_receive(&mut self, qpn: u32, receive: &Receive, cqe: Cqe) {
        if !self.hca.qps.contains_key(&qpn) {
            return error!(self, "message for QP {qpn:#x}, which is not there");
        }
        self.take_receive(qpn, receive);
        let cqe = Cqe {
            qpn,
            wqe_counter: receive.index,
            user_index: receive.user_index,
            ..cqe
        };
        self.complete(receive.cq, &cqe);
    }
}
