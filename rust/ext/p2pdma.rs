// SPDX-License-Identifier: GPL-2.0

//! PCI peer-to-peer DMA memory.
//!
//! This file has the provider: a BAR that becomes memory with struct pages, and pages allocated
//! from it. `orchestrator.rs` determines which devices can reach the memory.
//!
//! All BARs that a function provides share one pool, from which the kernel allocates at the first
//! fit; see [`Provider::alloc`].
//!
//! C header: [`include/linux/pci-p2pdma.h`](srctree/include/linux/pci-p2pdma.h).
//!
//! # Examples
//!
//! ```
//! use crate::ext::{
//!     p2pdma::{self, Pages, Provider},
//!     pci::Bar,
//! };
//! use kernel::{device::Bound, pci};
//!
//! /// Makes all of BAR 4 peer-to-peer memory and allocates 16 pages of it.
//! fn provide(dev: &pci::Device<Bound>) -> Result<(Provider, Pages)> {
//!     let size = Bar::new(dev, 4)?.size();
//!     let provider = Provider::new(dev, 4, 0..size)?;
//!     p2pdma::publish(dev);
//!     let pages = provider.alloc(16)?;
//!     Ok((provider, pages))
//! }
//! ```

mod aligned;
mod free_space;
mod orchestrator;

pub use self::{
    free_space::FreeSpace, //
    orchestrator::{
        distance,
        find,
        route,
        Obstacle,
        Route, //
    },
};

use super::{
    bindings::helpers,
    pci::{
        as_raw,
        Bar,
        Window, //
    }, //
};
use core::{
    ops::Range,
    ptr::NonNull, //
};
use kernel::{
    bindings,
    device::Bound,
    devres::Devres,
    error::to_result,
    page::{
        BorrowedPage,
        PAGE_SIZE, //
    },
    pci,
    prelude::*,
    sync::aref::ARef, //
};

/// Returns the alignment in bytes that struct pages require of the start and the size of the
/// memory.
///
/// Context: any.
pub fn granularity() -> u64 {
    // SAFETY: The function has no preconditions.
    // CAST: `usize` has 64 bits on architectures with P2PDMA.
    (unsafe { bindings::memremap_compat_align() }) as u64
}

/// Publishes the peer-to-peer memory of `dev`, so that other drivers find it.
///
/// Does nothing unless [`Provider::new`] was called for `dev` before.
///
/// Context: may sleep.
pub fn publish(dev: &pci::Device<Bound>) {
    // SAFETY: `dev` is valid while it is borrowed.
    unsafe { bindings::pci_p2pmem_publish(as_raw(dev), true) };
}

/// A part of a BAR that is peer-to-peer memory while the driver is bound.
///
/// The object may outlive the binding; allocations then fail.
pub struct Provider {
    /// Pool of the function, while the driver is bound.
    pool: Devres<Pool>,
    /// The memory.
    window: Window,
    /// Physical address of the first byte of the BAR.
    base: u64,
}

impl Provider {
    /// Makes `part` of BAR `index` of `dev` peer-to-peer memory until the driver is unbound.
    ///
    /// `part` is a range of byte offsets. Unbinding waits until every page is free, so the driver
    /// must revoke the pages it has handed out before.
    ///
    /// Returns `EINVAL` if there is no such BAR or it is not memory space, or if the part exceeds it
    /// or is not aligned to [`granularity`].
    ///
    /// Context: may sleep.
    pub fn new(dev: &pci::Device<Bound>, index: u32, part: Range<u64>) -> Result<Self> {
        let align = granularity();
        let bar = Bar::new(dev, index)?;
        if !bar.is_mem() || part.start >= part.end || part.end > bar.size() {
            return Err(EINVAL);
        }
        let end = bar.start().checked_add(part.end).ok_or(EINVAL)?;
        let start = bar.start() + part.start;
        if (start | end) % align != 0 {
            return Err(EINVAL);
        }
        let size = (end - start).try_into()?;
        // SAFETY: `dev` is bound, so devres entries may be added; the BAR exists and is memory
        // space.
        // CAST: `index` is less than 6.
        to_result(unsafe {
            bindings::pci_p2pdma_add_resource(as_raw(dev), index as i32, size, part.start)
        })?;
        Ok(Self {
            // INVARIANT: The function has a pool now. Devres releases in reverse order, so it
            // revokes this object before it removes the pool.
            pool: Devres::new(dev.as_ref(), Pool { dev: dev.into() })?,
            // SAFETY: `part` lies in BAR `index`, which is memory space.
            window: unsafe { Window::new(dev.into(), index, start..end) },
            base: bar.start(),
        })
    }

    /// Returns the physical addresses of the memory, and the BAR that they belong to.
    ///
    /// Context: any.
    pub fn window(&self) -> &Window {
        &self.window
    }

    /// Allocates `n` contiguous pages of this memory. Their contents are those of the device.
    ///
    /// The kernel allocates from any BAR that the function provides. If that is another BAR, this
    /// allocates the free memory there too and frees it before it returns; a concurrent allocation
    /// by another task may fail meanwhile. A function that provides one BAR is not affected.
    ///
    /// Returns `ENOMEM` if there is no space, `ENODEV` if the driver has been unbound, and `EINVAL`
    /// if `n` is 0.
    ///
    /// Context: may sleep.
    pub fn alloc(&self, n: usize) -> Result<Pages> {
        let len = n.checked_mul(PAGE_SIZE).ok_or(ENOMEM)?;
        if n == 0 {
            return Err(EINVAL);
        }
        let start = {
            let pool = self.pool.try_access().ok_or(ENODEV)?;
            pool.alloc_within(len, self.window.phys())?
        };
        // SAFETY: `pci_alloc_p2pmem()` has returned the block of `n` pages, with a reference on the
        // page map, which keeps the struct pages.
        unsafe { helpers::ext_p2p_pages_init(start.as_ptr(), n) };
        // INVARIANT: Each page has a count of one now, which this object owns.
        Ok(Pages {
            start,
            n,
            // SAFETY: `start` came from `pci_alloc_p2pmem()`.
            offset: unsafe { phys(start) } - self.base,
        })
    }
}

