// SPDX-License-Identifier: GPL-2.0

//! [`ForeignTable`], and [`ForeignPart`] of one.

use super::{
    super::compat,
    entries::{
        segment,
        walk,
        IN_ONE_PAGE, //
    },
    pieces,
    whole,
    Borrowed,
    Part,
    Segment,
    Split,
    Table, //
};
use crate::shared::prelude::raw::*;

/// A `struct sg_table` that starts empty and that other code fills, changes and frees.
///
/// This object owns only the structure. The other code owns the list behind the structure, and this
/// object never writes the list.
///
/// # Invariants
///
/// Outside of calls of the other code, the table is either all zero, or `sgl` heads a list of at
/// least `orig_nents` entries, or of at least `nents` entries if `orig_nents` is 0.
pub struct ForeignTable {
    raw: Opaque<bindings::sg_table>,
}

// SAFETY: The table is not bound to a task.
unsafe impl Send for ForeignTable {}
// SAFETY: `&self` methods only read the table.
unsafe impl Sync for ForeignTable {}

impl ForeignTable {
    pub fn new() -> Self {
        // INVARIANT: The table is all zero.
        Self {
            raw: Opaque::zeroed(),
        }
    }

    /// Returns the table, for other code to fill, change or free. The pointer is valid until this
    /// object is moved or dropped.
    ///
    /// A caller that passes the pointer to code that writes the table must not call another method
    /// while that code runs. The type invariants must hold again before the next call of a method.
    pub fn as_raw(&self) -> *mut bindings::sg_table {
        self.raw.get()
    }

    fn get(&self) -> &bindings::sg_table {
        // SAFETY: By the type invariants no other code runs that writes the table.
        unsafe { &*self.as_raw() }
    }

    /// Returns the number of entries of the list: `orig_nents`, or `nents` if other code set only
    /// `nents`.
    pub fn entries(&self) -> usize {
        let n = match self.get() {
            table if table.sgl.is_null() => 0,
            table if table.orig_nents == 0 => table.nents,
            table => table.orig_nents,
        };
        // CAST: `usize` has at least 32 bits.
        n as usize
    }

    /// Returns `nents`, the number of entries that other code says are mapped, as C callers count them.
    pub fn mapped_entries(&self) -> i32 {
        self.get().nents.try_into().unwrap_or(0)
    }

    fn iter(&self) -> impl Iterator<Item = *mut bindings::scatterlist> + Clone + '_ {
        // SAFETY: By the type invariants the list has the entries, and does not change while `self`
        // is borrowed.
        unsafe { walk(self.get().sgl, self.entries()) }
    }

    /// Iterates over the physical addresses of the entries, with `None` for an entry without a struct
    /// page.
    pub(super) fn pages(&self) -> impl Iterator<Item = Option<Segment>> + Clone + '_ {
        self.iter().map(|sg| {
            // SAFETY: `sg` is an entry of the list, which is valid. `segment` is called only if the
            // entry has a page.
            unsafe { has_page(sg).then(|| segment(sg, false)) }
        })
    }

    /// Returns whether there are entries, and each has a struct page.
    pub fn has_pages(&self) -> bool {
        self.entries() > 0 && self.pages().all(|s| s.is_some())
    }

    /// Returns whether a CPU may copy the memory with accesses of any alignment, by the kernel's mapping
    /// of the pages. False for the pages of PCI BARs, except on x86, and for an entry without a
    /// struct page.
    pub fn is_copyable(&self) -> bool {
        // SAFETY: `sg` is an entry of the list, which is valid. `ext_sg_is_copyable` is called only
        // if the entry has a page.
        let is_copyable = |sg| unsafe { has_page(sg) && helpers::ext_sg_is_copyable(sg) };
        cfg!(CONFIG_X86) || self.iter().all(is_copyable)
    }

    /// Returns the [`part`](super::part) of the DMA addresses of the first `n` entries. Fails with
    /// `EREMOTEIO` if the kernel's `dma_map_sg()` has left memory of a BAR without an address.
    ///
    /// # Safety
    ///
    /// The list must neither be changed nor freed until each import and each export of a dma-buf that
    /// gets the part has ended, or has been revoked.
    pub unsafe fn part(&self, n: usize, skip: u64, len: u64, max: u32) -> Result<ForeignPart> {
        let (first, entries) = (self.get().sgl, n.min(self.entries()));
        // SAFETY: By the type invariants the list has the entries, which are valid.
        let is_left = |sg| unsafe { helpers::ext_sg_is_left_unmapped(sg) };
        // SAFETY: By the type invariants the list has the entries.
        if compat::LEAVES_BARS_UNMAPPED && unsafe { walk(first, entries) }.any(is_left) {
            return Err(compat::eremoteio());
        }
        let mut this = ForeignPart {
            first,
            entries,
            skip,
            len,
            max,
            segments: 0,
            is_as_is: false,
        };
        // SAFETY: By the type invariants the list has the entries.
        let as_is = unsafe { this.as_is(self.entries()) };
        this.is_as_is = as_is.is_some();
        this.segments = match as_is {
            Some(n) => n,
            // SAFETY: By the type invariants the list has the entries.
            None => whole(unsafe { this.pieces() }?, len)?,
        };
        Ok(this)
    }
}

