// SPDX-License-Identifier: GPL-2.0

//! A BAR: the ranges that are mapped, and the registrations that adapters use.
//!
//! Locking: [`Bar::state`] is a leaf. It nests inside the `mmap_lock` (faults, `mmap`, `munmap`), so
//! nothing that takes that is called with it held, nor is anything that calls back: pages are
//! dropped and tickets used after it has been released.

use crate::{
    ext::{
        chardev::AddressSpace,
        p2pdma::{
            Pages,
            Provider, //
        },
        pci::Window,
        vma, //
    },
    peer_client::Ticket, //
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

/// A BAR that people can map.
///
/// Open files, mappings and memory regions keep the object after the device is gone. It is dead
/// then, and holds no page.
#[pin_data]
pub(crate) struct Bar {
    /// The function it belongs to; for messages.
    pub(crate) dev: ARef<pci::Device>,
    /// Its number.
    pub(crate) index: u32,
    /// The memory.
    pub(crate) memory: Provider,
    /// What changes.
    #[pin]
    state: Mutex<State>,
}

/// What [`Bar::state`] protects.
struct State {
    /// The device is going or gone: nothing is added to the two trees any more.
    dead: bool,
    /// The last key that was given out, for both trees.
    last: u64,
    /// The pages of each [`Range`] that is mapped.
    ranges: RBTree<u64, Pages>,
    /// The ticket of each [`Listing`].
    tickets: RBTree<u64, Ticket>,
}

impl State {
    /// A key that is not in use; `ENODEV` where the BAR is dead.
    fn key(&mut self) -> Result<u64> {
        if self.dead {
            return Err(ENODEV);
        }
        self.last += 1;
        Ok(self.last)
    }
}

impl Bar {
    /// The BAR `index` of `dev`, with nothing mapped.
    pub(crate) fn new(dev: ARef<pci::Device>, index: u32, memory: Provider) -> Result<Arc<Self>> {
        Arc::pin_init(
            pin_init!(Self {
                dev,
                index,
                memory,
                state <- new_mutex!(State {
                    dead: false,
                    last: 0,
                    ranges: RBTree::new(),
                    tickets: RBTree::new(),
                }, "io_peer_mem::Bar::state"),
            }),
            GFP_KERNEL,
        )
    }

    /// The BAR, without what is ours in it.
    pub(crate) fn window(&self) -> Window {
        Window {
            dev: self.dev.clone(),
            index: self.index,
            phys: self.memory.phys(),
        }
    }

    /// Allocates `n` pages; `ENOMEM` where there is no room, `ENODEV` where the BAR is dead.
    ///
    /// Context: may sleep.
    pub(crate) fn allocate(this: &Arc<Self>, n: usize) -> Result<Range> {
        Self::keep(this, || this.memory.alloc(n))
    }

    /// The same, at an address that is a multiple of `align`; `EINVAL` where there is none.
    ///
    /// Context: may sleep.
    pub(crate) fn allocate_aligned(this: &Arc<Self>, n: usize, align: u64) -> Result<Range> {
        Self::keep(this, || this.memory.alloc_aligned(n, align))
    }

    /// Keeps the pages that `alloc` takes, until the range is dropped or the device goes.
    fn keep(this: &Arc<Self>, alloc: impl FnOnce() -> Result<Pages>) -> Result<Range> {
        let node = RBTreeNodeReservation::new(GFP_KERNEL)?;
        let pages = alloc()?;
        let mut state = this.state.lock();
        let key = state.key()?;
        state.ranges.insert(node.into_node(key, pages));
        drop(state);
        Ok(Range {
            bar: this.clone(),
            key,
        })
    }

    /// Keeps `ticket` to be used when the device goes, for as long as the result lives; `ENODEV`
    /// where the BAR is dead.
    ///
    /// Context: may sleep.
    pub(crate) fn list(this: &Arc<Self>, ticket: Ticket) -> Result<Listing> {
        let node = RBTreeNodeReservation::new(GFP_KERNEL)?;
        let mut state = this.state.lock();
        let key = state.key()?;
        state.tickets.insert(node.into_node(key, ticket));
        drop(state);
        Ok(Listing {
            bar: this.clone(),
            key,
        })
    }

    /// Takes all memory back, from adapters and from processes. Nothing is handed out any more.
    ///
    /// `space` is where the mappings are. No new mapping may be made during the call.
    ///
    /// Context: may sleep; waits for registrations of memory regions that are under way.
    fn revoke(&self, space: &AddressSpace) {
        // From here on no ticket is added: a registration that has got past this is in the list.
        self.state.lock().dead = true;

        loop {
            let mut state = self.state.lock();
            let Some(first) = state.tickets.cursor_front_mut() else {
                break;
            };
            let (_, node) = first.remove_current();
            drop(state);
            let (_, ticket) = node.to_key_value();
            ticket.invalidate();
        }

        // A fault looks here, and inserts with the lock held: so either its page is unmapped below,
        // or it finds nothing.
        let ranges = core::mem::take(&mut self.state.lock().ranges);
        space.unmap_all();
        drop(ranges);
    }
}

/// Pages of a BAR that were allocated at once. When it is dropped, those that no memory
/// region holds are free.
pub(crate) struct Range {
    /// The BAR it is in.
    bar: Arc<Bar>,
    /// What its pages are kept under.
    key: u64,
}

impl Range {
    /// The BAR it is in.
    pub(crate) fn bar(&self) -> &Arc<Bar> {
        &self.bar
    }

    /// Where in the BAR it starts, in bytes; `ENODEV` where the BAR is dead.
    ///
    /// Context: may sleep.
    pub(crate) fn offset(&self) -> Result<u64> {
        let state = self.bar.state.lock();
        Ok(state.ranges.get(&self.key).ok_or(ENODEV)?.offset())
    }

    /// Gives the pages back now; `EBUSY` where somebody has one, `ENODEV` where the BAR is dead or
    /// they have been given back before. Mappings that are left find nothing.
    ///
    /// Context: may sleep.
    pub(crate) fn free(&self) -> Result {
        let mut state = self.bar.state.lock();
        // Page tables get pages with the lock held, and all else gets them from page tables: what
        // is not in use stays so.
        if state.ranges.get(&self.key).ok_or(ENODEV)?.in_use() {
            return Err(EBUSY);
        }
        let pages = state.ranges.remove_node(&self.key);
        drop(state);
        drop(pages);
        Ok(())
    }
}

impl vma::Mapping for Range {
    fn fault(&self, fault: &vma::Fault<'_>) -> Result {
        let state = self.bar.state.lock();
        let pages = state.ranges.get(&self.key).ok_or(ENODEV)?;
        fault.map(|i| pages.get(i))
    }
}

impl Drop for Range {
    fn drop(&mut self) {
        let pages = self.bar.state.lock().ranges.remove_node(&self.key);
        drop(pages);
    }
}

/// A ticket that is kept by a [`Bar`].
pub(crate) struct Listing {
    /// The BAR that keeps it.
    bar: Arc<Bar>,
    /// What it is kept under.
    key: u64,
}

impl Drop for Listing {
    fn drop(&mut self) {
        let ticket = self.bar.state.lock().tickets.remove_node(&self.key);
        drop(ticket);
    }
}

/// Revokes a BAR when it is dropped.
pub(crate) struct Revoke {
    /// The BAR.
    pub(crate) bar: Arc<Bar>,
    /// Where its mappings are.
    pub(crate) space: AddressSpace,
}

impl Drop for Revoke {
    fn drop(&mut self) {
        self.bar.revoke(&self.space);
    }
}
