// SPDX-License-Identifier: GPL-2.0

//! Scatter-gather tables: lists of [`Segment`]s of memory that a device accesses.
//!
//! A client owns memory. RDMA devices and importers of dma-bufs get the memory of clients, but do
//! not own the memory. So the type of a table names the owner:
//!
//! ```text
//!  table            memory of        filled by          mapped by      used by
//!  Table<Owned>     table's owner    PageTable or       table's owner  clients in Rust
//!                                    p2pdma's MmioTable
//!  ForeignTable     any client       client             client         core of peer memory
//!  Table<Borrowed>  any client       core               client         drivers of devices
//! ```
//!
//! A client returns the `sg_table` of a `Table<Owned>`, or in C any other `sg_table`. The core has
//! the `sg_table` in a [`ForeignTable`], checks the entries and takes the [`part`] that a process
//! registers. Drivers get a `Table<Borrowed>` of the part: clients compare their table with what they
//! have filled, so it is never cut in place. A long list of which nothing is to be cut is borrowed instead
//! of copied ([`ForeignPart::borrow`]).
//!
//! A table has any length. Each kernel that is served preempts loops over a table (x86 and arm64
//! have no other preemption models from 7.0 on), so the loops do not call `cond_resched()`.
//!
//! An entry is one of
//!
//! - whole pages with struct pages: the entries of an unmapped table;
//! - pages with DMA addresses, after `dma_map_sgtable()`;
//! - DMA addresses without pages: device memory without struct pages, and any memory that a client
//!   has mapped. Such a table has entries only while mapped.
//!
//! Adjacent segments of pages are usually joined ([`push`]). No entry may be longer than the device
//! takes, so each table is built from the result of [`split`]. DMA addresses are valid for one
//! device. The owner of the memory unmaps and frees the table before the memory.
//!
//! C headers: [`include/linux/scatterlist.h`](srctree/include/linux/scatterlist.h),
//! [`include/linux/dma-mapping.h`](srctree/include/linux/dma-mapping.h).

mod entries;
mod table;

pub use self::table::{
    Borrowed,
    FixedTable,
    Owned,
    PageTable,
    Segments,
    Table, //
};

use self::entries::{
    segment,
    walk,
    IN_ONE_PAGE, //
};
use super::small_vec::SmallVec;
use crate::shared::bindings::helpers;
use core::{
    iter::Peekable,
    mem,
    ops::Range, //
};
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

impl Segment {
    /// Returns whether the segment has addresses of `range`.
    pub fn overlaps(&self, range: &Range<u64>) -> bool {
        range.start < self.addr.saturating_add(self.len) && self.addr < range.end
    }

    /// Returns whether the segment lies in `range`.
    pub fn is_within(&self, range: &Range<u64>) -> bool {
        (range.start..=range.end).contains(&self.addr) && self.len <= range.end - self.addr
    }
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

    /// Returns `nents`, the number of entries that other code says are mapped, as C callers count them.
    pub fn mapped_entries(&self) -> i32 {
        // SAFETY: By the type invariants no other code runs that writes the table.
        let nents = unsafe { (*self.as_raw()).nents };
        nents.try_into().unwrap_or(0)
    }

