// SPDX-License-Identifier: GPL-2.0

//! Pinned pages of user memory that is peer-to-peer memory.
//!
//! C header: [`include/linux/mm.h`](srctree/include/linux/mm.h).
//!
//! # Examples
//!
//! ```
//! use crate::ext::pinned::{Pages, PinnedTable};
//! use core::ops::Range;
//! use kernel::{device, page::PAGE_SIZE};
//!
//! /// Pins two pages of the BAR at `phys` that the process has mapped at `addr`, for `dev`.
//! fn pin(addr: usize, phys: &Range<u64>, dev: &device::Device) -> Result<PinnedTable> {
//!     let pages = Pages::pin(addr, 2, true)?;
//!     if pages.first().is_none() || !pages.all_within(phys) {
//!         return Err(EFAULT);
//!     }
//!     let mut table = pages.into_table()?;
//!     table.map(dev)?;
//!     Ok(table)
//! }
//! ```

use super::{
    bindings::helpers,
    compat,
    device::max_segment,
    dma_table::Table, //
};
use core::ops::Range;
use kernel::{
    alloc::flags::__GFP_NOWARN,
    bindings,
    device,
    page::PAGE_SIZE,
    prelude::*, //
};

/// Returns whether a driver's error can mean that the memory cannot be pinned.
///
/// A page walk fails with `EFAULT` (nothing mapped, or memory without struct pages), `EREMOTEIO`
/// (peer-to-peer memory) or `EOPNOTSUPP`. The limit on locked memory is checked before the pages
/// are looked at: `ENOMEM`, `EPERM`. Drivers return `EINVAL` as well.
///
/// Context: any.
pub fn could_not_pin(e: Error) -> bool {
    [
        EFAULT,
        ENOMEM,
        EPERM,
        EINVAL,
        compat::eremoteio(),
        compat::eopnotsupp(),
    ]
    .contains(&e)
}

/// Returns whether the page at `addr` in the calling process can be pinned as RDMA drivers pin host
/// memory: for long, and with `write` for writing. Returns `true` in a kernel thread.
///
/// # Examples
///
/// ```
/// use crate::ext::pinned::can_pin;
///
/// let on_stack = 0u8;
/// // A kernel address is not one of the process.
/// let _ = can_pin((&raw const on_stack).addr(), true);
/// ```
///
/// Context: process context; may sleep. Takes `mmap_lock`.
pub fn can_pin(addr: usize, write: bool) -> bool {
    let task: &kernel::task::CurrentTask = current!();
    if task.mm().is_none() {
        return true;
    }
    let mut flags = bindings::FOLL_LONGTERM;
    if write {
        flags |= bindings::FOLL_WRITE;
    }
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

/// What is mapped at an address.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MemoryKind {
    /// Not known without a page fault, or not writable.
    Unknown,
    /// Memory that can be pinned.
    Ordinary,
    /// Peer-to-peer memory, or memory without struct pages. RDMA drivers cannot pin it.
    Device,
}

impl MemoryKind {
    /// Returns what the calling process has mapped at `addr`.
    ///
    /// This reads the page tables only, at a tenth of the cost of [`can_pin`]. The answer is a hint:
    /// the mapping can change at any time.
    ///
    /// # Examples
    ///
    /// ```
    /// use crate::ext::pinned::MemoryKind;
    ///
    /// let on_stack = 0u8;
    /// // A kernel address is not one of the process.
    /// assert_eq!(MemoryKind::at((&raw const on_stack).addr()), MemoryKind::Unknown);
    /// ```
    ///
    /// Context: process context.
    #[inline]
    pub fn at(addr: usize) -> Self {
        // SAFETY: The function reads the page tables of the calling process, for any address.
        match unsafe { helpers::ext_memory_at(addr) } {
            helpers::ext_memory_EXT_MEMORY_ORDINARY => Self::Ordinary,
            helpers::ext_memory_EXT_MEMORY_DEVICE => Self::Device,
            _ => Self::Unknown,
        }
    }
}

/// Pinned pages. Dropping this unpins them.
///
/// # Invariants
///
/// This object owns one pin of each of `pages`.
pub struct Pages {
    /// The pages, in the order of their addresses in the process.
    pages: KVVec<*mut bindings::page>,
}

// SAFETY: A pin is not bound to the task that took it, so any task may unpin.
unsafe impl Send for Pages {}
// SAFETY: `&self` methods only read the pages' physical addresses, which do not change.
unsafe impl Sync for Pages {}

impl Pages {
    /// Maximum number of pages that one call pins.
    const BATCH: usize = 1 << 16;

