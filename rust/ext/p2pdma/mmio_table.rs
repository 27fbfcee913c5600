// SPDX-License-Identifier: GPL-2.0

//! Scatter-gather tables of device memory that has no struct pages. [`MmioTable`] is the table of
//! parts of one BAR.
//!
//! # Examples
//!
//! ```
//! use crate::ext::{base::{pci::BarRange, small_vec::SmallVec}, p2pdma::mmio_table::MmioTable};
//! use kernel::{device, page::PAGE_SIZE};
//!
//! /// Maps the first page of `window` for `dev`.
//! fn first_page(window: &BarRange, dev: &device::Device) -> Result<MmioTable> {
//!     let start = window.phys().start;
//!     let mut runs = SmallVec::new();
//!     runs.push(start..start + PAGE_SIZE as u64, GFP_KERNEL)?;
//!     let mut table = MmioTable::new(runs, window)?;
//!     table.map(dev)?;
//!     Ok(table)
//! }
//! ```

use super::Route;
use crate::shared::ext::{
    base::{
        compat::eremoteio,
        device::max_segment,
        dma_table::{
            cut,
            Reach,
            Table, //
        },
        pci::BarRange,
        small_vec::SmallVec, //
    },
    p2pdma::{
        self, //
    }, //
};
use core::ops::Range;
use kernel::{
    device,
    macros::kunit_tests,
    page::PAGE_SIZE,
    prelude::*, //
};

/// A table of parts of a BAR.
///
/// The table holds no reference to the BAR. So the owner must unmap the table before the BAR is
/// assigned to another driver or released.
///
/// # Invariants
///
/// `runs` lie in `window`.
pub struct MmioTable {
    /// The table. There are no struct pages, so the table has no entries until mapped.
    table: Table,
    /// Physical addresses, in whole pages.
    runs: SmallVec<Range<u64>>,
    /// The BAR.
    window: BarRange,
}

impl MmioTable {
    /// Creates a table of `runs`, which are ranges of physical addresses.
    ///
    /// Returns `EFAULT` unless each range consists of whole pages in `window`.
    ///
    /// Context: any.
    pub fn new(runs: SmallVec<Range<u64>>, window: &BarRange) -> Result<Self> {
        if runs.is_empty() || !runs.iter().all(|run| is_within(run, window.phys())) {
            return Err(EFAULT);
        }
        // INVARIANT: The check above.
        Ok(Self {
            table: Table::empty(),
            runs,
            window: window.clone(),
        })
    }

    /// Returns the table.
    pub fn table(&self) -> &Table {
        &self.table
    }

    /// Maps the table for `dev`.
    ///
    /// Uses bus addresses if only bridges lie between `dev` and the function of the BAR, otherwise
    /// the DMA API. `dev` must stay bound to a driver until the table is unmapped.
    ///
    /// Returns `EBUSY` if the table is mapped already, `EREMOTEIO` if `dev` cannot reach the
    /// memory, and `EIO` if the DMA API fails.
    ///
    /// Context: may sleep.
    pub fn map(&mut self, dev: &device::Device) -> Result {
        if self.table.nents().is_some() {
            return Err(EBUSY);
        }
        let reach = match p2pdma::route(self.window.dev(), dev) {
            Ok((Route::Bridges, _)) => Reach::Bus(self.window.bus_offset()),
            Ok((Route::HostBridge, _)) => Reach::Dma,
            Err(_) => return Err(eremoteio()),
        };
        let pieces = cut(&self.runs, max_segment(dev))?;
        // SAFETY:
        // - By the type invariants the pieces lie in `window`, a memory BAR.
        // - The offset is the bus offset of this BAR.
        self.table = unsafe { Table::of_mmio(pieces, dev, reach) }?;
        Ok(())
    }

    /// Reverts [`MmioTable::map`]. Does nothing if the table is not mapped.
    ///
    /// Context: may sleep.
    pub fn unmap(&mut self) {
        self.table = Table::empty();
    }
}

/// Returns whether `run` consists of whole pages and lies in `window`.
fn is_within(run: &Range<u64>, window: &Range<u64>) -> bool {
    // CAST: `PAGE_SIZE` is less than 2^32.
    let page = PAGE_SIZE as u64;
    run.start < run.end
        && (run.start | run.end) % page == 0
        && window.start <= run.start
        && run.end <= window.end
}

#[cfg(ext_tests)]
#[kunit_tests(ext_mmio_table)]
mod tests {
    use super::*;

    /// Only whole pages of the BAR are accepted.
    #[test]
    fn within() {
        let window = 0x1000_0000..0x1010_0000;
        assert!(is_within(&(0x1000_0000..0x1010_0000), &window));
        assert!(is_within(&(0x1000_1000..0x1000_2000), &window));
        for wrong in [
            0x0fff_f000..0x1000_1000,
            0x100f_f000..0x1010_1000,
            0x1000_0000..0x1000_0000,
            0x1000_0800..0x1000_1000,
            0x1000_0000..0x1000_0800,
            0x1010_0000..0x1010_1000,
        ] {
            assert!(!is_within(&wrong, &window));
        }
    }
}
