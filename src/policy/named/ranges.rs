// SPDX-License-Identifier: GPL-2.0

//! The named ranges of an address space.
//!
//! [`Ranges`] maps ranges of addresses to parts of dma-bufs. [`named`](super) has a [`Ranges`] for
//! each address space, under a lock, and chooses the type of a dma-buf, `B`. Only [`Ranges::add`] and
//! [`Ranges::replace`] may sleep.

use crate::{
    ext::dma_buf::Seam,
    prelude::*, //
};
use kernel::rbtree::RBTreeNode;

/// The part of the dma-buf `B` as which a range is named.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Target<B> {
    pub(crate) buffer: B,
    /// Where the range begins in the dma-buf, in bytes.
    pub(crate) offset: u64,
}

#[derive(Debug)]
pub(crate) struct Name<B> {
    pub(crate) range: VaRange,
    pub(crate) target: Target<B>,
    /// The file descriptor with which the range was named first. By now the descriptor may be
    /// closed, or another file.
    pub(crate) fd: i32,
    /// How often the range was named, less the removals.
    references: usize,
}

impl<B: Clone + PartialEq> Name<B> {
    /// Creates an entry for a name with so many references.
    fn node(range: VaRange, target: Target<B>, fd: i32, references: usize) -> Result<Node<B>> {
        let name = Self {
            range,
            target,
            fd,
            references,
        };
        RBTreeNode::new(last(range), name, GFP_KERNEL_ACCOUNT)
    }

    /// Creates an entry for the addresses from `from` to `to`, a part of the range.
    fn part(&self, from: usize, to: usize) -> Result<Node<B>> {
        // CAST: A length has 64 bits.
        let range = VaRange::new(from as u64, (to - from) as u64 + 1).ok_or(EINVAL)?;
        let target = Target {
            buffer: self.target.buffer.clone(),
            offset: self.target.offset + (from - self.range.addr()) as u64,
        };
        Self::node(range, target, self.fd, self.references)
    }

    /// Returns whether `target` at the address `addr` continues the part of the dma-buf. `addr` is
    /// not below the range.
    fn continues(&self, target: &Target<B>, addr: usize) -> bool {
        let distance = (addr - self.range.addr()) as u64;
        self.target.buffer == target.buffer && self.target.offset + distance == target.offset
    }
}

fn last(range: VaRange) -> usize {
    // By the type invariants of `VaRange`, the sum does not wrap.
    range.addr() + (range.len() - 1)
}

type Node<B> = RBTreeNode<usize, Name<B>>;

/// Names that have been removed, to be dropped without a lock.
pub(crate) type Removed<B> = RBTree<usize, Name<B>>;

/// Named ranges, which do not overlap.
pub(crate) struct Ranges<B> {
    /// By the last address of the range.
    names: RBTree<usize, Name<B>>,
    count: usize,
}

impl<B: Clone + PartialEq> Ranges<B> {
    pub(crate) fn new() -> Self {
        Self {
            names: RBTree::new(),
            count: 0,
        }
    }

    /// Returns the first name whose range ends at `addr` or later.
    fn first_from(&self, addr: usize) -> Option<&Name<B>> {
        let cursor = self.names.cursor_lower_bound(&addr)?;
        // The cursor borrows the tree for less than the result needs, so look the key up again.
        self.names.get(cursor.current().0)
    }

    /// Returns the first name that has an address from `from` to `to`.
    fn first_between(&self, from: usize, to: usize) -> Option<&Name<B>> {
        self.first_from(from).filter(|name| name.range.addr() <= to)
    }

    /// Returns the first name whose range overlaps `range`.
    pub(crate) fn first_in(&self, range: VaRange) -> Option<&Name<B>> {
        self.first_between(range.addr(), last(range))
    }

    /// Returns whether each address of `range` has a name, of whichever dma-bufs.
    pub(crate) fn cover(&self, range: VaRange) -> bool {
        let mut at = range.addr();
        while let Some(name) = self.first_between(at, at) {
            if last(name.range) >= last(range) {
                return true;
            }
            at = last(name.range) + 1;
        }
        false
    }

