// SPDX-License-Identifier: GPL-2.0

//! The memory: its pages, whom they are lent to, and how they are taken away.

use crate::{
    ext::ram::{
        Pages,
        PagesTable, //
    },
    peer_client::Ticket, //
};
use core::ops::Range;
use kernel::{
    new_condvar,
    new_mutex,
    page::BorrowedPage,
    prelude::*,
    rbtree::{
        RBTree,
        RBTreeNodeReservation, //
    },
    sync::{
        Arc,
        CondVar,
        Mutex, //
    }, //
};

/// Memory that processes can map and register.
///
/// Open files, mappings and memory regions each have a reference.
#[pin_data]
pub(crate) struct Memory {
    /// The pages.
    pages: Arc<Pages>,
    /// Who uses them. Taken by `get_pages`, and whenever what that returned is dropped; so it is
    /// never held when a ticket is used, which waits for the one and does the other.
    #[pin]
    state: Mutex<State>,
    /// Woken when `going` or `lent` has changed.
    #[pin]
    changed: CondVar,
}

/// What [`Memory::state`] protects.
struct State {
    /// The memory is being taken away.
    going: bool,
    /// How many [`Listing`]s there are.
    lent: usize,
    /// The last key that was given out.
    last: u64,
    /// The tickets of those that have not been taken away, each under its listing's key.
    tickets: RBTree<u64, Ticket>,
}

impl Memory {
    /// Memory of `n` pages.
    pub(crate) fn new(n: usize) -> Result<Arc<Self>> {
        let pages = Arc::new(Pages::new(n)?, GFP_KERNEL)?;
        Arc::pin_init(
            pin_init!(Self {
                pages,
                state <- new_mutex!(State {
                    going: false,
                    lent: 0,
                    last: 0,
                    tickets: RBTree::new(),
                }),
                changed <- new_condvar!(),
            }),
            GFP_KERNEL,
        )
    }

    /// How many pages there are.
    pub(crate) fn count(&self) -> usize {
        self.pages.count()
    }

    /// A page, to be mapped for a process.
    pub(crate) fn page(&self, i: usize) -> Option<BorrowedPage<'_>> {
        self.pages.get(i)
    }

    /// A table of some pages, for an adapter.
    pub(crate) fn table(&self, pages: Range<usize>) -> Result<PagesTable> {
        Pages::table(&self.pages, pages)
    }

    /// Keeps `ticket` to be used by [`Memory::take_away`], for as long as the result lives; `ENODEV`
    /// where the memory is just being taken away.
    pub(crate) fn list(this: &Arc<Self>, ticket: Ticket) -> Result<Listing> {
        let node = RBTreeNodeReservation::new(GFP_KERNEL)?;
        let mut state = this.state.lock();
        if state.going {
            return Err(ENODEV);
        }
        state.lent += 1;
        state.last += 1;
        let key = state.last;
        state.tickets.insert(node.into_node(key, ticket));
        drop(state);
        Ok(Listing {
            memory: this.clone(),
            key,
        })
    }

    /// Takes the memory away from all adapters. On return none of them reaches it, and no page is
    /// lent. A driver whose device goes would leave `going` set.
    pub(crate) fn take_away(&self) {
        let mut state = self.state.lock();
        while state.going {
            self.changed.wait(&mut state);
        }
        // No new ones, or this might never end.
        state.going = true;
        while let Some(first) = state.tickets.cursor_front_mut() {
            let (_, node) = first.remove_current();
            drop(state);
            // The region may be gone by now: then this does nothing. Else it stops the adapter and
            // has what `get_pages` returned dropped, in this very task.
            let (_, ticket) = node.to_key_value();
            ticket.invalidate();
            state = self.state.lock();
        }
        // A deregistration that had begun before drops in its own task: the adapter is past using
        // the memory, but we want it back.
        while state.lent > 0 {
            self.changed.wait(&mut state);
        }
        state.going = false;
        drop(state);
        self.changed.notify_all();
    }
}

/// Keeps a ticket with the [`Memory`]; says that some of it is lent.
pub(crate) struct Listing {
    /// The memory.
    memory: Arc<Memory>,
    /// What the ticket is kept under.
    key: u64,
}

impl Drop for Listing {
    // Runs in any task: that of a process which deregisters or dies, one that unregisters the
    // client, one that removes the adapter, or the one that uses the ticket, from inside that call.
    fn drop(&mut self) {
        let mut state = self.memory.state.lock();
        let ticket = state.tickets.remove_node(&self.key);
        state.lent -= 1;
        drop(state);
        drop(ticket);
        self.memory.changed.notify_all();
    }
}
