// SPDX-License-Identifier: GPL-2.0

//! List of the tickets of all regions on one piece of memory, to revoke all regions together.
//!
//! The main type is [`Tickets`]. Used by clients that revoke memory.
//!
//! Locking: `Tickets::state` is a leaf. No task holds the lock while a ticket is invalidated or
//! dropped.

use super::Ticket;
use crate::shared::prelude::*;

/// The tickets of all regions on one piece of memory: a buffer, a BAR, a device.
///
/// A client calls [`Tickets::add`] in [`Client::get_pages`](super::Client::get_pages) *before* it
/// pins pages, and keeps the [`TicketGuard`] in its [`Memory`](super::Memory). A concurrent
/// [`Tickets::close_and_invalidate`] then either makes `add` fail, or finds the ticket and waits for
/// the registration.
///
/// `samples/rust_client/memory.rs` is an example.
/// To move memory, a client calls [`Tickets::close_and_invalidate`], [`Tickets::wait_empty`] and, when it has
/// moved the memory, [`Tickets::reopen`].
#[pin_data]
pub struct Tickets {
    #[pin]
    state: Mutex<State>,
    /// Signals that `State::guards` has become 0.
    #[pin]
    empty: CondVar,
}

struct State {
    /// `add` fails.
    closed: bool,
    /// `add` fails, and the tickets stay.
    draining: bool,
    guards: usize,
    /// By the key of the guard. Does not shrink, so that most additions need no memory.
    places: KVVec<Place>,
    free: Option<usize>,
}

enum Place {
    Ticket(Ticket),
    /// The ticket of the guard is being invalidated.
    Invalidated,
    /// No guard has the place. Has the next free place.
    Free(Option<usize>),
}

impl Tickets {
    /// Creates an empty, open list. Context: may sleep.
    pub fn new() -> Result<Arc<Self>> {
        Arc::pin_init(
            pin_init!(Self {
                state <- new_mutex!(State {
                    closed: false,
                    draining: false,
                    guards: 0,
                    places: KVVec::new(),
                    free: None,
                }, "peer_client::Tickets::state"),
                empty <- new_condvar!("peer_client::Tickets::empty"),
            }),
            GFP_KERNEL,
        )
    }

    /// Adds `ticket` until the returned guard is dropped. Returns `ENODEV` if the list is closed, and
    /// `EBUSY` if the list is being drained. Context: may sleep.
    pub fn add(this: &Arc<Self>, ticket: Ticket) -> Result<TicketGuard> {
        let mut state = this.state.lock();
        if state.closed {
            return Err(ENODEV);
        }
        if state.draining {
            return Err(EBUSY);
        }
        let key = state.free.unwrap_or(state.places.len());
        if state.free.is_none() {
            state.places.push(Place::Free(None), GFP_KERNEL_ACCOUNT)?;
        }
        if let Place::Free(next) = mem::replace(&mut state.places[key], Place::Ticket(ticket)) {
            state.free = next;
        }
        state.guards += 1;
        drop(state);
        Ok(TicketGuard {
            tickets: this.clone(),
            key,
        })
    }

    /// Makes [`Tickets::add`] fail from now on, and invalidates all tickets. On return no device
    /// accesses the memory. The guard of a region whose deregistration is in progress may still
    /// exist; see [`Tickets::wait_empty`].
    ///
    /// A process can add a fence to exported memory. For such fences the call waits 30 s at most,
    /// for all tickets together. Context: as for [`Ticket::invalidate`].
    pub fn close_and_invalidate(&self) {
        // No ticket is added from here on.
        self.state.lock().closed = true;
        for key in 0.. {
            let mut state = self.state.lock();
            let Some(place) = state.places.get_mut(key) else {
                return;
            };
            if matches!(place, Place::Ticket(_)) {
                let taken = mem::replace(place, Place::Invalidated);
                drop(state);
                if let Place::Ticket(ticket) = taken {
                    ticket.invalidate();
                }
            }
        }
    }

