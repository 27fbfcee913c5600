// SPDX-License-Identifier: GPL-2.0

//! Page faults: a queue pair stops until the driver has mapped the page, or says that it cannot.
//!
//! An event says either which memory is missing (the memory scheme), or which work request or
//! packet has met it (the transport scheme): the driver then finds the memory itself.

use std::collections::btree_map::{BTreeMap, Entry};

use crate::bits::put;
use crate::command::{Refusal, BAD_RES};
use crate::eq::event;
use crate::function::Function;
use crate::ifc::{mem_page_fault_info, page_fault_resume_in, trans_page_fault_info};
use crate::{refuse, trace};

/// What an event is about.
mod subtype {
    pub const WORK_REQUEST: u8 = 0;
    pub const PACKET: u8 = 1;
    pub const MEMORY: u8 = 2;
}
/// The kinds of the transport scheme; those of a packet are flags.
mod kind {
    pub const SHARED_RECEIVE: u32 = 0;
    pub const SEND_OR_WRITE: u32 = 1;
    pub const RECEIVE: u32 = 2;
    pub const READ_OR_ATOMIC: u32 = 3;
    pub const PACKET: u32 = 4;
    pub const WRITES: u32 = 2;
}
/// The only event of this fault: the driver answers it.
const LAST: u8 = 0x80;
const PAGE: u64 = 4096;
/// The tokens of the transport scheme have 24 bits.
const TOKEN: u64 = 0xff_ffff;

/// Who waits: the function and the queue pair of the requester.
pub type Waiter = (usize, u32);

/// Who has met the missing page.
#[derive(Clone, Copy)]
pub enum Source {
    /// A work request of the requester's send queue, at this index.
    Request { index: u16, writes: bool },
    /// A packet that names memory of the responder.
    Packet { writes: bool },
    /// A receive work request of this queue pair, or of this shared queue.
    Receive {
        queue: u32,
        shared: bool,
        index: u16,
    },
}

#[derive(Debug)]
pub struct Missing {
    pub key: u32,
    pub va: u64,
    pub len: u64,
}

#[derive(Debug)]
pub struct Resumed {
    pub waiter: Waiter,
    pub token: u64,
    pub error: bool,
}

struct Open {
    waiter: Waiter,
    /// The number of the queue, as the answer must have it in the transport scheme.
    queue: u32,
}

#[derive(Default)]
pub struct Faults {
    next: u64,
    open: BTreeMap<u64, Open>,
    /// Events that the control socket has asked to keep back.
    held: Vec<(u8, [u8; 28])>,
    hold: bool,
    /// Answered; the queue pairs may be of another function.
    pub resumed: Vec<Resumed>,
}

fn of_memory(token: u64, missing: &Missing) -> [u8; 28] {
    let first = missing.va & !(PAGE - 1);
    let pages = (missing.va.saturating_add(missing.len.max(1)) - first)
        .div_ceil(PAGE)
        .min(0x400);
    let mut data = [0; 28];
    data[0] = LAST;
    put(&mut data, 6, &((token >> 32) as u16).to_be_bytes());
    put(&mut data, 8, &(token as u32).to_be_bytes());
    put(&mut data, 12, &((pages as u32) << 12).to_be_bytes());
    put(&mut data, 16, &missing.key.to_be_bytes());
    put(&mut data, 20, &missing.va.to_be_bytes());
    data
}

/// Returns the event of the transport scheme for a work request.
fn of_work_request(token: u64, index: u16, kind: u32, queue: u32) -> [u8; 28] {
    let mut data = [0; 28];
    put(&mut data, 6, &index.to_be_bytes());
    put(&mut data, 12, &(token as u32).to_be_bytes());
    put(&mut data, 24, &(kind << 24 | queue).to_be_bytes());
    data
}

/// Returns the event of the transport scheme for a packet.
fn of_packet(token: u64, kind: u32, missing: &Missing) -> [u8; 28] {
    let mut data = [0; 28];
    let len = missing.len.min(u64::from(u32::MAX)) as u32;
    put(&mut data, 4, &missing.key.to_be_bytes());
    put(&mut data, 10, &(len.min(PAGE as u32) as u16).to_be_bytes());
    put(&mut data, 12, &len.to_be_bytes());
    put(&mut data, 16, &missing.va.to_be_bytes());
    put(&mut data, 24, &(kind << 24 | token as u32).to_be_bytes());
    data
}

