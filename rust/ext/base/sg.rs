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

mod entries;
mod foreign;
mod table;

pub use self::{
    foreign::{
        ForeignPart,
        ForeignTable, //
    },
    table::{
        Borrowed,
        FixedTable,
        Owned,
        PageTable,
        Segments,
        Table, //
    },
};

use super::small_vec::SmallVec;
use crate::shared::prelude::*;
use core::iter::Peekable;

/// A range of physical addresses or of DMA addresses.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Segment {
    pub addr: u64,
    pub len: u64,
}

impl Segment {
    pub fn overlaps(&self, range: &Range<u64>) -> bool {
        range.start < self.addr.saturating_add(self.len) && self.addr < range.end
    }

    pub fn is_within(&self, range: &Range<u64>) -> bool {
        (range.start..=range.end).contains(&self.addr) && self.len <= range.end - self.addr
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

impl<I: Iterator<Item = Segment>> Part<I> {
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

impl<I: Iterator<Item = Segment>> Iterator for Part<I> {
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

impl<I: Iterator<Item = Segment>> Iterator for Split<I> {
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
    Ok(Split {
        segments,
        first: Segment { addr: 0, len: 0 },
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
        let want = [
            (0x1000, 0x2000),
            (0x3000, 0x2000),
            (0x5000, 0x1000),
            (0x6000, 0x1000),
            (0x8000, 0x1000),
        ];
        assert!(split(segments(&list), u32::MAX)?.eq(segments(&list)));
        for max in [0x2000, 0x2fff] {
            assert!(split(segments(&list), max * SCALE)?.eq(segments(&want)));
        }
        assert!(split(segments(&list), 0xfff).is_err());
        let huge = [(0, 1 << 33)];
        assert!(split(segments(&huge), u32::MAX)?.all(|s| u32::try_from(s.len).is_ok()));
        Ok(())
    }
}
