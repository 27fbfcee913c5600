// SPDX-License-Identifier: GPL-2.0

//! Scatter-gather tables of the memory of a client, and the DMA mapping of such tables.
//!
//! [`Table`] is the `sg_table` that a peer memory client returns. The owner keeps the memory.
//! Entries of memory with struct pages are physical addresses until [`Table::map`]; a table of
//! other memory is created mapped. Used by [`run_table`](super::run_table) and [`ram`](super::ram)
//! (memory with struct pages) and by `mmio_table` (memory without). Tables that a driver gets are
//! in [`sg`](super::sg).
//!
//! C headers: [`include/linux/scatterlist.h`](srctree/include/linux/scatterlist.h),
//! [`include/linux/dma-mapping.h`](srctree/include/linux/dma-mapping.h).
//!
//! # Examples
//!
//! ```
//! use crate::ext::base::dma_table::Table;
//! use kernel::device;
//!
//! /// Maps `table` for `dev`, which is bound to a driver. Returns the number of DMA segments.
//! fn map(table: &mut Table, dev: &device::Device) -> Result<Option<u32>> {
//!     table.map(dev)?;
//!     Ok(table.nents())
//! }
//!
//! let mut table = Table::empty();
//! table.unmap();
//! ```

use super::{
    device::as_raw,
    sg::{
        walk,
        Entries, //
    }, //
};
use crate::shared::bindings::helpers;
use core::ops::Range;
use kernel::{
    bindings,
    device,
    dma::DataDirection,
    error::to_result,
    macros::kunit_tests,
    page::PAGE_SIZE,
    prelude::*,
    sync::aref::ARef, //
};

/// How a device addresses the memory of another device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::shared::ext) enum Reach {
    /// By bus addresses: physical addresses plus this offset.
    Bus(i64),
    /// By addresses that the DMA API returns.
    Dma,
}

/// How a table was mapped, and must be unmapped.
#[derive(Clone, Copy)]
enum Mapping {
    /// `dma_map_sgtable()` mapped the table.
    Pages,
    /// Each entry was mapped separately, as device memory.
    Mmio,
    /// The entries are bus addresses, and need no unmapping.
    Bus,
}

/// A scatter-gather table, mapped for at most one device. Drop unmaps the table.
///
/// # Invariants
///
/// If `mapped` is `Some`, the first `nents` entries are mapped for the device in `mapped`, in both
/// directions, as the [`Mapping`] says.
pub struct Table {
    /// The entries.
    entries: Entries,
    /// Device for which the table is mapped, and how.
    mapped: Option<(ARef<device::Device>, Mapping)>,
}

// SAFETY: A table is not bound to a task.
unsafe impl Send for Table {}

impl Table {
    /// Creates a table of memory with struct pages, with one entry for each of `pieces`. The pieces
    /// are physical addresses of whole pages.
    ///
    /// Returns `EINVAL` if `pieces` is empty or a piece is 4 GiB or longer.
    ///
    /// Context: may sleep.
    ///
    /// # Safety
    ///
    /// All pages must have struct pages that are valid until the table is dropped.
    pub(crate) unsafe fn from_runs(
        pieces: impl Iterator<Item = Range<u64>> + Clone,
    ) -> Result<Self> {
        let this = Self::with_entries(pieces.clone().count())?;
        for (sg, piece) in this.entries.iter().zip(pieces) {
            let len = u32::try_from(piece.end - piece.start).map_err(|_| EINVAL)?;
            // SAFETY: `sg` is an entry of the table. By the safety requirements the pages exist.
            unsafe { helpers::ext_sg_set_phys(sg, piece.start, len) };
        }
        Ok(this)
    }

    /// Creates a table of `n` entries that is not mapped. Returns `EINVAL` if `n` is 0.
    fn with_entries(n: usize) -> Result<Self> {
        // INVARIANT: The table is not mapped.
        Ok(Self {
            entries: Entries::new(n.try_into()?)?,
            mapped: None,
        })
    }

    /// Creates a table without entries.
    ///
    /// Context: any.
    pub fn empty() -> Self {
        // INVARIANT: The table is not mapped.
        Self {
            entries: Entries::empty(),
            mapped: None,
        }
    }

    /// Creates a table of device memory, without struct pages, that is mapped for `dev`.
    ///
    /// The table has one entry for each of `pieces`. The pieces are physical addresses. No piece
    /// may be longer than [`max_segment`](super::device::max_segment) of `dev`. `dev` must stay
    /// bound to a driver until the table is unmapped.
    ///
    /// Returns `EIO` if the DMA API fails, and `EINVAL` if `pieces` is empty.
    ///
    /// Context: may sleep.
    ///
    /// # Safety
    ///
    /// - `pieces` must lie in memory BARs: with other addresses `dev` could access any host memory.
    /// - With [`Reach::Bus`], the offset must be the bus offset of the BAR of all `pieces`.
    pub(in crate::shared::ext) unsafe fn of_mmio(
        pieces: impl Iterator<Item = Range<u64>> + Clone,
        dev: &device::Device,
        reach: Reach,
    ) -> Result<Self> {
        let n = pieces.clone().count();
        let mut this = Self::with_entries(n)?;
        // INVARIANT: No entry is mapped yet.
        this.entries.as_mut().nents = 0;
        this.mapped = Some(match reach {
            Reach::Bus(_) => (dev.into(), Mapping::Bus),
            Reach::Dma => (dev.into(), Mapping::Mmio),
        });
        // SAFETY: The list has one entry for each piece, and does not move during the loop.
        for (sg, piece) in unsafe { walk(this.entries.first(), n) }.zip(pieces) {
            let len = u32::try_from(piece.end - piece.start)?;
            let mut addr = 0;
            match reach {
                Reach::Bus(offset) => addr = piece.start.wrapping_add_signed(offset),
                // SAFETY: `dev` is valid while borrowed, and `addr` may be written.
                Reach::Dma => to_result(unsafe {
                    helpers::ext_dma_map_mmio(as_raw(dev), piece.start, len, &mut addr)
                })?,
            }
            // SAFETY: `sg` is an entry of the table.
            unsafe { helpers::ext_sg_set_dma(sg, addr, len) };
            // INVARIANT: This entry is mapped now.
            this.entries.as_mut().nents += 1;
        }
        Ok(this)
    }

