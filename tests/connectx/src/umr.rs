// SPDX-License-Identifier: GPL-2.0

//! UMR: the work request that registers memory on a key, changes a key, or frees it.

use crate::prelude::*;

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

/// Bits of the mask of what changes in the key; the others are in `PARTS` alone.
mod mask {
    pub const LEN: u64 = 1 << 0;
    pub const PAGE_SIZE: u64 = 1 << 1;
    pub const START: u64 = 1 << 6;
    pub const PD: u64 = 1 << 7;
    pub const KEY: u64 = 1 << 13;
    pub const QPN: u64 = 1 << 14;
    pub const REMOTE_WRITE: u64 = 1 << 20;
    pub const FREE: u64 = 1 << 29;
}

const PARTS: &[(u64, &[Field])] = &[
    (mask::LEN, &[mkc::len, mkc::length64]),
    (mask::PAGE_SIZE, &[mkc::log_page_size]),
    (mask::START, &[mkc::start_addr]),
    (mask::PD, &[mkc::pd]),
    (1 << 8, &[mkc::en_rinval]),
    (mask::KEY, &[mkc::mkey_7_0]),
    (mask::QPN, &[mkc::qpn]),
    (1 << 17, &[mkc::lr]),
    (1 << 18, &[mkc::lw]),
    (1 << 19, &[mkc::rr]),
    (mask::REMOTE_WRITE, &[mkc::rw]),
    (1 << 21, &[mkc::a]),
    (1 << 23, &[]),
    (1 << 25, &[mkc::relaxed_ordering_write]),
    (mask::FREE, &[mkc::free]),
    (1 << 47, &[mkc::relaxed_ordering_read]),
];

impl Function {
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

    pub fn umr(&mut self, qp: &Qp, wqe: &Wqe) -> Result<(), String> {
        if qp.message.applied {
            return Ok(());
        }
        if self.inject.fail_umr > 0 {
            self.inject.fail_umr -= 1;
            return Err("injected".into());
        }
        if wqe.bytes.len() < LIST {
            return Err(format!("{} bytes are too few", wqe.bytes.len()));
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
        let Some(mkey) = self.hca.mkeys.all.get_mut(&(key >> 8)) else {
            return Err(format!("mkey {key:#x}: no such index"));
        };
        let known = PARTS.iter().fold(0, |all, (bit, _)| all | bit);
        let end = offset + list.len();
        let refusals = [
            (mask & !known != 0, "bits of the mask are not announced"),
            (!mkey.has(mkc::umr_en), "it is not enabled for UMR"),
            (
                mask & mask::KEY == 0 && mkey.variant() != key as u8,
                "it is stale",
            ),
            (
                qp.service != Service::Umr && mkey.pd() != qp.pd(),
                "of another PD",
            ),
            (flags & CHECK_FREE != 0 && mkey.free(), "it is free"),
            (
                flags & CHECK_NOT_FREE != 0 && !mkey.free(),
                "it is not free",
            ),
            (
                flags & CHECK_QPN != 0 && mkey.qpn() != qp.number,
                "of another QP",
            ),
            (
                list.len() % ALIGNMENT != 0,
                "translations not in units of 64 bytes",
            ),
            (
                offset % ALIGNMENT != 0,
                "an offset not in units of 64 bytes",
            ),
            (
                end > mkey.table_size().next_multiple_of(ALIGNMENT),
                "no room for the translations",
            ),
        ];
        if let Some((_, why)) = refusals.iter().find(|(refused, _)| *refused) {
            return Err(format!("mkey {key:#x}: {why}"));
        }
        let mut new = mkey.clone();
        for (_, fields) in PARTS.iter().filter(|(bit, _)| mask & bit != 0) {
            fields.iter().for_each(|field| new.take(*field, &context));
        }
        if let Err(refusal) = self.check_mkey(&new) {
            return Err(format!("mkey {key:#x}: {}", refusal.why));
        }
        if !list.is_empty() {
            new.table.resize(new.table.len().max(end), 0);
            new.table[offset..end].copy_from_slice(&list);
        }
        let what = if new.free() { "freed" } else { "written" };
        self.hca.mkeys.all.insert(key >> 8, new);
        self.log_mkey(what, key);
        Ok(())
    }

    /// Returns the translations of a work request: in itself, or where it points to.
    fn translations(&self, qp: &Qp, wqe: &Wqe, flags: u8, len: usize) -> Result<Vec<u8>, String> {
        if len == 0 {
            return Ok(Vec::new());
        }
        if flags & INLINE != 0 {
            let list = wqe.bytes.get(LIST..LIST + len).map(<[u8]>::to_vec);
            return list.ok_or("the list is cut off".into());
        }
        let Some(segment) = wqe.bytes.get(LIST..LIST + 16) else {
            return Err("there is no list".into());
        };
        let spans = self.translate(&pointed(segment, Access::LocalRead, qp.requester()));
        let spans = spans.map_err(|error| {
            self.denied("UMR, translations", error);
            "the list cannot be read"
        })?;
        if total(&spans) < len {
            return Err(format!("the list has {} bytes, not {len}", total(&spans)));
        }
        let mut list = vec![0; len];
        gather(&spans, &mut list);
        Ok(list)
    }

    /// Frees a key, as a send with invalidation to a queue pair asks for.
    pub fn invalidate(&mut self, qp: &Qp, key: u32) -> Result<(), AccessError> {
        let mkey = self
            .hca
            .mkeys
            .all
            .get_mut(&(key >> 8))
            .ok_or(AccessError::NoKey)?;
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
            return Err(AccessError::Permission);
        }
        mkey.set(mkc::free, 1);
        Ok(())
    }
}

#[cfg(test)]
mod tests;
