// SPDX-License-Identifier: GPL-2.0

//! Allocation of ranges of numbers, such as page frames: the kernel's general purpose allocator.
//! [`GenPool`] is the pool.
//!
//! C header: [`include/linux/genalloc.h`](srctree/include/linux/genalloc.h).

use crate::shared::prelude::raw::*;

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

    pub fn range(&self) -> &Range<usize> {
        &self.range
    }

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

    /// Returns the free runs of a pool, of at most three.
    fn free_runs(pool: &GenPool) -> [Range<usize>; 3] {
        let mut at = RANGE.start;
        core::array::from_fn(|_| {
            let run = pool.free_run(at).unwrap_or(0..0);
            at = run.end.max(at);
            run
        })
    }

    #[test]
    fn first_fit_and_exact_runs() -> Result {
        let (start, end) = (RANGE.start, RANGE.end);
        let mut pool = GenPool::new(RANGE)?;
        assert_eq!(free_runs(&pool), [RANGE, 0..0, 0..0]);
        assert_eq!(pool.alloc(3, 1), Some(start));
        assert_eq!(pool.alloc(8, 8), Some(start + 5));
        assert_eq!(pool.alloc(2, 1), Some(start + 3));
        assert_eq!(pool.alloc(100, 64), Some(start + 61));
        assert_eq!(pool.alloc(20, 1), Some(start + 13));
        let taken = [start + 33..start + 61, start + 161..end, 0..0];
        assert_eq!(free_runs(&pool), taken);
        // SAFETY: They were allocated.
        unsafe { pool.free(start + 5, 8) };
        let freed = [
            start + 5..start + 13,
            start + 33..start + 61,
            start + 161..end,
        ];
        assert_eq!(free_runs(&pool), freed);
        assert_eq!(pool.available(), 8 + 28 + 839);
        assert_eq!(pool.alloc(839, 1), Some(start + 161));
        assert_eq!(pool.alloc(28, 1), Some(start + 33));
        assert_eq!(pool.alloc(9, 1), None);
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
