// SPDX-License-Identifier: GPL-2.0

//! The entries of a [`Table`](super::Table).

use super::Segment;
use crate::shared::prelude::raw::*;
use core::cell::UnsafeCell;

/// The entries that fit into a page. A user determines the size of a longer list. So a memory cgroup at
/// its limit fails the allocation, and does not invoke the OOM killer.
pub(super) const IN_ONE_PAGE: u32 = (PAGE_SIZE / size_of::<bindings::scatterlist>()) as u32;

/// A `struct sg_table`. A list of one entry is part of the object, so such a table needs no
/// allocation.
///
/// # Invariants
///
/// - `table.orig_nents` is the number of entries.
/// - If `is_borrowed`, `table.sgl` heads a list of other code, which has the entries as long as the object
///   exists.
/// - Otherwise, if the number is 1, `one` is the list, and `table.sgl` is not used; if not,
///   `sg_alloc_table()` allocated the list, or `table` is zero.
pub(super) struct Entries {
    pub(super) table: bindings::sg_table,
    one: UnsafeCell<bindings::scatterlist>,
    is_borrowed: bool,
}

impl Entries {
    pub(super) fn empty() -> Self {
        // INVARIANT: The table is zero.
        Self {
            table: bindings::sg_table::default(),
            one: UnsafeCell::default(),
            is_borrowed: false,
        }
    }

    /// Creates a table of the first `n` entries of a list of other code.
    ///
    /// # Safety
    ///
    /// `sgl` must head a list of at least `n` entries as long as the object exists.
    pub(super) unsafe fn borrowed(sgl: *mut bindings::scatterlist, n: u32) -> Self {
        // INVARIANT: By the safety requirements the list has the entries.
        Self {
            table: bindings::sg_table {
                sgl,
                nents: n,
                orig_nents: n,
            },
            one: UnsafeCell::default(),
            is_borrowed: true,
        }
    }

    /// Creates a table of `n` entries. Returns `EINVAL` if `n` is 0. Context: may sleep.
    pub(super) fn new(n: u32) -> Result<Self> {
        let mut this = Self::empty();
        if n == 1 {
            // SAFETY: `one` is valid for writes.
            unsafe { bindings::sg_init_table(this.one.get(), n) };
            // INVARIANT: The call above initialised the list.
            (this.table.nents, this.table.orig_nents) = (n, n);
        } else {
            let mut gfp = bindings::GFP_KERNEL_ACCOUNT;
            if n > IN_ONE_PAGE {
                gfp |= 1 << bindings::___GFP_RETRY_MAYFAIL_BIT | 1 << bindings::___GFP_NOWARN_BIT;
            }
            // INVARIANT: The call allocates the list, or leaves the table zero.
            // SAFETY: `table` is zero and may be initialised; for 0 entries the call returns -EINVAL.
            to_result(unsafe { bindings::sg_alloc_table(&mut this.table, n, gfp) })?;
        }
        Ok(this)
    }

    pub(super) fn len(&self) -> u32 {
        self.table.orig_nents
    }

    fn is_one(&self) -> bool {
        self.len() == 1 && !self.is_borrowed
    }

    /// Returns the first entry, or NULL for a table without entries.
    pub(super) fn first(&self) -> *mut bindings::scatterlist {
        if self.is_one() {
            self.one.get()
        } else {
            self.table.sgl
        }
    }

    /// Returns a copy of the table. The list of the copy is valid until this object is moved or
    /// dropped.
    pub(super) fn table(&self) -> bindings::sg_table {
        bindings::sg_table {
            sgl: self.first(),
            ..self.table
        }
    }

    /// Returns the table for C code that may change `nents` and the entries, but not `orig_nents`
    /// and the list. The list is valid until this object is moved or dropped.
    pub(super) fn as_mut(&mut self) -> &mut bindings::sg_table {
        if self.is_one() {
            self.table.sgl = self.one.get();
        }
        &mut self.table
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = *mut bindings::scatterlist> + '_ {
        // SAFETY: By the type invariants the list has `len` entries, as long as `self` exists.
        // CAST: `usize` has at least 32 bits.
        unsafe { walk(self.first(), self.len() as usize) }
    }
}

impl Drop for Entries {
    fn drop(&mut self) {
        if self.len() != 1 && !self.is_borrowed {
            // SAFETY: By the type invariants `sg_alloc_table()` allocated the table, or the table
            // is zero. The function accepts both.
            unsafe { bindings::sg_free_table(&mut self.table) };
        }
    }
}

/// Iterates over the first `n` entries of a list. Some code clears the end mark, so the number of entries
/// ends the walk: `sg_next()` is never called for the last entry.
///
/// # Safety
///
/// `first` must head a list of at least `n` entries as long as the iterator exists.
pub(super) unsafe fn walk(
    first: *mut bindings::scatterlist,
    n: usize,
) -> impl Iterator<Item = *mut bindings::scatterlist> + Clone {
    let mut sg = first;
    (0..n).map_while(move |i| {
        if i > 0 {
            // SAFETY: `sg` is entry `i - 1` of the list, which is valid and not the last one.
            sg = unsafe { bindings::sg_next(sg) };
        }
        (!sg.is_null()).then_some(sg)
    })
}

/// Returns the DMA addresses of an entry if `is_mapped`, else the physical addresses.
///
/// # Safety
///
/// `sg` must be a valid entry, with pages unless `is_mapped`.
pub(super) unsafe fn segment(sg: *mut bindings::scatterlist, is_mapped: bool) -> Segment {
    // SAFETY: By the safety requirements the entry is valid, and has pages unless `is_mapped`.
    let (addr, len) = unsafe {
        if is_mapped {
            (bindings::sg_dma_address(sg), bindings::sg_dma_len(sg))
        } else {
            (helpers::sg_phys(sg), (*sg).length)
        }
    };
    let len = len.into();
    Segment { addr, len }
}
