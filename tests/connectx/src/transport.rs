// SPDX-License-Identifier: GPL-2.0

//! Connected queue pairs: what a request does to the memory and the queues of the other end.
//!
//! RDMA goes packet by packet: the addresses of a packet are translated when it is its turn, and
//! between two packets all others have theirs. Other messages are carried out at once.

use crate::prelude::*;
use crate::receive::Receive;

const SEGMENT: usize = 16;
const LONGEST: usize = 1 << 30;

#[derive(Clone)]
struct Peer {
    g: usize,
    qp: Qp,
}

/// A packet whose addresses are translated, and whose bytes are not written.
#[derive(Clone)]
pub struct Flight {
    to: Spans,
    from: Spans,
    /// Of the packet, and of the message.
    bytes: (u64, u64),
}

/// How far a queue pair is with the work request that it is at.
#[derive(Clone, Default)]
pub struct Message {
    /// How often it had no answer, and met no receive work request.
    pub no_answer: u32,
    pub not_ready: u32,
    pub fault: Option<u64>,
    /// The driver could not resolve its last page fault.
    pub fault_failed: bool,
    pub done: u64,
    pub flight: Option<Flight>,
    /// Its UMR work request has changed the key already.
    pub applied: bool,
}

impl Fabric {
    /// Returns the function that a path leads to.
    pub fn route(&self, gid: &[u8], lid: u16) -> Option<usize> {
        self.functions.iter().position(|function| {
            let port = &function.port;
            let by_lid = port.infiniband && lid != 0 && port.lid == lid;
            !function.dead && (by_lid || port.has_gid(gid))
        })
    }

    fn peer(&self, f: usize, qp: &Qp) -> Option<Peer> {
        let path = qp.path();
        let g = self.route(ads::rgid_rip.slice(path), ads::rlid.get32(path) as u16)?;
        let other = self.functions[g].hca.qps.get(&qp.get(qpc::remote_qpn))?;
        if !other.can_receive()
            || other.service != qp.service
            || other.get(qpc::remote_qpn) != qp.number
        {
            return None;
        }
        // A packet of another length or number is dropped.
        let (sends, takes) = (qp.get(qpc::next_send_psn), other.get(qpc::next_rcv_psn));
        if qp.mtu() != other.mtu() || sends != takes {
            refuse!(
                "fn{f}: QP {:#x} sends packets of {} bytes from PSN {sends:#x}, QP {:#x} takes {} from {takes:#x}",
                qp.number, qp.mtu(), other.number, other.mtu()
            );
            return None;
        }
        let qp = other.clone();
        Some(Peer { g, qp })
    }

    pub fn fail_peer(&mut self, f: usize, qp: &Qp) {
        if let Some(peer) = self.peer(f, qp) {
            self.fail_responder(&peer, syndrome::REMOTE_ACCESS);
        }
    }

    pub fn connected(&mut self, f: usize, qp: &Qp, wqe: &Wqe) -> Ended {
        use opcode::*;
        let peer = self.peer(f, qp).ok_or(Outcome::NoAnswer)?;
        match wqe.opcode {
            SEND | SEND_IMM | SEND_INVALIDATE => self.send(f, qp, wqe, &peer),
            WRITE | WRITE_IMM | READ => self.rdma(f, qp, wqe, &peer),
            COMPARE_SWAP | FETCH_ADD => self.atomic(f, qp, wqe, &peer),
            _ => Err(no_opcode(f, qp, wqe)),
        }
    }

    fn holds_packet(&self, peer: &Peer) -> bool {
        self.functions[peer.g].inject.packets == Some(0)
    }

    /// Holds a packet, and has each end know the keys by which its memory was found.
    fn fly(&mut self, f: usize, qp: &Qp, wqe: &Wqe, peer: &Peer, flight: Flight) {
        let (_, key) = remote(wqe.rest(SEGMENT));
        let there = self.functions[peer.g].hca.mkeys.below(key);
        let segments = wqe.rest(2 * SEGMENT).chunks_exact(SEGMENT);
        let here = segments.flat_map(|to| self.functions[f].hca.mkeys.below(be32(to, 4)));
        let here: Vec<u32> = here.collect();
        for (g, keys) in [(peer.g, there), (f, here)] {
            let of = keys.into_iter().map(|key| (key, (f, qp.number)));
            self.functions[g].hca.flying.extend(of);
        }
        self.functions[f].with_qp(qp.number, |qp| qp.message.flight = Some(flight));
    }

    pub fn wake_held(&mut self) {
        for function in &mut self.functions {
            let held = |qp: &&Qp| qp.message.flight.is_some();
            let held = function.hca.qps.values().filter(held);
            function.hca.ready.extend(held.map(|qp| qp.number));
        }
    }

