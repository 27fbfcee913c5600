// SPDX-License-Identifier: GPL-2.0

//! Scatter-gather tables of memory with struct pages, kept as runs of physical addresses.
//!
//! [`RunTable`] is the table of an object that implements [`Runs`]. Used for pages of peer-to-peer
//! memory, pinned or allocated.
//!
//! # Examples
//!
//! ```
//! use crate::ext::base::run_table::{RunTable, Runs};
//! use kernel::device;
//!
//! /// Returns the number of entries that `dev` gets for `memory`.
//! fn entries<T: Runs>(memory: T, dev: &device::Device) -> Result<Option<u32>> {
//!     let mut table = RunTable::new(memory)?;
//!     table.map(dev)?;
//!     Ok(table.table().nents())
//! }
//! ```

use super::{
    device::max_segment,
    dma_table::{
        cut,
        Table, //
    },
    small_vec::SmallVec, //
};
use core::ops::Range;
use kernel::{
    device,
    prelude::*, //
};

/// Memory with struct pages.
///
/// # Safety
///
/// Every page in the ranges returned by [`Runs::runs`] must have a struct page that stays valid
/// until the object is dropped. The ranges must not change.
pub unsafe trait Runs {
    /// Returns the physical addresses, in whole pages.
    fn runs(&self) -> &[Range<u64>];
}

/// Appends `run` to `runs`, or extends the last range if `run` follows the last range.
///
/// Context: may sleep.
pub(in crate::shared::ext) fn push_run(runs: &mut SmallVec<Range<u64>>, run: Range<u64>) -> Result {
    match runs.last_mut() {
        Some(last) if last.end == run.start => last.end = run.end,
        _ => runs.push(run, GFP_KERNEL_ACCOUNT)?,
    }
    Ok(())
}

/// A table of memory, with one entry for each run.
pub struct RunTable<T: Runs> {
    // Fields drop in this order: a table must not outlive its memory.
    /// The table.
    table: Table,
    /// Maximum length of an entry of `table`, in bytes.
    limit: u32,
    /// The memory.
    memory: T,
}

impl<T: Runs> RunTable<T> {
    /// Creates a table of `memory`. Returns `EINVAL` if `memory` is empty.
    ///
    /// Context: may sleep.
    pub fn new(memory: T) -> Result<Self> {
        let limit = u32::MAX;
        Ok(Self {
            table: Self::build(&memory, limit)?,
            limit,
            memory,
        })
    }

    /// Builds a table with entries of at most `limit` bytes. The table must not outlive `memory`.
    fn build(memory: &T, limit: u32) -> Result<Table> {
        let pieces = cut(memory.runs(), limit)?;
        // SAFETY: By the safety requirements of `Runs` the pages are valid until `memory` is
        // dropped. `RunTable` drops the table before `memory`.
        unsafe { Table::from_runs(pieces) }
    }

    /// Returns the table.
    pub fn table(&self) -> &Table {
        &self.table
    }

    /// Maps the table for `dev`; see [`Table::map`].
    ///
    /// Builds the table again if an entry may be too long for `dev`.
    ///
    /// Context: may sleep.
    pub fn map(&mut self, dev: &device::Device) -> Result {
        let limit = max_segment(dev);
        let is_too_long = |run: &Range<u64>| run.end - run.start > u64::from(limit);
        if limit < self.limit
            && self.table.nents().is_none()
            && self.memory.runs().iter().any(is_too_long)
        {
            self.table = Self::build(&self.memory, limit)?;
            self.limit = limit;
        }
        self.table.map(dev)
    }

    /// Reverts [`RunTable::map`]. Does nothing if the table is not mapped.
    ///
    /// Context: may sleep.
    pub fn unmap(&mut self) {
        self.table.unmap();
    }
}
