// SPDX-License-Identifier: GPL-2.0

//! The regions of a fake client, and the check of each callback.
//!
//! The valid order of the callbacks of one region; each teardown step runs once, also after a
//! failure:
//!
//! ```text
//!   acquire ─▶ Acquired ─get_pages─▶ Pinned ─dma_map─▶ Mapped
//!      ▲           │  ▲                │  ▲               │
//!      └──release──┘  └───put_pages────┘  └───dma_unmap───┘
//! ```

use crate::prelude::*;

/// The stage of a region, as seen by the client.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum Stage {
    /// There is no region.
    #[default]
    None,
    Acquired,
    Pinned,
    Mapped,
}

/// A copy of a table that the client frees itself.
#[derive(Clone, Copy)]
pub(super) struct Own(pub(super) bindings::sg_table);

// SAFETY: Only the client that has filled the table uses the list behind the table.
unsafe impl Send for Own {}

/// `peer_mem_private_data`, and the first bytes of `peer_mem_name` unless the name was NULL.
pub(crate) type Hint = (usize, Option<[u8; 4]>);

#[derive(Clone, Copy, Default)]
pub(super) struct Entry {
    pub(super) stage: Stage,
    pub(super) addr: u64,
    pub(super) size: u64,
    pub(super) ticket: u64,
    /// The address of the core's table, and the three words of the table when the last callback
    /// returned.
    pub(super) table: usize,
    pub(super) words: [u64; 3],
    /// A digest of the table's entries when the last callback returned.
    pub(super) digest: u64,
    /// The table that `put_pages` or `release` frees.
    pub(super) own: Option<Own>,
    /// The device for which the region is mapped.
    pub(super) dev: usize,
    /// A client with `PEER_MEM_INVALIDATE_UNMAPS` invalidates the region, and unmaps the region
    /// itself.
    pub(super) unmaps_itself: bool,
}

/// The most regions that a test has at once.
pub(super) const REGIONS: usize = 32;

pub(super) struct Ledger {
    pub(super) entries: [Entry; REGIONS],
    pub(super) last: usize,
    pub(super) last_ticket: u64,
    pub(super) flags: (i32, i32, i32),
    pub(super) hint: Hint,
    pub(super) dma_device: usize,
    pub(super) unregistered: bool,
    /// Without `release`, regions stay acquired.
    pub(super) bare: bool,
    first_violation: Option<&'static str>,
}

impl Ledger {
    pub(super) fn new() -> Self {
        Self {
            entries: [Entry::default(); REGIONS],
            last: 0,
            last_ticket: 0,
            flags: (-1, -1, -1),
            hint: Hint::default(),
            dma_device: 0,
            unregistered: false,
            bare: false,
            first_violation: None,
        }
    }

    pub(super) fn find(&self, ticket: u64) -> Option<usize> {
        let same = |e: &Entry| e.stage != Stage::None && e.ticket == ticket;
        self.entries.iter().position(same)
    }

    /// Records an invalid call. The ledger's lock is held, so KUnit's own log cannot be used here.
    pub(super) fn violation(&mut self, what: &'static str) {
        pr_err!("invalid call of a client: {}\n", what);
        self.first_violation.get_or_insert(what);
    }

    pub(super) fn expect(&mut self, ok: bool, what: &'static str) {
        if !ok {
            self.violation(what);
        }
    }

    /// Takes region `i` from one stage to the next. Returns whether the region was at `from`.
    pub(super) fn step(&mut self, i: usize, from: Stage, to: Stage, what: &'static str) -> bool {
        self.expect(
            !self.unregistered,
            "a callback after the client was unregistered",
        );
        let Some(entry) = self.entries.get_mut(i) else {
            self.violation("a callback for an unknown region");
            return false;
        };
        let stage = entry.stage;
        if stage == from {
            entry.stage = to;
        } else {
            pr_err!("a region in the stage {:?}\n", stage);
            self.violation(what);
        }
        stage == from
    }

    /// Records a new region. Returns `None` if all entries are used.
    pub(super) fn acquire(&mut self, addr: u64, size: u64) -> Option<usize> {
        self.expect(
            !self.unregistered,
            "acquire after the client was unregistered",
        );
        let i = self.entries.iter().position(|e| e.stage == Stage::None)?;
        self.entries[i] = Entry {
            stage: Stage::Acquired,
            addr,
            size,
            ..Default::default()
        };
        self.last = i;
        Some(i)
    }

    /// Returns whether a region is left that should have been released.
    fn has_regions(&self) -> bool {
        self.entries.iter().any(|e| match e.stage {
            Stage::None => false,
            Stage::Acquired => !self.bare,
            _ => true,
        })
    }

    /// Returns the first violation; after the client's end, also if a region is left.
    fn first_violation(&mut self) -> Option<&'static str> {
        if self.unregistered && self.has_regions() {
            self.violation("a region that was never released");
        }
        self.first_violation
    }
}

/// Prints the first violation as a diagnostic of the test.
///
/// After the client's end, a region that is left is a violation.
pub(super) fn check(ledger: &kernel::sync::SpinLock<Ledger>) -> Result {
    let Some(what) = ledger.lock().first_violation() else {
        return Ok(());
    };
    diagnostic!("invalid call of a client: {}", what);
    Err(EINVAL)
}
