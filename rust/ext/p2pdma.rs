// SPDX-License-Identifier: GPL-2.0

//! PCI peer-to-peer DMA memory: the provider's side here, a BAR that becomes memory with struct pages,
//! and pages allocated from it; the orchestrator's side, who can reach it, in a file of its own.
//!
//! All BARs that a function has given share one pool, out of which the kernel allocates wherever
//! there is room; see [`Provider::alloc`].
//!
//! C header: [`include/linux/pci-p2pdma.h`](srctree/include/linux/pci-p2pdma.h).

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
        Bar, //
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

/// The alignment that struct pages demand of a BAR's start and size, in bytes.
pub fn granularity() -> u64 {
    // SAFETY: The function has no requirements.
    (unsafe { bindings::memremap_compat_align() }) as u64
}

/// Tells the kernel that other drivers may look for this function's peer-to-peer memory.
///
/// Context: may sleep. The function must have given a BAR with [`Provider::new`] before, or this
/// does nothing.
pub fn publish(dev: &pci::Device<Bound>) {
    // SAFETY: `dev` is a valid device.
    unsafe { bindings::pci_p2pmem_publish(as_raw(dev), true) };
}

/// A BAR that is peer-to-peer memory, for as long as its driver is bound.
///
/// It may outlive the binding; from then on nothing can be allocated.
pub struct Provider {
    /// What to allocate from, while the driver is bound.
    pool: Devres<Pool>,
    /// Where the memory is.
    phys: Range<u64>,
    /// Where the BAR starts.
    base: u64,
}

impl Provider {
    /// Makes `part` of BAR `bar` of `dev`, offsets in bytes, peer-to-peer memory until the driver is
    /// unbound. The unbinding then waits until every page is free: who hands out pages has to get
    /// them back before.
    ///
    /// `EINVAL` where the BAR is not memory space, or the part is not in it or does not fit
    /// [`granularity`].
    ///
    /// Context: may sleep.
    pub fn new(dev: &pci::Device<Bound>, bar: &Bar, part: Range<u64>) -> Result<Self> {
        let align = granularity();
        if !bar.is_mem() || part.start >= part.end || part.end > bar.len {
            return Err(EINVAL);
        }
        let end = bar.start.checked_add(part.end).ok_or(EINVAL)?;
        let start = bar.start + part.start;
        if (start | end) % align != 0 {
            return Err(EINVAL);
        }
        let size = (end - start).try_into()?;
        // SAFETY: `dev` is bound, so its devres may be added to; the BAR exists and is memory.
        to_result(unsafe {
            bindings::pci_p2pdma_add_resource(as_raw(dev), bar.index as i32, size, part.start)
        })?;
        Ok(Self {
            // INVARIANT: The function has a pool now. Devres revokes the object before it undoes
            // what `pci_p2pdma_add_resource()` did, because that was added first.
            pool: Devres::new(dev.as_ref(), Pool { dev: dev.into() })?,
            phys: start..end,
            base: bar.start,
        })
    }

    /// The physical addresses of the memory.
    pub fn phys(&self) -> Range<u64> {
        self.phys.clone()
    }

    /// Takes `n` contiguous pages of this BAR. Their contents are what the device holds.
    ///
    /// `ENOMEM` where there is no room, `ENODEV` where the driver has been unbound, `EINVAL` for no
    /// pages.
    ///
    /// The kernel allocates from any BAR the function has given. While there is room in the others,
    /// it is taken first, and given back before this returns; an allocation that somebody else
    /// makes at that moment may fail. A function that has given one BAR never sees this.
    ///
    /// Context: may sleep.
    pub fn alloc(&self, n: usize) -> Result<Pages> {
        let len = n.checked_mul(PAGE_SIZE).ok_or(ENOMEM)?;
        if n == 0 {
            return Err(EINVAL);
        }
        let start = {
            let pool = self.pool.try_access().ok_or(ENODEV)?;
            pool.alloc_within(len, &self.phys)?
        };
        // SAFETY: The block is `n` pages that `pci_alloc_p2pmem()` has just returned, whose one
        // reference on the page map keeps the pages there.
        unsafe { helpers::ext_p2p_pages_init(start.as_ptr(), n) };
        // INVARIANT: Each page has a count of one now, which is ours.
        Ok(Pages {
            start,
            n,
            offset: phys(start) - self.base,
        })
    }
}

