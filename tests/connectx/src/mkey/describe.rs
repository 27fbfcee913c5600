// SPDX-License-Identifier: GPL-2.0

//! A memory key in words, for the log and for tests that compare translations.

use super::{Mkey, Mode, PRESENT};
use crate::bits::{be32, be64};

impl Mkey {
    /// Returns the translation, for the log: entries that follow each other as one.
    pub fn describe(&self) -> String {
        let mut text = format!(
            "{:?} start {:#x} len {:#x} page {:#x} pd {:#x} access {}{}{}{}{}{}{}",
            self.mode,
            self.start,
            self.len,
            1u64 << self.log_page.min(63),
            self.pd,
            if self.local_read { "r" } else { "-" },
            if self.local_write { "w" } else { "-" },
            if self.remote_read { "R" } else { "-" },
            if self.remote_write { "W" } else { "-" },
            if self.atomic { "A" } else { "-" },
            if self.relaxed_read {
                " relaxed-read"
            } else {
                ""
            },
            if self.relaxed_write {
                " relaxed-write"
            } else {
                ""
            },
        );
        let (last, _) = self.page(self.start.saturating_add(self.len.saturating_sub(1)));
        match self.mode {
            Mode::Physical => {}
            Mode::Pages => {
                let (mut run, size) = (None::<(u64, u64)>, 1u64 << self.log_page.min(63));
                let entries = self
                    .table
                    .chunks_exact(8)
                    .take((last as usize).saturating_add(1));
                for entry in entries.map(|entry| be64(entry, 0)) {
                    run = match run {
                        Some((first, count))
                            if entry & PRESENT != 0 && entry == first + count * size =>
                        {
                            Some((first, count + 1))
                        }
                        before => {
                            text += &before.map_or(String::new(), |(first, count)| {
                                format!(" {first:#x}*{count}")
                            });
                            Some((entry, 1))
                        }
                    };
                }
                text += &run.map_or(String::new(), |(first, count)| {
                    format!(" {first:#x}*{count}")
                });
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