    /// Names `range`, or adds a reference if the range has exactly the same name already.
    ///
    /// Returns `EEXIST` if a part of the range has another name, and `ENOSPC` if there are `limit`
    /// names. Context: may sleep.
    pub(crate) fn add(
        &mut self,
        range: VaRange,
        target: Target<B>,
        fd: i32,
        limit: usize,
    ) -> Result {
        if let Some(name) = self.first_in(range) {
            if name.range != range || name.target != target {
                return Err(EEXIST);
            }
            if let Some(name) = self.names.get_mut(&last(range)) {
                name.references = name.references.checked_add(1).ok_or(EOVERFLOW)?;
            }
            return Ok(());
        }
        if self.count >= limit {
            return Err(ENOSPC);
        }
        self.names.insert(Name::node(range, target, fd, 1)?);
        self.count += 1;
        Ok(())
    }

    /// Names `range` in place of the names that are there, which are returned. What a name has outside of
    /// the range stays, with its references.
    ///
    /// Returns `ENOSPC` if there would be more than `limit` names, and more than before. Changes nothing if
    /// it fails. Context: may sleep.
    pub(crate) fn replace(
        &mut self,
        range: VaRange,
        target: Target<B>,
        fd: i32,
        limit: usize,
    ) -> Result<Removed<B>> {
        let (from, to) = (range.addr(), last(range));
        let before = self.first_in(range).filter(|n| n.range.addr() < from);
        let before = before.map(|n| n.part(n.range.addr(), from - 1));
        let after = self.first_between(to, to).filter(|n| last(n.range) > to);
        let after = after.map(|n| n.part(to + 1, last(n.range)));
        let new = Name::node(range, target, fd, 1)?;
        let new = [before.transpose()?, Some(new), after.transpose()?];
        let mut count = self.count + new.iter().flatten().count();
        let mut at = from;
        while let Some(name) = self.first_between(at, to) {
            count -= 1;
            // Does not overflow: user space ends below the last `usize`.
            at = last(name.range) + 1;
        }
        if count > limit && count > self.count {
            return Err(ENOSPC);
        }
        let mut removed = RBTree::new();
        while let Some(cursor) = self.names.cursor_lower_bound_mut(&from) {
            if cursor.current().1.range.addr() > to {
                break;
            }
            removed.insert(cursor.remove_current().1);
        }
        for node in new.into_iter().flatten() {
            self.names.insert(node);
        }
        self.count = count;
        Ok(removed)
    }

    /// Returns the part of a dma-buf as which `range` is named, or `None` if no part of the range
    /// has a name.
    ///
    /// Returns the first seam if only a part of the range has a name, or if the range is not one part
    /// of one dma-buf.
    pub(crate) fn find(&self, range: VaRange) -> Result<Option<Target<B>>, Seam<B>> {
        let Some(first) = self.first_in(range) else {
            return Ok(None);
        };
        if first.range.addr() > range.addr() {
            return Err(Seam {
                at: first.range.addr(),
                before: None,
                after: Some(first.target.buffer.clone()),
            });
        }
        let skip = (range.addr() - first.range.addr()) as u64;
        let target = Target {
            buffer: first.target.buffer.clone(),
            offset: first.target.offset + skip,
        };
        let mut end = last(first.range);
        while end < last(range) {
            let next = self.first_between(end + 1, end + 1);
            let Some(next) = next.filter(|next| first.continues(&next.target, end + 1)) else {
                return Err(Seam {
                    at: end + 1,
                    before: Some(first.target.buffer.clone()),
                    after: next.map(|next| next.target.buffer.clone()),
                });
            };
            end = last(next.range);
        }
        Ok(Some(target))
    }

