// SPDX-License-Identifier: GPL-2.0

//! Unreliable datagrams of an Ethernet port, and the queue pair of general services, which is one as well.
//! Those of an InfiniBand port go nowhere (`fabric.rs`).

use crate::prelude::*;

/// The control segment, after which the address vector is, with the data after that.
const CONTROL: usize = 16;
const DATA: usize = CONTROL + 48;
const QP1: u32 = 1;
/// The header in front of what is received.
const GRH: usize = 40;

struct Address {
    qpn: u32,
    gid: [u8; 16],
    source: usize,
    traffic_class: u8,
    hop_limit: u8,
}

impl Address {
    fn new(segment: &[u8]) -> Self {
        let byte = |at: usize| segment.get(at).copied().unwrap_or(0);
        let mut gid = [0; 16];
        put(&mut gid, 0, segment.get(32..).unwrap_or_default());
        Self {
            qpn: be32(segment, 8) & 0xff_ffff,
            gid,
            source: (be32(segment, 28) >> 20 & 0xff) as usize,
            traffic_class: byte(26),
            hop_limit: byte(27),
        }
    }
}

/// Returns the header that the receiver at `to` finds in front of a message of `len` bytes.
fn header(from: &Gid, to: &Address, len: usize) -> [u8; GRH] {
    let mut grh = [0; GRH];
    // The length is that of the message with its headers and its checksum.
    if from.version == 2 && !from.ipv6 {
        grh[20] = 0x45;
        grh[21] = to.traffic_class;
        put(
            &mut grh,
            22,
            &((20 + 8 + 12 + 8 + len + 4) as u16).to_be_bytes(),
        );
        grh[26] = 0x40;
        grh[28] = to.hop_limit.max(1);
        grh[29] = 17;
        put(&mut grh, 32, &from.gid[12..]);
        put(&mut grh, 36, &to.gid[12..]);
        let sum: u32 = grh[20..]
            .chunks(2)
            .map(|word| u32::from(be16(word, 0)))
            .sum();
        let sum = (sum & 0xffff) + (sum >> 16);
        put(&mut grh, 30, &(!(sum + (sum >> 16)) as u16).to_be_bytes());
    } else {
        // The global route header of version 1 looks like IPv6.
        let class = 6 << 28 | u32::from(to.traffic_class) << 20;
        put(&mut grh, 0, &class.to_be_bytes());
        put(&mut grh, 4, &((12 + 8 + len + 4) as u16).to_be_bytes());
        grh[6] = if from.version == 2 { 17 } else { 0x1b };
        grh[7] = to.hop_limit;
        put(&mut grh, 8, &from.gid);
        put(&mut grh, 24, &to.gid);
    }
    grh
}

impl Function {
    /// Receives a datagram for the queue pair `qpn`; `cqe` has what the completion says of the sender.
    /// Fails with a reason to drop it.
    fn receive_datagram(&mut self, qpn: u32, message: &[u8], cqe: Cqe) -> Result<(), &'static str> {
        let wanted = |qp: &&Qp| match qpn {
            QP1 => qp.service == Service::Qp1,
            _ => qp.number == qpn && qp.service == Service::Ud,
        };
        let target = self.hca.qps.values().find(wanted);
        let Some(target) = target.filter(|qp| qp.can_receive()).cloned() else {
            return Err("no such queue pair");
        };
        let Some(receive) = self.next_receive(&target) else {
            return Err("no receive is posted");
        };
        let room = match self.receive_memory(&receive, message.len()) {
            Ok(room) => room,
            Err(error) => {
                self.denied(&format!("QP {:#x}, receive", target.number), error);
                return Err("the receive has no memory");
            }
        };
        if total(&room) < message.len() {
            return Err("the receive is too short");
        }
        scatter(&room, message);
        let immediate = match target.service {
            Service::Qp1 => FULL_MEMBER.into(),
            _ => cqe.immediate,
        };
        let cqe = Cqe { immediate, ..cqe };
        self.complete_receive(target.number, &receive, cqe);
        Ok(())
    }
}

impl Fabric {
    /// Sends a datagram. It is dropped, without a word to the sender, if it cannot be delivered.
    pub fn datagram(&mut self, f: usize, qp: &Qp, wqe: &Wqe) -> Ended {
        let to = Address::new(wqe.rest(CONTROL));
        let (data, _) = self.local(f, (qp, wqe), DATA, 0..u64::MAX)?;
        let len = total(&data);
        let from = self.functions[f].port.gid(to.source);
        let mut message = header(&from, &to, len).to_vec();
        message.resize(GRH + len, 0);
        gather(&data, &mut message[GRH..]);
        let network = match from.version {
            2 if from.ipv6 => 1,
            2 => 2,
            _ => 0,
        };
        let source = match qp.service {
            Service::Qp1 => QP1,
            _ => qp.number,
        };
        let opcode = match wqe.opcode {
            opcode::SEND_IMM => completion::SEND_IMM,
            _ => completion::SEND,
        };
        // With a header in front.
        let bytes = (GRH + len) as u32;
        let cqe = wqe.received(opcode, 1 << 28 | network << 24 | source, bytes);
        let received = match self.route(&to.gid, 0) {
            Some(g) => self.functions[g].receive_datagram(to.qpn, &message, cqe),
            None => Err("no such address"),
        };
        if let Err(why) = received {
            let (number, qpn) = (qp.number, to.qpn);
            refuse!("fn{f}: QP {number:#x}: datagram to QP {qpn:#x} dropped: {why}");
        }
        Ok(Outcome::Done(len as u32))
    }
}
