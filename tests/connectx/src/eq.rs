// SPDX-License-Identifier: GPL-2.0

//! Event queues, and the interrupts that they raise.

use crate::prelude::*;

/// Events, as the hardware numbers them.
pub mod event {
    pub const COMPLETION: u8 = 0x00;
    pub const CQ_ERROR: u8 = 0x04;
    pub const PORT_CHANGE: u8 = 0x09;
    pub const COMMAND: u8 = 0x0a;
    pub const PAGE_FAULT: u8 = 0x0c;
    pub const WQ_INVALID_REQUEST: u8 = 0x10;
    pub const WQ_ACCESS_ERROR: u8 = 0x11;
    pub const SRQ_LAST_WQE: u8 = 0x13;
}

const EQE: u64 = 64;

#[derive(Default)]
pub struct Eq {
    buffer: Buffer,
    log_size: u32,
    vector: u32,
    /// A bit for each event that goes here.
    events: u64,
    produced: u32,
    consumed: u32,
    armed: bool,
}

pub fn of_queue(number: u32) -> [u8; 28] {
    let mut data = [0; 28];
    put(&mut data, 24, &number.to_be_bytes());
    data
}

impl Function {
    pub fn create_eq(&mut self, input: &[u8]) -> Result<u32, Refusal> {
        let context = create_eq_in::eq_context_entry.slice(input);
        let place = QueuePlace {
            list: create_eq_in::pas.rest(input),
            log_page: eqc::log_page_size.get32(context),
            offset: eqc::page_offset.get(context),
            ..QueuePlace::default()
        };
        let log_size = eqc::log_eq_size.get32(context);
        let (memory, uses) = self.queue_memory(&place, EQE << log_size)?;
        let eq = Eq {
            buffer: memory.buffer,
            log_size,
            vector: eqc::intr.get32(context),
            // Four words of 64 bits, the first one with the events below 64.
            events: be64(create_eq_in::event_bitmask.rest(input), 0),
            ..Eq::default()
        };
        if eq.vector >= VECTORS {
            fail!(BAD_PARAM, "no vector {}", eq.vector);
        }
        let number = self.hca.objects.create(Kind::Eq, user(input), uses)?;
        self.hca.eqs.insert(number, eq);
        Ok(number)
    }

    pub fn eq_for(&self, event: u8) -> Option<u32> {
        let has = |eq: &&Eq| eq.events >> event & 1 == 1;
        let (number, _) = self.hca.eqs.iter().find(|(_, eq)| has(eq))?;
        Some(*number)
    }

    /// Posts an event that is not about a completion, if an EQ has asked for it.
    pub fn post_event(&mut self, event: u8, subtype: u8, data: &[u8]) {
        match self.eq_for(event) {
            Some(number) => self.post_to_eq(number, event, subtype, data),
            None => refuse!(self, "event {event:#x}: no event queue has asked for it"),
        }
    }

    /// Posts an event of a queue: its number is in the last word.
    pub fn post_queue_event(&mut self, event: u8, number: u32) {
        self.post_event(event, 0, &of_queue(number));
    }

    pub fn post_to_eq(&mut self, number: u32, event: u8, subtype: u8, data: &[u8]) {
        let Some(eq) = self.hca.eqs.get_mut(&number) else {
            return error!(self, "event {event:#x} for EQ {number}, which is not there");
        };
        if eq.produced.wrapping_sub(eq.consumed) & 0xff_ffff >= 1 << eq.log_size {
            return error!(self, "EQ {number} is full");
        }
        let mut entry = [0; EQE as usize];
        entry[1] = event;
        entry[3] = subtype;
        put(&mut entry[..60], 32, data);
        entry[63] = (eq.produced >> eq.log_size & 1) as u8;
        let slot = u64::from(eq.produced & ((1 << eq.log_size) - 1));
        if let Err(bad) = eq.buffer.write(&self.dma, slot * EQE, &entry) {
            return self.unmapped(&format!("EQ {number}"), bad.0);
        }
        eq.produced = eq.produced.wrapping_add(1);
        if std::mem::take(&mut eq.armed) {
            let vector = eq.vector;
            self.interrupt(vector);
        }
    }

    /// Handles the doorbell of EQs: the consumer index, with or without arming.
    pub fn eq_doorbell(&mut self, value: u32, arm: bool) {
        let number = value >> 24;
        let Some(eq) = self.hca.eqs.get_mut(&number) else {
            return error!(self, "doorbell of EQ {number}, which is not there");
        };
        eq.consumed = value & 0xff_ffff;
        if !arm {
            return;
        }
        eq.armed = eq.produced & 0xff_ffff == eq.consumed;
        if !eq.armed {
            let vector = eq.vector;
            self.interrupt(vector);
        }
    }
}