    /// Removes a reference of each name that `matches` accepts and whose range overlaps the
    /// addresses from `from` to `to`. Returns `ENOENT` without a match.
    pub(crate) fn remove_if(
        &mut self,
        mut from: usize,
        to: usize,
        matches: impl Fn(&Name<B>) -> bool,
    ) -> Result<Removed<B>> {
        let mut removed = RBTree::new();
        let mut found = false;
        while let Some(mut cursor) = self.names.cursor_lower_bound_mut(&from) {
            let (&end, name) = cursor.current_mut();
            if name.range.addr() > to {
                break;
            }
            if matches(name) {
                found = true;
                name.references -= 1;
                if name.references == 0 {
                    removed.insert(cursor.remove_current().1);
                    self.count -= 1;
                }
            }
            // Does not overflow: user space ends below the last `usize`.
            from = end + 1;
        }
        found.then_some(removed).ok_or(ENOENT)
    }

    /// Removes a reference of each name in `range`. Returns `ENOENT` if no name is in the range, and
    /// `EINVAL` if a name is only in part in the range.
    pub(crate) fn remove(&mut self, range: VaRange) -> Result<Removed<B>> {
        let is_whole =
            |name: &Name<B>| name.range.addr() >= range.addr() && last(name.range) <= last(range);
        let ends = [
            self.first_in(range),
            self.first_between(last(range), last(range)),
        ];
        if !ends.into_iter().flatten().all(is_whole) {
            return Err(EINVAL);
        }
        self.remove_if(range.addr(), last(range), |_| true)
    }
}

#[kunit_tests(peer_mem_named)]
mod tests {
    use super::*;

    const P: u64 = PAGE_SIZE as u64;

    /// Returns `len` pages from the page `addr` on.
    fn pages(addr: u64, len: u64) -> Result<VaRange> {
        VaRange::new(addr * P, len * P).ok_or(EINVAL)
    }

    /// Returns the dma-buf `buffer` from its page `offset` on.
    fn at(buffer: u8, offset: u64) -> Target<u8> {
        Target {
            buffer,
            offset: offset * P,
        }
    }

    /// Names each of `(address, length, dma-buf, offset)`, in pages.
    fn ranges(names: &[(u64, u64, u8, u64)]) -> Result<Ranges<u8>> {
        let mut ranges = Ranges::new();
        for &(addr, len, buffer, offset) in names {
            ranges.add(pages(addr, len)?, at(buffer, offset), buffer.into(), 100)?;
        }
        Ok(ranges)
    }

    /// Returns the first page of each name that is left.
    fn left(ranges: &Ranges<u8>) -> Result<KVec<u64>> {
        let mut left = KVec::new();
        for name in ranges.names.values() {
            left.push(name.range.addr() as u64 / P, GFP_KERNEL)?;
        }
        assert_eq!(left.len(), ranges.count);
        Ok(left)
    }

    #[test]
    fn a_range_is_found_by_any_of_its_bytes() -> Result {
        let ranges = ranges(&[(16, 4, 1, 2)])?;
        assert_eq!(ranges.find(pages(16, 4)?), Ok(Some(at(1, 2))));
        assert_eq!(ranges.find(pages(18, 2)?), Ok(Some(at(1, 4))));
        let byte = VaRange::new(20 * P - 1, 1).ok_or(EINVAL)?;
        let found = ranges.find(byte).map_err(|_| EFAULT)?.ok_or(ENOENT)?;
        assert_eq!((found.buffer, found.offset), (1, 6 * P - 1));
        assert_eq!(ranges.find(pages(12, 4)?), Ok(None));
        assert_eq!(ranges.find(pages(20, 1)?), Ok(None));
        Ok(())
    }

    /// Looks up a range that has a seam at a page, between two dma-bufs.
    fn finds_seam(ranges: &Ranges<u8>, find: VaRange, at: usize, around: [Option<u8>; 2]) {
        let [before, after] = around;
        let at = at * PAGE_SIZE;
        assert_eq!(ranges.find(find), Err(Seam { at, before, after }));
    }