    /// Iterates over the physical addresses of the entries, with `None` for an entry without a struct
    /// page.
    fn pages(&self) -> impl Iterator<Item = Option<Segment>> + Clone + '_ {
        self.iter(self.entries()).map(|sg| {
            // SAFETY: `sg` is an entry of the list, which is valid. `segment` is called only if the
            // entry has a page.
            unsafe { helpers::ext_sg_has_page(sg).then(|| segment(sg, false)) }
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
        let is_copyable = |sg| {
            // SAFETY: `sg` is an entry of the list, which is valid. `ext_sg_is_copyable` is called
            // only if the entry has a page.
            unsafe { helpers::ext_sg_has_page(sg) && helpers::ext_sg_is_copyable(sg) }
        };
        cfg!(CONFIG_X86) || self.iter(self.entries()).all(is_copyable)
    }

    /// Returns the [`part`] of the DMA addresses of the first `n` entries.
    ///
    /// # Safety
    ///
    /// The list must neither be changed nor freed until each import and each export of a dma-buf that
    /// gets the part has ended, or has been revoked.
    pub unsafe fn part(&self, n: usize, skip: u64, len: u64, max: u32) -> Result<ForeignPart> {
        let mut this = ForeignPart {
            // SAFETY: By the type invariants no other code runs that writes the table.
            first: unsafe { (*self.as_raw()).sgl },
            entries: n.min(self.entries()),
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

    /// Iterates over the first `n` entries. The table must have at least `n` entries.
    fn iter(&self, n: usize) -> impl Iterator<Item = *mut bindings::scatterlist> + Clone + '_ {
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

/// Appends `segment` to `list`, or extends the last segment if `segment` follows directly. Context:
/// may sleep.
pub fn push(list: &mut SmallVec<Segment>, segment: Segment) -> Result {
    match list.last_mut() {
        Some(last) if last.addr + last.len == segment.addr => last.len += segment.len,
        _ => list.push(segment, GFP_KERNEL_ACCOUNT)?,
    }
    Ok(())
}

/// A part of the concatenation of segments, from [`part`].
#[derive(Clone)]
pub struct Part<I: Iterator<Item = Segment>> {
    segments: Peekable<I>,
    is_first: bool,
    /// Bytes that are left before the part.
    skip: u64,
    /// Bytes that are left of the part. 0 after a bad segment as well.
    left: u64,
    /// The segment that the next one may extend. May be empty.
    open: Segment,
}

impl<I> Part<I>
where
    I: Iterator<Item = Segment>,
{
    /// Returns the bytes of the next segment that belong to the part, or `None` for a bad segment.
    fn trimmed(&mut self) -> Option<Segment> {
        // CAST: `PAGE_SIZE` is less than 2^32.
        let page = PAGE_SIZE as u64;
        loop {
            let mut s = self.segments.next().filter(|s| s.len > 0)?;
            if mem::take(&mut self.is_first) {
                s.len = s.len.checked_add(s.addr % page)?;
                s.addr -= s.addr % page;
            }
            if self.segments.peek().is_none() {
                s.len = s.len.checked_next_multiple_of(page)?;
            }
            if (s.addr | s.len) % page != 0 || s.addr.checked_add(s.len).is_none() {
                return None;
            }
            if self.skip < s.len {
                let skip = mem::take(&mut self.skip);
                let len = (s.len - skip).min(self.left);
                return Some(Segment {
                    addr: s.addr + skip,
                    len,
                });
            }
            self.skip -= s.len;
        }
    }
}

impl<I> Iterator for Part<I>
where
    I: Iterator<Item = Segment>,
{
    type Item = Segment;

    fn next(&mut self) -> Option<Segment> {
        let mut done = Segment { addr: 0, len: 0 };
        while done.len == 0 && self.left > 0 {
            let Some(s) = self.trimmed() else {
                self.left = 0;
                break;
            };
            self.left -= s.len;
            if self.open.addr + self.open.len == s.addr {
                self.open.len += s.len;
            } else {
                done = mem::replace(&mut self.open, s);
            }
        }
        if done.len == 0 {
            done = mem::replace(&mut self.open, done);
        }
        (done.len > 0).then_some(done)
    }
}

/// Returns the part `[skip, skip + len)` of the concatenation of `segments`, and the number of its
/// segments. Joins adjacent segments, and then splits as [`split`]. Allocates nothing, so the part
/// may have any number of segments.
///
/// Rounds out a first segment that starts inside a page and a last segment that ends inside a page.
///
/// Returns `EINVAL` if the segments are too short for the part, if the part or a segment is empty,
/// if another end of a segment is not a page boundary, or if `max` is less than a page.
pub fn part<I>(segments: I, skip: u64, len: u64, max: u32) -> Result<(usize, Split<Part<I>>)>
where
    I: Iterator<Item = Segment> + Clone,
{
    let pieces = pieces(segments, skip, len, max)?;
    Ok((whole(pieces.clone(), len)?, pieces))
}

/// Returns the segments of [`part`], which end early if [`whole`] returns an error.
fn pieces<I>(segments: I, skip: u64, len: u64, max: u32) -> Result<Split<Part<I>>>
where
    I: Iterator<Item = Segment> + Clone,
{
    let part = Part {
        segments: segments.peekable(),
        is_first: true,
        skip,
        left: len,
        open: Segment { addr: 0, len: 0 },
    };
    split(part, max)
}

/// Returns the number of `segments`, or `EINVAL` unless they have `len` bytes.
fn whole(segments: impl Iterator<Item = Segment>, len: u64) -> Result<usize> {
    let (n, bytes) = segments.fold((0, 0), |(n, bytes), s| (n + 1, bytes + s.len));
    if n == 0 || bytes != len {
        return Err(EINVAL);
    }
    Ok(n)
}

/// Returns the number of `segments` that are the [`part`] `[0, len)` as they are: none is to be rounded,
/// cut, joined or split. Returns `None` if there are not so many.
fn as_is(segments: impl Iterator<Item = Segment>, len: u64, max: u32) -> Option<usize> {
    let (mut n, mut end, mut left) = (0, 0, len);
    for s in segments {
        let is_whole = s.len > 0 && (s.addr | s.len) % (PAGE_SIZE as u64) == 0;
        if !is_whole || s.addr == end || s.len > u64::from(max) || s.len > left {
            return None;
        }
        end = s.addr.checked_add(s.len)?;
        left -= s.len;
        n += 1;
        if left == 0 {
            return Some(n);
        }
    }
    None
}

/// The [`part`] of the DMA addresses in a list of other code, from [`ForeignTable::part`].
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
    /// Returns the segments.
    ///
    /// # Safety
    ///
    /// The list must be valid, and must not change during `'a`.
    unsafe fn pieces<'a>(&self) -> Result<Split<Part<impl Iterator<Item = Segment> + Clone + 'a>>> {
        // SAFETY: By the safety requirements the list has the entries.
        let entries = unsafe { walk(self.first, self.entries) };
        // SAFETY: `sg` is an entry of the list, which is valid.
        let dma = entries.map(|sg| unsafe { segment(sg, true) });
        pieces(dma, self.skip, self.len, self.max)
    }

    /// Returns the number of entries of the part, if the first entries of the list are the part as they are
    /// ([`as_is`]), and the kernel's loops over them, which look for an entry behind the last one, find one
    /// of the `listed` entries of the whole list, or the end mark.
    ///
    /// # Safety
    ///
    /// As for [`Self::pieces`].
    unsafe fn as_is(&self, listed: usize) -> Option<usize> {
        if self.skip > 0 {
            return None;
        }
        let mut last = self.first;
        // SAFETY: By the safety requirements the list has the entries.
        let entries = unsafe { walk(self.first, self.entries) }.inspect(|sg| last = *sg);
        // SAFETY: `sg` is an entry of the list, which is valid.
        let segments = entries.map(|sg| unsafe { segment(sg, true) });
        let n = as_is(segments, self.len, self.max)?;
        // SAFETY: `last` is an entry of the list: there is one, as the part has `n`.
        (n < listed || unsafe { helpers::ext_sg_is_last(last) }).then_some(n)
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
            let entries = unsafe { walk(self.first, self.segments) };
            // SAFETY: `sg` is an entry of the list, which is valid.
            let entries = entries.map(|sg| unsafe { segment(sg, true) });
            return Table::of_dma(self.segments, entries);
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

/// Segments of a limited length, from [`split`].
#[derive(Clone)]
pub struct Split<I> {
    /// The segments that are left, behind `first`.
    segments: I,
    /// The rest of the first segment, which may be empty.
    first: Segment,
    /// The limit in bytes, a multiple of the page size.
    max: u64,
}

impl<I> Iterator for Split<I>
where
    I: Iterator<Item = Segment>,
{
    type Item = Segment;

    fn next(&mut self) -> Option<Segment> {
        while self.first.len == 0 {
            self.first = self.segments.next()?;
        }
        let (addr, len) = (self.first.addr, self.first.len.min(self.max));
        self.first.addr += len;
        self.first.len -= len;
        Some(Segment { addr, len })
    }

    /// Computes the number: a table of single pages counts many segments.
    fn count(self) -> usize {
        let n = |s: Segment| s.len.div_ceil(self.max);
        // CAST: The memory has at most as many pages as a `usize` can count.
        self.segments.fold(n(self.first), |sum, s| sum + n(s)) as usize
    }
}

/// Splits segments of whole pages into segments of at most `max` bytes, in whole pages.
///
/// Returns `EINVAL` if `max` is less than a page.
pub fn split<I: Iterator<Item = Segment> + Clone>(segments: I, max: u32) -> Result<Split<I>> {
    // CAST: `PAGE_SIZE` is less than 2^32.
    let max = u64::from(max) & !(PAGE_SIZE as u64 - 1);
    if max == 0 {
        return Err(EINVAL);
    }
    let first = Segment { addr: 0, len: 0 };
    Ok(Split {
        segments,
        first,
        max,
    })
}

#[cfg(ext_tests)]
#[kunit_tests(ext_sg)]
mod tests {
    use super::*;

    /// The figures below are for pages of 4 KiB, and are multiplied by this.
    // CAST: `PAGE_SIZE` is less than 2^32.
    const SCALE: u32 = PAGE_SIZE as u32 / 0x1000;

    fn segments(list: &[(u64, u64)]) -> impl Iterator<Item = Segment> + Clone + '_ {
        let scaled = |bytes: u64| bytes.wrapping_mul(SCALE.into());
        list.iter().map(move |&(addr, len)| Segment {
            addr: scaled(addr),
            len: scaled(len),
        })
    }

    fn split_at<I: Iterator<Item = Segment> + Clone>(segments: I, max: u32) -> Result<Split<I>> {
        split(segments, max.saturating_mul(SCALE))
    }

    /// Returns whether `part` returns `want`, or fails if `want` is empty.
    fn check(input: &[(u64, u64)], (skip, len, max): (u64, u64, u32), want: &[(u64, u64)]) -> bool {
        let scale = u64::from(SCALE);
        let max = max.saturating_mul(SCALE);
        part(segments(input), skip * scale, len * scale, max)
            .map_or(want.is_empty(), |(n, pieces)| {
                n == want.len() && pieces.eq(segments(want))
            })
    }

    const BIG: u32 = 1 << 30;

    /// A table, the range in bytes and the longest segment, and the part; empty: rejected.
    type Case<'a> = (&'a [(u64, u64)], (u64, u64, u32), &'a [(u64, u64)]);

    #[test]
    fn parts_of_tables() {
        const HUGE: [(u64, u64); 2] = [(0x20_0000, 0x20_0000), (0x40_0000, 0x20_0000)];
        const SPLIT: [(u64, u64); 3] = [(0x1_0000, 0x2000), (0x1_2000, 0x2000), (0x1_4000, 0x1000)];
        let cases: [Case<'_>; 21] = [
            // Neighbours become one, gaps stay, both ends are trimmed.
            (
                &[(0x1000, 0x1000), (0x2000, 0x1000), (0x3000, 0x1000)],
                (0, 0x3000, BIG),
                &[(0x1000, 0x3000)],
            ),
            (
                &[(0x1000, 0x1000), (0x8000, 0x1000)],
                (0, 0x2000, BIG),
                &[(0x1000, 0x1000), (0x8000, 0x1000)],
            ),
            (&HUGE, (0x3000, 0x1000, BIG), &[(0x20_3000, 0x1000)]),
            (&HUGE, (0x1f_f000, 0x2000, BIG), &[(0x3f_f000, 0x2000)]),
            (&HUGE, (0x20_0000, 0x1000, BIG), &[(0x40_0000, 0x1000)]),
            // Long runs are split at the limit of the device.
            (&[(0x1_0000, 0x5000)], (0, 0x5000, 0x2fff), &SPLIT),
            (
                &[(0x1_0000, 0x1000), (0x1_1000, 0x3000), (0x1_4000, 0x1000)],
                (0, 0x5000, 0x2000),
                &SPLIT,
            ),
            // The outer ends are rounded out.
            (&[(0x1800, 0x1000)], (0, 0x2000, BIG), &[(0x1000, 0x2000)]),
            (&[(0x1000, 0x800)], (0, 0x1000, BIG), &[(0x1000, 0x1000)]),
            (
                &[(0x1ff0, 0x10), (0x8000, 0x1000), (0xb000, 1)],
                (0, 0x3000, BIG),
                &[(0x1000, 0x1000), (0x8000, 0x1000), (0xb000, 0x1000)],
            ),
            // Tables that are too short, have inner ends inside a page, or wrap.
            (&[], (0, 0x1000, BIG), &[]),
            (&[(0x1000, 0x1000)], (0, 0x2000, BIG), &[]),
            (&[(0x1000, 0x1000)], (0x1000, 0x1000, BIG), &[]),
            (&[(0x1000, 0x1800), (0x4000, 0x1000)], (0, 0x2000, BIG), &[]),
            (&[(0x1000, 0x1000), (0x4800, 0x1000)], (0, 0x2000, BIG), &[]),
            (&[(!0xfff, 0x2000)], (0, 0x1000, BIG), &[]),
            (&[(0x1000, u64::MAX)], (0, 0x1000, BIG), &[]),
            (&[(0x1000, 0), (0x1000, 0x1000)], (0, 0x1000, BIG), &[]),
            (&[(0x1000, 0x1000)], (0, 0, BIG), &[]),
            (&[(0x1000, 0x1000)], (0, 0x1000, 0xfff), &[]),
            // A bad segment ends the part, and no later one continues it.
            (
                &[(0x1000, 0x1000), (0x4800, 0x1000), (0x6000, 0x2000)],
                (0, 0x3000, BIG),
                &[],
            ),
        ];
        let wrong = |(table, range, part): &Case<'_>| !check(table, *range, part);
        assert_eq!(cases.iter().position(wrong), None);
    }

    /// No segment exceeds the limit, and neighbours stay apart.
    #[test]
    fn split_does_not_join() -> Result {
        let list = [(0x1000, 0x5000), (0x6000, 0x1000), (0x8000, 0x1000)];
        assert!(split_at(segments(&list), u32::MAX)?.eq(segments(&list)));
        let want = [
            (0x1000, 0x2000),
            (0x3000, 0x2000),
            (0x5000, 0x1000),
            (0x6000, 0x1000),
            (0x8000, 0x1000),
        ];
        assert!(split_at(segments(&list), 0x2000)?.eq(segments(&want)));
        assert!(split_at(segments(&list), 0x2fff)?.eq(segments(&want)));
        let mut rest = split_at(segments(&list), 0x2000)?;
        for n in (1..=want.len()).rev() {
            assert_eq!(rest.clone().count(), n);
            assert!(rest.next().is_some());
        }
        assert_eq!(rest.count(), 0);
        assert!(split_at(segments(&list), 0xfff).is_err());
        assert!(
            split_at(segments(&[(0, 1 << 33)]), u32::MAX)?.all(|s| u32::try_from(s.len).is_ok())
        );
        Ok(())
    }
}
