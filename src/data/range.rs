// SPDX-License-Identifier: GPL-2.0

//! A range of user virtual addresses: [`VaRange`], in bytes. All modules of the core name memory of
//! a process by a [`VaRange`].

use crate::prelude::*;

/// The largest page by which clients of the field round a range.
const CLIENT_PAGE: usize = 2 << 20;

/// `[addr, addr + len)` in the calling process, with all bits that the process has passed.
///
/// # Invariants
///
/// `len` is not 0 and `addr + len`, rounded up to a page, does not wrap.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct VaRange {
    addr: usize,
    len: usize,
}

impl VaRange {
    /// Creates a range. Returns `None` if the range is empty or wraps.
    pub(crate) fn new(addr: u64, len: u64) -> Option<Self> {
        let addr = usize::try_from(addr).ok()?;
        let len = usize::try_from(len).ok()?;
        addr.checked_add(len)?.checked_add(PAGE_SIZE - 1)?;
        // INVARIANT: `len` is checked here, the sum in the line above.
        (len > 0).then_some(Self { addr, len })
    }

    /// Returns whether a client may own the range: all of it is below `kernel`, the kernel's first
    /// address, and does not wrap when rounded to the pages of clients. The first address need not
    /// be canonical.
    pub(crate) fn may_be_a_clients(self, kernel: usize) -> bool {
        let end = self.addr.saturating_add(self.len);
        end <= kernel && end.checked_add(CLIENT_PAGE - 1).is_some()
    }

    pub(crate) fn addr(self) -> usize {
        self.addr
    }

    pub(crate) fn len(self) -> usize {
        self.len
    }

    /// Returns the offset of the first byte in its page.
    pub(crate) fn page_offset(self) -> usize {
        self.addr % PAGE_SIZE
    }

    /// Returns the number of pages of `PAGE_SIZE` that the range touches.
    pub(crate) fn pages(self) -> usize {
        (self.page_offset() + self.len).div_ceil(PAGE_SIZE)
    }

    /// Returns the number of bytes from the start of the client page that contains the first byte
    /// to the first page of `PAGE_SIZE`. A client page has `page_size` bytes, a power of two.
    pub(crate) fn skip(self, page_size: usize) -> usize {
        (self.addr & !(PAGE_SIZE - 1)) & (page_size - 1)
    }
}

#[kunit_tests(peer_mem_range)]
mod tests {
    use super::*;

    const P: u64 = PAGE_SIZE as u64;

    #[test]
    fn empty_and_wrapping_ranges_are_none() {
        assert_eq!(VaRange::new(P, 0), None);
        assert_eq!(VaRange::new(u64::MAX - 10, 20), None);
        assert_eq!(VaRange::new(u64::MAX - 10, 5), None);
        assert_eq!(VaRange::new(P, u64::MAX), None);
    }

    #[test]
    fn the_kernel_and_wrapping_ranges_are_no_clients() -> Result {
        const KERNEL: usize = 0xffff_8000_0000_0000;
        for (addr, len, kernel, clients) in [
            (P, P, KERNEL, true),
            (0x8001_0000_0000_0000, P, KERNEL, true),
            (KERNEL as u64 - P, P, KERNEL, true),
            (KERNEL as u64 - P, P + 1, KERNEL, false),
            (KERNEL as u64, 1, KERNEL, false),
            (P, KERNEL as u64, KERNEL, false),
            (u64::MAX - (2 << 20) - P, P, usize::MAX, true),
            (u64::MAX - (2 << 20), P, usize::MAX, false),
        ] {
            let range = VaRange::new(addr, len).ok_or(EINVAL)?;
            assert_eq!(range.may_be_a_clients(kernel), clients);
        }
        Ok(())
    }

    #[test]
    fn pages_touched() -> Result {
        for (addr, len, pages, offset) in [
            (16 * P, 1, 1, 0),
            (16 * P, P, 1, 0),
            (16 * P, P + 1, 2, 0),
            (16 * P + P - 1, 1, 1, P - 1),
            (16 * P + P - 1, 2, 2, P - 1),
            (16 * P + 8, 3 * P, 4, 8),
        ] {
            let r = VaRange::new(addr, len).ok_or(EINVAL)?;
            assert_eq!(r.pages(), pages as usize);
            assert_eq!(r.page_offset(), offset as usize);
        }
        Ok(())
    }

    #[test]
    fn distance_from_the_client_page() -> Result {
        let r = VaRange::new(0x20_0000 + 3 * P + 5, 10).ok_or(EINVAL)?;
        assert_eq!(r.skip(PAGE_SIZE), 0);
        assert_eq!(r.skip(64 << 10), 3 * PAGE_SIZE);
        assert_eq!(r.skip(2 << 20), 3 * PAGE_SIZE);
        Ok(())
    }
}
