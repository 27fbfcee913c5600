// SPDX-License-Identifier: GPL-2.0

//! Free space of a provider.
//!
//! The kernel reports only the free space of a pool, which is the sum of all BARs of a function. So
//! this reads the reference counts of the pages: a free page has none.
//!
//! # Examples
//!
//! ```
//! use crate::ext::p2pdma::{FreeSpace, Pages, Provider};
//!
//! fn report(provider: &Provider, pages: &Pages) -> Result {
//!     let FreeSpace { free, largest } = provider.room()?;
//!     pr_info!("{} bytes free, {} contiguous\n", free, largest);
//!     if pages.in_use() {
//!         pr_info!("the pages at {:#x} are mapped or pinned\n", pages.offset());
//!     }
//!     Ok(())
//! }
//! ```

use super::super::bindings::helpers;
use super::{
    Pages,
    Provider, //
};
use kernel::{
    page::PAGE_SIZE,
    prelude::*, //
};

/// Free space of a provider, in bytes.
#[derive(Clone, Copy)]
pub struct FreeSpace {
    /// All free bytes.
    pub free: u64,
    /// Size of the largest contiguous free block.
    pub largest: u64,
}

/// Number of pages that are read before the scheduler and devres may run.
const BATCH: u64 = 1 << 14;

impl Provider {
    /// Returns the free space at this moment.
    ///
    /// Memory that another driver has allocated without references to its pages, as the NVMe target
    /// does, counts as free.
    ///
    /// Returns `ENODEV` if the driver has been unbound.
    ///
    /// Context: may sleep.
    pub fn room(&self) -> Result<FreeSpace> {
        let mut room = helpers::ext_p2p_free::default();
        let phys = self.window.phys();
        let mut at = phys.start;
        while at < phys.end {
            // CAST: `usize` has 64 bits on architectures with P2PDMA.
            let end = phys.end.min(at + BATCH * PAGE_SIZE as u64);
            {
                let _pool = self.pool.try_access().ok_or(ENODEV)?;
                // SAFETY: The memory has struct pages while `_pool` gives access to the pool.
                unsafe { helpers::ext_p2p_free_add(&mut room, at, end) };
            }
            at = end;
        }
        // CAST: `usize` has 64 bits on architectures with P2PDMA.
        let bytes = |pages: usize| (pages * PAGE_SIZE) as u64;
        Ok(FreeSpace {
            free: bytes(room.free),
            largest: bytes(room.largest),
        })
    }
}

impl Pages {
    /// Returns whether a page has another reference: a page table, a pin, I/O in flight.
    ///
    /// If none has, only a user of this object can take a new one.
    ///
    /// Context: may sleep.
    pub fn in_use(&self) -> bool {
        // SAFETY: By the type invariants this object holds `n` pages from `start` on.
        unsafe { helpers::ext_p2p_pages_in_use(self.start.as_ptr(), self.n) }
    }
}
