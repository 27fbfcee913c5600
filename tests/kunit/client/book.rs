// SPDX-License-Identifier: GPL-2.0

//! What a fake client remembers of its regions, and how it judges what it is called for.
//!
//! The order of the callbacks of one region, each undo once, whatever fails:
//!
//! ```text
//!   acquire ─▶ Acquired ─get_pages─▶ Pinned ─dma_map─▶ Mapped
//!      ▲           │  ▲                │  ▲               │
//!      └──release──┘  └───put_pages────┘  └───dma_unmap───┘
//! ```

use kernel::{
    bindings,
    prelude::*, //
};

/// Where a region is, from the client's side.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum Stage {
    /// There is none.
    #[default]
    None,
    Acquired,
    Pinned,
    Mapped,
}

/// A table that a client frees itself: the structure, as it was filled in.
#[derive(Clone, Copy)]
pub(super) struct Own(pub(super) bindings::sg_table);

// SAFETY: The list behind it is the client's alone.
unsafe impl Send for Own {}

/// `peer_mem_private_data`, and the first bytes of `peer_mem_name` where there was one.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Hint {
    pub(crate) data: usize,
    pub(crate) name: Option<[u8; 4]>,
}

/// One region.
#[derive(Clone, Copy, Default)]
pub(super) struct Entry {
    pub(super) stage: Stage,
    pub(super) addr: u64,
    pub(super) size: u64,
    pub(super) ticket: u64,
    /// The address of the core's table, and the three words in it when we last left it.
    pub(super) table: usize,
    pub(super) words: [u64; 3],
    /// A digest of the entries when we last left them.
    pub(super) digest: u64,
    /// The table that is freed in `put_pages` or `release`.
    pub(super) own: Option<Own>,
    /// The device that it is mapped for.
    pub(super) dev: usize,
    /// During an invalidation by a client that unmaps itself: its own undoing is allowed.
    pub(super) given_up: bool,
}

/// More regions at once than any test has.
pub(super) const REGIONS: usize = 32;

/// All that a client remembers.
pub(super) struct Book {
    pub(super) entries: [Entry; REGIONS],
    pub(super) last: usize,
    pub(super) last_ticket: u64,
    pub(super) flags: (i32, i32, i32),
    /// Hints are expected, and those that the last `acquire` got.
    pub(super) hinted: bool,
    pub(super) hint: Hint,
    pub(super) dma_device: usize,
    pub(super) unregistered: bool,
    /// It has no `release`: what it has acquired is gone with the client.
    pub(super) bare: bool,
    violations: u32,
}

impl Book {
    /// Nothing has happened.
    pub(super) fn new() -> Self {
        Self {
            entries: [Entry::default(); REGIONS],
            last: 0,
            last_ticket: 0,
            flags: (-1, -1, -1),
            hinted: false,
            hint: Hint::default(),
            dma_device: 0,
            unregistered: false,
            bare: false,
            violations: 0,
        }
    }

    /// The stage of the region that came last.
    pub(super) fn last_stage(&self) -> Stage {
        self.entries[self.last].stage
    }

    /// Something that must not be.
    pub(super) fn blame(&mut self, what: &str) {
        pr_err!("a client sees: {}\n", what);
        self.violations += 1;
    }

    /// Blames unless `ok`.
    pub(super) fn expect(&mut self, ok: bool, what: &str) {
        if !ok {
            self.blame(what);
        }
    }

    /// A callback comes for region `i`, which must be at `from`, and takes it to `to`.
    pub(super) fn step(&mut self, i: usize, from: Stage, to: Stage, what: &str) -> bool {
        self.expect(
            !self.unregistered,
            "a callback after the client was unregistered",
        );
        let Some(entry) = self.entries.get_mut(i) else {
            self.blame("a callback for no region");
            return false;
        };
        if entry.stage != from {
            let stage = entry.stage;
            pr_err!("a client sees {} while the region is {:?}\n", what, stage);
            self.violations += 1;
            return false;
        }
        entry.stage = to;
        true
    }

    /// A region is acquired. `None` where there is no room.
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

    /// Was everything in order, and, if `ended`, is nothing left?
    pub(super) fn verdict(&mut self, ended: bool) -> Result {
        if ended {
            let bare = self.bare;
            let left = self.entries.iter().any(|e| match e.stage {
                Stage::None => false,
                Stage::Acquired => !bare,
                _ => true,
            });
            self.expect(!left, "a region that was never released");
        }
        if self.violations == 0 {
            Ok(())
        } else {
            Err(EINVAL)
        }
    }
}
