// SPDX-License-Identifier: GPL-2.0

//! Scatter-gather tables for drivers of RDMA devices.
//!
//! [`Table`] is a table built from [`Segment`]s; [`ForeignTable`] is a table that other code, a
//! client, fills and frees. Used to give memory to a driver, by a dma-buf or by a work request.
//! Tables that a client maps are in [`dma_table`](super::dma_table).
//!
//! C header: [`include/linux/scatterlist.h`](srctree/include/linux/scatterlist.h).
//!
//! # Examples
//!
//! ```
//! use crate::ext::base::sg::{cut, ForeignTable, Segment, Table};
//!
//! // DMA addresses of 3 pages, for a device that takes entries of at most 2 pages.
//! let segments = [
//!     Segment { addr: 0x1_0000, len: 0x1000 },
//!     Segment { addr: 0x1_1000, len: 0x2000 },
//! ];
//! let segments = cut(segments.into_iter(), 0, 0x3000, 0x2000)?;
//! assert_eq!(segments.len(), 2);
//! let table = Table::of_dma(&segments)?;
//! assert!(table.is_mapped());
//! assert!(table.segments().eq(segments.iter().copied()));
//!
//! // A table that a C callback fills through `foreign.as_raw()`.
//! let foreign = ForeignTable::new();
//! assert_eq!(foreign.entries(), 0);
//! assert!(Table::of_pages(&foreign, 0, 0x1000, 0x1000)?.is_none());
//! # Ok::<(), Error>(())
//! ```

mod entries;

pub(super) use self::entries::{
    walk,
    Entries, //
};

use super::small_vec::SmallVec;
use crate::shared::bindings::helpers;
use core::marker::PhantomData;
use kernel::{
    bindings,
    page::PAGE_SIZE,
    prelude::*,
    types::Opaque, //
};

/// A range of physical addresses or of DMA addresses.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Segment {
    /// First address.
    pub addr: u64,
    /// Length in bytes.
    pub len: u64,
}

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
    /// Creates an empty table.
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

    /// Returns the number of entries of the list: `orig_nents`, or `nents` if other code set only
    /// `nents`.
    pub fn entries(&self) -> usize {
        // SAFETY: By the type invariants no other code runs that writes the table.
        let table = unsafe { &*self.as_raw() };
        let n = match (table.sgl.is_null(), table.orig_nents) {
            (true, _) => 0,
            (false, 0) => table.nents,
            (false, n) => n,
        };
        // CAST: `usize` has at least 32 bits.
        n as usize
    }

    /// Iterates over the physical addresses of the entries, with `None` for an entry without a struct
    /// page.
    fn pages(&self) -> impl Iterator<Item = Option<Segment>> + '_ {
        self.iter(self.entries()).map(|sg| {
            // SAFETY: `sg` is an entry of the list, which is valid.
            if unsafe { helpers::ext_sg_has_page(sg) } {
                // SAFETY: `sg` is an entry of the list, and it has a page.
                let addr = unsafe { helpers::ext_sg_phys(sg) };
                // SAFETY: `sg` is an entry of the list.
                let len = u64::from(unsafe { (*sg).length });
                Some(Segment { addr, len })
            } else {
                None
            }
        })
    }

    /// Returns whether there are entries, and each has a struct page.
    pub fn has_pages(&self) -> bool {
        self.entries() > 0 && self.pages().all(|s| s.is_some())
    }

    /// Iterates over the DMA addresses of the first `n` entries.
    pub fn dma(&self, n: usize) -> impl Iterator<Item = Segment> + '_ {
        self.iter(n.min(self.entries())).map(|sg| Segment {
            // SAFETY: `sg` is an entry of the list, which is valid.
            addr: unsafe { bindings::sg_dma_address(sg) },
            // SAFETY: `sg` is an entry of the list, which is valid.
            len: u64::from(unsafe { bindings::sg_dma_len(sg) }),
        })
    }

    /// Iterates over the first `n` entries. The table must have at least `n` entries.
    fn iter(&self, n: usize) -> impl Iterator<Item = *mut bindings::scatterlist> + '_ {
        // SAFETY: By the type invariants no other code runs that writes the table.
        let first = unsafe { (*self.as_raw()).sgl };
        // SAFETY: By the type invariants the list has `n` entries, and does not change while `self`
        // is borrowed.
        unsafe { walk(first, n) }
    }
}

