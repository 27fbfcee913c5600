// SPDX-License-Identifier: GPL-2.0

//! How much of a provider's memory is in use.
//!
//! The kernel tells only what its pool has left, and that for all BARs of a function. So the pages
//! are asked: one that is free has no reference.

use super::super::bindings::helpers;
use super::{
    Pages,
    Provider, //
};
use kernel::{
    page::PAGE_SIZE,
    prelude::*, //
};

/// How many bytes of a provider's memory nobody has.
#[derive(Clone, Copy)]
pub struct FreeSpace {
    /// All of them.
    pub free: u64,
    /// The most that are in one piece.
    pub largest: u64,
}

/// How many pages are looked at before others may run.
const BATCH: u64 = 1 << 14;

impl Provider {
    /// How much is free now. Memory that another driver has taken without making pages of it, as
    /// the NVMe target does, counts as free. `ENODEV` where the driver has been unbound.
    ///
    /// Context: may sleep.
    pub fn room(&self) -> Result<FreeSpace> {
        let mut room = helpers::ext_p2p_free::default();
        let mut at = self.phys.start;
        while at < self.phys.end {
            let end = self.phys.end.min(at + BATCH * PAGE_SIZE as u64);
            {
                let _pool = self.pool.try_access().ok_or(ENODEV)?;
                // SAFETY: The memory has struct pages while the pool can be accessed.
                unsafe { helpers::ext_p2p_free_add(&mut room, at, end) };
            }
            at = end;
        }
        let bytes = |pages: usize| (pages * PAGE_SIZE) as u64;
        Ok(FreeSpace {
            free: bytes(room.free),
            largest: bytes(room.largest),
        })
    }
}

impl Pages {
    /// Does anybody else have one of the pages: a page table, a pin, I/O in flight?
    ///
    /// What has a page can pass it on; where nobody has any, nobody can come by one but through
    /// this object.
    ///
    /// Context: may sleep.
    pub fn in_use(&self) -> bool {
        // SAFETY: By the type invariant these are our pages.
        unsafe { helpers::ext_p2p_pages_in_use(self.start.as_ptr(), self.n) }
    }
}
