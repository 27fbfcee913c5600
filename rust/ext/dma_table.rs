// SPDX-License-Identifier: GPL-2.0

//! Scatter-gather tables over memory that somebody holds, and their DMA mapping.
//!
//! C headers: [`include/linux/scatterlist.h`](srctree/include/linux/scatterlist.h),
//! [`include/linux/dma-mapping.h`](srctree/include/linux/dma-mapping.h).

use super::bindings::helpers;
use core::ops::Range;
use kernel::{
    bindings,
    device,
    dma::DataDirection,
    error::to_result,
    page::PAGE_SIZE,
    prelude::*,
    sync::aref::ARef, //
};

/// How a device gets at device memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reach {
    /// By bus addresses: physical ones and this difference.
    Bus(i64),
    /// By addresses that the DMA API gives.
    Dma,
}

/// What there is to undo.
#[derive(Clone, Copy)]
enum Mapping {
    /// A table of pages, mapped as a whole.
    Pages,
    /// Each entry was mapped as device memory.
    Mmio,
    /// Nothing: the entries are bus addresses.
    Bus,
}

/// A scatter-gather table, mapped for one device or none.
///
/// # Invariants
///
/// - `sgt` is zero or a table that `sg_alloc_table()` or a relative of it made.
/// - If `mapped` names a device, the first `sgt.nents` entries are mapped for it, in both
///   directions, in the way that it says.
pub struct Table {
    /// The C structure.
    sgt: bindings::sg_table,
    /// The device it is mapped for, and how.
    mapped: Option<(ARef<device::Device>, Mapping)>,
}

// SAFETY: A table belongs to no task.
unsafe impl Send for Table {}

impl Table {
    /// Makes a table of whole pages. Contiguous ones of the same page map become one entry, of at
    /// most `max_segment` bytes, itself at least a page.
    ///
    /// Context: may sleep.
    ///
    /// # Safety
    ///
    /// The pages must be held until the table is dropped.
    pub(crate) unsafe fn from_pages(
        pages: &mut [*mut bindings::page],
        max_segment: u32,
    ) -> Result<Self> {
        if (max_segment as usize) < PAGE_SIZE {
            return Err(EINVAL);
        }
        let mut sgt = bindings::sg_table::default();
        let size = pages.len().checked_mul(PAGE_SIZE).ok_or(EOVERFLOW)?;
        // SAFETY: `sgt` is ours to fill, `pages` an array of valid pages, and the limit no less than
        // a page.
        to_result(unsafe {
            bindings::sg_alloc_table_from_pages_segment(
                &mut sgt,
                pages.as_mut_ptr(),
                pages.len().try_into()?,
                0,
                size,
                max_segment,
                bindings::GFP_KERNEL,
            )
        })?;
        // INVARIANT: It has just been made, and is not mapped.
        Ok(Self { sgt, mapped: None })
    }

    /// A table without an entry.
    pub fn empty() -> Self {
        // INVARIANT: It is zero, and not mapped.
        Self {
            sgt: bindings::sg_table::default(),
            mapped: None,
        }
    }

    /// Makes a table of device memory, without struct pages, that is mapped for `dev`: an entry for
    /// each of `pieces`, physical addresses, at most [`max_segment`] of `dev` long. `EIO` where
    /// the DMA API refuses, `EINVAL` where there are no pieces.
    ///
    /// `dev` must be bound to a driver until the table is unmapped.
    ///
    /// Context: may sleep.
    pub fn of_mmio(pieces: &[Range<u64>], dev: &device::Device, reach: Reach) -> Result<Self> {
        let mut this = Self::empty();
        let n = pieces.len().try_into()?;
        // SAFETY: `sgt` is ours to fill. For no entries the call itself returns -EINVAL.
        to_result(unsafe { bindings::sg_alloc_table(&mut this.sgt, n, bindings::GFP_KERNEL) })?;
        // INVARIANT: It is a table now, of which nothing is mapped yet.
        this.sgt.nents = 0;
        this.mapped = Some(match reach {
            Reach::Bus(_) => (dev.into(), Mapping::Bus),
            Reach::Dma => (dev.into(), Mapping::Mmio),
        });
        let mut sg = this.sgt.sgl;
        for piece in pieces {
            let len = u32::try_from(piece.end - piece.start)?;
            let mut addr = 0;
            match reach {
                Reach::Bus(offset) => addr = piece.start.wrapping_add_signed(offset),
                // SAFETY: The device is valid and bound; `addr` is ours to write.
                Reach::Dma => to_result(unsafe {
                    helpers::ext_dma_map_mmio(raw(dev), piece.start, len, &mut addr)
                })?,
            }
            // SAFETY: The table has an entry for each piece.
            unsafe { helpers::ext_sg_set_mmio(sg, addr, len) };
            // INVARIANT: Now this one is mapped.
            this.sgt.nents += 1;
            // SAFETY: `sg` is an entry of the table.
            sg = unsafe { bindings::sg_next(sg) };
        }
        Ok(this)
    }

