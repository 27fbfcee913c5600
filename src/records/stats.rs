// SPDX-License-Identifier: GPL-2.0

//! Counters of MRs: of one client, in `/sys/kernel/mm/memory_peers/<name>/`, or of the dma-bufs
//! that one device imports, for debugfs.
//!
//! [`Stats`] has the counters. A [`CountedMr`] counts the registration of an MR, and on drop the
//! deregistration. Beside the counters is the switch that stops new registrations. Context: any.

use crate::ext::base::sysfs::{
    parse_switch,
    File,
    Files, //
};
use crate::prelude::*;
use kernel::fmt::Write;

#[macro_use]
mod list;

macro_rules! define {
    ($($name:ident => $file:literal,)*) => {
        /// The counters of a client. Counters only grow.
        #[derive(Clone, Copy)]
        enum Counter {
            $($name,)*
        }

        const COUNTERS: usize = [$($file),*].len();

        impl Files for ClientDir {
            const FILES: &'static [File<Self>] = &[
                File::new(c"version", |dir, out| {
                    writeln!(out, "{}", dir.version.to_str().unwrap_or("?"))
                }),
                File::writable(
                    c"drain",
                    |dir, out| writeln!(out, "{}", u8::from(dir.stats.is_draining())),
                    |dir, text| parse_switch(text).map(|on| dir.stats.draining.store(on, Relaxed)),
                ),
                $(File::new($file, |dir, out| {
                    writeln!(out, "{}", dir.stats.get(Counter::$name))
                }),)*
            ];
        }
    };
}

counters!(define);

/// The counters of a client, or of the imports of a device.
pub(crate) struct Stats {
    counters: [Atomic<u64>; COUNTERS],
    /// Root has stopped new registrations of the client's memory.
    draining: Atomic<bool>,
}

impl Stats {
    pub(crate) const fn new() -> Self {
        Self {
            counters: [const { Atomic::new(0) }; COUNTERS],
            draining: Atomic::new(false),
        }
    }

    fn add(&self, counter: Counter, n: u64) {
        self.counters[counter as usize].add(n, Relaxed);
    }

    fn get(&self, counter: Counter) -> u64 {
        self.counters[counter as usize].load(Relaxed)
    }

    pub(crate) fn is_draining(&self) -> bool {
        self.draining.load(Relaxed)
    }

    /// Returns the number of MRs ever made.
    pub(crate) fn made(&self) -> u64 {
        self.get(Counter::AllocMrs)
    }

    /// Returns the number of live MRs, roughly: MRs may come and go during the call.
    pub(crate) fn live(&self) -> u64 {
        self.difference(Counter::AllocMrs, Counter::DeallocMrs)
    }

    /// Returns the bytes of the live MRs, roughly.
    pub(crate) fn live_bytes(&self) -> u64 {
        self.difference(Counter::RegBytes, Counter::DeregBytes)
    }

    /// Returns how much `all` exceeds `gone`.
    fn difference(&self, all: Counter, gone: Counter) -> u64 {
        // Read `gone` first, so that `gone` does not exceed `all` for MRs that end between the
        // reads.
        let gone = self.get(gone);
        self.get(all).saturating_sub(gone)
    }

    pub(crate) fn count_invalidation(&self) {
        self.add(Counter::FreeCallbacks, 1);
    }

    /// Counts a region that was fenced before the user deregistered it.
    pub(crate) fn count_revocation(&self) {
        self.add(Counter::Revocations, 1);
    }

    /// Counts an attempt to fence that failed or took too long.
    pub(crate) fn count_failed_fence(&self) {
        self.add(Counter::FailedFences, 1);
    }
}

/// An MR that has been counted. Dropping it counts the deregistration.
pub(crate) struct CountedMr {
    stats: Arc<Stats>,
    pages: u64,
    bytes: u64,
}

impl CountedMr {
    /// Counts an MR of `bytes` bytes that touches `pages` pages of `PAGE_SIZE`.
    pub(crate) fn new(stats: Arc<Stats>, pages: u64, bytes: u64) -> Self {
        stats.add(Counter::AllocMrs, 1);
        stats.add(Counter::RegPages, pages);
        stats.add(Counter::RegBytes, bytes);
        Self {
            stats,
            pages,
            bytes,
        }
    }
}

impl Drop for CountedMr {
    fn drop(&mut self) {
        self.stats.add(Counter::DeregBytes, self.bytes);
        self.stats.add(Counter::DeregPages, self.pages);
        self.stats.add(Counter::DeallocMrs, 1);
    }
}

/// The contents of a client's directory in sysfs.
pub(crate) struct ClientDir {
    pub(crate) version: CString,
    pub(crate) stats: Arc<Stats>,
}
