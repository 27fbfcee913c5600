// SPDX-License-Identifier: GPL-2.0

//! A memory key in words, for the log and for tests that compare translations.

use super::{Mkey, Mode, PRESENT};
use crate::dma::Place;
use crate::prelude::*;

impl Mkey {
    /// Returns the translation: entries that follow each other as one. With `dma`, what is at the
    /// addresses instead of these, which are not the same each time behind an IOMMU.
    pub fn describe(&self, dma: Option<&Dma>) -> String {
        let flag = |field, yes, no| if self.has(field) { yes } else { no };
        let mut text = format!(
            "{:?} start {:#x} len {:#x} page {:#x} pd {:#x} access {}{}{}{}{}{}{}",
            self.mode,
            self.start(),
            self.len(),
            self.page_size(),
            self.pd(),
            flag(mkc::lr, "r", "-"),
            flag(mkc::lw, "w", "-"),
            flag(mkc::rr, "R", "-"),
            flag(mkc::rw, "W", "-"),
            flag(mkc::a, "A", "-"),
            flag(mkc::relaxed_ordering_read, " relaxed-read", ""),
            flag(mkc::relaxed_ordering_write, " relaxed-write", ""),
        );
        let (last, _) = self.page(self.start().saturating_add(self.len().saturating_sub(1)));
        match self.mode {
            Mode::Physical => {}
            Mode::Pages => {
                let entries = self.table.chunks_exact(8);
                let entries = entries.take((last as usize).saturating_add(1));
                // The memory, the first entry in it, and how many follow.
                let mut runs = Vec::<(String, u64, u64)>::new();
                for entry in entries.map(|entry| be64(entry, 0)) {
                    let (memory, entry) = located(entry, dma);
                    match runs.last_mut() {
                        Some((last, first, count))
                            if entry & PRESENT != 0
                                && *last == memory
                                && entry == *first + *count * self.page_size() =>
                        {
                            *count += 1;
                        }
                        _ => runs.push((memory, entry, 1)),
                    }
                }
                for (memory, first, count) in runs {
                    text += &format!(" {memory}{first:#x}*{count}");
                }
            }
            Mode::Ranges | Mode::FixedRanges => {
                for entry in self.table.chunks_exact(16).take(64) {
                    text += &format!(
                        " {:#x}@{:#x}:{:#x}",
                        be64(entry, 8),
                        be32(entry, 4),
                        be32(entry, 0)
                    );
                }
            }
        }
        text
    }
}

/// Returns an entry with the offset in the memory in the place of the address, and that memory.
fn located(entry: u64, dma: Option<&Dma>) -> (String, u64) {
    let Some(dma) = dma.filter(|_| entry & PRESENT != 0) else {
        return (String::new(), entry);
    };
    match dma.places(entry & !PRESENT, 1).first() {
        Some(Place::In(memory, offset)) => (format!("{memory}+"), offset | entry & PRESENT),
        _ => ("nothing+".into(), entry),
    }
}