    /// The C structure, for C code to read while this object is neither changed nor dropped.
    pub(crate) fn as_raw(&self) -> &bindings::sg_table {
        &self.sgt
    }

    /// How many DMA addresses there are; `None` where it is not mapped.
    pub(crate) fn nents(&self) -> Option<u32> {
        self.mapped.as_ref().map(|_| self.sgt.nents)
    }

    /// Maps the table for `dev`, in both directions. `EBUSY` where it is mapped already, else what
    /// the DMA API says: `EREMOTEIO` where `dev` cannot reach peer-to-peer memory.
    ///
    /// `dev` must be bound to a driver until the table is unmapped, and no entry longer than
    /// [`max_segment`] of it.
    ///
    /// Context: may sleep.
    pub fn map(&mut self, dev: &device::Device) -> Result {
        if self.mapped.is_some() {
            return Err(EBUSY);
        }
        let dir = DataDirection::Bidirectional.into();
        // SAFETY: The device is valid, and so, by the type invariants, is the table.
        to_result(unsafe { bindings::dma_map_sgtable(raw(dev), &mut self.sgt, dir, 0) })?;
        // INVARIANT: It is mapped now.
        self.mapped = Some((dev.into(), Mapping::Pages));
        Ok(())
    }

    /// Undoes [`Table::map`]; nothing where the table is not mapped.
    ///
    /// Context: may sleep.
    pub fn unmap(&mut self) {
        // INVARIANT: From here on it is not mapped.
        let Some((dev, how)) = self.mapped.take() else {
            return;
        };
        match how {
            Mapping::Pages => {
                let (sgl, nents) = (self.sgt.sgl, self.sgt.orig_nents);
                let dir = DataDirection::Bidirectional.into();
                // SAFETY: By the type invariants the table was mapped for this device, in this
                // direction; unmapping takes the number of entries that were given to be mapped.
                unsafe { bindings::dma_unmap_sg_attrs(raw(&dev), sgl, nents as c_int, dir, 0) };
            }
            Mapping::Mmio => {
                let mut sg = self.sgt.sgl;
                for _ in 0..self.sgt.nents {
                    // SAFETY: By the type invariants this entry was mapped for this device.
                    unsafe { helpers::ext_dma_unmap_mmio(raw(&dev), sg) };
                    // SAFETY: `sg` is an entry of the table.
                    sg = unsafe { bindings::sg_next(sg) };
                }
            }
            Mapping::Bus => {}
        }
    }
}

impl Drop for Table {
    fn drop(&mut self) {
        self.unmap();
        // SAFETY: By the type invariants there is a table to free, or all is zero, which is fine as
        // well; and nobody uses it any more.
        unsafe { bindings::sg_free_table(&mut self.sgt) };
    }
}

/// The longest entry in a table that `dev` takes, in bytes.
pub fn max_segment(dev: &device::Device) -> u32 {
    // SAFETY: The device is valid.
    unsafe { helpers::ext_dma_max_seg_size(raw(dev)) }
}

/// The `struct device` behind `dev`.
fn raw(dev: &device::Device) -> *mut bindings::device {
    // `device::Device` is a transparent wrapper around an `Opaque<bindings::device>`.
    core::ptr::from_ref(dev).cast_mut().cast()
}