    /// Looks after work requests and commands that wait for packets which are written by now.
    pub fn settle(&mut self) {
        for g in 0..self.functions.len() {
            let flying = std::mem::take(&mut self.functions[g].hca.flying);
            if flying.is_empty() {
                continue;
            }
            let before = flying.len();
            let in_flight = |(_, (f, qpn)): &(u32, (usize, u32))| {
                let qp = self.functions[*f].hca.qps.get(qpn);
                qp.is_some_and(|qp| qp.message.flight.is_some())
            };
            let left: Vec<_> = flying.into_iter().filter(in_flight).collect();
            let function = &mut self.functions[g];
            let some_are_written = left.len() < before;
            function.hca.flying = left;
            if some_are_written {
                for qpn in std::mem::take(&mut function.hca.fenced) {
                    function.wake(qpn);
                }
                let slots = std::mem::take(&mut function.hca.fenced_slots);
                function.commands(slots, false);
            }
        }
    }

    /// Returns the memory of the other end that a packet names, which is the first one of a message if
    /// that is longer.
    fn target(
        &mut self,
        peer: &Peer,
        at: (u64, u32),
        (len, whole): (u64, u64),
        access: Access,
    ) -> Result<Spans, Outcome> {
        let (va, key) = at;
        let permitted = match access {
            Access::RemoteRead => qpc::rre,
            Access::Atomic => qpc::rae,
            _ => qpc::rwe,
        };
        let function = &mut self.functions[peer.g];
        let requester = peer.qp.requester();
        if !permitted.is_set(&peer.qp.context) {
            let why = format!("no {access:?} is permitted");
            return Err(self.nak(peer, syndrome::REMOTE_ACCESS, why));
        }
        if len == 0 {
            return Ok(Spans::new());
        }
        let part = Request {
            key,
            va,
            len,
            access,
            requester,
        };
        let all = Request { len: whole, ..part };
        let permitted = function.hca.mkeys.check(&all);
        match permitted.and_then(|()| function.translate(&part)) {
            Ok(spans) => Ok(spans),
            Err(AccessError::NotPresent { key: below, va: at }) => {
                let missing = Missing {
                    key: below,
                    va: at,
                    len: va.saturating_add(len).saturating_sub(at),
                };
                Err(Outcome::Fault {
                    at: peer.g,
                    missing,
                    syndrome: syndrome::REMOTE_ACCESS,
                })
            }
            Err(AccessError::Unmapped(bad)) => {
                function.unmapped(&format!("mkey {key:#x}, {va:#x}"), bad);
                let why = format!("mkey {key:#x}: DMA fails");
                Err(self.nak(peer, syndrome::REMOTE_OPERATION, why))
            }
            Err(other) => {
                let why = format!("mkey {key:#x}, {va:#x}, {len} bytes: {other:?}");
                Err(self.nak(peer, syndrome::REMOTE_ACCESS, why))
            }
        }
    }

    /// Refuses a request: the responder goes to the error state, and says so.
    fn nak(&mut self, peer: &Peer, syndrome: u8, why: String) -> Outcome {
        let (g, number) = (peer.g, peer.qp.number);
        refuse!("fn{g}: QP {number:#x}: request refused: {why}");
        self.fail_responder(peer, syndrome);
        Outcome::Fail(syndrome)
    }

    fn fail_responder(&mut self, peer: &Peer, syndrome: u8) {
        let function = &mut self.functions[peer.g];
        let event = match syndrome {
            syndrome::REMOTE_ACCESS => event::WQ_ACCESS_ERROR,
            _ => event::WQ_INVALID_REQUEST,
        };
        function.fail_queue_pair(peer.qp.number);
        function.post_queue_event(event, peer.qp.number);
    }

    /// Returns the outcome of an access to memory of the responder that was denied, after which
    /// its receive work request completes with an error.
    fn receive_denied(
        &mut self,
        peer: &Peer,
        receive: &Receive,
        error: AccessError,
        len: u64,
    ) -> Outcome {
        if let AccessError::NotPresent { key, va } = error {
            return Outcome::Fault {
                at: peer.g,
                missing: Missing { key, va, len },
                syndrome: syndrome::REMOTE_OPERATION,
            };
        }
        let number = peer.qp.number;
        self.functions[peer.g].denied(&format!("QP {number:#x}, receive"), error);
        self.receive_fails(peer, receive, syndrome::LOCAL_PROTECTION);
        self.functions[peer.g].fail_queue_pair(number);
        Outcome::Fail(syndrome::REMOTE_OPERATION)
    }

    fn receive_fails(&mut self, peer: &Peer, receive: &Receive, syndrome: u8) {
        let cqe = Cqe {
            opcode: completion::RESPONSE_ERROR,
            syndrome,
            ..Cqe::default()
        };
        self.functions[peer.g].complete_receive(peer.qp.number, receive, cqe);
    }

    fn receive(&mut self, peer: &Peer) -> Result<Receive, Outcome> {
        let receive = self.functions[peer.g].next_receive(&peer.qp);
        receive.ok_or(Outcome::NotReady(peer.qp.get(qpc::min_rnr_nak)))
    }

