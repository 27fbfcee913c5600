// SPDX-License-Identifier: GPL-2.0

//! UMR: the work request that registers memory on a key, changes a key, or frees it.

use crate::bits::{be16, be32, be64};
use crate::dma::{gather, total};
use crate::function::Function;
use crate::ifc::{mkc, Field};
use crate::mkey::{Access, AccessError};
use crate::qp::{Qp, Service};
use crate::refuse;
use crate::wqe::{pointer, Wqe};

const CONTROL: usize = 16;
const CONTEXT: usize = CONTROL + 48;
const LIST: usize = CONTEXT + mkc::BYTES;

/// Translations are copied in units of so many bytes (`MLX5_UMR_FLEX_ALIGNMENT`).
const ALIGNMENT: usize = 64;
const INLINE: u8 = 0x80;
/// The request fails if the key is free.
const CHECK_FREE: u8 = 0x40;
/// The request fails if the key is not free.
const CHECK_NOT_FREE: u8 = 0x20;
const OFFSET: u8 = 0x10;
/// The request fails if the key is bound to another queue pair.
const CHECK_QPN: u8 = 0x08;

/// Which part of the key changes.
mod mask {
    pub const LEN: u64 = 1 << 0;
    pub const PAGE_SIZE: u64 = 1 << 1;
    pub const START: u64 = 1 << 6;
    pub const PD: u64 = 1 << 7;
    pub const REMOTE_INVALIDATE: u64 = 1 << 8;
    pub const KEY: u64 = 1 << 13;
    pub const QPN: u64 = 1 << 14;
    pub const LOCAL_READ: u64 = 1 << 17;
    pub const LOCAL_WRITE: u64 = 1 << 18;
    pub const REMOTE_READ: u64 = 1 << 19;
    pub const REMOTE_WRITE: u64 = 1 << 20;
    pub const ATOMIC: u64 = 1 << 21;
    pub const SMALL_FENCE: u64 = 1 << 23;
    pub const RELAXED_WRITE: u64 = 1 << 25;
    pub const FREE: u64 = 1 << 29;
    pub const RELAXED_READ: u64 = 1 << 47;
}

/// What each bit changes.
const PARTS: &[(u64, &[Field])] = &[
    (mask::LEN, &[mkc::len, mkc::length64]),
    (mask::PAGE_SIZE, &[mkc::log_page_size]),
    (mask::START, &[mkc::start_addr]),
    (mask::PD, &[mkc::pd]),
    (mask::REMOTE_INVALIDATE, &[mkc::en_rinval]),
    (mask::KEY, &[mkc::mkey_7_0]),
    (mask::QPN, &[mkc::qpn]),
    (mask::LOCAL_READ, &[mkc::lr]),
    (mask::LOCAL_WRITE, &[mkc::lw]),
    (mask::REMOTE_READ, &[mkc::rr]),
    (mask::REMOTE_WRITE, &[mkc::rw]),
    (mask::ATOMIC, &[mkc::a]),
    (mask::SMALL_FENCE, &[]),
    (mask::RELAXED_WRITE, &[mkc::relaxed_ordering_write]),
    (mask::FREE, &[mkc::free]),
    (mask::RELAXED_READ, &[mkc::relaxed_ordering_read]),
];

/// How a UMR fails.
pub enum Failure {
    /// The key is not what the request takes it for.
    Bind(String),
    /// The list of translations cannot be read.
    List(AccessError),
}

impl Function {
    /// Keeps UMR work requests back, or has those done that were.
    pub fn hold_umr(&mut self, hold: bool) {
        self.inject.hold_umr = hold;
        if !hold {
            for qpn in std::mem::take(&mut self.inject.held_umr) {
                self.wake(qpn);
            }
        }
    }

    /// Returns whether a packet is in flight that has found its memory by a key, or by one above.
    pub fn in_flight(&self, index: u32) -> bool {
        self.hca.flying.iter().any(|(key, _)| *key == index)
    }

