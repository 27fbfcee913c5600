// SPDX-License-Identifier: GPL-2.0

//! Scatter-gather tables over device memory that has no struct pages.

use super::{
    dma_table::{
        max_segment,
        Reach,
        Table, //
    },
    p2pdma::{
        self,
        Route, //
    },
    pci::Window, //
};
use core::ops::Range;
use kernel::{
    device,
    macros::kunit_tests,
    page::PAGE_SIZE,
    prelude::*, //
};

/// Parts of a BAR that a device may be given.
///
/// Nothing is held by this: whoever has it takes it away before the BAR becomes somebody else's.
pub struct MmioTable {
    /// Empty until it is mapped: there are no pages that could be in it.
    table: Table,
    /// Physical addresses, all of them in one BAR, in whole pages.
    runs: KVec<Range<u64>>,
}

impl MmioTable {
    /// A table of `runs`, physical addresses that start and end with pages; `EFAULT` where they do
    /// not or some are not in `window`.
    pub fn new(runs: KVec<Range<u64>>, window: &Window) -> Result<Self> {
        if runs.is_empty() || !runs.iter().all(|run| is_within(run, &window.phys)) {
            return Err(EFAULT);
        }
        Ok(Self {
            table: Table::empty(),
            runs,
        })
    }

    /// The table.
    pub fn table(&self) -> &Table {
        &self.table
    }

    /// Maps the table for `dev`: by bus addresses where only bridges lie between it and the
    /// function of `window`, else by the DMA API. `EBUSY` where it is mapped already, `EREMOTEIO`
    /// where `dev` cannot reach it, `EIO` where the DMA API refuses.
    ///
    /// `dev` must be bound to a driver until the table is unmapped.
    ///
    /// Context: may sleep.
    pub fn map(&mut self, window: &Window, dev: &device::Device) -> Result {
        if self.table.nents().is_some() {
            return Err(EBUSY);
        }
        let reach = match p2pdma::route(&window.dev, dev) {
            Ok((Route::Bridges, _)) => Reach::Bus(window.bus_offset()),
            Ok((Route::HostBridge, _)) => Reach::Dma,
            Err(_) => return Err(super::compat::eremoteio()),
        };
        let max = u64::from(max_segment(dev)) & !(PAGE_SIZE as u64 - 1);
        self.table = Table::of_mmio(&cut(&self.runs, max)?, dev, reach)?;
        Ok(())
    }

    /// Undoes [`MmioTable::map`]; nothing where the table is not mapped.
    ///
    /// Context: may sleep.
    pub fn unmap(&mut self) {
        self.table = Table::empty();
    }
}

/// Whether `run` is made of whole pages and lies in `window`.
fn is_within(run: &Range<u64>, window: &Range<u64>) -> bool {
    let page = PAGE_SIZE as u64;
    run.start < run.end
        && (run.start | run.end) % page == 0
        && window.start <= run.start
        && run.end <= window.end
}

/// Splits what is longer than `max` bytes. `EINVAL` where that is nothing.
fn cut(runs: &[Range<u64>], max: u64) -> Result<KVec<Range<u64>>> {
    if max == 0 {
        return Err(EINVAL);
    }
    let mut pieces = KVec::new();
    for run in runs {
        let mut start = run.start;
        while start < run.end {
            let end = run.end.min(start.saturating_add(max));
            pieces.push(start..end, GFP_KERNEL)?;
            start = end;
        }
    }
    Ok(pieces)
}

#[cfg(ext_tests)]
#[kunit_tests(ext_mmio_table)]
mod tests {
    use super::*;

    /// Only whole pages of the BAR.
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

    /// No entry is longer than the device takes, and none is lost.
    #[test]
    fn pieces() -> Result {
        let runs = [0x1000..0x6000, 0x8000..0x9000];
        assert!(*cut(&runs, 0x10000)? == runs);
        let want = [
            0x1000..0x3000,
            0x3000..0x5000,
            0x5000..0x6000,
            0x8000..0x9000,
        ];
        assert!(*cut(&runs, 0x2000)? == want);
        assert!(cut(&runs, 0).is_err());
        Ok(())
    }
}