impl Default for ForeignTable {
    fn default() -> Self {
        Self::new()
    }
}

/// A table built from segments, for a device.
///
/// # Invariants
///
/// - If `mapped` is false, every entry refers to struct pages that are valid for `'a`.
/// - If `mapped` is true, every entry has a DMA address.
pub struct Table<'a> {
    entries: Entries,
    mapped: bool,
    _pages: PhantomData<&'a ForeignTable>,
}

impl<'a> Table<'a> {
    /// Allocates a table with one entry for each of `segments`, and calls `fill` for each entry.
    ///
    /// `fill` must make the type invariants true for the entry.
    fn build(
        segments: &[Segment],
        mapped: bool,
        fill: impl Fn(*mut bindings::scatterlist, Segment, u32),
    ) -> Result<Self> {
        let n = u32::try_from(segments.len()).map_err(|_| EINVAL)?;
        // INVARIANT: `fill` fills each entry below.
        let table = Self {
            entries: Entries::new(n)?,
            mapped,
            _pages: PhantomData,
        };
        for (sg, s) in table.entries.iter().zip(segments) {
            fill(sg, *s, u32::try_from(s.len).map_err(|_| EINVAL)?);
        }
        Ok(table)
    }

    /// Creates a table of the struct pages of `foreign`, cut as by [`cut`].
    ///
    /// Returns `None` if `foreign` is empty or an entry has no struct page.
    ///
    /// Context: may sleep.
    pub fn of_pages(
        foreign: &'a ForeignTable,
        skip: u64,
        len: u64,
        max: u64,
    ) -> Result<Option<Self>> {
        if !foreign.has_pages() {
            return Ok(None);
        }
        let segments = cut(foreign.pages().flatten(), skip, len, max)?;
        // INVARIANT: Each segment is a part of an entry with struct pages, and the pages are valid
        // for `'a`.
        // SAFETY: `sg` is an entry of the new table, and `s` consists of struct pages.
        Self::build(&segments, false, |sg, s, len| unsafe {
            helpers::ext_sg_set_phys(sg, s.addr, len)
        })
        .map(Some)
    }

    /// Creates a table of DMA addresses, without pages.
    ///
    /// Context: may sleep.
    pub fn of_dma(segments: &[Segment]) -> Result<Self> {
        // INVARIANT: Each entry gets a DMA address.
        // SAFETY: `sg` is an entry of the new table.
        Self::build(segments, true, |sg, s, len| unsafe {
            helpers::ext_sg_set_dma(sg, s.addr, len)
        })
    }

    /// Returns whether the entries have DMA addresses. Otherwise the entries have pages.
    pub fn is_mapped(&self) -> bool {
        self.mapped
    }

    /// Returns the list and the number of entries. The list is valid until this object is moved or
    /// dropped.
    pub fn as_raw(&self) -> (*mut bindings::scatterlist, u32) {
        (self.entries.first(), self.entries.len())
    }

    /// Gives the table to C code, which may read and change the entries until the table is passed
    /// to [`Self::from_raw`].
    pub fn into_raw(mut table: KBox<Self>) -> *mut bindings::sg_table {
        // The object does not move any more, so the pointer to the list can be set.
        table.entries.as_mut();
        let table = KBox::into_raw(table);
        // SAFETY: The box has left a valid object; only the address of a field is taken.
        unsafe { &raw mut (*table).entries.table }
    }

