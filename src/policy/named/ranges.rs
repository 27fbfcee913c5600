// SPDX-License-Identifier: GPL-2.0

//! The named ranges of an address space.
//!
//! [`Ranges`] maps ranges of addresses to parts of dma-bufs. [`named`](super) has a [`Ranges`] for
//! each address space, under a lock, and chooses the type of a dma-buf, `B`. Only [`Ranges::add`]
//! may sleep.

use crate::data::range::VaRange;
use kernel::{
    prelude::*,
    rbtree::{
        RBTree,
        RBTreeNode, //
    }, //
};

/// The part of the dma-buf `B` as which a range is named.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Target<B> {
    /// The dma-buf.
    pub(crate) buffer: B,
    /// Where the range begins in the dma-buf, in bytes.
    pub(crate) offset: u64,
}

/// A range with a name.
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

impl<B: PartialEq> Name<B> {
    /// Returns whether `target` at the address `addr` continues the part of the dma-buf. `addr` is
    /// not below the range.
    fn continues(&self, target: &Target<B>, addr: usize) -> bool {
        let distance = (addr - self.range.addr()) as u64;
        self.target.buffer == target.buffer && self.target.offset + distance == target.offset
    }
}

/// Returns the last address of a range.
fn last(range: VaRange) -> usize {
    // By the type invariants of `VaRange`, the sum does not wrap.
    range.addr() + (range.len() - 1)
}

/// Names that have been removed, to be dropped without a lock.
pub(crate) type Removed<B> = RBTree<usize, Name<B>>;

/// Named ranges, which do not overlap.
pub(crate) struct Ranges<B> {
    /// By the last address of the range.
    names: RBTree<usize, Name<B>>,
    count: usize,
}

impl<B: Clone + PartialEq> Ranges<B> {
    /// Creates an empty set of names.
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

    /// Returns the first name whose range overlaps `range`.
    pub(crate) fn first_in(&self, range: VaRange) -> Option<&Name<B>> {
        let name = self.first_from(range.addr())?;
        (name.range.addr() <= last(range)).then_some(name)
    }

    /// Names `range`, or adds a reference if the range has exactly the same name already.
    ///
    /// Returns `EEXIST` if a part of the range has another name, and `ENOSPC` if there are `limit`
    /// names.
    ///
    /// Context: may sleep.
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
        let name = Name {
            range,
            target,
            fd,
            references: 1,
        };
        let node = RBTreeNode::new(last(range), name, GFP_KERNEL_ACCOUNT)?;
        self.names.insert(node);
        self.count += 1;
        Ok(())
    }

    /// Returns the part of a dma-buf as which `range` is named, or `None` if no part of the range
    /// has a name.
    ///
    /// Returns `EFAULT` if only a part of the range has a name, or if the range is not one part of
    /// one dma-buf.
    pub(crate) fn find(&self, range: VaRange) -> Result<Option<Target<B>>> {
        let Some(first) = self.first_in(range) else {
            return Ok(None);
        };
        if first.range.addr() > range.addr() {
            return Err(EFAULT);
        }
        let skip = (range.addr() - first.range.addr()) as u64;
        let target = Target {
            buffer: first.target.buffer.clone(),
            offset: first.target.offset + skip,
        };
        let mut end = last(first.range);
        while end < last(range) {
            let next = self.first_from(end + 1).ok_or(EFAULT)?;
            if next.range.addr() != end + 1 || !first.continues(&next.target, end + 1) {
                return Err(EFAULT);
            }
            end = last(next.range);
        }
        Ok(Some(target))
    }

    /// Removes a reference of each name that `matches` accepts and whose range overlaps the
    /// addresses from `from` to `to`. Returns `ENOENT` without a match.
    fn remove_if(
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

    /// Removes a reference of each name in `range`.
    ///
    /// Returns `ENOENT` if no name is in the range, and `EINVAL` if a name is only in part in the
    /// range.
    pub(crate) fn remove(&mut self, range: VaRange) -> Result<Removed<B>> {
        let is_whole =
            |name: &Name<B>| name.range.addr() >= range.addr() && last(name.range) <= last(range);
        let ends = [
            self.first_in(range),
            self.first_from(last(range))
                .filter(|name| name.range.addr() <= last(range)),
        ];
        if !ends.into_iter().flatten().all(is_whole) {
            return Err(EINVAL);
        }
        self.remove_if(range.addr(), last(range), |_| true)
    }

    /// Removes a reference of the name whose range contains `addr`. Returns `ENOENT` without a
    /// name.
    pub(crate) fn remove_at(&mut self, addr: usize) -> Result<Removed<B>> {
        self.remove_if(addr, addr, |_| true)
    }

    /// Removes a reference of each name of `buffer`. Returns `ENOENT` without a name.
    pub(crate) fn remove_buffer(&mut self, buffer: &B) -> Result<Removed<B>> {
        self.remove_if(0, usize::MAX, |name| name.target.buffer == *buffer)
    }

    /// Removes a reference of each name that was given with the number `fd`. Returns `ENOENT`
    /// without a name.
    pub(crate) fn remove_fd(&mut self, fd: i32) -> Result<Removed<B>> {
        self.remove_if(0, usize::MAX, |name| name.fd == fd)
    }
}

