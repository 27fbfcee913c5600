// SPDX-License-Identifier: GPL-2.0

//! The longest run of free numbers in a pool, kept up to date with each change.
//!
//! A binary tree over pieces of the pool: each node has the free runs at both ends of its piece and
//! the longest one within it, which follow from those of its two halves.

use core::ops::Range;
use kernel::{
    macros::kunit_tests,
    prelude::*, //
};

/// Numbers of the piece of a leaf.
const LEAF: usize = 1024;

/// Lengths of the free runs of a piece.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
struct Runs {
    /// The run that begins at the first number of the piece.
    first: usize,
    /// The run that ends at the last number of the piece.
    last: usize,
    /// The longest run.
    longest: usize,
}

impl Runs {
    /// Returns the runs of `piece`. `next` is that of [`Longest::update`].
    fn of(piece: Range<usize>, next: &impl Fn(Range<usize>, bool) -> usize) -> Self {
        let mut runs = Self::default();
        let mut at = piece.start;
        loop {
            let start = next(at..piece.end, true);
            if start >= piece.end {
                return runs;
            }
            at = next(start..piece.end, false);
            let n = at - start;
            if start == piece.start {
                runs.first = n;
            }
            if at == piece.end {
                runs.last = n;
            }
            runs.longest = runs.longest.max(n);
        }
    }

    /// Returns the runs of two pieces of `width` numbers each, `right` following `left`.
    fn join(left: Self, right: Self, width: usize) -> Self {
        let all_free = |n| n == width;
        Self {
            first: left.first + if all_free(left.first) { right.first } else { 0 },
            last: right.last + if all_free(right.last) { left.last } else { 0 },
            longest: (left.longest.max(right.longest)).max(left.last + right.first),
        }
    }
}

/// The longest run of free numbers among `0..len`.
///
/// # Invariants
///
/// `nodes` has `2 * leaves` entries, and `leaves` is a power of two with `leaves * LEAF >= len`.
/// Entry 1 is the root, `2 * i` and `2 * i + 1` are the halves of `i`, and the leaves are last.
pub(super) struct Longest {
    /// The nodes. Numbers from `len` on count as allocated.
    nodes: KVVec<Runs>,
    /// The number of leaves.
    leaves: usize,
    /// The number of numbers.
    len: usize,
}

impl Longest {
    /// Creates the tree of `len` numbers, all of them allocated.
    ///
    /// Context: may sleep.
    pub(super) fn new(len: usize) -> Result<Self> {
        let leaves = len.div_ceil(LEAF).next_power_of_two();
        // INVARIANT: These are the numbers of entries; no number is free.
        Ok(Self {
            nodes: KVVec::from_elem(Runs::default(), 2 * leaves, GFP_KERNEL)?,
            leaves,
            len,
        })
    }

    /// Returns the length of the longest run of free numbers.
    ///
    /// Context: any.
    pub(super) fn get(&self) -> usize {
        self.nodes.get(1).map_or(0, |root| root.longest)
    }

    /// Determines the runs again after numbers in `changed` were allocated or freed.
    ///
    /// `next(range, true)` returns the first free number in `range`, and `next(range, false)` the first
    /// allocated one, or the end of the range. It is asked about `changed`, widened to whole leaves.
    ///
    /// Context: any.
    pub(super) fn update(
        &mut self,
        changed: Range<usize>,
        next: impl Fn(Range<usize>, bool) -> usize,
    ) {
        if changed.is_empty() {
            return;
        }
        let (first, last) = (changed.start / LEAF, (changed.end - 1) / LEAF);
        for leaf in first..=last {
            let piece = leaf * LEAF..(leaf * LEAF + LEAF).min(self.len);
            if let Some(node) = self.nodes.get_mut(self.leaves + leaf) {
                *node = Runs::of(piece, &next);
            }
        }
        let (mut first, mut last) = (self.leaves + first, self.leaves + last);
        let mut width = LEAF;
        while first > 1 {
            (first, last) = (first / 2, last / 2);
            for i in first..=last {
                let halves = match self.nodes.get(2 * i..2 * i + 2) {
                    Some(&[left, right]) => Runs::join(left, right, width),
                    _ => return,
                };
                if let Some(node) = self.nodes.get_mut(i) {
                    *node = halves;
                }
            }
            width *= 2;
        }
    }
}

