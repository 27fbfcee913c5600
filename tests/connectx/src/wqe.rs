// SPDX-License-Identifier: GPL-2.0

//! Work requests of a send queue: how they are read from it, and what they are made of.

use crate::prelude::*;
use crate::qp::BLOCK;

pub mod opcode {
    pub const NOP: u8 = 0x00;
    pub const SEND_INVALIDATE: u8 = 0x01;
    pub const WRITE: u8 = 0x08;
    pub const WRITE_IMM: u8 = 0x09;
    pub const SEND: u8 = 0x0a;
    pub const SEND_IMM: u8 = 0x0b;
    pub const READ: u8 = 0x10;
    pub const COMPARE_SWAP: u8 = 0x11;
    pub const FETCH_ADD: u8 = 0x12;
    pub const UMR: u8 = 0x25;
}

const UNIT: usize = 16;
const INLINE: u32 = 0x8000_0000;
const WHOLE: u32 = 0x8000_0000;

pub struct Wqe {
    pub bytes: Vec<u8>,
    pub index: u16,
    pub opcode: u8,
    /// Immediate data, or a memory key.
    pub immediate: u32,
    pub signaled: bool,
    pub blocks: u16,
}

/// What comes next in a send queue.
pub enum Next {
    Nothing,
    Work(Wqe),
    /// What is there is no work request of this queue.
    Malformed(Wqe),
}

impl Wqe {
    /// Returns the bytes from an offset on; nothing if it is past the end.
    pub fn rest(&self, at: usize) -> &[u8] {
        self.bytes.get(at..).unwrap_or_default()
    }

    /// Returns the completion of this work request of `qp`, of no bytes.
    pub fn completion(&self, qp: &Qp) -> Cqe {
        Cqe {
            qpn: qp.number,
            wqe_counter: self.index,
            wqe_opcode: self.opcode,
            user_index: qp.get(qpc::user_index),
            ..Cqe::default()
        }
    }

    /// Returns the completion of the receive of so many bytes that this work request of `source` has sent.
    pub fn received(&self, opcode: u8, source: u32, bytes: u32) -> Cqe {
        Cqe {
            opcode,
            immediate: self.immediate,
            bytes,
            flags_source: source,
            ..Cqe::default()
        }
    }

    pub fn new(bytes: Vec<u8>, index: u16) -> Self {
        Self {
            index,
            opcode: bytes[3],
            immediate: be32(&bytes, 12),
            // Completion, or completion and event; the others are on error only.
            signaled: bytes[11] & 0x08 != 0,
            blocks: bytes.len().div_ceil(BLOCK as usize) as u16,
            bytes,
        }
    }
}

/// Returns the memory of the ring from byte `at` on, round its end.
fn ring(function: &Function, qp: &Qp, mut at: u64, mut len: u64) -> Result<Spans, Unmapped> {
    let size = BLOCK << qp.send.log_size;
    let mut spans = Spans::new();
    while len > 0 {
        at &= size - 1;
        let here = len.min(size - at);
        spans.extend(qp.send.buffer.spans(&function.dma, at, here, false)?);
        at += here;
        len -= here;
    }
    Ok(spans)
}

fn read(function: &Function, qp: &Qp, at: u16, len: usize) -> Result<Vec<u8>, Unmapped> {
    let mut bytes = vec![0; len];
    gather(
        &ring(function, qp, u64::from(at) * BLOCK, len as u64)?,
        &mut bytes,
    );
    Ok(bytes)
}

impl Function {
    pub fn next_work(&self, qp: &Qp) -> Next {
        let index = qp.send.next;
        if qp.send.stride == 0 || qp.state < State::Rts || self.posted(qp).1 == index {
            return Next::Nothing;
        }
        let wqe = read(self, qp, index, BLOCK as usize).and_then(|first| {
            let len = (first[7] & 0x3f) as usize * UNIT;
            read(self, qp, index, len.max(UNIT)).map(|bytes| Wqe::new(bytes, index))
        });
        let wqe = match wqe {
            Ok(wqe) => wqe,
            Err(bad) => {
                self.unmapped(&format!("send queue of QP {:#x}", qp.number), bad.0);
                return Next::Malformed(Wqe::new(vec![0; UNIT], index));
            }
        };
        let head = be32(&wqe.bytes, 0);
        let (found, qpn) = ((head >> 8) as u16, be32(&wqe.bytes, 4) >> 8);
        if qp.state != State::Error && (found != index || qpn != qp.number) {
            error!(
                self,
                "QP {:#x}: work request {index} says index {found}, QP {qpn:#x}", qp.number
            );
            return Next::Malformed(wqe);
        }
        Next::Work(wqe)
    }

    /// Returns the memory of `part` of the data that a work request points to, or has in itself, from the
    /// segment at byte `at` on; and the length of all the data.
    pub fn data(
        &self,
        qp: &Qp,
        wqe: &Wqe,
        mut at: usize,
        part: Range<u64>,
    ) -> Result<(Spans, u64), AccessError> {
        let access = match wqe.opcode {
            opcode::READ | opcode::COMPARE_SWAP | opcode::FETCH_ADD => Access::LocalWrite,
            _ => Access::LocalRead,
        };
        let (mut spans, mut before) = (Spans::new(), 0);
        while at + 4 <= wqe.bytes.len() {
            let mut request = pointed(&wqe.bytes[at..], access, qp.requester());
            let count = be32(&wqe.bytes, at);
            let inline = count & INLINE != 0;
            let len = match inline {
                true => u64::from(count & !INLINE),
                false => request.len,
            };
            let first = part.start.clamp(before, before + len) - before;
            let wanted = part.end.clamp(before, before + len) - before - first;
            before += len;
            if inline {
                let end = at + 4 + len as usize;
                if end > wqe.bytes.len() {
                    return Err(AccessError::Bounds);
                }
                let from = u64::from(wqe.index) * BLOCK + at as u64 + 4 + first;
                spans.extend(ring(self, qp, from, wanted)?);
                at = end.next_multiple_of(UNIT);
                continue;
            }
            if wanted > 0 {
                (request.len, request.va) = (wanted, request.va.wrapping_add(first));
                spans.extend(self.translate(&request)?);
            }
            at += UNIT;
        }
        Ok((spans, before))
    }

    pub fn translate(&self, request: &Request) -> Result<Spans, AccessError> {
        self.hca.mkeys.translate(&self.dma, request)
    }

    pub fn denied(&self, what: &str, error: AccessError) {
        match error {
            AccessError::Unmapped(at) => self.unmapped(what, at),
            other => refuse!(self, "{what}: {other:?}"),
        }
    }
}

/// Returns the access to the memory that a segment points to.
pub fn pointed(segment: &[u8], access: Access, requester: Requester) -> Request {
    let count = be32(segment, 0);
    Request {
        len: u64::from(if count == 0 { WHOLE } else { count }),
        key: be32(segment, 4),
        va: be64(segment, 8),
        access,
        requester,
    }
}

/// Returns the segment that names memory of the other end: address, key.
pub fn remote(segment: &[u8]) -> (u64, u32) {
    (be64(segment, 0), be32(segment, 8))
}
