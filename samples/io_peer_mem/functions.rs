// SPDX-License-Identifier: GPL-2.0

//! PCI functions of other drivers with memory that RDMA devices use.
//!
//! When a function changes drivers or is removed, all memory regions on the function are revoked.
//! Memory regions on a function of this driver are also revoked when the function is reset.
//! [`Functions`] is the set of functions, and follows the events of the PCI bus.
//!
//! Locking: below [`Functions::state`] are only the lock of [`Tickets`] and the locks of a look-up
//! on the PCI bus. [`Functions::state`] is not held while a ticket is added or invalidated.

use crate::{
    ext::base::{
        device,
        pci as ext_pci,
        pci_watch::{
            Event,
            Watcher, //
        },
        unmap_watch::Queues, //
    },
    peer_client::{
        Ticket,
        TicketGuard,
        Tickets, //
    },
    prelude::*, //
};
use kernel::{
    macros::kunit_tests,
    pci,
    rbtree::{
        Entry,
        RBTree,
        RBTreeNodeReservation, //
    }, //
};

#[pin_data]
pub(crate) struct Functions {
    #[pin]
    state: Mutex<State>,
    /// The work of the watches of mappings.
    queues: Arc<Queues>,
}

/// Key of a PCI function: the address of its `pci_dev`, unique until [`Event::Deleted`].
type Key = usize;

fn key_of(dev: &pci::Device) -> Key {
    core::ptr::from_ref(dev).addr()
}

/// The data that [`Functions::state`] protects.
struct State {
    /// An event could not be recorded for lack of memory: no function is added any more.
    lost: bool,
    /// Each function that had a memory region or an event. The entry stays until the function is
    /// deleted.
    functions: RBTree<Key, KnownFunction>,
}

/// A function that had a memory region or an event.
struct KnownFunction {
    /// The tickets of the memory regions on the function. Closed while the function changes
    /// drivers.
    tickets: Arc<Tickets>,
    /// The tickets are still closed, because binding a driver has failed. The driver may have
    /// resources until the lock of the device is free.
    not_bound: bool,
}

impl Functions {
    pub(crate) fn new(queues: &Arc<Queues>) -> Result<Arc<Self>> {
        Arc::pin_init(
            pin_init!(Self {
                state <- new_mutex!(State {
                    lost: false,
                    functions: RBTree::new(),
                }, "io_peer_mem::Functions::state"),
                queues: queues.clone(),
            }),
            GFP_KERNEL,
        )
    }

    pub(crate) fn queues(&self) -> &Arc<Queues> {
        &self.queues
    }

    /// Adds `ticket` to the tickets of `dev` until the returned guard is dropped. Returns `ENODEV`
    /// while `dev` changes drivers, and after `dev` was deleted.
    pub(crate) fn add(&self, dev: &pci::Device, ticket: Ticket) -> Result<TicketGuard> {
        // No event would close the tickets of a function that is no longer on the bus. If the
        // function is on the bus now, an event has closed the tickets, or will close or remove the
        // tickets.
        let tickets = self.tickets_of(key_of(dev), || ext_pci::is_on_bus(dev))?;
        self.reopen_if_released(dev);
        Tickets::add(&tickets, ticket)
    }

    /// Allows registrations of memory of `dev` again, if binding a driver has failed and the driver
    /// has no resources any more.
    ///
    /// An event that holds the lock of the device waits for registrations. So this function, which
    /// a registration calls, only tries to take the lock.
    fn reopen_if_released(&self, dev: &pci::Device) {
        let function = key_of(dev);
        if !self.is_not_bound(function) {
            return;
        }
        let Some(_settled) = device::try_lock(dev.as_ref()) else {
            return;
        };
        let mut state = self.state.lock();
        if let Some(found) = state.functions.get_mut(&function) {
            // The deletion of a function resets `not_bound` without the lock of the device.
            if core::mem::take(&mut found.not_bound) {
                found.tickets.reopen();
            }
        }
    }

    /// Returns whether binding a driver to `function` has failed, and no event has come since.
    fn is_not_bound(&self, function: Key) -> bool {
        let state = self.state.lock();
        (state.functions.get(&function)).is_some_and(|found| found.not_bound)
    }

    fn set_not_bound(&self, function: Key, not_bound: bool) {
        let mut state = self.state.lock();
        if let Some(found) = state.functions.get_mut(&function) {
            found.not_bound = not_bound;
        }
    }

