// SPDX-License-Identifier: GPL-2.0

//! Unreliable datagrams, and the queue pair of general services, which is one as well.

use crate::bits::{be16, be32, put};
use crate::cq::{opcode as completion, Cqe};
use crate::dma::{copy, cut, scatter, total};
use crate::function::Function;
use crate::ifc::qpc;
use crate::mkey::Access;
use crate::port::Gid;
use crate::qp::{Qp, Service};
use crate::refuse;
use crate::world::{Outcome, World};
use crate::wqe::{opcode, Wqe};

const CONTROL: usize = 16;
/// The address vector, short and long.
const SHORT: usize = 16;
const LONG: usize = 48;
const EXTENDED: u32 = 0x8000_0000;
/// The header in front of what is received.
const GRH: usize = 40;
const QP1: u32 = 1;
/// The high bit of a key of a message stands for that of the queue pair.
const OWN_KEY: u32 = 0x8000_0000;

/// The address vector of a work request.
struct Address {
    key: u32,
    qpn: u32,
    lid: u16,
    grh: bool,
    gid: [u8; 16],
    /// The index of the source GID.
    source: usize,
    traffic_class: u8,
    hop_limit: u8,
    len: usize,
}

impl Address {
    fn new(segment: &[u8], infiniband: bool) -> Self {
        let qpn = be32(segment, 8);
        let extended = qpn & EXTENDED != 0;
        let flow = if extended { be32(segment, 28) } else { 0 };
        let mut gid = [0; 16];
        if extended {
            put(&mut gid, 0, segment.get(32..48).unwrap_or_default());
        }
        Self {
            key: be32(segment, 0),
            qpn: qpn & 0xff_ffff,
            lid: be16(segment, 14),
            grh: !infiniband || flow >> 30 & 1 == 1,
            gid,
            source: (flow >> 20 & 0xff) as usize,
            traffic_class: segment.get(26).copied().unwrap_or(0),
            hop_limit: segment.get(27).copied().unwrap_or(0),
            len: if extended { LONG } else { SHORT },
        }
    }
}

/// Returns the header that the receiver finds in front of a message.
fn header(from: &Gid, to: &Address, len: usize) -> [u8; GRH] {
    let mut grh = [0; GRH];
    let mapped = |gid: &[u8; 16]| gid[..10] == [0; 10] && gid[10..12] == [0xff; 2];
    if from.version == 2 && mapped(&from.gid) {
        // Version 2 over IPv4: its header is at the end.
        let total = 20 + 8 + 12 + 8 + len + 4;
        grh[20] = 0x45;
        grh[21] = to.traffic_class;
        put(&mut grh, 22, &(total as u16).to_be_bytes());
        grh[26] = 0x40;
        grh[28] = to.hop_limit.max(1);
        grh[29] = 17;
        put(&mut grh, 32, &from.gid[12..]);
        put(&mut grh, 36, &to.gid[12..]);
        let sum = checksum(&grh[20..]);
        put(&mut grh, 30, &sum.to_be_bytes());
        return grh;
    }
    // Version 1 and InfiniBand: the global route header, which looks like IPv6.
    put(
        &mut grh,
        0,
        &(6 << 28 | u32::from(to.traffic_class) << 20).to_be_bytes(),
    );
    put(&mut grh, 4, &((12 + 8 + len + 4) as u16).to_be_bytes());
    grh[6] = if from.version == 2 { 17 } else { 0x1b };
    grh[7] = to.hop_limit;
    put(&mut grh, 8, &from.gid);
    put(&mut grh, 24, &to.gid);
    grh
}