/// The physical address of a byte of peer-to-peer memory.
fn phys(kaddr: NonNull<c_void>) -> u64 {
    // SAFETY: The callers pass addresses from `pci_alloc_p2pmem()`, which have struct pages.
    unsafe { helpers::ext_page_to_phys(helpers::ext_virt_to_page(kaddr.as_ptr())) }
}

/// The memory of all BARs a function has given.
///
/// # Invariants
///
/// While this can be reached through [`Devres`], the function has a pool.
struct Pool {
    /// The function.
    dev: ARef<pci::Device>,
}

impl Pool {
    /// Takes `len` bytes from anywhere.
    fn alloc(&self, len: usize) -> Option<NonNull<c_void>> {
        // SAFETY: By the type invariant the function has a pool.
        NonNull::new(unsafe { bindings::pci_alloc_p2pmem(as_raw(&self.dev), len) })
    }

    /// Takes `len` bytes whose physical addresses lie within `wanted`. Does not sleep.
    fn alloc_within(&self, len: usize, wanted: &Range<u64>) -> Result<NonNull<c_void>> {
        // The blocks of other BARs that are in the way. They are dropped, and so freed, at the end.
        let mut aside: KVec<Block<'_>> = KVec::new();
        // Large blocks first, so that an empty BAR is out of the way in few steps.
        let mut step = 1usize << 40;

        loop {
            let block = Block {
                pool: self,
                start: self.alloc(len).ok_or(ENOMEM)?,
                len,
            };
            if wanted.contains(&phys(block.start)) {
                return Ok(block.take());
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
                        if wanted.contains(&phys(start)) {
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

/// A block of the pool that nobody uses yet.
///
/// # Invariants
///
/// `start` is what `pci_alloc_p2pmem()` returned for `len` bytes of `pool`.
struct Block<'a> {
    /// Where it is from.
    pool: &'a Pool,
    /// Its kernel address.
    start: NonNull<c_void>,
    /// Its size in bytes.
    len: usize,
}

impl Block<'_> {
    /// Makes the block the caller's.
    fn take(self) -> NonNull<c_void> {
        core::mem::ManuallyDrop::new(self).start
    }
}

impl Drop for Block<'_> {
    fn drop(&mut self) {
        let dev = as_raw(&self.pool.dev);
        // SAFETY: By the type invariant the block is from this pool and ours to free.
        unsafe { bindings::pci_free_p2pmem(dev, self.start.as_ptr(), self.len) };
    }
}

/// Contiguous pages of peer-to-peer memory.
///
/// When this is dropped, each page that nobody else holds returns to the pool at once, and the
/// others when their last reference goes: a mapping, a pin.
///
/// # Invariants
///
/// `start` is the kernel address of the first of `n > 0` contiguous pages, and one reference of
/// each is this object's. So each also holds its page map, and with it the pool.
pub struct Pages {
    /// The kernel address of the first page.
    start: NonNull<c_void>,
    /// How many pages there are.
    n: usize,
    /// Where in the BAR the first one lies, in bytes.
    offset: u64,
}

// SAFETY: References to pages belong to no task.
unsafe impl Send for Pages {}
// SAFETY: `&self` methods only read what never changes.
unsafe impl Sync for Pages {}

impl Pages {
    /// Where in the BAR the first page lies, in bytes.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// Page `i`.
    pub fn get(&self, i: usize) -> Option<BorrowedPage<'_>> {
        if i >= self.n {
            return None;
        }
        // SAFETY: By the type invariant this is the address of one of our pages.
        let page =
            unsafe { helpers::ext_virt_to_page(self.start.as_ptr().byte_add(i * PAGE_SIZE)) };
        // SAFETY: By the type invariant we hold the page at least as long as `self` is borrowed.
        NonNull::new(page).map(|page| unsafe { BorrowedPage::from_raw(page) })
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        // SAFETY: By the type invariant one reference of each page is ours.
        unsafe { helpers::ext_p2p_pages_put(self.start.as_ptr(), self.n) };
    }
}
