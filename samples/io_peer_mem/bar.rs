// SPDX-License-Identifier: GPL-2.0

//! A BAR: its allocations and the tickets of its memory regions.
//!
//! [`Bar`] is the memory of one BAR, and [`Allocation`] a part of a BAR that a file or a mapping
//! uses. [`Revoke`] revokes a BAR before a reset of the device, and on drop.
//!
//! Locking: [`Bar::state`] and [`AllocatedPages::pages`] are leaves. Both locks nest inside the
//! `mmap_lock` (page faults, `mmap`, `munmap`), so the `mmap_lock` is never taken with either lock
//! held. Pages are dropped and tickets invalidated after both locks are released.

use crate::{
    ext::{
        base::{
            chardev::AddressSpace,
            vma, //
        },
        p2pdma::{
            quota::Quota,
            PageRefs,
            Pages,
            Provider, //
        }, //
    },
    options,
    peer_client::Tickets,
    prelude::*,
    zero::Policy, //
};
use kernel::{
    pci,
    rbtree::{
        RBTree,
        RBTreeNodeReservation, //
    }, //
};

/// A BAR that processes can map.
///
/// Open files, mappings and memory regions hold a reference, so a `Bar` may outlive the device.
/// Then the BAR is dead, and holds no pages.
#[pin_data]
pub(crate) struct Bar {
    dev: ARef<pci::Device>,
    index: u32,
    memory: Provider,
    zero: Policy,
    /// How much of the memory each user has.
    quota: Arc<Quota>,
    tickets: Arc<Tickets>,
    #[pin]
    state: Mutex<State>,
}

/// The data that [`Bar::state`] protects.
struct State {
    /// The device is being removed, reset or gone: `allocate` fails.
    dead: bool,
    revocations: u64,
    last: u64,
    /// The memory of each [`Allocation`], by its key.
    allocations: RBTree<u64, Arc<AllocatedPages>>,
}

#[pin_data]
struct AllocatedPages {
    #[pin]
    pages: Mutex<PageSlot>,
}

/// Pages, until the pages are freed.
struct PageSlot {
    /// The BAR is dead: nothing may begin to use the pages.
    revoked: bool,
    pages: Option<Arc<Pages>>,
}

impl PageSlot {
    /// Returns the pages, or `ENODEV` if the BAR is dead or the pages were freed.
    fn get(&self) -> Result<&Arc<Pages>> {
        self.pages.as_ref().filter(|_| !self.revoked).ok_or(ENODEV)
    }
}

impl AllocatedPages {
    /// Frees the pages that nothing uses. The last user of each other page frees the page.
    fn free(&self) {
        let pages = self.pages.lock().pages.take();
        drop(pages);
    }
}

impl Bar {
    pub(crate) fn new(
        dev: ARef<pci::Device>,
        index: u32,
        memory: Provider,
        zero: Policy,
    ) -> Result<Arc<Self>> {
        let tickets = Tickets::new()?;
        let quota = Quota::new()?;
        Arc::pin_init(
            pin_init!(Self {
                dev,
                index,
                memory,
                zero,
                quota,
                tickets,
                state <- new_mutex!(State {
                    dead: false,
                    revocations: 0,
                    last: 0,
                    allocations: RBTree::new(),
                }, "io_peer_mem::Bar::state"),
            }),
            GFP_KERNEL,
        )
    }

    pub(crate) fn dev(&self) -> &ARef<pci::Device> {
        &self.dev
    }

    pub(crate) fn index(&self) -> u32 {
        self.index
    }

    pub(crate) fn memory(&self) -> &Provider {
        &self.memory
    }

    pub(crate) fn check_alive(&self) -> Result {
        if self.state.lock().dead {
            return Err(ENODEV);
        }
        Ok(())
    }

    pub(crate) fn tickets(&self) -> &Arc<Tickets> {
        &self.tickets
    }

    /// Allocates `n` contiguous pages at an address in the BAR that is a multiple of `align`. The
    /// pages are kept until the allocation is dropped or the BAR is revoked.
    ///
    /// The pages are cleared if `clear` is set, or if the policy of the BAR is not
    /// [`Policy::Never`].
    ///
    /// Returns `ENOMEM` if the BAR is full, `EDQUOT` if the user would have more than the quota,
    /// `EINVAL` if no address in the BAR has the alignment, `ENODEV` if the BAR is dead, `EINTR` if
    /// the process is being killed.
    ///
    /// Context: process context; may sleep.
    pub(crate) fn allocate(
        this: &Arc<Self>,
        n: usize,
        align: u64,
        clear: bool,
    ) -> Result<Allocation> {
        // Invalid arguments have precedence over a dead BAR and an exhausted quota.
        this.memory.check_alloc(n, align)?;
        let node = RBTreeNodeReservation::new(GFP_KERNEL_ACCOUNT)?;
        let revocations = {
            let state = this.state.lock();
            if state.dead {
                return Err(ENODEV);
            }
            state.revocations
        };
        // CAST: `usize` has 64 bits on architectures with P2PDMA.
        let bytes = n.checked_mul(PAGE_SIZE).ok_or(ENOMEM)? as u64;
        let charge = Quota::charge(&this.quota, bytes, options::quota())?;
        let mut pages = this.memory.alloc(n, align).or_else(|e| {
            // While a device is being removed, free memory may seem to be in use.
            if e == ENOMEM {
                this.check_alive()?;
            }
            Err(e)
        })?;
        pages.set_charge(charge);
        if clear || this.zero != Policy::Never {
            pages.clear()?;
        }
        if this.zero == Policy::OnFree {
            pages.clear_on_drop();
        }
        let pages = Arc::new(pages, GFP_KERNEL_ACCOUNT)?;
        let memory = Arc::pin_init(
            pin_init!(AllocatedPages {
                pages <- new_mutex!(PageSlot {
                    revoked: false,
                    pages: Some(pages),
                }, "io_peer_mem::AllocatedPages::pages"),
            }),
            GFP_KERNEL_ACCOUNT,
        )?;
        let mut state = this.state.lock();
        // Pages that were allocated before a revocation may be uncleared.
        if state.dead || state.revocations != revocations {
            drop(state);
            return Err(ENODEV);
        }
        state.last += 1;
        let key = state.last;
        state
            .allocations
            .insert(node.into_node(key, memory.clone()));
        drop(state);
        Ok(Allocation {
            bar: this.clone(),
            key,
            memory,
        })
    }
}