    /// Takes over a table from C code.
    ///
    /// # Safety
    ///
    /// - `raw` must come from [`Self::into_raw`], and must be passed to this function only once.
    /// - The C code must not use the table any more.
    pub unsafe fn from_raw(raw: *mut bindings::sg_table) -> KBox<Self> {
        // SAFETY: By the safety requirements `raw` is the field of an object that `KBox::into_raw`
        // returned and that has no other user.
        unsafe {
            let entries = kernel::container_of!(raw, Entries, table);
            KBox::from_raw(kernel::container_of!(entries, Self, entries))
        }
    }

    /// Iterates over the segments: DMA addresses if [`Self::is_mapped`], else physical addresses.
    pub fn segments(&self) -> impl Iterator<Item = Segment> + '_ {
        // SAFETY: `sg` is an entry of the list, which is valid. By the type invariants the entry
        // has a DMA address if `mapped` is true, and pages otherwise.
        self.entries.iter().map(|sg| unsafe {
            if self.mapped {
                Segment {
                    addr: bindings::sg_dma_address(sg),
                    len: bindings::sg_dma_len(sg).into(),
                }
            } else {
                Segment {
                    addr: helpers::ext_sg_phys(sg),
                    len: (*sg).length.into(),
                }
            }
        })
    }
}

/// Returns the part `[skip, skip + len)` of the concatenation of `segments`.
///
/// Rounds out a first segment that starts inside a page and a last segment that ends inside a page.
/// Joins adjacent segments and splits segments longer than `max` bytes.
///
/// Returns `EINVAL` if the segments are too short for the part, if a segment is empty, or if
/// another end of a segment is not a page boundary; and `ENOMEM`.
///
/// Context: may sleep.
pub fn cut(
    segments: impl Iterator<Item = Segment>,
    mut skip: u64,
    len: u64,
    max: u64,
) -> Result<SmallVec<Segment>> {
    // CAST: `PAGE_SIZE` is less than 2^32.
    let page = PAGE_SIZE as u64;
    let max = max & !(page - 1);
    let mut out: SmallVec<Segment> = SmallVec::new();
    let mut left = len;

    if max == 0 || len == 0 {
        return Err(EINVAL);
    }
    let mut segments = segments.enumerate().peekable();
    while let Some((i, mut s)) = segments.next() {
        if left == 0 {
            break;
        }
        if s.len == 0 {
            return Err(EINVAL);
        }
        if i == 0 {
            s.len = s.len.checked_add(s.addr % page).ok_or(EINVAL)?;
            s.addr -= s.addr % page;
        }
        if segments.peek().is_none() {
            s.len = s.len.checked_next_multiple_of(page).ok_or(EINVAL)?;
        }
        if s.addr % page != 0 || s.len % page != 0 || s.addr.checked_add(s.len).is_none() {
            return Err(EINVAL);
        }
        if skip >= s.len {
            skip -= s.len;
            continue;
        }
        s.addr += skip;
        s.len = (s.len - skip).min(left);
        skip = 0;
        left -= s.len;

        while s.len > 0 {
            // Extend the last segment up to `max` if this segment follows directly.
            let room = match out.last_mut() {
                Some(last) if last.addr + last.len == s.addr => max - last.len,
                _ => 0,
            };
            let take = s.len.min(if room > 0 { room } else { max });
            match out.last_mut() {
                Some(last) if room > 0 => last.len += take,
                _ => out.push(
                    Segment {
                        addr: s.addr,
                        len: take,
                    },
                    GFP_KERNEL_ACCOUNT,
                )?,
            }
            s.addr += take;
            s.len -= take;
        }
    }
    if left > 0 {
        return Err(EINVAL);
    }
    Ok(out)
}

#[cfg(ext_tests)]
#[kunit_tests(ext_sg)]
mod tests {
    use super::*;

