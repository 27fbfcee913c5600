// SPDX-License-Identifier: GPL-2.0

//! PCI peer-to-peer DMA memory.
//!
//! This file has the provider: a BAR that becomes memory with struct pages. `function.rs` allocates
//! from the BARs of a function, `pages.rs` has the allocated pages, and `orchestrator.rs` determines
//! which devices can reach the memory.
//!
//! C header: [`include/linux/pci-p2pdma.h`](srctree/include/linux/pci-p2pdma.h).

mod function;
pub mod gen_pool;
pub mod memcg;
pub mod mmio_table;
mod orchestrator;
mod pages;
pub mod quota;
pub mod work;

pub use self::{
    function::{
        FreeSpace,
        Function, //
    },
    orchestrator::{
        distance,
        find,
        route,
        Obstacle,
        Route, //
    },
    pages::{
        PageRefs,
        Pages, //
    },
};

use crate::shared::{
    ext::base::pci::{
        as_raw,
        Bar,
        BarRange, //
    },
    prelude::raw::*, //
};
use kernel::devres;

/// Returns the alignment in bytes that struct pages require of the start and the size of the
/// memory.
///
/// The kernel accepts whole subsections of 2 MiB. With pages of 16 KiB the struct pages of two
/// subsections are in one page, which the kernel frees with the first of the two subsections. So
/// the memory must have whole pages of struct pages.
pub fn granularity() -> u64 {
    const PAGE_OF_STRUCT_PAGES: usize =
        (PAGE_SIZE / size_of::<bindings::page>() * PAGE_SIZE).next_power_of_two();
    // SAFETY: The function has no preconditions.
    let subsection = unsafe { bindings::memremap_compat_align() } as usize;
    // CAST: `usize` has 64 bits on architectures with P2PDMA.
    subsection.max(PAGE_OF_STRUCT_PAGES) as u64
}

/// Publishes the peer-to-peer memory of `dev`, so that other drivers can find the memory.
///
/// Does nothing unless [`Provider::new`] was called for `dev` before. Context: may sleep.
pub fn publish(dev: &pci::Device<Bound>) {
    // SAFETY: `dev` is valid while it is borrowed.
    unsafe { bindings::pci_p2pmem_publish(as_raw(dev), true) };
}

/// Closes the kernel's pool of a function on drop: every later allocation fails.
///
/// When a driver is unbound, the kernel frees the page maps of the function before the pool, and
/// `pci_alloc_p2pmem()` of another driver would use a page map that is gone. So devres drops this
/// object before the page maps.
///
/// # Invariants
///
/// The driver that called `pci_p2pdma_add_resource()` for `dev` is bound as long as this object exists.
struct OpenPool {
    dev: ARef<pci::Device>,
}

impl Drop for OpenPool {
    fn drop(&mut self) {
        // SAFETY: `self` holds the function. By the type invariants the pool of the function, if
        // there is one, belongs to the driver that is bound.
        unsafe { helpers::ext_p2p_close_pool(as_raw(&self.dev)) };
    }
}

/// A part of a BAR that is peer-to-peer memory while the driver is bound.
///
/// The object may outlive the driver's binding; allocations then fail.
///
/// # Invariants
///
/// `function` is the function of `bar_range`, and `member` is the number of this memory in
/// `function`.
pub struct Provider {
    function: Arc<Function>,
    member: usize,
    bar_range: BarRange,
    /// Physical address of the first byte of the BAR.
    base: u64,
    /// Whether the BAR is prefetchable, so that writes may be combined.
    prefetchable: bool,
}

impl Provider {
    /// Makes `part` of BAR `index` of `dev` peer-to-peer memory until the driver is unbound.
    ///
    /// `function` must be the object of `dev`. `part` is a range of byte offsets. Unbinding waits
    /// until every page is free, so the driver must first revoke the pages that are in use.
    ///
    /// Returns `EINVAL` if the BAR does not exist or is not memory space, if the part exceeds the
    /// BAR or is not aligned to [`granularity`], or if `function` belongs to another device.
    /// Context: may sleep.
    pub fn new(
        function: &Arc<Function>,
        dev: &pci::Device<Bound>,
        index: u32,
        part: Range<u64>,
    ) -> Result<Self> {
        let align = granularity();
        let bar = Bar::new(dev, index)?;
        if !bar.is_mem() || part.start >= part.end || part.end > bar.size() {
            return Err(EINVAL);
        }
        let end = bar.start().checked_add(part.end).ok_or(EINVAL)?;
        let start = bar.start() + part.start;
        if (start | end) % align != 0 || !function.is_of(dev) {
            return Err(EINVAL);
        }
        let size = (end - start).try_into()?;
        // SAFETY: `dev` is bound, so devres entries may be added; the BAR exists and is memory
        // space.
        // CAST: `index` is less than 6.
        to_result(unsafe {
            bindings::pci_p2pdma_add_resource(as_raw(dev), index as i32, size, part.start)
        })?;
        // INVARIANT: devres drops the object, at the latest when the driver is unbound.
        devres::register(dev.as_ref(), OpenPool { dev: dev.into() }, GFP_KERNEL)?;
        Ok(Self {
            // SAFETY: The call above has made this range peer-to-peer memory.
            member: unsafe { function.add(start..end) }?,
            function: function.clone(),
            // SAFETY: `part` lies in BAR `index`, which is memory space.
            bar_range: unsafe { BarRange::new(dev.into(), index, start..end) },
            base: bar.start(),
            prefetchable: bar.is_prefetchable(),
        })
    }

    /// Returns the physical addresses of the memory, and the BAR of the memory.
    pub fn bar_range(&self) -> &BarRange {
        &self.bar_range
    }

    /// Returns whether the BAR is prefetchable: writes may be combined.
    pub fn is_prefetchable(&self) -> bool {
        self.prefetchable
    }

    /// Checks the arguments of [`alloc`](Self::alloc) without an allocation.
    ///
    /// Returns `EINVAL` if `n` is 0, if `align` is not a power of two, or if no address in this
    /// memory is a multiple of `align`.
    pub fn check_alloc(&self, n: usize, align: u64) -> Result {
        let phys = self.bar_range.phys();
        let fits = |at: u64| at < phys.end;
        if n == 0
            || !align.is_power_of_two()
            || align > phys.end - phys.start
            || !(phys.start.checked_next_multiple_of(align)).is_some_and(fits)
        {
            return Err(EINVAL);
        }
        Ok(())
    }

    /// Allocates `n` contiguous pages of this memory, at a physical address that is a multiple of
    /// `align`. The pages are not cleared.
    ///
    /// Returns the errors of [`check_alloc`](Self::check_alloc); `ENOMEM` if no free run is long
    /// enough; and `ENODEV` if the driver has been unbound. Context: may sleep.
    pub fn alloc(&self, n: usize, align: u64) -> Result<Pages> {
        self.check_alloc(n, align)?;
        // CAST: `usize` has 64 bits on architectures with P2PDMA; `PAGE_SIZE` is less than 2^32.
        let align = (align as usize).div_ceil(PAGE_SIZE);
        Pages::alloc(
            &self.function,
            self.member,
            n,
            align,
            self.base,
            self.prefetchable,
        )
    }

    /// Returns the free space of this memory.
    ///
    /// Returns `ENODEV` if the driver has been unbound. Context: may sleep.
    pub fn free_space(&self) -> Result<FreeSpace> {
        self.function.free_space(self.member)
    }
}
