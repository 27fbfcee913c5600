// SPDX-License-Identifier: GPL-2.0

//! Allocated pages of peer-to-peer memory. [`Pages`] is an allocation, and [`PageRefs`] keeps
//! parts of allocations in use.

use super::{
    function::{
        phys_of,
        Function, //
    },
    quota::Charge, //
};
use crate::shared::{
    ext::base::{
        sg::{
            self,
            Segment,
            Segments, //
        },
        small_vec::SmallVec, //
    },
    prelude::raw::*, //
};
use kernel::page::BorrowedPage;

/// Contiguous pages of peer-to-peer memory.
///
/// Drop frees the pages without other references, such as a mapping or a pin. A page with other
/// references becomes free with the last reference.
///
/// # Invariants
///
/// `function` has allocated the `n` pages of `member` from `first` on to this object, and this
/// object owns one reference to each page. A page with a reference holds the page map, and so the
/// pool.
pub struct Pages {
    function: Arc<Function>,
    member: usize,
    /// Page frame number of the first page.
    first: usize,
    n: usize,
    /// Offset of the first page in the BAR, in bytes.
    offset: u64,
    /// Number of [`PageRefs`] with some of the pages.
    pins: Atomic<usize>,
    /// Whether writes to the memory may be combined.
    combine: bool,
    clear_on_drop: bool,
    charge: Option<Charge>,
}

impl Pages {
    /// Allocates pages; see [`Function::alloc`]. The BAR has the physical address `base`.
    pub(super) fn alloc(
        function: &Arc<Function>,
        member: usize,
        n: usize,
        align: usize,
        base: u64,
        combine: bool,
    ) -> Result<Self> {
        let first = function.alloc(member, n, align)?;
        // SAFETY: The call above has allocated the pages. The pages have struct pages and no
        // references.
        unsafe { helpers::ext_p2p_pages_init(phys_of(first), n) };
        // INVARIANT: Each page has a count of one now, and this object owns that reference.
        Ok(Self {
            function: function.clone(),
            member,
            first,
            n,
            offset: phys_of(first) - base,
            pins: Atomic::new(0),
            combine,
            clear_on_drop: false,
            charge: None,
        })
    }

    /// Keeps `charge` until the pages are freed.
    pub fn set_charge(&mut self, charge: Charge) {
        self.charge = Some(charge);
    }

    /// Clears the pages on drop. A page with I/O in flight is cleared before the end of the I/O.
    pub fn clear_on_drop(&mut self) {
        self.clear_on_drop = true;
    }

    /// Writes zeros to all pages. On return every device sees the zeros.
    ///
    /// Clearing much memory takes seconds. So the call returns `EINTR` if the process is being
    /// killed. Context: process context; may sleep.
    pub fn clear(&self) -> Result {
        let (phys, killable) = (phys_of(self.first), true);
        // SAFETY: By the type invariants this object holds the pages.
        to_result(unsafe { helpers::ext_p2p_clear(phys, self.n, self.combine, killable) })
    }

    /// Returns the address of the byte at `at`, and the number of bytes from there to the end of
    /// the page, at most `len`. Returns `EINVAL` if `at` is beyond the pages.
    fn part(&self, at: u64, len: usize) -> Result<(u64, usize)> {
        if at >= phys_of(self.n) {
            return Err(EINVAL);
        }
        // CAST: Less than `PAGE_SIZE`, which is less than 2^32.
        let left = PAGE_SIZE - (at % PAGE_SIZE as u64) as usize;
        Ok((phys_of(self.first) + at, len.min(left)))
    }

    /// Reads bytes from offset `at` on, by the CPU, up to the end of the page. Returns the number
    /// of bytes, or `EINVAL` if `at` is beyond the pages. A device that is gone reads as all ones.
    pub fn read(&self, at: u64, to: &mut [u8]) -> Result<usize> {
        let (phys, len) = self.part(at, to.len())?;
        // SAFETY: By the type invariants the page is mapped, and `to` has room for `len` bytes.
        unsafe { helpers::ext_p2p_read(phys, to.as_mut_ptr().cast(), len) };
        Ok(len)
    }