/// Returns the physical address of a byte of peer-to-peer memory.
///
/// # Safety
///
/// `kaddr` must be in a block from `pci_alloc_p2pmem()` that has not been freed.
unsafe fn phys(kaddr: NonNull<c_void>) -> u64 {
    // SAFETY: By this function's safety contract the address has a struct page.
    unsafe { helpers::ext_page_to_phys(helpers::ext_virt_to_page(kaddr.as_ptr())) }
}

/// Pool of all BARs that a function provides.
///
/// # Invariants
///
/// The function has a pool while [`Devres`] gives access to this object.
struct Pool {
    /// Function with the pool.
    dev: ARef<pci::Device>,
}

impl Pool {
    /// Allocates `len` bytes from any BAR.
    ///
    /// Context: any.
    fn alloc(&self, len: usize) -> Option<NonNull<c_void>> {
        // SAFETY: By the type invariants the function has a pool.
        NonNull::new(unsafe { bindings::pci_alloc_p2pmem(as_raw(&self.dev), len) })
    }

    /// Allocates `len` bytes whose physical addresses lie in `wanted`.
    ///
    /// Context: any.
    fn alloc_within(&self, len: usize, wanted: &Range<u64>) -> Result<NonNull<c_void>> {
        // Blocks of other BARs, kept allocated so that the pool skips them. They are freed on
        // return.
        let mut aside: KVec<Block<'_>> = KVec::new();
        // Start with large blocks, so that few steps fill an empty BAR.
        let mut step = 1usize << 40;

        loop {
            let block = Block {
                pool: self,
                start: self.alloc(len).ok_or(ENOMEM)?,
                len,
            };
            // SAFETY: `block` has not been freed.
            if wanted.contains(&unsafe { phys(block.start) }) {
                return Ok(block.into_raw());
            }
            aside.push(block, GFP_NOWAIT)?;
            while step / 2 >= len {
                match self.alloc(step) {
                    Some(start) => {
                        let block = Block {
                            pool: self,
                            start,
                            len: step,
                        };
                        // SAFETY: `block` has not been freed.
                        if wanted.contains(&unsafe { phys(start) }) {
                            step /= 2;
                        } else {
                            aside.push(block, GFP_NOWAIT)?;
                        }
                    }
                    None => step /= 2,
                }
            }
        }
    }
}

/// An allocated block of a pool. Dropping it frees it.
///
/// # Invariants
///
/// This object owns a block of `len` bytes at `start` that `pci_alloc_p2pmem()` returned for
/// `pool`.
struct Block<'a> {
    /// Pool of the block.
    pool: &'a Pool,
    /// Kernel address.
    start: NonNull<c_void>,
    /// Size in bytes.
    len: usize,
}

impl Block<'_> {
    /// Returns the address of the block, which the caller owns from then on.
    fn into_raw(self) -> NonNull<c_void> {
        core::mem::ManuallyDrop::new(self).start
    }
}

impl Drop for Block<'_> {
    fn drop(&mut self) {
        let dev = as_raw(&self.pool.dev);
        // SAFETY: By the type invariants this object owns the block, which is from this pool.
        unsafe { bindings::pci_free_p2pmem(dev, self.start.as_ptr(), self.len) };
    }
}

/// Contiguous pages of peer-to-peer memory.
///
/// Dropping this puts one reference of each page. A page returns to the pool when its last
/// reference, such as a mapping or a pin, is put.
///
/// # Invariants
///
/// `start` is the kernel address of the first of `n > 0` contiguous pages, and this object owns one
/// reference of each. A page with a reference holds its page map, and so the pool.
pub struct Pages {
    /// Kernel address of the first page.
    start: NonNull<c_void>,
    /// Number of pages.
    n: usize,
    /// Offset of the first page in the BAR, in bytes.
    offset: u64,
}

// SAFETY: A reference to a page is not bound to a task.
unsafe impl Send for Pages {}
// SAFETY: `&self` methods only read fields, which do not change, and page counts, which are atomic.
unsafe impl Sync for Pages {}

impl Pages {
    /// Returns the offset of the first page in the BAR, in bytes.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// Returns page `i`, or `None` if there is no such page.
    pub fn get(&self, i: usize) -> Option<BorrowedPage<'_>> {
        if i >= self.n {
            return None;
        }
        // SAFETY: By the type invariants `start` is the address of `n` pages, and `i` is less than
        // `n`.
        let page =
            unsafe { helpers::ext_virt_to_page(self.start.as_ptr().byte_add(i * PAGE_SIZE)) };
        // SAFETY: By the type invariants this object holds the page while `self` is borrowed.
        NonNull::new(page).map(|page| unsafe { BorrowedPage::from_raw(page) })
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        // SAFETY: By the type invariants this object owns one reference of each page.
        unsafe { helpers::ext_p2p_pages_put(self.start.as_ptr(), self.n) };
    }
}