/// Returns the DMA addresses of the first `n` entries of a list.
///
/// # Safety
///
/// As for [`walk`], and the entries must be mapped.
unsafe fn mapped(
    first: *mut bindings::scatterlist,
    n: usize,
) -> impl Iterator<Item = Segment> + Clone {
    // SAFETY: By the safety requirements the list has the entries, which are valid.
    unsafe { walk(first, n).map(|sg| segment(sg, true)) }
}

/// # Safety
///
/// `sg` must be a valid entry.
unsafe fn has_page(sg: *mut bindings::scatterlist) -> bool {
    // SAFETY: By the safety requirements.
    !unsafe { helpers::sg_page(sg) }.is_null()
}

/// The [`part`](super::part) of the DMA addresses in a list of other code, from
/// [`ForeignTable::part`].
#[derive(Clone, Copy)]
pub struct ForeignPart {
    first: *mut bindings::scatterlist,
    entries: usize,
    skip: u64,
    len: u64,
    max: u32,
    segments: usize,
    /// The first entries of the list are the segments, see [`Self::as_is`].
    is_as_is: bool,
}

// SAFETY: The list is not bound to a task.
unsafe impl Send for ForeignPart {}
// SAFETY: Methods only read the list.
unsafe impl Sync for ForeignPart {}

impl ForeignPart {
    /// # Safety
    ///
    /// The list must be valid, and must not change during `'a`.
    unsafe fn pieces<'a>(&self) -> Result<Split<Part<impl Iterator<Item = Segment> + Clone + 'a>>> {
        // SAFETY: By the safety requirements the list has the entries.
        let dma = unsafe { mapped(self.first, self.entries) };
        pieces(dma, self.skip, self.len, self.max)
    }

    /// Returns the number of entries of the part, if the first entries of the list are the part as they
    /// are: none is to be rounded, cut, joined or split. The kernel's loops over them, which look for an
    /// entry behind the last one, find one of the `listed` entries of the whole list, or the end mark.
    ///
    /// # Safety
    ///
    /// As for [`Self::pieces`].
    unsafe fn as_is(&self, listed: usize) -> Option<usize> {
        let (mut end, mut left) = (0, self.len);
        // SAFETY: By the safety requirements the list has the entries.
        for (i, sg) in unsafe { walk(self.first, self.entries) }.enumerate() {
            // SAFETY: `sg` is an entry of the list, which is valid.
            let s = unsafe { segment(sg, true) };
            let is_whole = s.len > 0 && (s.addr | s.len) % (PAGE_SIZE as u64) == 0;
            let is_cut = self.skip > 0 || s.len > self.max.into() || s.len > left;
            if !is_whole || is_cut || s.addr == end {
                return None;
            }
            end = s.addr.checked_add(s.len)?;
            left -= s.len;
            if left == 0 {
                // SAFETY: `sg` is an entry of the list.
                let is_followed = i + 1 < listed || unsafe { helpers::sg_is_last(sg) };
                return is_followed.then_some(i + 1);
            }
        }
        None
    }

    /// Creates a table of the part. The list does not change, so there may be any number of tables.
    /// Context: may sleep.
    ///
    /// # Safety
    ///
    /// The list must be valid, and must not have changed since [`ForeignTable::part`].
    pub unsafe fn table<'a>(&self) -> Result<Table<Borrowed<'a>>> {
        if self.is_as_is {
            // SAFETY: By the safety requirements the list has the segments.
            return Table::of_dma(self.segments, unsafe { mapped(self.first, self.segments) });
        }
        // SAFETY: By the safety requirements the list is valid.
        Table::of_dma(self.segments, unsafe { self.pieces() }?)
    }

    /// Returns the list itself as a table if a copy would be the same and longer than a page. Else
    /// creates a table as [`Self::table`]. Context: may sleep.
    ///
    /// # Safety
    ///
    /// As for [`Self::table`]; and until the table is dropped the list must not be freed, and who uses
    /// the table may store in an entry only what the entry has. `ib_umem_dmabuf_map_pages()` stores the
    /// ends of an MR in the entries, so the MR must have the whole part.
    pub unsafe fn borrow<'a>(&self) -> Result<Table<Borrowed<'a>>> {
        // CAST: `usize` has at least 32 bits.
        if self.is_as_is && self.segments > IN_ONE_PAGE as usize {
            // SAFETY: By the safety requirements the list has the segments, with DMA addresses.
            return unsafe { Table::borrowed(self.first, self.segments) };
        }
        // SAFETY: By the safety requirements of this function.
        unsafe { self.table() }
    }
}