#[kunit_tests(peer_mem_named)]
mod tests {
    use super::*;
    use kernel::page::PAGE_SIZE;

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

    /// Names each of `(address, length, dma-buf, offset)`, in pages. A dma-buf and its descriptor
    /// have the same number.
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
        let found = ranges.find(byte)?.ok_or(ENOENT)?;
        assert_eq!((found.buffer, found.offset), (1, 6 * P - 1));
        for none in [pages(12, 4)?, pages(20, 1)?] {
            assert_eq!(ranges.find(none), Ok(None));
        }
        Ok(())
    }

    #[test]
    fn a_range_that_has_a_name_in_part_is_an_error() -> Result {
        let ranges = ranges(&[(16, 4, 1, 0), (24, 4, 1, 8)])?;
        for (addr, len) in [(15, 2), (15, 8), (19, 2), (16, 5), (18, 8), (0, 100)] {
            assert_eq!(ranges.find(pages(addr, len)?), Err(EFAULT));
        }
        Ok(())
    }

    #[test]
    fn names_that_continue_the_dma_buf_are_one_part() -> Result {
        let ranges = ranges(&[(16, 4, 1, 0), (20, 1, 1, 4), (21, 3, 1, 5)])?;
        assert_eq!(ranges.find(pages(17, 7)?), Ok(Some(at(1, 1))));
        assert_eq!(ranges.find(pages(17, 8)?), Err(EFAULT));
        Ok(())
    }

    #[test]
    fn other_neighbours_are_not() -> Result {
        for (buffer, offset) in [(2, 4), (1, 5), (1, 0)] {
            let ranges = ranges(&[(16, 4, 1, 0), (20, 4, buffer, offset)])?;
            assert_eq!(ranges.find(pages(19, 2)?), Err(EFAULT));
            assert_eq!(ranges.find(pages(20, 4)?), Ok(Some(at(buffer, offset))));
        }
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
        ranges.add(pages(20, 1)?, at(2, 0), 2, 100)?;
        assert_eq!(left(&ranges)?[..], [12, 16, 20]);
        Ok(())
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
    fn one_byte_dma_buf_or_descriptor_is_enough() -> Result {
        let mut ranges = ranges(&[(16, 4, 1, 0), (24, 4, 2, 0), (32, 4, 1, 8), (40, 4, 3, 0)])?;
        ranges.remove_buffer(&1)?;
        assert_eq!(left(&ranges)?[..], [24, 40]);
        assert_eq!(ranges.remove_buffer(&1).err(), Some(ENOENT));
        ranges.remove_fd(3)?;
        assert_eq!(ranges.remove_fd(3).err(), Some(ENOENT));
        assert_eq!(ranges.remove_at(28 * PAGE_SIZE).err(), Some(ENOENT));
        ranges.remove_at(28 * PAGE_SIZE - 1)?;
        assert!(left(&ranges)?.is_empty());
        Ok(())
    }

    #[test]
    fn the_number_of_names_is_limited() -> Result {
        let mut ranges = ranges(&[(16, 1, 1, 0), (17, 1, 1, 1)])?;
        assert_eq!(ranges.add(pages(18, 1)?, at(1, 2), 1, 2), Err(ENOSPC));
        // Another reference takes no memory.
        ranges.add(pages(17, 1)?, at(1, 1), 1, 2)?;
        ranges.remove_at(16 * PAGE_SIZE)?;
        ranges.add(pages(18, 1)?, at(1, 2), 1, 2)?;
        assert_eq!(left(&ranges)?[..], [17, 18]);
        Ok(())
    }
}
