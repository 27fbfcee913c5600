// SPDX-License-Identifier: GPL-2.0

//! Page faults: a queue pair stops until the driver has mapped the page, or says that it cannot.

use std::collections::BTreeMap;

use crate::bits::put;
use crate::command::{Refusal, BAD_RES};
use crate::eq::event;
use crate::function::Function;
use crate::ifc::{mem_page_fault_info, page_fault_resume_in};
use crate::{refuse, trace};

/// An event by memory key and address.
const MEMORY: u8 = 2;
/// The only event of this fault: the driver answers it.
const LAST: u8 = 0x80;
const PAGE: u64 = 4096;

/// Who waits: the function and the queue pair of the requester.
pub type Waiter = (usize, u32);

/// A page fault that was answered.
pub struct Resumed {
    pub waiter: Waiter,
    pub token: u64,
    pub error: bool,
}

/// All page faults of a function's memory.
#[derive(Default)]
pub struct Faults {
    next: u64,
    open: BTreeMap<u64, Waiter>,
    /// Events that the control socket has asked to keep back.
    held: Vec<[u8; 28]>,
    hold: bool,
    /// Answered; the queue pairs may be of another function.
    pub resumed: Vec<Resumed>,
}

impl Function {
    /// Reports a page fault, for the queue pair `waiter`; returns its token. Returns `None` if
    /// the driver has no queue for page faults.
    pub fn page_fault(&mut self, key: u32, va: u64, len: u64, waiter: Waiter) -> Option<u64> {
        self.eq_for(event::PAGE_FAULT)?;
        let faults = &mut self.hca.faults;
        faults.next += 1;
        let token = faults.next;
        faults.open.insert(token, waiter);
        let first = va & !(PAGE - 1);
        let pages = (va.saturating_add(len.max(1)) - first)
            .div_ceil(PAGE)
            .min(0x400);
        let mut data = [0; 28];
        data[0] = LAST;
        put(&mut data, 6, &((token >> 32) as u16).to_be_bytes());
        put(&mut data, 8, &(token as u32).to_be_bytes());
        put(&mut data, 12, &((pages as u32) << 12).to_be_bytes());
        put(&mut data, 16, &key.to_be_bytes());
        put(&mut data, 20, &va.to_be_bytes());
        trace!(
            2,
            "fn{}: page fault {token}: mkey {key:#x}, {va:#x}, {pages} pages",
            self.id
        );
        if faults.hold {
            faults.held.push(data);
        } else {
            self.post_event(event::PAGE_FAULT, MEMORY, &data);
        }
        Some(token)
    }

    /// Keeps page faults back, or lets those go that were.
    pub fn hold_page_faults(&mut self, hold: bool) {
        self.hca.faults.hold = hold;
        if !hold {
            for data in std::mem::take(&mut self.hca.faults.held) {
                self.post_event(event::PAGE_FAULT, MEMORY, &data);
            }
        }
    }

    /// PAGE_FAULT_RESUME.
    pub fn page_fault_resume(&mut self, input: &[u8]) -> Result<(), Refusal> {
        let info = page_fault_resume_in::page_fault_info.rest(input);
        let token = mem_page_fault_info::fault_token_47_32.get(info) << 32
            | mem_page_fault_info::fault_token_31_0.get(info);
        let error = mem_page_fault_info::error.is_set(info);
        let Some(waiter) = self.hca.faults.open.remove(&token) else {
            return Err(Refusal::new(BAD_RES, format!("no page fault {token}")));
        };
        if error {
            refuse!(
                "fn{}: page fault {token} cannot be resolved, the driver says",
                self.id
            );
        }
        self.hca.faults.resumed.push(Resumed {
            waiter,
            token,
            error,
        });
        Ok(())
    }
}