    #[test]
    fn a_range_that_has_a_name_in_part_has_a_seam() -> Result {
        let ranges = ranges(&[(16, 4, 1, 0), (24, 4, 1, 8)])?;
        for (addr, len, at, around) in [
            (0, 100, 16, [None, Some(1)]),
            (18, 8, 20, [Some(1), None]),
            (26, 3, 28, [Some(1), None]),
        ] {
            finds_seam(&ranges, pages(addr, len)?, at, around);
        }
        Ok(())
    }

    #[test]
    fn only_names_that_continue_the_dma_buf_are_one_part() -> Result {
        let one = ranges(&[(16, 4, 1, 0), (20, 1, 1, 4), (21, 3, 1, 5)])?;
        assert_eq!(one.find(pages(17, 7)?), Ok(Some(at(1, 1))));
        finds_seam(&one, pages(17, 8)?, 24, [Some(1), None]);
        for (buffer, offset) in [(2, 4), (1, 5), (1, 0)] {
            let ranges = ranges(&[(16, 4, 1, 0), (20, 4, buffer, offset)])?;
            finds_seam(&ranges, pages(19, 2)?, 20, [Some(1), Some(buffer)]);
            assert_eq!(ranges.find(pages(20, 4)?), Ok(Some(at(buffer, offset))));
        }
        Ok(())
    }

    #[test]
    fn names_cover_a_range_without_gaps() -> Result {
        let ranges = ranges(&[(16, 4, 1, 0), (20, 4, 2, 0), (25, 1, 2, 5)])?;
        for (addr, len, covered) in [
            (16, 8, true),
            (19, 2, true),
            (25, 1, true),
            (15, 2, false),
            (23, 3, false),
            (24, 1, false),
            (25, 2, false),
        ] {
            assert_eq!(ranges.cover(pages(addr, len)?), covered);
        }
        Ok(())
    }

    /// Each case: the pages to name, how many names end, and the names then: first page, dma-buf, offset
    /// of the first page.
    #[test]
    fn a_name_replaces_what_is_in_its_range() -> Result {
        type Names = &'static [(u64, u8, u64)];
        let cases: [((u64, u64), usize, Names); 7] = [
            ((0, 4), 0, &[(0, 9, 0), (16, 1, 2), (20, 2, 0), (30, 3, 0)]),
            ((16, 4), 1, &[(16, 9, 0), (20, 2, 0), (30, 3, 0)]),
            ((14, 20), 3, &[(14, 9, 0)]),
            (
                (18, 2),
                1,
                &[(16, 1, 2), (18, 9, 0), (20, 2, 0), (30, 3, 0)],
            ),
            (
                (12, 6),
                1,
                &[(12, 9, 0), (18, 1, 4), (20, 2, 0), (30, 3, 0)],
            ),
            (
                (17, 2),
                1,
                &[(16, 1, 2), (17, 9, 0), (19, 1, 5), (20, 2, 0), (30, 3, 0)],
            ),
            ((18, 13), 3, &[(16, 1, 2), (18, 9, 0), (31, 3, 1)]),
        ];
        for ((addr, len), ended, names) in cases {
            let mut ranges = ranges(&[(16, 4, 1, 2), (20, 4, 2, 0), (30, 4, 3, 0)])?;
            let removed = ranges.replace(pages(addr, len)?, at(9, 0), 9, 100)?;
            assert_eq!(removed.values().count(), ended);
            assert_eq!(left(&ranges)?.len(), names.len());
            for &(addr, buffer, offset) in names {
                assert_eq!(ranges.find(pages(addr, 1)?), Ok(Some(at(buffer, offset))));
            }
        }
        Ok(())
    }

    #[test]
    fn a_replacement_keeps_references_and_the_limit() -> Result {
        let mut ranges = ranges(&[(16, 8, 1, 0), (16, 8, 1, 0)])?;
        // Two names more.
        assert_eq!(
            ranges.replace(pages(18, 2)?, at(2, 0), 2, 2).err(),
            Some(ENOSPC)
        );
        assert_eq!(ranges.find(pages(16, 8)?), Ok(Some(at(1, 0))));
        ranges.replace(pages(18, 2)?, at(2, 0), 2, 3)?;
        // As many as before, though there are more than the limit.
        ranges.replace(pages(18, 2)?, at(3, 0), 3, 1)?;
        ranges.remove(pages(16, 8)?)?;
        assert_eq!(left(&ranges)?[..], [16, 20]);
        Ok(())
    }