/// Returns the checksum of an IPv4 header.
fn checksum(header: &[u8]) -> u16 {
    let mut sum: u32 = header.chunks(2).map(|word| u32::from(be16(word, 0))).sum();
    while sum >> 16 != 0 {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
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
}

impl World {
    /// Sends a datagram. It is dropped, without a word to the sender, if it cannot be delivered.
    pub fn datagram(&mut self, f: usize, qp: &Qp, wqe: &Wqe) -> Outcome {
        let port = &self.functions[f].port;
        let address = Address::new(wqe.rest(CONTROL), port.infiniband);
        let data = match self.functions[f].data(qp, wqe, CONTROL + address.len, Access::LocalRead) {
            Ok(data) => data,
            Err(denied) => return self.local_denied(f, qp, denied, 1, Access::LocalRead),
        };
        let len = total(&data);
        let done = Outcome::Done(len as u32);
        let drop = |why: &str| {
            refuse!(
                "fn{f}: QP {:#x}: datagram to QP {:#x} dropped: {why}",
                qp.number,
                address.qpn
            )
        };
        let Some(g) = self.route(f, address.grh, &address.gid, address.lid) else {
            drop("no such address");
            return done;
        };
        let port = &self.functions[f].port;
        let (from, lid, roce) = (port.gid(address.source), port.lid, !port.infiniband);
        let function = &mut self.functions[g];
        let Some(target) = function.datagram_target(address.qpn).cloned() else {
            drop("no such queue pair");
            return done;
        };
        let key = if address.key & OWN_KEY != 0 {
            qp.get(qpc::q_key)
        } else {
            address.key
        };
        if target.service == Service::Ud && target.get(qpc::q_key) != key {
            drop("another key");
            return done;
        }
        let Some(receive) = function.next_receive(&target, None) else {
            drop("no receive is posted");
            return done;
        };
        let room = match function.receive_memory(&receive, GRH + len) {
            Ok(room) => room,
            Err(crate::mkey::Denied::NotPresent { key, va }) => {
                return Outcome::Fault {
                    at: g,
                    key,
                    va,
                    len: (GRH + len) as u64,
                    source: receive.source(target.number),
                    syndrome: crate::world::syndrome::REMOTE_OPERATION,
                }
            }
            Err(denied) => {
                function.denied(&format!("QP {:#x}, receive", target.number), denied);
                return done;
            }
        };
        if total(&room) < GRH + len {
            drop("the receive is too short");
            return done;
        }
        if address.grh {
            scatter(&cut(&room, 0, GRH), &header(&from, &address, len));
        }
        copy(&cut(&room, GRH, len), &data);
        let l3 = match (roce, from.version, from.ipv6) {
            (true, 2, true) => 1,
            (true, 2, false) => 2,
            _ => 0,
        };
        let pkey = u32::from(0xffffu16);
        let cqe = Cqe {
            opcode: if wqe.opcode == opcode::SEND_IMM {
                completion::SEND_IMM
            } else {
                completion::SEND
            },
            immediate: if target.service == Service::Qp1 {
                pkey
            } else {
                wqe.immediate
            },
            bytes: (GRH + len) as u32,
            flags_source: u32::from(address.grh) << 28 | l3 << 24 | source_number(qp),
            slid: if roce { 0 } else { lid },
            solicited: wqe.solicited,
            ..Cqe::default()
        };
        function.complete_receive(target.number, &receive, cqe);
        done
    }
}

/// Returns the number that the receiver sees as the source.
fn source_number(qp: &Qp) -> u32 {
    let alias = qp.get(qpc::deth_sqpn);
    match qp.service {
        Service::Qp1 => QP1,
        // Port and index of a queue pair that sends in the place of QP1.
        _ if alias == QP1 => alias,
        _ => qp.number,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_of_ipv4_has_a_right_checksum() {
        let mut gid = [0; 16];
        gid[10..].copy_from_slice(&[0xff, 0xff, 192, 0, 2, 1]);
        let from = Gid {
            gid,
            version: 2,
            ..Gid::default()
        };
        let mut segment = [0; LONG];
        put(&mut segment, 8, &(EXTENDED | 0x123).to_be_bytes());
        put(&mut segment, 32, &gid);
        let address = Address::new(&segment, false);
        let grh = header(&from, &address, 100);
        assert_eq!(checksum(&grh[20..]), 0);
        assert_eq!(grh[32..36], [192, 0, 2, 1]);
    }
}
