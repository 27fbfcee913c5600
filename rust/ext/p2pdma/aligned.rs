// SPDX-License-Identifier: GPL-2.0

//! Pages that begin at a multiple of more than their own size.
//!
//! The kernel's pool knows no alignment, and takes the lowest room there is.

use super::{
    phys,
    Pages,
    Provider, //
};
use core::mem::ManuallyDrop;
use kernel::{
    page::PAGE_SIZE,
    prelude::*, //
};

/// How many allocations one request may take: it must end, however fragmented the memory is.
const TRIES: usize = 256;

impl Provider {
    /// Takes `n` contiguous pages whose physical address is a multiple of `align`; otherwise as
    /// [`Provider::alloc`].
    ///
    /// `EINVAL` where that is no power of two, or nothing of that alignment can be in this memory.
    /// `ENOMEM` also where there is room, but too much in small pieces to find it. More than is
    /// asked for is taken for a moment; an allocation that somebody else makes then may fail.
    ///
    /// Context: may sleep.
    pub fn alloc_aligned(&self, n: usize, align: u64) -> Result<Pages> {
        let total = self.phys.end - self.phys.start;
        if !align.is_power_of_two()
            || align > total
            || self.phys.start + gap(self.phys.start, align) >= self.phys.end
        {
            return Err(EINVAL);
        }
        if n as u64 > total / PAGE_SIZE as u64 {
            return Err(ENOMEM);
        }

        let pages = self.alloc(n)?;
        if pages_to(&pages, align) == 0 {
            return Ok(pages);
        }
        // So much that there is an aligned piece in it, wherever it begins.
        drop(pages);
        let wide = n + (align as usize / PAGE_SIZE).saturating_sub(1);
        if let Ok(pages) = self.alloc(wide) {
            let front = pages_to(&pages, align);
            return pages.part(front, n).ok_or(ENOMEM);
        }

        // What fits is not aligned, and what lies before the next multiple is put out of the way:
        // the lowest room is then further up. That never covers an aligned piece that would fit.
        let mut aside: KVec<Pages> = KVec::new();
        for _ in 0..TRIES {
            let pages = self.alloc(n)?;
            let front = pages_to(&pages, align);
            if front == 0 {
                return Ok(pages);
            }
            let filler = if front < n {
                drop(pages);
                self.alloc(front)?
            } else {
                pages
            };
            aside.push(filler, GFP_KERNEL)?;
        }
        Err(ENOMEM)
    }
}

/// How many bytes there are from `at` to the next multiple of `align`, a power of two.
fn gap(at: u64, align: u64) -> u64 {
    at.wrapping_neg() & (align - 1)
}

/// How many pages there are from the first of `pages` to the next multiple of `align`.
fn pages_to(pages: &Pages, align: u64) -> usize {
    (gap(phys(pages.start), align) as usize) / PAGE_SIZE
}

impl Pages {
    /// The `n` pages from page `first` on; the others are given back. `None`, and all are, where
    /// there are no such pages.
    fn part(self, first: usize, n: usize) -> Option<Self> {
        let (_, rest) = self.split(first);
        let (part, _) = rest?.split(n);
        part.filter(|part| part.n == n)
    }

    /// The first `at` pages, and those after them.
    fn split(self, at: usize) -> (Option<Self>, Option<Self>) {
        let whole = ManuallyDrop::new(self);
        let at = at.min(whole.n);
        let piece = |from: usize, n: usize| {
            (n > 0).then(|| Self {
                // INVARIANT: Each page, and our reference of it, is in one of the two pieces.
                // SAFETY: `from` is less than the number of pages, since `n` more are left.
                start: unsafe { whole.start.byte_add(from * PAGE_SIZE) },
                n,
                offset: whole.offset + (from * PAGE_SIZE) as u64,
            })
        };
        (piece(0, at), piece(at, whole.n - at))
    }
}
