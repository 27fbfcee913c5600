// SPDX-License-Identifier: GPL-2.0

//! Pinning user memory: whether a driver can pin memory ([`can_pin`], [`MemoryKind`]), and pinned
//! peer-to-peer memory ([`Pages`]), for clients with memory of another driver.

use super::{
    compat,
    mm,
    sg::{
        self,
        Segment,
        Segments, //
    },
    small_vec::SmallVec, //
};
use crate::shared::prelude::raw::*;
use core::mem::MaybeUninit;

/// Returns whether a driver's error can mean that the memory cannot be pinned.
///
/// A page walk fails with `EFAULT` (nothing mapped, or memory without struct pages), `EREMOTEIO`
/// (peer-to-peer memory) or `EOPNOTSUPP`. The limit on locked memory is checked before the pages
/// are looked at: `ENOMEM`, `EPERM`. Drivers return `EINVAL` as well.
pub fn could_not_pin(e: Error) -> bool {
    let others = [compat::eremoteio(), compat::eopnotsupp()];
    [EFAULT, ENOMEM, EPERM, EINVAL].contains(&e) || others.contains(&e)
}

/// Returns whether the page at `addr` in the calling process can be pinned as RDMA drivers pin host
/// memory: for long, and with `write` for writing. Returns `true` in a kernel thread. Context:
/// process context; may sleep. Takes `mmap_lock`.
pub fn can_pin(addr: usize, write: bool) -> bool {
    let task: &kernel::task::CurrentTask = current!();
    if task.mm().is_none() {
        return true;
    }
    let flags = bindings::FOLL_LONGTERM | write_flag(write);
    let mut page: *mut bindings::page = core::ptr::null_mut();
    // SAFETY: There is room for one pointer, and the task has an mm.
    let pinned =
        unsafe { bindings::pin_user_pages_fast(addr & !(PAGE_SIZE - 1), 1, flags, &mut page) };
    if pinned != 1 {
        return false;
    }
    // SAFETY: The call above pinned this page.
    unsafe { bindings::unpin_user_page(page) };
    true
}

fn write_flag(write: bool) -> c_uint {
    c_uint::from(write) * bindings::FOLL_WRITE
}

/// Returns an address of the calling process without the bits that the CPU ignores (LAM, TBI), as
/// the kernel does before pinning memory. Context: process context.
#[inline]
pub fn untagged(addr: u64) -> u64 {
    // CAST: An address of this machine has the size of `usize`. Larger values are no address of a
    // process.
    // SAFETY: The function reads the mask of the calling process, for any address.
    unsafe { helpers::ext_untagged_addr(addr as usize) as u64 }
}