    /// Sets whether [`Tickets::add`] fails with `EBUSY`. The tickets that the list has stay valid.
    /// Context: may sleep.
    pub fn set_draining(&self, draining: bool) {
        self.state.lock().draining = draining;
    }

    /// Returns the number of [`TicketGuard`]s: the regions on the memory. Only the number of a list
    /// that is being drained is certain not to grow. Context: may sleep.
    pub fn count(&self) -> usize {
        self.state.lock().guards
    }

    /// Makes [`Tickets::add`] succeed again after [`Tickets::close_and_invalidate`]. Context: may
    /// sleep.
    pub fn reopen(&self) {
        self.state.lock().closed = false;
    }

    /// Waits until no [`TicketGuard`] exists. Only a closed list is certain to become empty.
    /// Context: may sleep. Must be called without a lock that dropping a [`Memory`](super::Memory)
    /// takes.
    pub fn wait_empty(&self) {
        let mut state = self.state.lock();
        while state.guards > 0 {
            self.empty.wait(&mut state);
        }
    }
}

/// Keeps a ticket in its [`Tickets`]. Drop removes the ticket.
///
/// Usually a field of the client's [`Memory`](super::Memory), declared after the pages: when
/// [`Tickets::wait_empty`] returns, the pages are released as well. May be dropped in any task, also
/// within [`Ticket::invalidate`] of the same ticket.
#[must_use = "the ticket is removed when the guard is dropped"]
pub struct TicketGuard {
    tickets: Arc<Tickets>,
    key: usize,
}

impl Drop for TicketGuard {
    fn drop(&mut self) {
        let mut state = self.tickets.state.lock();
        let free = Place::Free(state.free.replace(self.key));
        let ticket = mem::replace(&mut state.places[self.key], free);
        state.guards -= 1;
        let is_last = state.guards == 0;
        drop(state);
        drop(ticket);
        if is_last {
            self.tickets.empty.notify_all();
        }
    }
}

#[cfg(ext_tests)]
#[kernel::macros::kunit_tests(peer_client_tickets)]
mod tests {
    use super::super::ticket::{
        Handle,
        Link, //
    };
    use super::*;
    use kernel::workqueue;

    /// Stands for the peer memory core: invalidation runs `on_invalidate`.
    #[pin_data]
    struct FakeCore {
        /// The invalidated regions, in order.
        #[pin]
        log: Mutex<KVec<u64>>,
        /// The guards of live regions, as the core holds them in the client's `Memory`.
        #[pin]
        live: Mutex<KVec<(u64, TicketGuard)>>,
        on_invalidate: fn(&FakeCore, u64),
        tickets: Arc<Tickets>,
    }

    impl FakeCore {
        fn new(on_invalidate: fn(&FakeCore, u64)) -> Result<Arc<Self>> {
            let tickets = Tickets::new()?;
            Arc::pin_init(
                pin_init!(Self {
                    log <- new_mutex!(KVec::new()),
                    live <- new_mutex!(KVec::new()),
                    on_invalidate,
                    tickets,
                }),
                GFP_KERNEL,
            )
        }

        /// Returns the ticket of region `core_context`. The core must outlive it.
        fn ticket(&self, core_context: u64) -> Result<Ticket> {
            let link = Link::new()?;
            let handle = Handle(NonNull::from(self).cast());
            link.registered(Some(handle), Some(Self::invalidate));
            Ok(Ticket::new(link, core_context))
        }

        /// Adds the ticket of region `core_context` to the list under test.
        fn add(&self, core_context: u64) -> Result<TicketGuard> {
            Tickets::add(&self.tickets, self.ticket(core_context)?)
        }

        fn register(&self, core_context: u64) -> Result {
            let guard = self.add(core_context)?;
            Ok(self.live.lock().push((core_context, guard), GFP_KERNEL)?)
        }

        fn put(&self, core_context: u64) {
            let mut live = self.live.lock();
            let i = live.iter().position(|(region, _)| *region == core_context);
            let guard = i.and_then(|i| live.remove(i).ok());
            drop(live);
            drop(guard);
        }