impl Function {
    /// Reports a page fault, for the queue pair `waiter`; returns its token. Returns `None` if
    /// the driver has no queue for page faults.
    pub fn page_fault(&mut self, missing: &Missing, source: Source, waiter: Waiter) -> Option<u64> {
        self.eq_for(event::PAGE_FAULT)?;
        let transport = self.features.transport_faults;
        let faults = &mut self.hca.faults;
        faults.next += 1;
        let token = faults.next & if transport { TOKEN } else { u64::MAX };
        let by_request = |index, kind, queue| {
            let data = of_work_request(token, index, kind, queue);
            (subtype::WORK_REQUEST, data, queue)
        };
        let (subtype, data, queue) = match source {
            _ if !transport => (subtype::MEMORY, of_memory(token, missing), 0),
            Source::Packet { writes } => {
                let kind = kind::PACKET | if writes { kind::WRITES } else { 0 };
                // The driver answers with the token in the place of a queue.
                let data = of_packet(token, kind, missing);
                (subtype::PACKET, data, token as u32)
            }
            // What writes to the memory of the requester has read, or is atomic.
            Source::Request { index, writes } if writes => {
                by_request(index, kind::READ_OR_ATOMIC, waiter.1)
            }
            Source::Request { index, .. } => by_request(index, kind::SEND_OR_WRITE, waiter.1),
            Source::Receive {
                queue,
                shared,
                index,
            } if shared => by_request(index, kind::SHARED_RECEIVE, queue),
            Source::Receive { queue, index, .. } => by_request(index, kind::RECEIVE, queue),
        };
        faults.open.insert(token, Open { waiter, queue });
        trace!(
            2,
            self,
            "page fault {token}, subtype {subtype}: {missing:x?}"
        );
        if faults.hold {
            faults.held.push((subtype, data));
        } else {
            self.post_event(event::PAGE_FAULT, subtype, &data);
        }
        Some(token)
    }

    /// Keeps page faults back, or lets those go that were.
    pub fn hold_page_faults(&mut self, hold: bool) {
        self.hca.faults.hold = hold;
        if !hold {
            for (subtype, data) in std::mem::take(&mut self.hca.faults.held) {
                self.post_event(event::PAGE_FAULT, subtype, &data);
            }
        }
    }

    pub fn page_fault_resume(&mut self, input: &[u8]) -> Result<(), Refusal> {
        let info = page_fault_resume_in::page_fault_info.rest(input);
        let (token, error, queue) = if self.features.transport_faults {
            (
                trans_page_fault_info::fault_token.get(info),
                trans_page_fault_info::error.is_set(info),
                trans_page_fault_info::wq_number.get32(info),
            )
        } else {
            let high = mem_page_fault_info::fault_token_47_32.get(info);
            let low = mem_page_fault_info::fault_token_31_0.get(info);
            let error = mem_page_fault_info::error.is_set(info);
            (high << 32 | low, error, 0)
        };
        let waiter = match self.hca.faults.open.entry(token) {
            Entry::Occupied(fault) if fault.get().queue == queue => fault.remove().waiter,
            _ => {
                let why = format!("no page fault {token} of queue {queue:#x}");
                return Err(Refusal::new(BAD_RES, why));
            }
        };
        if error {
            refuse!(
                self,
                "page fault {token} cannot be resolved, the driver says"
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bits::{be16, be32, be64, set};
    use crate::caps::Features;
    use crate::ifc::Field;

    const MISSING: Missing = Missing {
        key: 0x1234,
        va: 0x7f00_0000_1001,
        len: 8192,
    };

    /// Has the driver answer a page fault of queue pair 5, whose token is 7.
    fn resume(transport_faults: bool, fields: &[(Field, u64)]) -> Result<Resumed, Refusal> {
        let features = Features {
            transport_faults,
            ..Features::default()
        };
        let mut function = Function::new(0, features);
        let queue = if transport_faults { 5 } else { 0 };
        let waiter = (0, 5);
        function.hca.faults.open.insert(7, Open { waiter, queue });
        let mut input = [0; 16];
        set(
            page_fault_resume_in::page_fault_info.rest_mut(&mut input),
            fields,
        );
        function.page_fault_resume(&input)?;
        assert!(function.page_fault_resume(&input).is_err());
        Ok(function.hca.faults.resumed.remove(0))
    }

    #[test]
    fn an_answer_by_the_token_resumes_its_queue_pair() {
        let token = mem_page_fault_info::fault_token_31_0;
        assert!(resume(false, &[(token, 8)]).is_err());
        let error = (mem_page_fault_info::error, 1);
        let resumed = resume(false, &[(token, 7), error]).unwrap();
        assert_eq!((resumed.waiter, resumed.error), ((0, 5), true));
        // One of the transport scheme names the queue.
        let token = (trans_page_fault_info::fault_token, 7);
        let queue = trans_page_fault_info::wq_number;
        assert!(resume(true, &[token, (queue, 6)]).is_err());
        assert!(!resume(true, &[token, (queue, 5)]).unwrap().error);
    }

    #[test]
    fn events_say_what_the_driver_needs() {
        let memory = of_memory(0x1_0000_0002, &MISSING);
        assert_eq!((be16(&memory, 6), be32(&memory, 8)), (1, 2));
        // It begins in one page and ends in the third.
        assert_eq!(be32(&memory, 12), 3 << 12);
        let packet = of_packet(9, kind::PACKET | kind::WRITES, &MISSING);
        assert_eq!((be32(&packet, 4), be32(&packet, 12)), (0x1234, 8192));
        assert_eq!(be64(&packet, 16), MISSING.va);
        assert_eq!(be32(&packet, 24), 6 << 24 | 9);
        let request = of_work_request(9, 3, kind::READ_OR_ATOMIC, 0x55);
        assert_eq!((be16(&request, 6), be32(&request, 12)), (3, 9));
        assert_eq!(be32(&request, 24), 3 << 24 | 0x55);
    }
}