    /// Returns whether `cut` returns `want`, or fails if `want` is empty.
    fn check(input: &[(u64, u64)], (skip, len, max): (u64, u64, u64), want: &[(u64, u64)]) -> bool {
        let segments = input.iter().map(|&(addr, len)| Segment { addr, len });
        match cut(segments, skip, len, max) {
            Ok(out) => {
                out.len() == want.len()
                    && out
                        .iter()
                        .zip(want)
                        .all(|(s, &(a, l))| s.addr == a && s.len == l)
            }
            Err(_) => want.is_empty(),
        }
    }

    const BIG: u64 = 1 << 30;

    #[test]
    fn neighbours_become_one() {
        let pages = [(0x1000, 0x1000), (0x2000, 0x1000), (0x3000, 0x1000)];
        assert!(check(&pages, (0, 0x3000, BIG), &[(0x1000, 0x3000)]));
    }

    #[test]
    fn gaps_stay() {
        let pages = [(0x1000, 0x1000), (0x8000, 0x1000)];
        assert!(check(&pages, (0, 0x2000, BIG), &pages));
    }

    #[test]
    fn both_ends_are_trimmed() {
        let huge = [(0x20_0000, 0x20_0000), (0x40_0000, 0x20_0000)];
        assert!(check(&huge, (0x3000, 0x1000, BIG), &[(0x20_3000, 0x1000)]));
        assert!(check(
            &huge,
            (0x1f_f000, 0x2000, BIG),
            &[(0x3f_f000, 0x2000)]
        ));
        assert!(check(
            &huge,
            (0x20_0000, 0x1000, BIG),
            &[(0x40_0000, 0x1000)]
        ));
    }

    #[test]
    fn long_runs_are_split_at_the_device_limit() {
        let run = [(0x1_0000, 0x5000)];
        let want = [(0x1_0000, 0x2000), (0x1_2000, 0x2000), (0x1_4000, 0x1000)];
        assert!(check(&run, (0, 0x5000, 0x2fff), &want));
        let pages = [(0x1_0000, 0x1000), (0x1_1000, 0x3000), (0x1_4000, 0x1000)];
        assert!(check(&pages, (0, 0x5000, 0x2000), &want));
    }

    #[test]
    fn outer_ends_are_rounded_out() {
        assert!(check(
            &[(0x1800, 0x1000)],
            (0, 0x2000, BIG),
            &[(0x1000, 0x2000)]
        ));
        assert!(check(
            &[(0x1000, 0x800)],
            (0, 0x1000, BIG),
            &[(0x1000, 0x1000)]
        ));
        let pages = [(0x1ff0, 0x10), (0x8000, 0x1000), (0xb000, 1)];
        let want = [(0x1000, 0x1000), (0x8000, 0x1000), (0xb000, 0x1000)];
        assert!(check(&pages, (0, 0x3000, BIG), &want));
    }

    #[test]
    fn bad_tables_are_rejected() {
        assert!(check(&[], (0, 0x1000, BIG), &[]));
        assert!(check(&[(0x1000, 0x1000)], (0, 0x2000, BIG), &[]));
        assert!(check(&[(0x1000, 0x1000)], (0x1000, 0x1000, BIG), &[]));
        let inside = [(0x1000, 0x1800), (0x4000, 0x1000)];
        assert!(check(&inside, (0, 0x2000, BIG), &[]));
        let inside = [(0x1000, 0x1000), (0x4800, 0x1000)];
        assert!(check(&inside, (0, 0x2000, BIG), &[]));
        assert!(check(
            &[(0u64.wrapping_sub(0x1000), 0x2000)],
            (0, 0x1000, BIG),
            &[]
        ));
        assert!(check(&[(0x1000, u64::MAX)], (0, 0x1000, BIG), &[]));
        assert!(check(
            &[(0x1000, 0), (0x1000, 0x1000)],
            (0, 0x1000, BIG),
            &[]
        ));
        assert!(check(&[(0x1000, 0x1000)], (0, 0, BIG), &[]));
        assert!(check(&[(0x1000, 0x1000)], (0, 0x1000, 0xfff), &[]));
    }
}
