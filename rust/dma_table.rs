// SPDX-License-Identifier: GPL-2.0

//! Scatter-gather tables over pages that somebody holds, and their DMA mapping.
//!
//! C headers: [`include/linux/scatterlist.h`](srctree/include/linux/scatterlist.h),
//! [`include/linux/dma-mapping.h`](srctree/include/linux/dma-mapping.h).

use crate::bindings_mm;
use kernel::{
    bindings,
    device,
    dma::DataDirection,
    error::to_result,
    page::PAGE_SIZE,
    prelude::*,
    sync::aref::ARef, //
};

/// A scatter-gather table, mapped for one device or none.
///
/// # Invariants
///
/// - `sgt` is a table that `sg_alloc_table_from_pages_segment()` made.
/// - If `mapped` names a device, `sgt` is mapped for it, in both directions.
pub struct Table {
    /// The C structure.
    sgt: bindings::sg_table,
    /// The device it is mapped for.
    mapped: Option<ARef<device::Device>>,
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
        self.mapped = Some(dev.into());
        Ok(())
    }

    /// Undoes [`Table::map`]; nothing where the table is not mapped.
    ///
    /// Context: may sleep.
    pub fn unmap(&mut self) {
        // INVARIANT: From here on it is not mapped.
        let Some(dev) = self.mapped.take() else {
            return;
        };
        let (sgl, nents) = (self.sgt.sgl, self.sgt.orig_nents);
        let dir = DataDirection::Bidirectional.into();
        // SAFETY: By the type invariants the table was mapped for this device, in this direction;
        // unmapping takes the number of entries that were given to be mapped.
        unsafe { bindings::dma_unmap_sg_attrs(raw(&dev), sgl, nents as c_int, dir, 0) };
    }
}

impl Drop for Table {
    fn drop(&mut self) {
        self.unmap();
        // SAFETY: By the type invariants there is a table to free, and nobody uses it any more.
        unsafe { bindings::sg_free_table(&mut self.sgt) };
    }
}

/// The longest entry in a table that `dev` takes, in bytes.
pub fn max_segment(dev: &device::Device) -> u32 {
    // SAFETY: The device is valid.
    unsafe { bindings_mm::ext_dma_max_seg_size(raw(dev)) }
}

/// The `struct device` behind `dev`.
fn raw(dev: &device::Device) -> *mut bindings::device {
    // `device::Device` is a transparent wrapper around an `Opaque<bindings::device>`.
    core::ptr::from_ref(dev).cast_mut().cast()
}