    /// Returns a copy of the C structure. C code may read the list of the copy while this object is
    /// not changed, moved or dropped.
    pub(crate) fn as_raw(&self) -> bindings::sg_table {
        self.entries.table()
    }

    /// Returns the number of DMA addresses, or `None` if the table is not mapped.
    pub(crate) fn nents(&self) -> Option<u32> {
        self.mapped.as_ref().map(|_| self.entries.table().nents)
    }

    /// Maps the table for `dev`, in both directions.
    ///
    /// No entry may be longer than [`max_segment`](super::device::max_segment) of `dev`. `dev` must
    /// stay bound to a driver until the table is unmapped.
    ///
    /// Returns `EBUSY` if the table is mapped already, else the error of the DMA API: `EREMOTEIO`
    /// if `dev` cannot reach peer-to-peer memory.
    ///
    /// Context: may sleep.
    pub fn map(&mut self, dev: &device::Device) -> Result {
        if self.mapped.is_some() {
            return Err(EBUSY);
        }
        let dir = DataDirection::Bidirectional.into();
        // SAFETY: `dev` is valid while borrowed; by the type invariants the table is valid.
        to_result(unsafe {
            bindings::dma_map_sgtable(as_raw(dev), self.entries.as_mut(), dir, 0)
        })?;
        // INVARIANT: The call above mapped the table.
        self.mapped = Some((dev.into(), Mapping::Pages));
        Ok(())
    }

    /// Unmaps the table. Does nothing if the table is not mapped.
    ///
    /// Context: may sleep.
    pub fn unmap(&mut self) {
        // INVARIANT: The table counts as not mapped from here on.
        let Some((dev, how)) = self.mapped.take() else {
            return;
        };
        match how {
            Mapping::Pages => {
                let dir = DataDirection::Bidirectional.into();
                // SAFETY: By the type invariants the table is mapped for this device in this direction.
                unsafe { bindings::dma_unmap_sgtable(as_raw(&dev), self.entries.as_mut(), dir, 0) };
            }
            Mapping::Mmio => {
                // CAST: `usize` has at least 32 bits.
                let n = self.entries.table().nents as usize;
                for sg in self.entries.iter().take(n) {
                    // SAFETY: By the type invariants this entry is mapped for this device.
                    unsafe { helpers::ext_dma_unmap_mmio(as_raw(&dev), sg) };
                }
            }
            Mapping::Bus => {}
        }
    }
}

impl Drop for Table {
    fn drop(&mut self) {
        self.unmap();
    }
}

/// The pieces of ranges of physical addresses.
#[derive(Clone)]
pub(in crate::shared::ext) struct Pieces<'a> {
    /// The ranges that are left.
    runs: &'a [Range<u64>],
    /// The number of bytes of the first range that are done.
    done: u64,
    /// The largest piece, in bytes.
    max: u64,
}

impl Iterator for Pieces<'_> {
    type Item = Range<u64>;

    fn next(&mut self) -> Option<Range<u64>> {
        let (run, rest) = self.runs.split_first()?;
        let start = run.start + self.done;
        let end = run.end.min(start.saturating_add(self.max));
        if end == run.end {
            (self.runs, self.done) = (rest, 0);
        } else {
            self.done = end - run.start;
        }
        Some(start..end)
    }
}

/// Returns the pieces of ranges of at least one page, each of at most `max` bytes. Returns `EINVAL` if
/// `max` is less than a page.
pub(in crate::shared::ext) fn cut(runs: &[Range<u64>], max: u32) -> Result<Pieces<'_>> {
    // CAST: `PAGE_SIZE` is less than 2^32.
    let max = u64::from(max) & !(PAGE_SIZE as u64 - 1);
    if max == 0 {
        return Err(EINVAL);
    }
    let done = 0;
    Ok(Pieces { runs, done, max })
}

#[cfg(ext_tests)]
#[kunit_tests(ext_dma_table)]
mod tests {
    use super::*;

    /// No piece exceeds the limit, and the pieces cover all ranges.
    #[test]
    fn pieces() -> Result {
        let runs = [0x1000..0x6000, 0x8000..0x9000];
        assert!(cut(&runs, 0x10000)?.eq(runs.clone()));
        let want = [
            0x1000..0x3000,
            0x3000..0x5000,
            0x5000..0x6000,
            0x8000..0x9000,
        ];
        assert!(cut(&runs, 0x2000)?.eq(want.clone()));
        assert!(cut(&runs, 0x2fff)?.eq(want.clone()));
        assert!(cut(&runs, 0xfff).is_err());
        Ok(())
    }
}