        /// Returns whether exactly `regions` were invalidated, in this order.
        fn invalidated(&self, regions: &[u64]) -> bool {
            self.log.lock()[..] == *regions
        }

        /// The invalidate function of the fake core.
        ///
        /// # Safety
        ///
        /// `handle` must be a [`FakeCore`] that is valid during the call.
        unsafe extern "C" fn invalidate(handle: *mut c_void, core_context: u64) -> c_int {
            // SAFETY: By the safety requirements `handle` is a valid `FakeCore`.
            let this = unsafe { &*handle.cast_const().cast::<Self>() };
            let logged = this.log.lock().push(core_context, GFP_KERNEL);
            (this.on_invalidate)(this, core_context);
            logged.map_or(ENOMEM.to_errno(), |()| 0)
        }
    }

    /// Each ticket is invalidated once. The guard is dropped within its own invalidation.
    #[test]
    fn invalidates_each_ticket_once() -> Result {
        let core = FakeCore::new(FakeCore::put)?;
        for region in 1..=3 {
            core.register(region)?;
        }
        core.put(2);
        core.tickets.close_and_invalidate();
        core.tickets.wait_empty();
        core.tickets.close_and_invalidate();
        assert!(core.invalidated(&[1, 3]));
        assert!(core.live.lock().is_empty());
        Ok(())
    }

    /// A closed list accepts no ticket, also during the invalidation, which holds no lock.
    #[test]
    fn closed_list_rejects_tickets() -> Result {
        let core = FakeCore::new(|core, region| {
            if core.add(100).err() == Some(ENODEV) {
                core.put(region);
            }
        })?;
        core.register(1)?;
        core.tickets.close_and_invalidate();
        assert!(core.live.lock().is_empty());
        assert!(core.add(2).err() == Some(ENODEV));
        core.tickets.reopen();
        core.register(3)?;
        core.tickets.state.lock().closed = true;
        assert!(core.add(4).err() == Some(ENODEV));
        assert!(core.invalidated(&[1]));
        core.tickets.close_and_invalidate();
        core.put(3);
        assert!(core.invalidated(&[1, 3]));
        Ok(())
    }

    /// A list that is being drained accepts no ticket, and keeps those that it has.
    #[test]
    fn draining_list_keeps_its_tickets() -> Result {
        let core = FakeCore::new(FakeCore::put)?;
        core.register(1)?;
        core.tickets.set_draining(true);
        assert!(core.add(2).err() == Some(EBUSY));
        assert_eq!(core.tickets.count(), 1);
        core.put(1);
        assert_eq!(core.tickets.count(), 0);
        // A revocation does not end the drain.
        core.tickets.close_and_invalidate();
        assert!(core.add(3).err() == Some(ENODEV));
        core.tickets.reopen();
        assert!(core.add(4).err() == Some(EBUSY));
        core.tickets.set_draining(false);
        drop(core.add(5)?);
        assert!(core.invalidated(&[]));
        Ok(())
    }

    /// `wait_empty` waits for a deregistration that another task has in progress.
    #[test]
    fn waits_for_the_last_guard() -> Result {
        // The region is being deregistered: invalidation does not drop its memory.
        let core = FakeCore::new(|_, _| ())?;
        let (first, second) = (core.add(1)?, core.add(2)?);
        let dropped = Arc::new(Atomic::new(0), GFP_KERNEL)?;
        let other = dropped.clone();
        workqueue::system_long().try_spawn(GFP_KERNEL, move || {
            for guard in [first, second] {
                fsleep(Delta::from_millis(20));
                other.fetch_add(1, Full);
                drop(guard);
            }
        })?;
        core.tickets.close_and_invalidate();
        assert!(core.invalidated(&[1, 2]));
        core.tickets.wait_empty();
        assert_eq!(dropped.load(Acquire), 2);
        Ok(())
    }
}
