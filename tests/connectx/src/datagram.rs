// SPDX-License-Identifier: GPL-2.0

//! Unreliable datagrams, and the queue pair of general services, which is one as well.

mod address;

use crate::cq::{opcode as completion, Cqe};
use crate::dma::{cut, gather, scatter, total};
use crate::fabric::{Fabric, Outcome};
use crate::function::Function;
use crate::ifc::qpc;
use crate::mkey::Access;
use crate::qp::{Qp, Service};
use crate::refuse;
use crate::subnet::{self, FULL_MEMBER};
use crate::wqe::{opcode, Wqe};
use address::{header, Address, GRH};

/// The control segment, after which the address vector is.
const CONTROL: usize = 16;
const QP1: u32 = 1;
/// The key of every queue pair of general services.
const QP1_KEY: u32 = 0x8001_0000;
/// The high bit of a key of a message stands for that of the queue pair.
const OWN_KEY: u32 = 0x8000_0000;

/// A datagram that has come to a function.
struct Arrived {
    /// The number and the key of the queue pair that it is for.
    qpn: u32,
    key: u32,
    grh: Option<[u8; GRH]>,
    payload: Vec<u8>,
    /// What the completion says of the sender.
    cqe: Cqe,
}

impl Function {
    /// Returns the queue pair that a datagram with this number is for.
    fn datagram_target(&self, number: u32) -> Option<&Qp> {
        let wanted = |qp: &&Qp| match number {
            QP1 => qp.service == Service::Qp1,
            _ => qp.number == number && qp.service == Service::Ud,
        };
        self.hca
            .qps
            .values()
            .find(wanted)
            .filter(|qp| qp.can_receive())
    }

    /// Receives a datagram. Fails with a reason to drop it.
    fn receive_datagram(&mut self, message: Arrived) -> Result<(), &'static str> {
        let Some(target) = self.datagram_target(message.qpn).cloned() else {
            return Err("no such queue pair");
        };
        let own = match target.service {
            Service::Qp1 => QP1_KEY,
            _ => target.get(qpc::q_key),
        };
        if message.key != own {
            return Err("another key");
        }
        let Some(receive) = self.next_receive(&target, None) else {
            return Err("no receive is posted");
        };
        let len = GRH + message.payload.len();
        let room = match self.receive_memory(&receive, len) {
            Ok(room) => room,
            Err(error) => {
                self.denied(&format!("QP {:#x}, receive", target.number), error);
                return Err("the receive has no memory");
            }
        };
        if total(&room) < len {
            return Err("the receive is too short");
        }
        if let Some(grh) = message.grh {
            scatter(&cut(&room, 0, GRH), &grh);
        }
        scatter(&cut(&room, GRH, message.payload.len()), &message.payload);
        let mut cqe = Cqe {
            bytes: len as u32,
            ..message.cqe
        };
        cqe.flags_source |= u32::from(message.grh.is_some()) << 28;
        if target.service == Service::Qp1 {
            cqe.immediate = FULL_MEMBER.into();
        }
        self.complete_receive(target.number, &receive, cqe);
        Ok(())
    }
}

impl Fabric {
    /// Sends a datagram. It is dropped, without a word to the sender, if it cannot be delivered.
    pub fn datagram(&mut self, f: usize, qp: &Qp, wqe: &Wqe) -> Outcome {
        let port = &self.functions[f].port;
        let infiniband = port.infiniband;
        let address = Address::new(wqe.rest(CONTROL), infiniband);
        let data = match self.functions[f].data(qp, wqe, CONTROL + address.len, Access::LocalRead) {
            Ok(data) => data,
            Err(error) => return self.local_denied(f, qp, error, 1, Access::LocalRead),
        };
        let mut payload = vec![0; total(&data)];
        gather(&data, &mut payload);
        let done = Outcome::Done(payload.len() as u32);
        let key = if address.key & OWN_KEY != 0 {
            qp.get(qpc::q_key)
        } else {
            address.key
        };
        let (g, message) = if infiniband && address.lid == subnet::MANAGER_LID {
            match self.ask_manager(f, &address, key, &payload) {
                Ok(answer) => (f, answer),
                Err(why) => {
                    dropped(f, qp, &address, why);
                    return done;
                }
            }
        } else if let Some(g) = self.route(f, address.grh, &address.gid, address.lid) {
            (g, self.message(f, qp, wqe, &address, key, payload))
        } else {
            dropped(f, qp, &address, "no such address");
            return done;
        };
        if let Err(why) = self.functions[g].receive_datagram(message) {
            dropped(f, qp, &address, why);
        }
        done
    }

    /// Returns a datagram as it comes to the port that it is for.
    fn message(
        &self,
        f: usize,
        qp: &Qp,
        wqe: &Wqe,
        address: &Address,
        key: u32,
        payload: Vec<u8>,
    ) -> Arrived {
        let port = &self.functions[f].port;
        let (from, roce) = (port.gid(address.source), !port.infiniband);
        let l3 = match (roce, from.version, from.ipv6) {
            (true, 2, true) => 1,
            (true, 2, false) => 2,
            _ => 0,
        };
        let cqe = Cqe {
            opcode: if wqe.opcode == opcode::SEND_IMM {
                completion::SEND_IMM
            } else {
                completion::SEND
            },
            immediate: wqe.immediate,
            flags_source: l3 << 24 | source_number(qp),
            slid: if roce { 0 } else { port.lid },
            solicited: wqe.solicited,
            ..Cqe::default()
        };
        Arrived {
            qpn: address.qpn,
            key,
            grh: address
                .grh
                .then(|| header(&from, &address.gid, address, payload.len())),
            payload,
            cqe,
        }
    }

    /// Asks the subnet manager, and returns the answer as it comes back to function `f`. Fails with
    /// a reason if there is none.
    fn ask_manager(
        &self,
        f: usize,
        address: &Address,
        key: u32,
        request: &[u8],
    ) -> Result<Arrived, &'static str> {
        if address.qpn != QP1 {
            return Err("the subnet manager has no such queue pair");
        }
        if key != QP1_KEY {
            return Err("another key");
        }
        Ok(Arrived {
            qpn: QP1,
            key: QP1_KEY,
            grh: None,
            payload: self.administer(f, request)?.to_vec(),
            cqe: Cqe {
                opcode: completion::SEND,
                flags_source: QP1,
                slid: subnet::MANAGER_LID,
                ..Cqe::default()
            },
        })
    }
}

fn dropped(f: usize, qp: &Qp, to: &Address, why: &str) {
    refuse!(
        "fn{f}: QP {:#x}: datagram to QP {:#x} dropped: {why}",
        qp.number,
        to.qpn
    );
}

/// Returns the number that the receiver sees as the source.
fn source_number(qp: &Qp) -> u32 {
    match qp.service {
        Service::Qp1 => QP1,
        _ => qp.number,
    }
}

#[cfg(test)]
mod tests;