    /// Writes bytes from offset `at` on; see [`Pages::read`].
    pub fn write(&self, at: u64, from: &[u8]) -> Result<usize> {
        let (phys, len) = self.part(at, from.len())?;
        // SAFETY: By the type invariants the page is mapped, and `from` has `len` bytes.
        unsafe { helpers::ext_p2p_write(phys, from.as_ptr().cast(), len) };
        Ok(len)
    }

    /// Returns the offset of the first page in the BAR, in bytes.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// Returns page `i`, or `None` if there is no such page.
    pub fn get(&self, i: usize) -> Option<BorrowedPage<'_>> {
        if i >= self.n {
            return None;
        }
        // SAFETY: By the type invariants the page exists.
        let page = unsafe { helpers::ext_phys_to_page(phys_of(self.first + i)) };
        // SAFETY: By the type invariants this object holds the page while `self` is borrowed.
        NonNull::new(page).map(|page| unsafe { BorrowedPage::from_raw(page) })
    }

    /// Returns whether a [`PageRefs`] has pages, or a page has another reference: a page
    /// table, a pin, I/O in flight.
    ///
    /// If not, only a user of this object can take a new reference. Context: may sleep.
    pub fn in_use(&self) -> bool {
        self.pins.load(Acquire) > 0 || {
            // SAFETY: By the type invariants this object holds the pages.
            unsafe { helpers::ext_p2p_pages_in_use(phys_of(self.first), self.n) }
        }
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        if self.clear_on_drop {
            let (phys, killable) = (phys_of(self.first), false);
            // SAFETY: By the type invariants this object holds the pages.
            unsafe { helpers::ext_p2p_clear(phys, self.n, self.combine, killable) };
        }
        let mut at = self.first;
        let end = self.first + self.n;
        let runs = core::iter::from_fn(|| {
            let start = at;
            if start == end {
                return None;
            }
            // SAFETY: By the type invariants this object owns one reference of each page.
            at += unsafe { helpers::ext_p2p_pages_take(phys_of(start), end - start) };
            let run = start..at;
            if at < end {
                // SAFETY: By the type invariants this object owns a reference of the page.
                unsafe { helpers::ext_p2p_page_put(phys_of(at)) };
                at += 1;
            }
            Some(run)
        });
        // SAFETY: By the type invariants this object owns the pages. The pages in `runs` have lost
        // the only reference, and the kernel frees the other pages.
        unsafe { self.function.free(self.member, self.n, runs) };
    }
}

/// Parts of [`Pages`]. The pages are in use as long as this object exists.
///
/// # Invariants
///
/// - `segments` are the physical addresses of whole pages of `pages`.
/// - Each of `pages` counts this object once in `pins`.
pub struct PageRefs {
    pages: SmallVec<Arc<Pages>>,
    segments: SmallVec<Segment>,
}

impl PageRefs {
    pub fn new() -> Self {
        // INVARIANT: There are no pages.
        Self {
            pages: SmallVec::new(),
            segments: SmallVec::new(),
        }
    }

    /// Adds the pages of `pages` with the numbers `range`. Returns `EINVAL` if there are no such
    /// pages. Context: may sleep.
    pub fn push(&mut self, pages: &Arc<Pages>, range: Range<usize>) -> Result {
        if range.is_empty() || range.end > pages.n {
            return Err(EINVAL);
        }
        let segment = Segment {
            addr: phys_of(pages.first + range.start),
            len: phys_of(range.len()),
        };
        self.pages.push(pages.clone(), GFP_KERNEL_ACCOUNT)?;
        // INVARIANT: This object is in `pages` once more.
        pages.pins.fetch_add(1, Relaxed);
        // INVARIANT: The pages are in `pages`.
        sg::push(&mut self.segments, segment)
    }
}

impl Default for PageRefs {
    fn default() -> Self {
        Self::new()
    }
}

// SAFETY: By the type invariants the segments are whole pages of `pages`, and this object keeps
// `pages`.
unsafe impl Segments for PageRefs {
    fn segments(&self) -> impl Iterator<Item = Segment> + Clone + '_ {
        self.segments.iter().copied()
    }
}

impl Drop for PageRefs {
    fn drop(&mut self) {
        for pages in self.pages.iter() {
            pages.pins.fetch_add(1_usize.wrapping_neg(), Release);
        }
    }
}