    #[test]
    fn names_do_not_overlap() -> Result {
        let mut ranges = ranges(&[(16, 4, 1, 0)])?;
        for (addr, len) in [(15, 2), (15, 6), (16, 3), (16, 5), (17, 1), (19, 2)] {
            assert_eq!(ranges.add(pages(addr, len)?, at(1, 0), 1, 100), Err(EEXIST));
        }
        for target in [at(2, 0), at(1, 1)] {
            assert_eq!(ranges.add(pages(16, 4)?, target, 1, 100), Err(EEXIST));
        }
        ranges.add(pages(12, 4)?, at(2, 0), 2, 100)?;
        ranges.add(pages(20, 1)?, at(2, 0), 2, 100)
    }

    #[test]
    fn the_same_name_counts() -> Result {
        let mut ranges = ranges(&[(16, 4, 1, 2), (16, 4, 1, 2)])?;
        assert_eq!(left(&ranges)?[..], [16]);
        assert!(ranges.remove(pages(16, 4)?)?.is_empty());
        assert_eq!(ranges.find(pages(16, 4)?), Ok(Some(at(1, 2))));
        assert!(!ranges.remove(pages(16, 4)?)?.is_empty());
        assert_eq!(ranges.find(pages(16, 4)?), Ok(None));
        assert_eq!(ranges.remove(pages(16, 4)?).err(), Some(ENOENT));
        Ok(())
    }

    #[test]
    fn a_range_of_whole_names_is_removed() -> Result {
        let mut ranges = ranges(&[(16, 4, 1, 0), (20, 4, 1, 4), (24, 4, 2, 0)])?;
        for (addr, len) in [(16, 5), (17, 7), (17, 1), (15, 6), (21, 20), (0, 21)] {
            assert_eq!(ranges.remove(pages(addr, len)?).err(), Some(EINVAL));
        }
        for (addr, len) in [(0, 16), (28, 1)] {
            assert_eq!(ranges.remove(pages(addr, len)?).err(), Some(ENOENT));
        }
        ranges.remove(pages(10, 14)?)?;
        assert_eq!(left(&ranges)?[..], [24]);
        Ok(())
    }

    #[test]
    fn one_byte_or_one_property_is_enough() -> Result {
        let mut ranges = ranges(&[(16, 4, 1, 0), (24, 4, 2, 0), (32, 4, 1, 8), (40, 4, 3, 0)])?;
        for (buffer, names) in [(1, 2), (3, 1)] {
            let mut remove = || ranges.remove_if(0, usize::MAX, |n| n.target.buffer == buffer);
            assert_eq!(remove()?.values().count(), names);
            assert_eq!(remove().err(), Some(ENOENT));
        }
        assert_eq!(left(&ranges)?[..], [24]);
        let mut remove_at = |addr| ranges.remove_if(addr, addr, |_| true);
        assert_eq!(remove_at(28 * PAGE_SIZE).err(), Some(ENOENT));
        remove_at(28 * PAGE_SIZE - 1)?;
        assert!(left(&ranges)?.is_empty());
        Ok(())
    }

    #[test]
    fn the_number_of_names_is_limited() -> Result {
        let mut ranges = ranges(&[(16, 1, 1, 0), (17, 1, 1, 1)])?;
        let third = |ranges: &mut Ranges<u8>| ranges.add(pages(18, 1)?, at(1, 2), 1, 2);
        assert_eq!(third(&mut ranges), Err(ENOSPC));
        // Another reference takes no memory.
        ranges.add(pages(17, 1)?, at(1, 1), 1, 2)?;
        ranges.remove(pages(16, 1)?)?;
        third(&mut ranges)
    }
}
