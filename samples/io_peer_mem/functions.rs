// SPDX-License-Identifier: GPL-2.0

//! The functions whose memory adapters use though their drivers know nothing of it, and what is
//! taken back when such a function changes hands.
//!
//! Locking: [`Functions::state`] is a leaf. Tickets are used after it has been released, as that
//! drops memory, which takes it.

use crate::{
    ext::pci_watch::{
        Event,
        Watcher, //
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
        Arc,
        Mutex, //
    }, //
};

/// The functions.
#[pin_data]
pub(crate) struct Functions {
    /// What changes.
    #[pin]
    state: Mutex<State>,
}

/// What a function is known by, here: its address in the kernel. It is nobody else's before
/// [`Event::Deleted`].
type Key = usize;

/// The key of `dev`.
fn key_of(dev: &pci::Device) -> Key {
    core::ptr::from_ref(dev).addr()
}

/// What [`Functions::state`] protects.
struct State {
    /// Functions that change hands: nothing is given out.
    closed: KVec<Key>,
    /// There was no memory to note such a function: nothing is given out at all any more.
    lost: bool,
    /// The last number that was given to a ticket.
    last: u64,
    /// The tickets of each function.
    tickets: RBTree<(Key, u64), Ticket>,
}

impl Functions {
    /// Functions that nobody uses.
    pub(crate) fn new() -> Result<Arc<Self>> {
        Arc::pin_init(
            pin_init!(Self {
                state <- new_mutex!(State {
                    closed: KVec::new(),
                    lost: false,
                    last: 0,
                    tickets: RBTree::new(),
                }, "io_peer_mem::Functions::state"),
            }),
            GFP_KERNEL,
        )
    }

    /// Keeps `ticket` to be used when `dev` changes hands, for as long as the result lives;
    /// `ENODEV` where it is doing that now.
    ///
    /// Context: may sleep.
    pub(crate) fn list(this: &Arc<Self>, dev: &pci::Device, ticket: Ticket) -> Result<Listing> {
        let node = RBTreeNodeReservation::new(GFP_KERNEL)?;
        let function = key_of(dev);
        let mut state = this.state.lock();
        if state.lost || state.closed.contains(&function) {
            return Err(ENODEV);
        }
        state.last += 1;
        let key = (function, state.last);
        state.tickets.insert(node.into_node(key, ticket));
        drop(state);
        Ok(Listing {
            functions: this.clone(),
            key,
        })
    }

    /// Nothing of the function is given out any more.
    fn close(&self, function: Key) {
        let mut state = self.state.lock();
        if !state.closed.contains(&function) && state.closed.push(function, GFP_KERNEL).is_err() {
            state.lost = true;
            drop(state);
            pr_err!("out of memory: no memory of other drivers is registered any more\n");
        }
    }

    /// Memory of the function may be given out again.
    fn open(&self, function: Key) {
        self.state
            .lock()
            .closed
            .retain(|&mut other| other != function);
    }

    /// Takes all memory of the function back from adapters. To be closed before.
    ///
    /// Context: may sleep; waits for registrations of memory regions that are under way.
    fn revoke(&self, function: Key) {
        loop {
            let mut state = self.state.lock();
            let Some(next) = state.tickets.cursor_lower_bound_mut(&(function, 0)) else {
                return;
            };
            if next.current().0 .0 != function {
                return;
            }
            let (_, node) = next.remove_current();
            drop(state);
            let (_, ticket) = node.to_key_value();
            ticket.invalidate();
        }
    }
}

impl Watcher for Functions {
    fn event(&self, dev: &pci::Device, event: Event) {
        let function = key_of(dev);
        match event {
            // The driver is still there, or not yet: after this nobody uses what is its.
            Event::Unbinding | Event::Binding | Event::Deleting => {
                self.close(function);
                self.revoke(function);
            }
            Event::Unbound | Event::Settled | Event::Deleted => self.open(function),
        }
    }
}

/// A ticket that is kept by [`Functions`].
pub(crate) struct Listing {
    /// Who keeps it.
    functions: Arc<Functions>,
    /// What it is kept under.
    key: (Key, u64),
}

impl Drop for Listing {
    fn drop(&mut self) {
        let ticket = self.functions.state.lock().tickets.remove_node(&self.key);
        drop(ticket);
    }
}