    fn send(&mut self, f: usize, qp: &Qp, wqe: &Wqe, peer: &Peer) -> Ended {
        let (data, _) = self.local(f, (qp, wqe), SEGMENT, 0..u64::MAX)?;
        let len = total(&data);
        if len > LONGEST {
            return Err(Outcome::Fail(syndrome::LOCAL_LENGTH));
        }
        let receive = self.receive(peer)?;
        let function = &mut self.functions[peer.g];
        let room = match function.receive_memory(&receive, len) {
            Ok(room) => room,
            Err(error) => return Err(self.receive_denied(peer, &receive, error, len as u64)),
        };
        if total(&room) < len {
            self.receive_fails(peer, &receive, syndrome::LOCAL_LENGTH);
            let why = format!("{len} bytes, of {}", total(&room));
            return Err(self.nak(peer, syndrome::REMOTE_INVALID_REQUEST, why));
        }
        if wqe.opcode == opcode::SEND_INVALIDATE {
            if let Err(error) = function.invalidate(&peer.qp, wqe.immediate) {
                let why = format!("invalidation of mkey {:#x}: {error:?}", wqe.immediate);
                return Err(self.nak(peer, syndrome::REMOTE_ACCESS, why));
            }
        }
        copy(&room, &data);
        let opcode = match wqe.opcode {
            opcode::SEND_IMM => completion::SEND_IMM,
            opcode::SEND_INVALIDATE => completion::SEND_INVALIDATE,
            _ => completion::SEND,
        };
        let cqe = wqe.received(opcode, qp.number, len as u32);
        self.functions[peer.g].complete_receive(peer.qp.number, &receive, cqe);
        Ok(Outcome::Done(len as u32))
    }

    fn rdma(&mut self, f: usize, qp: &Qp, wqe: &Wqe, peer: &Peer) -> Ended {
        let access = match wqe.opcode {
            opcode::READ => Access::RemoteRead,
            _ => Access::RemoteWrite,
        };
        let (done, mtu) = (qp.message.done, qp.mtu());
        if let Some(flight) = &qp.message.flight {
            if self.holds_packet(peer) {
                return Ok(Outcome::Held);
            }
            copy(&flight.to, &flight.from);
            return self.packet_done(f, qp, wqe, peer, flight.bytes);
        }
        let (data, len) = self.local(f, (qp, wqe), 2 * SEGMENT, done..done + mtu)?;
        if len > LONGEST as u64 {
            return Err(Outcome::Fail(syndrome::LOCAL_LENGTH));
        }
        if wqe.opcode == opcode::WRITE_IMM {
            self.receive(peer)?;
        }
        let here = total(&data) as u64;
        let (va, key) = remote(wqe.rest(SEGMENT));
        // The first packet says how long the message is.
        let whole = if done == 0 { len } else { here };
        let named = (va.wrapping_add(done), key);
        let remote = self.target(peer, named, (here, whole), access)?;
        let (to, from) = match wqe.opcode {
            opcode::READ => (data, remote),
            _ => (remote, data),
        };
        let bytes = (here, len);
        if self.holds_packet(peer) {
            let flight = Flight { to, from, bytes };
            self.fly(f, qp, wqe, peer, flight);
            return Ok(Outcome::Held);
        }
        copy(&to, &from);
        self.packet_done(f, qp, wqe, peer, bytes)
    }

    /// A packet of so many bytes, of a message of so many, is written.
    fn packet_done(
        &mut self,
        f: usize,
        qp: &Qp,
        wqe: &Wqe,
        peer: &Peer,
        (here, len): (u64, u64),
    ) -> Ended {
        if let Some(left) = &mut self.functions[peer.g].inject.packets {
            *left = left.saturating_sub(1);
        }
        self.functions[f].with_qp(qp.number, |qp| {
            qp.message.flight = None;
            qp.message.done += here;
        });
        if qp.message.done + here < len {
            return Ok(Outcome::Packet);
        }
        if wqe.opcode == opcode::WRITE_IMM {
            let receive = self.receive(peer)?;
            let function = &mut self.functions[peer.g];
            let cqe = wqe.received(completion::WRITE_IMM, qp.number, len as u32);
            function.complete_receive(peer.qp.number, &receive, cqe);
        }
        Ok(Outcome::Done(len as u32))
    }

    fn atomic(&mut self, f: usize, qp: &Qp, wqe: &Wqe, peer: &Peer) -> Ended {
        let (room, _) = self.local(f, (qp, wqe), 3 * SEGMENT, 0..8)?;
        if total(&room) != 8 {
            return Err(Outcome::Fail(syndrome::LOCAL_LENGTH));
        }
        let named = remote(wqe.rest(SEGMENT));
        let target = self.target(peer, named, (8, 8), Access::Atomic)?;
        let values = wqe.rest(2 * SEGMENT);
        let (new, compare) = (be64(values, 0), be64(values, 8));
        let compares = wqe.opcode == opcode::COMPARE_SWAP;
        // The values are numbers of the host, as the capabilities announce.
        let old = swap(&target, |old| match compares {
            true if old == compare => new,
            true => old,
            false => old.wrapping_add(new),
        });
        let Some(old) = old else {
            let why = format!("an atomic at {:#x}, which is not aligned", named.0);
            return Err(self.nak(peer, syndrome::REMOTE_INVALID_REQUEST, why));
        };
        scatter(&room, &old.to_le_bytes());
        Ok(Outcome::Done(8))
    }
}