/// Contiguous pages of a BAR. Drop frees the pages that no memory region, mapping or I/O holds. The
/// last user of each other page frees the page.
pub(crate) struct Allocation {
    bar: Arc<Bar>,
    key: u64,
    memory: Arc<AllocatedPages>,
}

impl Allocation {
    pub(crate) fn bar(&self) -> &Arc<Bar> {
        &self.bar
    }

    /// Adds the pages with the numbers `range` to `pinned`: the pages are in use as long as
    /// `pinned` exists. Returns `ENODEV` if the BAR is dead or the pages were freed, and `EINVAL` if the
    /// allocation does not have the whole range.
    pub(crate) fn pin(&self, pinned: &mut PageRefs, range: Range<usize>) -> Result {
        let pages = self.memory.pages.lock();
        pinned.push(pages.get()?, range)
    }

    /// Calls `f` with the pages. Returns `ENODEV` if the BAR is dead or the pages were freed.
    pub(crate) fn with_pages<T>(&self, f: impl FnOnce(&Pages) -> Result<T>) -> Result<T> {
        let pages = self.memory.pages.lock();
        f(pages.get()?)
    }

    /// Returns the offset of the first page in the BAR, in bytes. Returns `ENODEV` if the BAR is
    /// dead or the pages were freed.
    pub(crate) fn offset(&self) -> Result<u64> {
        let pages = self.memory.pages.lock();
        Ok(pages.get()?.offset())
    }

    /// Frees the pages now. Accesses to remaining mappings fault. Returns `EBUSY` if a mapping,
    /// memory region or I/O uses a page, `ENODEV` if the BAR is dead or the pages were freed
    /// before.
    pub(crate) fn free(&self) -> Result {
        let mut pages = self.memory.pages.lock();
        // Only a fault or a new memory region adds the first user of a page, and both hold the
        // lock. So unused pages stay unused until the lock is released.
        if pages.get()?.in_use() {
            return Err(EBUSY);
        }
        let freed = pages.pages.take();
        drop(pages);
        drop(freed);
        Ok(())
    }
}

impl vma::Mapping for Allocation {
    fn fault(&self, fault: &vma::Fault<'_>) -> Result {
        let pages = self.memory.pages.lock();
        let pages = pages.get()?;
        fault.map(|i| pages.get(i))
    }
}

impl Drop for Allocation {
    fn drop(&mut self) {
        let node = self.bar.state.lock().allocations.remove_node(&self.key);
        drop(node);
        self.memory.free();
    }
}

/// Revokes a BAR on drop.
pub(crate) struct Revoke {
    bar: Arc<Bar>,
    space: AddressSpace,
}

impl Revoke {
    pub(crate) fn new(bar: Arc<Bar>, space: AddressSpace) -> Self {
        Self { bar, space }
    }

    pub(crate) fn tickets(&self) -> &Arc<Tickets> {
        self.bar.tickets()
    }

    /// Revokes all memory from RDMA devices and processes. The BAR is dead from then on, until
    /// [`Revoke::undo`].
    ///
    /// Files that are still open can map the device during the call; a fault in such a mapping finds
    /// no pages.
    ///
    /// Context: may sleep; waits for registrations of memory regions that are in progress.
    pub(crate) fn now(&self) {
        {
            let mut state = self.bar.state.lock();
            state.dead = true;
            state.revocations += 1;
        }
        self.bar.tickets.close_and_invalidate();

        // A fault looks up and inserts a page with the lock of the allocation held. So either the
        // page is unmapped below, or the fault finds no pages. The pages stay until the unmapping.
        let allocations = core::mem::take(&mut self.bar.state.lock().allocations);
        for memory in allocations.values() {
            memory.pages.lock().revoked = true;
        }
        self.space.unmap_all();
        for memory in allocations.values() {
            memory.free();
        }
    }

    /// Allows allocations again, after the device was reset.
    pub(crate) fn undo(&self) {
        self.bar.tickets.reopen();
        self.bar.state.lock().dead = false;
    }
}

impl Drop for Revoke {
    fn drop(&mut self) {
        self.now();
    }
}
