// SPDX-License-Identifier: GPL-2.0

//! PCI functions of other drivers whose memory RDMA devices use. Their memory regions are revoked
//! when the function changes drivers or is removed.
//!
//! Locking: [`Functions::state`] is a leaf. It is not held while a ticket is added or invalidated.

use crate::{
    ext::pci_watch::{
        Event,
        Watcher, //
    },
    peer_client::{
        Ticket,
        TicketGuard,
        Tickets, //
    }, //
};
use kernel::{
    new_mutex,
    pci,
    prelude::*,
    rbtree::{
        Entry,
        RBTree,
        RBTreeNodeReservation, //
    },
    sync::{
        Arc,
        Mutex, //
    }, //
};

/// The functions.
#[pin_data]
pub(crate) struct Functions {
    /// The tickets of all functions.
    #[pin]
    state: Mutex<State>,
}

/// Key of a PCI function: the address of its `pci_dev`, unique until [`Event::Deleted`].
type Key = usize;

/// Returns the key of `dev`.
fn key_of(dev: &pci::Device) -> Key {
    core::ptr::from_ref(dev).addr()
}

/// The data that [`Functions::state`] protects.
struct State {
    /// An event could not be recorded for lack of memory: no function is added any more.
    lost: bool,
    /// The tickets of each function that had a memory region or an event. A function stays until it
    /// is deleted. Its tickets are closed while it changes drivers.
    tickets: RBTree<Key, Arc<Tickets>>,
}

impl Functions {
    /// Creates an empty set.
    ///
    /// Context: may sleep.
    pub(crate) fn new() -> Result<Arc<Self>> {
        Arc::pin_init(
            pin_init!(Self {
                state <- new_mutex!(State {
                    lost: false,
                    tickets: RBTree::new(),
                }, "io_peer_mem::Functions::state"),
            }),
            GFP_KERNEL,
        )
    }

    /// Adds `ticket` to those of `dev` until the returned guard is dropped. Returns `ENODEV` while
    /// `dev` changes drivers.
    ///
    /// Context: may sleep.
    pub(crate) fn add(&self, dev: &pci::Device, ticket: Ticket) -> Result<TicketGuard> {
        Tickets::add(&self.tickets_of(key_of(dev))?, ticket)
    }

    /// Returns the tickets of `function`. Returns `ENODEV` if all registrations are refused.
    ///
    /// Context: may sleep.
    fn tickets_of(&self, function: Key) -> Result<Arc<Tickets>> {
        if let Some(tickets) = self.state.lock().tickets.get(&function) {
            return Ok(tickets.clone());
        }
        let node = RBTreeNodeReservation::new(GFP_KERNEL)?;
        let new = Tickets::new()?;
        let mut state = self.state.lock();
        if state.lost {
            return Err(ENODEV);
        }
        Ok(match state.tickets.entry(function) {
            Entry::Occupied(entry) => entry.get().clone(),
            Entry::Vacant(entry) => entry.insert(new, node).clone(),
        })
    }

    /// Revokes all memory of `function`, and refuses registrations until [`Functions::reopen`].
    ///
    /// Context: may sleep; waits for registrations of memory regions that are in progress.
    fn revoke(&self, function: Key) {
        let tickets = match self.tickets_of(function) {
            Ok(tickets) => Some(tickets),
            Err(_) => self.refuse_new(function),
        };
        if let Some(tickets) = tickets {
            tickets.close_and_invalidate();
        }
    }

    /// Refuses the registration of memory of functions that are not in the set, as an event of
    /// `function` cannot be recorded. Returns the tickets of `function` if it is in the set by now.
    fn refuse_new(&self, function: Key) -> Option<Arc<Tickets>> {
        let mut state = self.state.lock();
        let first = !core::mem::replace(&mut state.lost, true);
        let tickets = state.tickets.get(&function).cloned();
        drop(state);
        if first {
            pr_err!("out of memory: memory of further PCI functions cannot be registered; reload the module\n");
        }
        tickets
    }

    /// Allows registrations of memory of `function` again.
    ///
    /// Context: may sleep.
    fn reopen(&self, function: Key) {
        let tickets = self.state.lock().tickets.get(&function).cloned();
        if let Some(tickets) = tickets {
            tickets.reopen();
        }
    }

    /// Removes `function`, which is deleted. A task that still has its tickets finds them closed.
    ///
    /// Context: may sleep.
    fn remove(&self, function: Key) {
        let node = self.state.lock().tickets.remove_node(&function);
        drop(node);
    }
}

impl Watcher for Functions {
    fn event(&self, dev: &pci::Device, event: Event) {
        let function = key_of(dev);
        match event {
            // The old driver is still bound, or the new one not yet. After this no device accesses
            // the memory.
            Event::Unbinding | Event::Binding | Event::Deleting => self.revoke(function),
            Event::Unbound | Event::Settled => self.reopen(function),
            Event::Deleted => self.remove(function),
        }
    }
}
