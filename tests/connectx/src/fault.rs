// SPDX-License-Identifier: GPL-2.0

//! Page faults: a queue pair stops until the driver has mapped the page, or says that it cannot. An
//! event says which memory is missing.

use crate::prelude::*;

const MEMORY: u8 = 2;
/// The only event of this fault: the driver answers it.
const LAST: u8 = 0x80;
const PAGE: u64 = 4096;

/// Who waits: the function and the queue pair of the requester.
pub type Waiter = (usize, u32);

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

#[derive(Default)]
pub struct Faults {
    next: u64,
    open: BTreeMap<u64, Waiter>,
    held: Vec<[u8; 28]>,
    hold: bool,
    /// Answered; the queue pairs may be of another function.
    pub resumed: Vec<Resumed>,
}

fn event_of(token: u64, missing: &Missing) -> [u8; 28] {
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

impl Function {
    /// Reports a page fault, for the queue pair `waiter`; returns its token. Returns `None` if
    /// the driver has no queue for page faults.
    pub fn page_fault(&mut self, missing: &Missing, waiter: Waiter) -> Option<u64> {
        self.eq_for(event::PAGE_FAULT)?;
        let faults = &mut self.hca.faults;
        faults.next += 1;
        let token = faults.next;
        let data = event_of(token, missing);
        faults.open.insert(token, waiter);
        trace!(2, self, "page fault {token}: {missing:x?}");
        if faults.hold {
            faults.held.push(data);
        } else {
            self.post_event(event::PAGE_FAULT, MEMORY, &data);
        }
        Some(token)
    }

    pub fn hold_page_faults(&mut self, hold: bool) {
        self.hca.faults.hold = hold;
        if !hold {
            for data in std::mem::take(&mut self.hca.faults.held) {
                self.post_event(event::PAGE_FAULT, MEMORY, &data);
            }
        }
    }

    pub fn page_fault_resume(&mut self, input: &[u8]) -> Answer {
        let info = page_fault_resume_in::page_fault_info.rest(input);
        let high = mem_page_fault_info::fault_token_47_32.get(info);
        let token = high << 32 | mem_page_fault_info::fault_token_31_0.get(info);
        let error = mem_page_fault_info::error.is_set(info);
        let Some(waiter) = self.hca.faults.open.remove(&token) else {
            fail!(BAD_RES, "no page fault {token}");
        };
        if error {
            refuse!(self, "page fault {token} cannot be resolved");
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

    #[test]
    fn an_answer_by_the_token_resumes_its_queue_pair_once() {
        let mut function = Function::new(0, Features::default());
        function.hca.faults.open.insert(7, (0, 5));
        let mut answer = |token| {
            let mut input = [0; 16];
            let info = page_fault_resume_in::page_fault_info.rest_mut(&mut input);
            let token = (mem_page_fault_info::fault_token_31_0, token);
            set(info, &[token, (mem_page_fault_info::error, 1)]);
            let taken = function.page_fault_resume(&input).is_ok();
            taken.then(|| function.hca.faults.resumed.remove(0))
        };
        assert!(answer(8).is_none());
        let resumed = answer(7).unwrap();
        assert_eq!((resumed.waiter, resumed.error), ((0, 5), true));
        assert!(answer(7).is_none());
    }

    #[test]
    fn an_event_says_what_the_driver_needs() {
        let missing = Missing {
            key: 0x1234,
            va: 0x7f00_0000_1001,
            len: 8192,
        };
        let event = event_of(0x1_0000_0002, &missing);
        assert_eq!((be16(&event, 6), be32(&event, 8)), (1, 2));
        // It begins in one page and ends in the third.
        assert_eq!(be32(&event, 12), 3 << 12);
        assert_eq!(be32(&event, 16), missing.key);
        assert_eq!(be64(&event, 20), missing.va);
    }
}