    /// Returns the tickets of `function`. Adds `function` to the set if necessary and if `may_add`
    /// returns true. Returns `ENODEV` if `function` is not in the set and cannot be added.
    fn tickets_of(&self, function: Key, may_add: impl FnOnce() -> bool) -> Result<Arc<Tickets>> {
        if let Some(found) = self.state.lock().functions.get(&function) {
            return Ok(found.tickets.clone());
        }
        let node = RBTreeNodeReservation::new(GFP_KERNEL)?;
        let new = Tickets::new()?;
        let mut state = self.state.lock();
        if state.lost {
            return Err(ENODEV);
        }
        let new = KnownFunction {
            tickets: new,
            not_bound: false,
        };
        Ok(match state.functions.entry(function) {
            Entry::Occupied(entry) => entry.get().tickets.clone(),
            Entry::Vacant(entry) if may_add() => entry.insert(new, node).tickets.clone(),
            Entry::Vacant(_) => return Err(ENODEV),
        })
    }

    /// Returns the tickets of the memory regions on mappings of other drivers that contain memory of
    /// `dev`. Returns `ENODEV` if `dev` cannot be added to the set.
    pub(crate) fn tickets(&self, dev: &pci::Device) -> Result<Arc<Tickets>> {
        self.tickets_of(key_of(dev), || true)
    }

    /// Revokes all memory of `dev`, and rejects registrations until [`Functions::reopen`].
    ///
    /// Context: may sleep; waits for registrations of memory regions that are in progress. The caller
    /// holds the lock of `dev`, or `dev` is being deleted.
    pub(crate) fn revoke(&self, dev: &pci::Device) {
        let tickets = match self.tickets(dev) {
            Ok(tickets) => Some(tickets),
            Err(_) => self.reject_new(key_of(dev)),
        };
        if let Some(tickets) = tickets {
            tickets.close_and_invalidate();
        }
    }

    /// An event of `function` cannot be recorded: rejects from now on the registration of memory of
    /// functions that are not in the set. Returns the tickets of `function` if `function` is in the
    /// set by now.
    fn reject_new(&self, function: Key) -> Option<Arc<Tickets>> {
        let mut state = self.state.lock();
        let first = !core::mem::replace(&mut state.lost, true);
        let tickets = state
            .functions
            .get(&function)
            .map(|found| found.tickets.clone());
        drop(state);
        if first {
            pr_err!("out of memory: memory of further PCI functions cannot be registered; reload the module\n");
        }
        tickets
    }

    /// Allows registrations of memory of `dev` again. The caller holds the lock of `dev`.
    pub(crate) fn reopen(&self, dev: &pci::Device) {
        let state = self.state.lock();
        if let Some(found) = state.functions.get(&key_of(dev)) {
            found.tickets.reopen();
        }
    }

    /// Removes the deleted `function`. A task that still has the tickets finds the tickets closed.
    fn remove(&self, function: Key) {
        let node = self.state.lock().functions.remove_node(&function);
        drop(node);
    }
}

impl Watcher for Functions {
    fn event(&self, dev: &pci::Device, event: Event) {
        let function = key_of(dev);
        match event {
            // The old driver is still bound, or the new driver is not bound yet. After the
            // revocation no device accesses the memory.
            Event::Unbinding | Event::Binding | Event::Deleting => {
                self.set_not_bound(function, false);
                self.revoke(dev);
            }
            Event::Unbound | Event::Bound => self.reopen(dev),
            Event::NotBound => self.set_not_bound(function, true),
            Event::Deleted => self.remove(function),
        }
    }
}

#[kunit_tests(io_peer_mem_functions)]
mod tests {
    use super::*;
    use crate::ext::base::unmap_watch::QueuesOwner;

    /// Between the look-up and the ticket it may have been removed.
    #[test]
    fn a_function_that_has_left_the_bus_is_not_added() -> Result {
        let queues = QueuesOwner::new(c"io_peer_mem_test")?;
        let functions = Functions::new(queues.queues())?;
        for (is_on_bus, known) in [(false, false), (true, true), (false, true)] {
            assert_eq!(functions.tickets_of(1, || is_on_bus).is_ok(), known);
        }
        functions.remove(1);
        assert_eq!(functions.tickets_of(1, || false).err(), Some(ENODEV));
        Ok(())
    }
}
