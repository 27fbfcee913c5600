// SPDX-License-Identifier: GPL-2.0

//! Pages with an alignment.
//!
//! The kernel's pool has no alignment parameter and allocates the lowest free block that fits.
//!
//! # Examples
//!
//! ```
//! use crate::ext::p2pdma::{Pages, Provider};
//! use kernel::page::PAGE_SIZE;
//!
//! /// Allocates 2 MiB that a device can map with one huge page.
//! fn huge(provider: &Provider) -> Result<Pages> {
//!     provider.alloc_aligned((2 << 20) / PAGE_SIZE, 2 << 20)
//! }
//! ```

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

/// Maximum number of allocations for one request, which bounds it if the memory is fragmented.
const TRIES: usize = 256;

impl Provider {
    /// Allocates `n` contiguous pages whose physical address is a multiple of `align`; see
    /// [`Provider::alloc`].
    ///
    /// Allocates more than `n` pages meanwhile; a concurrent allocation by another task may fail.
    ///
    /// Returns `EINVAL` if `align` is not a power of two, or if no address in this memory is a
    /// multiple of it; and `ENOMEM` also if the free memory is too fragmented.
    ///
    /// Context: may sleep.
    pub fn alloc_aligned(&self, n: usize, align: u64) -> Result<Pages> {
        let phys = self.window.phys();
        let total = phys.end - phys.start;
        if !align.is_power_of_two()
            || align > total
            // CAST: `usize` has 64 bits on architectures with P2PDMA; this holds for all casts
            // here.
            || phys.start + gap(phys.start, align) >= phys.end
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
        // A block of this size contains an aligned part of `n` pages, whatever its address.
        drop(pages);
        let wide = n + (align as usize / PAGE_SIZE).saturating_sub(1);
        if let Ok(pages) = self.alloc(wide) {
            let front = pages_to(&pages, align);
            return pages.slice(front, n).ok_or(ENOMEM);
        }

        // The lowest block that fits is not aligned. Allocate the pages up to the next multiple of
        // `align`, so that the next attempt finds a higher block. This never covers an aligned
        // block that would fit.
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

/// Returns the number of bytes from `at` to the next multiple of `align`, a power of two.
fn gap(at: u64, align: u64) -> u64 {
    at.wrapping_neg() & (align - 1)
}

/// Returns the number of pages from the first of `pages` to the next multiple of `align`.
fn pages_to(pages: &Pages, align: u64) -> usize {
    // SAFETY: `pages` holds its pages.
    let start = unsafe { phys(pages.start) };
    (gap(start, align) as usize) / PAGE_SIZE
}

impl Pages {
    /// Returns the `n` pages from page `first` on and frees the others.
    ///
    /// Frees all and returns `None` if there are no such pages.
    fn slice(self, first: usize, n: usize) -> Option<Self> {
        let (_, rest) = self.split(first);
        let (part, _) = rest?.split(n);
        part.filter(|part| part.n == n)
    }

    /// Splits into the first `at` pages and the pages after them.
    fn split(self, at: usize) -> (Option<Self>, Option<Self>) {
        let whole = ManuallyDrop::new(self);
        let at = at.min(whole.n);
        let piece = |from: usize, n: usize| {
            (n > 0).then(|| Self {
                // INVARIANT: Each page and its reference are in exactly one of the two pieces.
                // SAFETY: `from` is less than the number of pages, as `n` > 0 pages follow.
                start: unsafe { whole.start.byte_add(from * PAGE_SIZE) },
                n,
                offset: whole.offset + (from * PAGE_SIZE) as u64,
            })
        };
        (piece(0, at), piece(at, whole.n - at))
    }
}