/// Returns the first address of the kernel. Lower addresses are of a process, or not canonical.
pub fn kernel_half() -> usize {
    // SAFETY: The function only computes.
    unsafe { helpers::ext_kernel_half() }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MemoryKind {
    /// Not known without a page fault, or not writable.
    Unknown,
    Ordinary,
    /// Peer-to-peer memory, or memory without struct pages. RDMA drivers cannot pin such memory.
    Device,
}

impl MemoryKind {
    /// Returns what the calling process has mapped at `addr`.
    ///
    /// Reads only the page tables, at a tenth of the cost of [`can_pin`]. The answer is a hint: the
    /// mapping can change at any time. Context: process context.
    #[inline]
    pub fn at(addr: usize) -> Self {
        // SAFETY: The function reads the page tables of the calling process, for any address.
        Self::from_raw(unsafe { helpers::ext_memory_at(addr) })
    }

    pub fn from_raw(memory: helpers::ext_memory) -> Self {
        match memory {
            helpers::ext_memory_EXT_MEMORY_ORDINARY => Self::Ordinary,
            helpers::ext_memory_EXT_MEMORY_DEVICE => Self::Device,
            _ => Self::Unknown,
        }
    }
}

/// Pinned peer-to-peer memory. Drop unpins the pages.
///
/// # Invariants
///
/// `segments` are physical addresses of whole pages of peer-to-peer memory, in the order of the
/// addresses in the process. This object owns one pin of each page.
pub struct Pages {
    segments: SmallVec<Segment>,
}

impl Pages {
    const BATCH: usize = 512;

    /// Pins `n` pages of the calling process from the page-aligned address `addr` on.
    ///
    /// If `write` is true the pages are pinned for writing; on read-only mappings the call fails.
    ///
    /// The call does not wait for the process: a page that is not mapped yet is not faulted in.
    ///
    /// The kernel does not allow long-term pins on peer-to-peer memory, so the pin is not a
    /// long-term pin. The owner must be able to unpin when the provider of the memory goes away.
    ///
    /// Returns `EFAULT` if a page is not mapped, not writable, or not peer-to-peer memory, and
    /// `EINTR` if the process is being killed. Context: process context; may sleep.
    pub fn pin(_mm: &mm::Locked<'_>, addr: usize, n: usize, write: bool) -> Result<Self> {
        let flags = bindings::FOLL_PCI_P2PDMA | bindings::FOLL_NOFAULT | write_flag(write);
        // INVARIANT: There are no pages yet.
        let mut this = Self {
            segments: SmallVec::new(),
        };
        let mut batch = KVec::with_capacity(n.min(Self::BATCH), GFP_KERNEL_ACCOUNT)?;
        let mut done = 0;
        while done < n {
            let start = done.checked_mul(PAGE_SIZE);
            let start = start.and_then(|at| addr.checked_add(at)).ok_or(EFAULT)?;
            batch.clear();
            let spare: &mut [MaybeUninit<*mut bindings::page>] = batch.spare_capacity_mut();
            let want = (n - done).min(Self::BATCH).min(spare.len());
            // SAFETY: `spare` has space for `want` pointers. `_mm` shows that the `mmap_lock` of
            // this process is held, and the function does not release the lock.
            let got = unsafe {
                let pages = spare.as_mut_ptr().cast();
                // CAST: At most `BATCH`.
                bindings::pin_user_pages(start, want as c_ulong, flags, pages)
            };
            let got = match usize::try_from(got) {
                Ok(0) => return Err(EFAULT),
                Ok(got) => got,
                // CAST: An errno.
                Err(_) => return Err(Error::from_errno(got as c_int)),
            };
            // SAFETY: The call has pinned `got` pages, once each, and written their pointers. `got` is at most
            // `want`.
            unsafe {
                batch.inc_len(got);
                this.add(&batch)?;
            }
            done += got;
        }
        Ok(this)
    }

    /// Takes over one pin of each of `pages`. On an error the pages that this object does not keep
    /// are unpinned.
    ///
    /// # Safety
    ///
    /// The caller must own the pins.
    unsafe fn add(&mut self, pages: &[*mut bindings::page]) -> Result {
        for (i, &page) in pages.iter().enumerate() {
            // SAFETY: By the safety requirements the page is pinned, and so valid.
            let addr = unsafe { helpers::ext_page_to_phys(page) };
            // SAFETY: The page is pinned.
            let is_p2p = unsafe { helpers::is_pci_p2pdma_page(page) };
            let kept = if is_p2p {
                // INVARIANT: By the safety requirements the object owns the pin now.
                // CAST: `PAGE_SIZE` is less than 2^32.
                let len = PAGE_SIZE as u64;
                sg::push(&mut self.segments, Segment { addr, len })
            } else {
                Err(EFAULT)
            };
            if kept.is_err() {
                for &page in &pages[i..] {
                    // SAFETY: By the safety requirements the page is pinned.
                    unsafe { bindings::unpin_user_page(page) };
                }
                return kept;
            }
        }
        Ok(())
    }

    /// Returns the physical addresses of the page map that has the first page.
    pub fn map_of_first(&self) -> Option<Range<u64>> {
        let first = self.segments.first()?.addr;
        let (mut start, mut end) = (0, 0);
        // SAFETY: By the type invariants the page exists, and the pin keeps the page map.
        unsafe { helpers::ext_p2p_map_range(first, &mut start, &mut end) };
        Some(start..end)
    }

    /// Returns whether all pages have physical addresses in `phys`.
    pub fn all_within(&self, phys: &Range<u64>) -> bool {
        self.segments.iter().all(|s| s.is_within(phys))
    }
}

// SAFETY: By the type invariants the object pins the pages of the segments.
unsafe impl Segments for Pages {
    fn segments(&self) -> impl Iterator<Item = Segment> + Clone + '_ {
        self.segments.iter().copied()
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        for s in self.segments.iter() {
            // SAFETY: By the type invariants the pages exist.
            let first = unsafe { helpers::ext_phys_to_page(s.addr) };
            // CAST: `PAGE_SIZE` is less than 2^32, and `usize` has 64 bits on architectures with
            // P2PDMA.
            let n = (s.len / PAGE_SIZE as u64) as usize;
            // SAFETY: By the type invariants this object owns one pin of each page.
            unsafe { bindings::unpin_user_page_range_dirty_lock(first, n, false) };
        }
    }
}
