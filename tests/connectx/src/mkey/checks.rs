// SPDX-License-Identifier: GPL-2.0

//! What a key must be before it is enabled, and which memory it reaches then.

use super::{Mkey, Mode, PRESENT};
use crate::prelude::*;

/// The sizes of a page, as powers of two: without the capabilities for others.
const PAGE_SIZES: std::ops::RangeInclusive<u32> = 12..=31;
/// `qpn` of a key for all queue pairs.
const ANY_QP: u32 = 0xff_ffff;

impl Mkey {
    fn fits(&self) -> Result<(), String> {
        if self.mode != Mode::Pages {
            return Ok(());
        }
        // mlx5 has such tables for the parts of an MR of the whole address space, and for what no part has
        // been made of, in pages of 2^61 bytes: an access is limited by the table.
        if self.has(mkc::length64) {
            return Ok(());
        }
        if !PAGE_SIZES.contains(&self.log_page()) {
            return Err(format!("pages of 2^{} bytes", self.log_page()));
        }
        let Some(last) = self.last_page() else {
            return Ok(());
        };
        let room = self.table_size().next_multiple_of(64) / 8;
        if last >= room as u64 {
            return Err(format!("{} pages, and a table of {room}", last + 1));
        }
        Ok(())
    }

    /// Returns the number of the last page; `None` of an empty range.
    fn last_page(&self) -> Option<u64> {
        let last = self.len().checked_sub(1)?;
        Some(self.page(self.start().saturating_add(last)).0)
    }

    /// Returns the DMA addresses that the key translates to, if it is in use, and the length of
    /// each range. One that refers to other keys, and one of physical
    /// addresses, which only the driver has, have no translations of their own.
    pub fn reach(&self) -> Vec<(u64, u64)> {
        let Some(last) = self
            .last_page()
            .filter(|_| !self.free() && self.mode == Mode::Pages)
        else {
            return Vec::new();
        };
        let size = self.page_size();
        let before = self.start() & (size - 1);
        let end = before.saturating_add(self.len());
        let entries = self.table.chunks_exact(8).take(last as usize + 1);
        let mut ranges = Vec::<(u64, u64)>::new();
        for (n, entry) in entries.map(|entry| be64(entry, 0)).enumerate() {
            if entry & PRESENT == 0 {
                continue;
            }
            let from = n as u64 * size;
            let (first, past) = (before.max(from) - from, (end - from).min(size));
            let at = (entry & !(size - 1)).saturating_add(first);
            match ranges.last_mut() {
                Some((start, len)) if *start + *len == at => *len += past - first,
                _ => ranges.push((at, past - first)),
            }
        }
        ranges
    }
}

impl Function {
    /// Fails unless a key that is about to be in use has a protection domain, a queue pair that is there, and room for its translations.
    pub(crate) fn check_mkey(&self, mkey: &Mkey) -> Answer {
        self.hca.objects.usable(Kind::Pd, mkey.pd())?;
        if mkey.free() {
            return Ok(());
        }
        if mkey.qpn() != ANY_QP && !self.hca.qps.contains_key(&mkey.qpn()) {
            fail!(BAD_RES, "no QP {:#x}", mkey.qpn());
        }
        mkey.fits().map_err(|why| Refusal::new(BAD_PARAM, why))
    }
}
