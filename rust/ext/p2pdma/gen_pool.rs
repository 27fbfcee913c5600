// SPDX-License-Identifier: GPL-2.0

//! Allocation of ranges of numbers, such as page frames: the kernel's general purpose allocator.
//! [`GenPool`] is the pool.
//!
//! C header: [`include/linux/genalloc.h`](srctree/include/linux/genalloc.h).

use crate::shared::bindings::helpers;
use core::{
    ops::Range,
    ptr::NonNull, //
};
use kernel::{
    macros::kunit_tests,
    prelude::*, //
};

/// A pool of numbers. Ranges are allocated at the first fit.
///
/// # Invariants
///
/// `raw` is a pool of the numbers in `range`, owned by this object.
pub struct GenPool {
    raw: NonNull<helpers::gen_pool>,
    range: Range<usize>,
}

// SAFETY: A pool is not bound to a task.
unsafe impl Send for GenPool {}
// SAFETY: `&self` methods only read.
unsafe impl Sync for GenPool {}

impl GenPool {
    /// Creates a pool of the numbers in `range`, all free.
    ///
    /// Returns `EINVAL` if the range is empty or contains 0, and `ENOMEM`. Context: may sleep.
    pub fn new(range: Range<usize>) -> Result<Self> {
        if range.start == 0 || range.is_empty() {
            return Err(EINVAL);
        }
        // SAFETY: The numbers are not 0, and there is at least one.
        let raw = unsafe { helpers::ext_gen_pool_new(range.start, range.len()) };
        // INVARIANT: The call above created the pool.
        Ok(Self {
            raw: NonNull::new(raw).ok_or(ENOMEM)?,
            range,
        })
    }

    /// Returns the C object, valid as long as `self`.
    pub(super) fn as_raw(&self) -> *mut helpers::gen_pool {
        self.raw.as_ptr()
    }

    /// Allocates `n` consecutive numbers, of which the first one is a multiple of `align`. Returns the
    /// first one, or `None` if no free run has them, `n` is 0, or `align` is not a power of two.
    pub fn alloc(&mut self, n: usize, align: usize) -> Option<usize> {
        let align = i32::try_from(align).ok()?;
        if align <= 0 || align & (align - 1) != 0 || n > self.available() {
            return None;
        }
        // SAFETY: By the type invariants the pool is valid, and `align` is a power of two.
        let start = unsafe { helpers::ext_gen_pool_alloc(self.raw.as_ptr(), n, align) };
        (start != 0).then_some(start)
    }

    /// Frees `n` numbers from `start` on.
    ///
    /// # Safety
    ///
    /// All of them must be allocated. They need not be one allocation.
    pub unsafe fn free(&mut self, start: usize, n: usize) {
        if n > 0 {
            // SAFETY: By the type invariants the pool is valid. By the safety requirements the
            // numbers are allocated.
            unsafe { helpers::ext_gen_pool_free(self.raw.as_ptr(), start, n) };
        }
    }

    /// Returns the numbers of the pool.
    pub fn range(&self) -> &Range<usize> {
        &self.range
    }

    /// Returns how many numbers are free.
    pub fn available(&self) -> usize {
        // SAFETY: By the type invariants the pool is valid.
        unsafe { helpers::ext_gen_pool_avail(self.raw.as_ptr()) }
    }

    /// Returns the first run of free numbers from `from` on.
    pub fn free_run(&self, from: usize) -> Option<Range<usize>> {
        let start = self.next(from.max(self.range.start), true);
        (start < self.range.end).then(|| start..self.next(start, false))
    }

    /// Returns the first number from `from` on that is free or not, or the end of the pool.
    fn next(&self, from: usize, is_free: bool) -> usize {
        let end = self.range.end;
        if from >= end {
            return end;
        }
        // SAFETY: By the type invariants the pool is valid and has the numbers.
        unsafe { helpers::ext_gen_pool_next(self.as_raw(), from, end, is_free) }
    }
}

impl Drop for GenPool {
    fn drop(&mut self) {
        // SAFETY: By the type invariants this object owns the pool.
        unsafe { helpers::ext_gen_pool_destroy(self.raw.as_ptr()) };
    }
}

#[cfg(ext_tests)]
#[kunit_tests(ext_gen_pool)]
mod tests {
    use super::*;

    /// Numbers of the pools here; the first one is no multiple of the alignments.
    const RANGE: Range<usize> = 0x1_0003..0x1_0003 + 1000;

