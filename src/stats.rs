// SPDX-License-Identifier: GPL-2.0

//! The counters of one client, `/sys/kernel/mm/memory_peers/<name>/`.

use crate::ext::sysfs::{
    File,
    Files, //
};
use kernel::{
    fmt::Write,
    str::CString,
    sync::{
        atomic::{
            Atomic,
            Relaxed, //
        },
        Arc, //
    },
};

/// What is counted. Each only ever grows; the pairs are equal once all MRs are gone.
pub(crate) struct Stats {
    alloc_mrs: Atomic<u64>,
    dealloc_mrs: Atomic<u64>,
    reg_pages: Atomic<u64>,
    dereg_pages: Atomic<u64>,
    reg_bytes: Atomic<u64>,
    dereg_bytes: Atomic<u64>,
    free_callbacks: Atomic<u64>,
}

impl Stats {
    /// All zero.
    pub(crate) const fn new() -> Self {
        Self {
            alloc_mrs: Atomic::new(0),
            dealloc_mrs: Atomic::new(0),
            reg_pages: Atomic::new(0),
            dereg_pages: Atomic::new(0),
            reg_bytes: Atomic::new(0),
            dereg_bytes: Atomic::new(0),
            free_callbacks: Atomic::new(0),
        }
    }

    /// Counts a call of the invalidate callback.
    pub(crate) fn invalidated(&self) {
        self.free_callbacks.add(1, Relaxed);
    }
}

/// An MR that has been counted; counts it out when dropped.
pub(crate) struct Counted {
    stats: Arc<Stats>,
    pages: u64,
    bytes: u64,
}

impl Counted {
    /// Counts an MR over `pages` pages of `PAGE_SIZE`, `bytes` of which it can reach.
    pub(crate) fn new(stats: Arc<Stats>, pages: u64, bytes: u64) -> Self {
        stats.alloc_mrs.add(1, Relaxed);
        stats.reg_pages.add(pages, Relaxed);
        stats.reg_bytes.add(bytes, Relaxed);
        Self {
            stats,
            pages,
            bytes,
        }
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.stats.dereg_bytes.add(self.bytes, Relaxed);
        self.stats.dereg_pages.add(self.pages, Relaxed);
        self.stats.dealloc_mrs.add(1, Relaxed);
    }
}

/// What the folder of a client shows.
pub(crate) struct Shown {
    /// The client's own version text.
    pub(crate) version: CString,
    /// Its counters.
    pub(crate) stats: Arc<Stats>,
}

/// A file with one of the counters.
macro_rules! counter {
    ($name:literal, $field:ident) => {
        File::new($name, |shown: &Shown, out| {
            writeln!(out, "{}", shown.stats.$field.load(Relaxed))
        })
    };
}

impl Files for Shown {
    const FILES: &'static [File<Self>] = &[
        File::new(c"version", |shown, out| {
            writeln!(out, "{}", shown.version.to_str().unwrap_or("?"))
        }),
        counter!(c"num_alloc_mrs", alloc_mrs),
        counter!(c"num_dealloc_mrs", dealloc_mrs),
        counter!(c"num_reg_pages", reg_pages),
        counter!(c"num_dereg_pages", dereg_pages),
        counter!(c"num_reg_bytes", reg_bytes),
        counter!(c"num_dereg_bytes", dereg_bytes),
        counter!(c"num_free_callbacks", free_callbacks),
    ];
}