    /// Pins `n` pages of the calling process from the page-aligned address `addr` on.
    ///
    /// If `write` is true the pages are pinned for writing, which fails on read-only mappings.
    ///
    /// This is not a long-term pin: the kernel does not allow these on peer-to-peer memory. The
    /// owner must be able to unpin when the provider of the memory goes away.
    ///
    /// Returns `EFAULT` if a page is not mapped or not writable, and `EINTR` if the process is
    /// being killed.
    ///
    /// Context: process context; may sleep. Takes the `mmap_lock`.
    pub fn pin(addr: usize, n: usize, write: bool) -> Result<Self> {
        let mut flags = bindings::FOLL_PCI_P2PDMA;
        if write {
            flags |= bindings::FOLL_WRITE;
        }
        // INVARIANT: There are no pages yet.
        let mut this = Self {
            pages: KVVec::new(),
        };
        while this.pages.len() < n {
            let done = this.pages.len();
            // `n` is the process's choice: allocate only one batch ahead of what has been pinned.
            this.pages
                .reserve((n - done).min(Self::BATCH), GFP_KERNEL | __GFP_NOWARN)?;
            let room = this.pages.spare_capacity_mut();
            let batch = (n - done).min(Self::BATCH).min(room.len());
            let start = addr.checked_add(done * PAGE_SIZE).ok_or(EFAULT)?;
            // SAFETY: `room` has space for `batch` pointers.
            let got = unsafe {
                bindings::pin_user_pages_fast(
                    start,
                    // CAST: At most `BATCH`.
                    batch as c_int,
                    flags,
                    room.as_mut_ptr().cast(),
                )
            };
            if got < 0 {
                return Err(Error::from_errno(got));
            }
            if got == 0 {
                return Err(EFAULT);
            }
            // INVARIANT: The call has pinned these pages.
            // SAFETY: The call has written `got` pointers, and `got` is at most `batch`.
            // CAST: `got` is positive.
            unsafe { this.pages.inc_len(got as usize) };
        }
        Ok(this)
    }

    /// Returns the physical address of the first page if that is peer-to-peer memory.
    ///
    /// Context: any.
    pub fn first(&self) -> Option<u64> {
        let page = *self.pages.first()?;
        // SAFETY: By the type invariants the page is pinned, so it is valid.
        let p2p = unsafe { helpers::ext_is_pci_p2pdma_page(page) };
        // SAFETY: By the type invariants the page is pinned, so it is valid.
        p2p.then(|| unsafe { helpers::ext_page_to_phys(page) })
    }

    /// Returns whether all pages are peer-to-peer memory with physical addresses in `phys`.
    ///
    /// Context: any.
    pub fn all_within(&self, phys: &Range<u64>) -> bool {
        self.pages.iter().all(|&page| {
            // SAFETY: By the type invariants the page is pinned, so it is valid.
            let p2p = unsafe { helpers::ext_is_pci_p2pdma_page(page) };
            // SAFETY: By the type invariants the page is pinned, so it is valid.
            p2p && phys.contains(&unsafe { helpers::ext_page_to_phys(page) })
        })
    }

    /// Creates a table of the pages, which keeps them pinned.
    ///
    /// Context: may sleep.
    pub fn into_table(self) -> Result<PinnedTable> {
        let mut pages = self;
        let limit = u32::MAX;
        // SAFETY: `PinnedTable` keeps the pages pinned until it has dropped the table.
        let table = unsafe { Table::from_pages(&mut pages.pages, limit) }?;
        Ok(PinnedTable {
            table,
            limit,
            pages,
        })
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        // SAFETY: By the type invariants this object owns one pin of each page.
        unsafe { bindings::unpin_user_pages(self.pages.as_mut_ptr(), self.pages.len()) };
    }
}

/// A table of pinned pages.
pub struct PinnedTable {
    // Fields drop in this order: a table must not outlive the pins of its pages.
    /// The table.
    table: Table,
    /// Maximum length of an entry of `table`, in bytes.
    limit: u32,
    /// The pages of `table`.
    pages: Pages,
}

impl PinnedTable {
    /// Returns the table.
    pub fn table(&self) -> &Table {
        &self.table
    }

    /// Maps the table for `dev`; see [`Table::map`].
    ///
    /// Builds the table again if its entries may be too long for `dev`.
    ///
    /// Context: may sleep.
    pub fn map(&mut self, dev: &device::Device) -> Result {
        let limit = max_segment(dev);
        if limit < self.limit && self.table.nents().is_none() {
            // SAFETY: `self.pages` keeps the pages pinned until `self.table` has been dropped.
            self.table = unsafe { Table::from_pages(&mut self.pages.pages, limit) }?;
            self.limit = limit;
        }
        self.table.map(dev)
    }

    /// Undoes [`PinnedTable::map`]. Does nothing if the table is not mapped.
    ///
    /// Context: may sleep.
    pub fn unmap(&mut self) {
        self.table.unmap();
    }
}
