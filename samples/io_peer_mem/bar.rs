// SPDX-License-Identifier: GPL-2.0

//! A BAR: its allocations and the tickets of its memory regions.
//!
//! Locking: [`Bar::state`] is a leaf. It nests inside the `mmap_lock` (page faults, `mmap`,
//! `munmap`), so the `mmap_lock` is never taken with it held. Pages are dropped and tickets
//! invalidated after it is released.

use crate::{
    ext::{
        chardev::AddressSpace,
        p2pdma::{
            Pages,
            Provider, //
        },
        vma, //
    },
    peer_client::Tickets, //
};
use kernel::{
    new_mutex,
    pci,
    prelude::*,
    rbtree::{
        RBTree,
        RBTreeNodeReservation, //
    },
    sync::{
        aref::ARef,
        Arc,
        Mutex, //
    }, //
};

/// A BAR that processes can map.
///
/// Open files, mappings and memory regions hold a reference, so it may outlive the device. It is
/// dead then and holds no pages.
#[pin_data]
pub(crate) struct Bar {
    /// The PCI function, for log lines.
    dev: ARef<pci::Device>,
    /// The number of the BAR.
    index: u32,
    /// The P2PDMA memory.
    memory: Provider,
    /// The tickets of the memory regions on this BAR.
    tickets: Arc<Tickets>,
    /// The allocations.
    #[pin]
    state: Mutex<State>,
}

/// The data that [`Bar::state`] protects.
struct State {
    /// The device is being removed or gone: `allocate` fails.
    dead: bool,
    /// The last key used.
    last: u64,
    /// The pages of each [`Allocation`], by its key.
    allocations: RBTree<u64, Pages>,
}

impl Bar {
    /// Creates the BAR `index` of `dev`, without allocations.
    ///
    /// Context: may sleep.
    pub(crate) fn new(dev: ARef<pci::Device>, index: u32, memory: Provider) -> Result<Arc<Self>> {
        let tickets = Tickets::new()?;
        Arc::pin_init(
            pin_init!(Self {
                dev,
                index,
                memory,
                tickets,
                state <- new_mutex!(State {
                    dead: false,
                    last: 0,
                    allocations: RBTree::new(),
                }, "io_peer_mem::Bar::state"),
            }),
            GFP_KERNEL,
        )
    }

    /// Returns the PCI function.
    pub(crate) fn dev(&self) -> &ARef<pci::Device> {
        &self.dev
    }

    /// Returns the number of the BAR.
    pub(crate) fn index(&self) -> u32 {
        self.index
    }

    /// Returns the P2PDMA memory.
    pub(crate) fn memory(&self) -> &Provider {
        &self.memory
    }

    /// Returns `ENODEV` if the BAR is dead.
    ///
    /// Context: may sleep.
    pub(crate) fn check_alive(&self) -> Result {
        if self.state.lock().dead {
            return Err(ENODEV);
        }
        Ok(())
    }

    /// Returns the tickets of the memory regions on this BAR.
    pub(crate) fn tickets(&self) -> &Arc<Tickets> {
        &self.tickets
    }

    /// Allocates `n` contiguous pages. Returns `ENOMEM` if the BAR is full, `ENODEV` if it is dead.
    ///
    /// Context: may sleep.
    pub(crate) fn allocate(this: &Arc<Self>, n: usize) -> Result<Allocation> {
        Self::keep(this, || this.memory.alloc(n))
    }

    /// Allocates `n` contiguous pages at a multiple of `align`. Returns `EINVAL` if the BAR has no
    /// such address, otherwise errors as [`Bar::allocate`].
    ///
    /// Context: may sleep.
    pub(crate) fn allocate_aligned(this: &Arc<Self>, n: usize, align: u64) -> Result<Allocation> {
        Self::keep(this, || this.memory.alloc_aligned(n, align))
    }

    /// Keeps the pages that `alloc` returns until the allocation is dropped or the BAR is revoked.
    fn keep(this: &Arc<Self>, alloc: impl FnOnce() -> Result<Pages>) -> Result<Allocation> {
        let node = RBTreeNodeReservation::new(GFP_KERNEL)?;
        let pages = alloc()?;
        let mut state = this.state.lock();
        if state.dead {
            return Err(ENODEV);
        }
        state.last += 1;
        let key = state.last;
        state.allocations.insert(node.into_node(key, pages));
        drop(state);
        Ok(Allocation {
            bar: this.clone(),
            key,
        })
    }

    /// Revokes all memory from RDMA devices and processes. The BAR is dead from then on.
    ///
    /// `space` holds all mappings. Files that are still open can map the device during the call; a
    /// fault in such a mapping finds no pages.
    ///
    /// Context: may sleep; waits for registrations of memory regions that are in progress.
    fn revoke(&self, space: &AddressSpace) {
        self.state.lock().dead = true;
        self.tickets.close_and_invalidate();

        // A fault looks an allocation up and inserts its page with the lock held. So the page is
        // unmapped below, or the fault finds no allocation.
        let allocations = core::mem::take(&mut self.state.lock().allocations);
        space.unmap_all();
        drop(allocations);
    }
}

/// Contiguous pages of a BAR. Drop frees those that no memory region, mapping or I/O holds, and the
/// others follow with their last user.
pub(crate) struct Allocation {
    /// The BAR.
    bar: Arc<Bar>,
    /// The key of the pages in [`State::allocations`].
    key: u64,
}

impl Allocation {
    /// Returns the BAR.
    pub(crate) fn bar(&self) -> &Arc<Bar> {
        &self.bar
    }

    /// Returns the offset of the first page in the BAR, in bytes. Returns `ENODEV` if the BAR is
    /// dead or the pages were freed.
    ///
    /// Context: may sleep.
    pub(crate) fn offset(&self) -> Result<u64> {
        let state = self.bar.state.lock();
        Ok(state.allocations.get(&self.key).ok_or(ENODEV)?.offset())
    }

    /// Frees the pages now. Returns `EBUSY` if a mapping, memory region or I/O uses one, `ENODEV` if
    /// the BAR is dead or the pages were freed before. Accesses to remaining mappings fault.
    ///
    /// Context: may sleep.
    pub(crate) fn free(&self) -> Result {
        let mut state = self.bar.state.lock();
        // Only a fault, which holds the lock, adds the first user of a page: pages that are not in
        // use stay unused until the lock is released.
        if state.allocations.get(&self.key).ok_or(ENODEV)?.in_use() {
            return Err(EBUSY);
        }
        let pages = state.allocations.remove_node(&self.key);
        drop(state);
        drop(pages);
        Ok(())
    }
}

impl vma::Mapping for Allocation {
    fn fault(&self, fault: &vma::Fault<'_>) -> Result {
        let state = self.bar.state.lock();
        let pages = state.allocations.get(&self.key).ok_or(ENODEV)?;
        fault.map(|i| pages.get(i))
    }
}

impl Drop for Allocation {
    fn drop(&mut self) {
        let pages = self.bar.state.lock().allocations.remove_node(&self.key);
        drop(pages);
    }
}

/// Revokes a BAR on drop.
pub(crate) struct Revoke {
    /// The BAR.
    bar: Arc<Bar>,
    /// The address space of all its mappings.
    space: AddressSpace,
}

impl Revoke {
    /// Creates an object that revokes `bar`, whose mappings are in `space`, when it is dropped.
    pub(crate) fn new(bar: Arc<Bar>, space: AddressSpace) -> Self {
        Self { bar, space }
    }
}

impl Drop for Revoke {
    fn drop(&mut self) {
        self.bar.revoke(&self.space);
    }
}
