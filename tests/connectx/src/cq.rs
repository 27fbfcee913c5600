// SPDX-License-Identifier: GPL-2.0

use crate::eq::of_queue;
use crate::prelude::*;

pub mod completion {
    pub const REQUEST: u8 = 0;
    pub const WRITE_IMM: u8 = 1;
    pub const SEND: u8 = 2;
    pub const SEND_IMM: u8 = 3;
    pub const SEND_INVALIDATE: u8 = 4;
    pub const REQUEST_ERROR: u8 = 13;
    pub const RESPONSE_ERROR: u8 = 14;
}

const CQE: usize = 64;
const SEQUENCE: u32 = 0xff_ffff;

#[derive(Default)]
pub struct Cq {
    /// The doorbell record has the consumer index, and what the queue is armed for.
    memory: QueueMemory,
    log_size: u32,
    /// 64 or 128: where the entry is the second half.
    entry: u64,
    eq: u32,
    uar: u32,
    produced: u32,
    armed: bool,
    overrun_allowed: bool,
    overrun: bool,
}

impl Cq {
    /// Returns the DMA addresses of the ring and of the doorbell record.
    pub fn place(&self) -> (u64, u64) {
        (self.memory.buffer.address(0), self.memory.dbr)
    }
}

#[derive(Default, Clone, Debug)]
pub struct Cqe {
    pub opcode: u8,
    pub qpn: u32,
    pub wqe_counter: u16,
    pub wqe_opcode: u8,
    /// `user_index` of the QP or SRQ.
    pub user_index: u32,
    /// The source queue pair, flags above it.
    pub flags_source: u32,
    pub immediate: u32,
    pub bytes: u32,
    pub syndrome: u8,
    pub vendor: u8,
}

impl Cqe {
    fn bytes(&self, ticks: u64) -> [u8; CQE] {
        let mut entry = [0; CQE];
        put(&mut entry, 24, &self.flags_source.to_be_bytes());
        put(&mut entry, 32, &self.user_index.to_be_bytes());
        put(&mut entry, 36, &self.immediate.to_be_bytes());
        put(&mut entry, 44, &self.bytes.to_be_bytes());
        put(&mut entry, 48, &ticks.to_be_bytes());
        if matches!(
            self.opcode,
            completion::REQUEST_ERROR | completion::RESPONSE_ERROR
        ) {
            entry[54] = self.vendor;
            entry[55] = self.syndrome;
        }
        let queue = u32::from(self.wqe_opcode) << 24 | self.qpn;
        put(&mut entry, 56, &queue.to_be_bytes());
        put(&mut entry, 60, &self.wqe_counter.to_be_bytes());
        entry[63] = self.opcode << 4;
        entry
    }
}

impl Function {
    pub fn create_cq(&mut self, input: &[u8]) -> Result<u32, Refusal> {
        let context = create_cq_in::cq_context.slice(input);
        // The header has no names for these two: 64 bits of offset, then the number.
        let umem = (be32(input, 88), be64(input, 80));
        let record_umem = cqc::dbr_umem_valid.is_set(context);
        let place = QueuePlace {
            umem: create_cq_in::cq_umem_valid.is_set(input).then_some(umem),
            list: create_cq_in::pas.rest(input),
            log_page: cqc::log_page_size.get32(context),
            offset: cqc::page_offset.get(context),
            record_umem: record_umem.then(|| be32(context, 4)),
            record: cqc::dbr_addr.get(context),
        };
        let entry = 64 << (cqc::cqe_sz.get(context) & 1);
        let log_size = cqc::log_cq_size.get32(context);
        let (memory, mut uses) = self.queue_memory(&place, entry << log_size)?;
        // The device writes to the ring, and only reads the doorbell record.
        if place.umem.is_some_and(|(id, _)| !self.umem_writable(id)) {
            fail!(BAD_PARAM, "the umem of the ring is read-only");
        }
        let cq = Cq {
            memory,
            log_size,
            entry,
            eq: cqc::c_eqn_or_apu_element.get32(context),
            uar: cqc::uar_page.get32(context),
            overrun_allowed: cqc::oi.is_set(context),
            ..Cq::default()
        };
        uses.push((Kind::Eq, cq.eq));
        self.hca.objects.usable(Kind::Uar, cq.uar)?;
        let number = self.hca.objects.create(Kind::Cq, user(input), uses)?;
        self.hca.cqs.insert(number, cq);
        Ok(number)
    }