    /// A pool beside a list of what is allocated.
    struct Checked {
        pool: GenPool,
        used: KVec<bool>,
        blocks: KVec<(usize, usize)>,
    }

    impl Checked {
        fn new() -> Result<Self> {
            Ok(Self {
                pool: GenPool::new(RANGE)?,
                used: KVec::from_elem(false, RANGE.len(), GFP_KERNEL)?,
                blocks: KVec::new(),
            })
        }

        /// Returns whether `n` numbers from `at` on are free.
        fn is_free(&self, at: usize, n: usize) -> bool {
            let first = at - RANGE.start;
            (self.used.get(first..first + n)).is_some_and(|run| run.iter().all(|used| !used))
        }

        fn mark(&mut self, at: usize, n: usize, used: bool) {
            for slot in self.used.iter_mut().skip(at - RANGE.start).take(n) {
                *slot = used;
            }
        }

        /// Allocates, and checks that the first fit was taken.
        fn alloc(&mut self, n: usize, align: usize) -> Result<bool> {
            let fits = |at: &usize| at % align == 0 && self.is_free(*at, n);
            let mut numbers = RANGE;
            let want = numbers.find(fits);
            let got = self.pool.alloc(n, align);
            assert_eq!(got, want);
            if let Some(at) = got {
                self.mark(at, n, true);
                self.blocks.push((at, n), GFP_KERNEL)?;
            }
            Ok(got.is_some())
        }

        /// Frees block `i` of the list.
        fn free(&mut self, i: usize) -> Result {
            let (at, n) = self.blocks.remove(i).map_err(|_| EINVAL)?;
            self.mark(at, n, false);
            // SAFETY: It was allocated, and was in the list.
            unsafe { self.pool.free(at, n) };
            Ok(())
        }

        /// Checks the free runs and their sum against the list.
        fn check(&self) {
            let (mut at, mut seen) = (RANGE.start, 0);
            while let Some(run) = self.pool.free_run(at) {
                assert!(self.is_free(run.start, run.len()));
                assert!(!self.is_free(run.end, 1));
                assert!(run.start == RANGE.start || !self.is_free(run.start - 1, 1));
                (at, seen) = (run.end, seen + run.len());
            }
            assert_eq!(self.pool.available(), seen);
            let free = self.used.iter().filter(|used| !**used).count();
            assert_eq!(self.pool.available(), free);
        }
    }

    /// Random allocations and frees: always the first fit, and exact runs.
    #[test]
    fn first_fit_and_exact_runs() -> Result {
        let mut pool = Checked::new()?;
        let mut seed = 12345u32;
        let mut random = |below: usize| {
            seed = seed.wrapping_mul(1_103_515_245).wrapping_add(12345);
            (seed >> 16) as usize % below
        };
        pool.check();
        for _ in 0..400 {
            if random(5) < 3 || pool.blocks.is_empty() {
                pool.alloc(1 + random(60), 1 << random(8))?;
            } else {
                let i = random(pool.blocks.len());
                pool.free(i)?;
            }
            pool.check();
        }
        while !pool.blocks.is_empty() {
            pool.free(0)?;
        }
        pool.check();
        assert!(pool.alloc(RANGE.len(), 1)?);
        Ok(())
    }

    /// An alignment as large as the pool, with one number in use before it.
    #[test]
    fn large_alignment() -> Result {
        let mut pool = GenPool::new(1 << 20..1 << 21)?;
        assert_eq!(pool.alloc(1 << 20, 1 << 20), Some(1 << 20));
        // SAFETY: They were allocated.
        unsafe { pool.free(1 << 20, 1 << 20) };
        assert_eq!(pool.alloc(1, 1), Some(1 << 20));
        assert_eq!(pool.alloc(1, 1 << 20), None);
        assert_eq!(pool.alloc(1 << 19, 1 << 19), Some((1 << 20) + (1 << 19)));
        Ok(())
    }

    /// Arguments without an answer.
    #[test]
    fn rejected() -> Result {
        assert!(GenPool::new(0..5).is_err());
        assert!(GenPool::new(5..5).is_err());
        let mut pool = GenPool::new(RANGE)?;
        for (n, align) in [
            (0, 1),
            (1, 0),
            (1, 3),
            (1, 1 << 31),
            (1001, 1),
            (usize::MAX, 1),
        ] {
            assert_eq!(pool.alloc(n, align), None);
        }
        assert_eq!(pool.available(), 1000);
        Ok(())
    }
}