#[cfg(ext_tests)]
#[kunit_tests(ext_gen_pool_runs)]
mod tests {
    use super::*;

    /// A tree beside a list of what is free.
    struct Checked {
        tree: Longest,
        free: KVVec<bool>,
    }

    impl Checked {
        fn new(len: usize) -> Result<Self> {
            Ok(Self {
                tree: Longest::new(len)?,
                free: KVVec::from_elem(false, len, GFP_KERNEL)?,
            })
        }

        /// Frees or allocates a range, and checks the answer against the list.
        fn set(&mut self, range: Range<usize>, free: bool) {
            for slot in self.free.iter_mut().skip(range.start).take(range.len()) {
                *slot = free;
            }
            let list = &self.free;
            self.tree.update(range, |range, free| {
                let end = range.end;
                (range.clone().find(|i| list.get(*i) == Some(&free))).unwrap_or(end)
            });
            let (mut longest, mut run) = (0, 0);
            for free in self.free.iter() {
                run = if *free { run + 1 } else { 0 };
                longest = longest.max(run);
            }
            assert_eq!(self.tree.get(), longest);
        }
    }

    /// Lengths about that of a leaf, and of a number of leaves that is no power of two.
    #[test]
    fn lengths() -> Result {
        for len in [1, 2, LEAF - 1, LEAF, LEAF + 1, 3 * LEAF, 5 * LEAF + 7] {
            let mut checked = Checked::new(len)?;
            assert_eq!(checked.tree.get(), 0);
            checked.set(0..len, true);
            assert_eq!(checked.tree.get(), len);
            checked.set(len - 1..len, false);
            checked.set(0..1, false);
            checked.set(0..len, false);
        }
        Ok(())
    }

    /// Runs that end at, begin at and reach over the ends of leaves.
    #[test]
    fn over_the_ends_of_leaves() -> Result {
        let mut checked = Checked::new(4 * LEAF)?;
        checked.set(LEAF - 3..LEAF, true);
        checked.set(LEAF..LEAF + 5, true);
        assert_eq!(checked.tree.get(), 8);
        checked.set(LEAF..3 * LEAF, true);
        checked.set(3 * LEAF..3 * LEAF + 1, true);
        assert_eq!(checked.tree.get(), 2 * LEAF + 4);
        checked.set(2 * LEAF - 1..2 * LEAF, false);
        assert_eq!(checked.tree.get(), LEAF + 2);
        checked.set(2 * LEAF..2 * LEAF, true);
        assert_eq!(checked.tree.get(), LEAF + 2);
        Ok(())
    }

    /// Every second number, and then all of them.
    #[test]
    fn fragmented() -> Result {
        let mut checked = Checked::new(LEAF + 10)?;
        for i in (1..LEAF + 10).step_by(64) {
            checked.set(i..i + 1, true);
            assert_eq!(checked.tree.get(), 1);
        }
        checked.set(0..LEAF + 10, true);
        Ok(())
    }

    /// Random changes.
    #[test]
    fn random_changes() -> Result {
        let len = 5 * LEAF + 321;
        let mut checked = Checked::new(len)?;
        let mut seed = 4711u32;
        let mut random = |below: usize| {
            seed = seed.wrapping_mul(1_103_515_245).wrapping_add(12345);
            (seed >> 16) as usize % below
        };
        for _ in 0..300 {
            let start = random(len);
            let most = if random(4) > 0 { 100 } else { 3000 };
            let end = (start + random(most)).min(len);
            checked.set(start..end, random(2) > 0);
        }
        Ok(())
    }
}