    /// MODIFY_CQ: moderation is accepted, every completion counts for itself.
    pub fn modify_cq(&mut self, input: &[u8]) -> Answer {
        const RESIZE: u64 = 1;
        if modify_cq_in::op_mod.get(input) == RESIZE {
            fail!(BAD_PARAM, "a resize, which is not announced");
        }
        let number = modify_cq_in::cqn.get32(input);
        self.hca.objects.usable(Kind::Cq, number)
    }

    /// Writes a completion, and the event if the queue is armed.
    pub fn complete(&mut self, number: u32, cqe: &Cqe) {
        trace!(3, self, "CQ {number:#x}: {cqe:x?}");
        let Some(mut cq) = self.hca.cqs.remove(&number) else {
            return error!(self, "completion for CQ {number:#x}, which is not there");
        };
        self.complete_to(number, &mut cq, cqe);
        self.hca.cqs.insert(number, cq);
    }

    fn complete_to(&mut self, number: u32, cq: &mut Cq, cqe: &Cqe) {
        let (consumed, _) = self.record(cq.memory.dbr);
        let full = cq.produced.wrapping_sub(consumed) & SEQUENCE >= 1 << cq.log_size;
        if cq.overrun || (full && !cq.overrun_allowed) {
            if !std::mem::replace(&mut cq.overrun, true) {
                refuse!(self, "CQ {number:#x} is full");
                let mut data = [0; 28];
                put(&mut data, 0, &number.to_be_bytes());
                data[11] = 1;
                self.post_event(event::CQ_ERROR, 0, &data);
            }
            return;
        }
        let mut entry = cqe.bytes(self.hca.init.ticks());
        entry[CQE - 1] |= (cq.produced >> cq.log_size & 1) as u8;
        let slot = u64::from(cq.produced & ((1 << cq.log_size) - 1));
        let at = slot * cq.entry + (cq.entry - CQE as u64);
        if let Err(bad) = cq.memory.buffer.write(&self.dma, at, &entry) {
            return self.unmapped(&format!("CQ {number:#x}"), bad.0);
        }
        cq.produced = cq.produced.wrapping_add(1);
        if std::mem::take(&mut cq.armed) {
            self.fire(number, cq.eq);
        }
    }

    fn fire(&mut self, number: u32, eq: u32) {
        self.post_to_eq(eq, event::COMPLETION, 0, &of_queue(number));
    }

    /// Handles the doorbell of CQs: a request for an event. The doorbell record must have the same
    /// sequence number and command.
    pub fn arm_cq(&mut self, uar: u32, value: u32, number: u32) {
        let number = number & SEQUENCE;
        let Some(cq) = self.hca.cqs.get(&number) else {
            return refuse!(self, "CQ {number:#x} is armed, and is not there");
        };
        let (own, eq) = (cq.uar, cq.eq);
        if own != uar {
            return refuse!(self, "CQ {number:#x} is armed by UAR {uar}, and has {own}");
        }
        let (_, record) = self.record(cq.memory.dbr);
        if (record ^ value) & !SEQUENCE != 0 {
            // Not `refused:`, as it may be in order: the driver has armed again meanwhile, and the
            // doorbell of that is on its way.
            return trace!(
                1,
                self,
                "CQ {number:#x} is not armed: {value:#x}, {record:#x}"
            );
        }
        // What has come since the driver last looked.
        let ahead = cq.produced.wrapping_sub(value & SEQUENCE) & SEQUENCE;
        let fires = ahead != 0 && ahead < 1 << 23;
        self.hca
            .cqs
            .entry(number)
            .and_modify(|cq| cq.armed = !fires);
        if fires {
            self.fire(number, eq);
        }
    }
}