    pub fn umr(&mut self, qp: &Qp, wqe: &Wqe) -> Result<(), Failure> {
        let bind = |why: String| Err(Failure::Bind(why));
        if self.inject.fail_umr > 0 {
            self.inject.fail_umr -= 1;
            return bind("injected".into());
        }
        if wqe.bytes.len() < LIST {
            return bind(format!("{} bytes are too few", wqe.bytes.len()));
        }
        let control = &wqe.bytes[CONTROL..CONTEXT];
        let flags = control[0];
        let len = be16(control, 4) as usize * 16;
        let mask = be64(control, 8);
        let offset = if flags & OFFSET != 0 {
            (u64::from(be32(control, 16)) << 16 | u64::from(be16(control, 6))) as usize * 16
        } else {
            0
        };
        let list = self.translations(qp, wqe, flags, len)?;
        let context = wqe.bytes[CONTEXT..LIST].to_vec();
        let key = wqe.immediate;
        let Some(mkey) = self.hca.mkeys.get_mut(key >> 8) else {
            return bind(format!("mkey {key:#x}: no such index"));
        };
        let known = PARTS.iter().fold(0, |all, (bit, _)| all | bit);
        if mask & !known != 0 {
            return bind(format!(
                "mkey {key:#x}: mask {mask:#x} has bits that are not announced"
            ));
        }
        if !mkey.has(mkc::umr_en) {
            return bind(format!("mkey {key:#x} is not enabled for UMR"));
        }
        if mask & mask::KEY == 0 && mkey.variant() != key as u8 {
            return bind(format!(
                "mkey {key:#x} is stale, it is {:#x} now",
                mkey.variant()
            ));
        }
        if qp.service != Service::Umr && mkey.pd() != qp.pd() {
            return bind(format!(
                "mkey {key:#x} is of PD {:#x}, the queue pair of {:#x}",
                mkey.pd(),
                qp.pd()
            ));
        }
        if flags & CHECK_FREE != 0 && mkey.free() {
            return bind(format!("mkey {key:#x} is free"));
        }
        if flags & CHECK_NOT_FREE != 0 && !mkey.free() {
            return bind(format!("mkey {key:#x} is not free"));
        }
        if flags & CHECK_QPN != 0 && mkey.qpn() != qp.number {
            return bind(format!("mkey {key:#x} is of QP {:#x}", mkey.qpn()));
        }
        if list.len() % ALIGNMENT != 0 || offset % ALIGNMENT != 0 {
            return bind(format!(
                "mkey {key:#x}: {} bytes of translations at {offset}, not in units of {ALIGNMENT}",
                list.len()
            ));
        }
        if offset + list.len() > mkey.table_size().next_multiple_of(ALIGNMENT) {
            let size = mkey.table_size();
            return bind(format!(
                "mkey {key:#x}: translations to {}, of {size}",
                offset + list.len()
            ));
        }
        let mut new = mkey.clone();
        for (_, fields) in PARTS.iter().filter(|(bit, _)| mask & bit != 0) {
            fields.iter().for_each(|field| new.take(*field, &context));
        }
        if let Err(refusal) = self.check_mkey(&new) {
            return bind(format!("mkey {key:#x}: {}", refusal.why));
        }
        let table = &mut new.table;
        if !list.is_empty() {
            if table.len() < offset + list.len() {
                table.resize(offset + list.len(), 0);
            }
            table[offset..offset + list.len()].copy_from_slice(&list);
        }
        let what = if new.free() { "freed" } else { "written" };
        self.hca.mkeys.replace(key >> 8, new);
        self.log_mkey(what, key);
        Ok(())
    }

    /// Returns the translations of a work request: in itself, or where it points to.
    fn translations(&self, qp: &Qp, wqe: &Wqe, flags: u8, len: usize) -> Result<Vec<u8>, Failure> {
        if len == 0 {
            return Ok(Vec::new());
        }
        if flags & INLINE != 0 {
            let list = wqe.bytes.get(LIST..LIST + len);
            return list
                .map(<[u8]>::to_vec)
                .ok_or(Failure::Bind("the list is cut off".into()));
        }
        let Some(segment) = wqe.bytes.get(LIST..LIST + 16) else {
            return Err(Failure::Bind("there is no list".into()));
        };
        let mut spans = Vec::new();
        let pointer = pointer(segment);
        self.pointed(qp, &pointer, Access::LocalRead, &mut spans)
            .map_err(Failure::List)?;
        if total(&spans) < len {
            return Err(Failure::Bind(format!(
                "the list has {} bytes, not {len}",
                total(&spans)
            )));
        }
        let mut list = vec![0; len];
        gather(&spans, &mut list);
        Ok(list)
    }

    /// Frees a key, as a send with invalidation to a queue pair asks for.
    pub fn invalidate(&mut self, qp: &Qp, key: u32) -> Result<(), AccessError> {
        let mkey = self.hca.mkeys.get_mut(key >> 8).ok_or(AccessError::NoKey)?;
        if mkey.variant() != key as u8 {
            return Err(AccessError::Stale);
        }
        if mkey.pd() != qp.pd() {
            return Err(AccessError::OtherPd);
        }
        if mkey.qpn() != 0xff_ffff && mkey.qpn() != qp.number {
            return Err(AccessError::OtherQp);
        }
        if !mkey.has(mkc::en_rinval) {
            refuse!(
                self,
                "mkey {key:#x} is not to be invalidated by the other end"
            );
            return Err(AccessError::Permission);
        }
        mkey.set(mkc::free, 1);
        Ok(())
    }
}

#[cfg(test)]
mod tests;
