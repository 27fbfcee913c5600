// SPDX-License-Identifier: GPL-2.0

//! Tickets: the right of a client to revoke a region.
//!
//! A [`Ticket`] names one region of a registered client. A client receives a ticket with each
//! region, and invalidates the ticket when the memory goes away. `Link` makes the tickets of a
//! client useless before the client is unregistered.

use crate::shared::bindings::peer;
use crate::shared::prelude::*;

/// State that tickets share with the registration.
#[pin_data]
pub(super) struct Link {
    /// Progress of the registration. Not held across calls.
    #[pin]
    state: Mutex<State>,
    #[pin]
    changed: CondVar,
}

impl Link {
    /// Creates the link of a registration that is in progress.
    pub(super) fn new() -> Result<Arc<Self>> {
        Arc::pin_init(
            pin_init!(Self {
                state <- new_mutex!(State::Registering, "peer_client::Link::state"),
                changed <- new_condvar!("peer_client::Link::changed"),
            }),
            GFP_KERNEL,
        )
    }

    /// Completes the registration. `handle` is `None` if the core rejected the client.
    pub(super) fn registered(
        &self,
        handle: Option<Handle>,
        invalidate: peer::invalidate_peer_memory,
    ) {
        *self.state.lock() = match handle {
            Some(handle) => State::Live(handle, invalidate, 0),
            None => State::Gone,
        };
        self.changed.notify_all();
    }

    /// Disables all tickets, and waits for the tickets in use. The client is unregistered. Context:
    /// may sleep.
    pub(super) fn close(&self) {
        let mut state = self.state.lock();
        while matches!(*state, State::Live(_, _, users) if users > 0) {
            self.changed.wait(&mut state);
        }
        *state = State::Gone;
    }
}

enum State {
    /// The core may call the client already, and has not returned the handle yet.
    Registering,
    /// Registered: the handle, the invalidate function, the number of tasks in that function.
    Live(Handle, peer::invalidate_peer_memory, usize),
    /// Never registered, or unregistered.
    Gone,
}

/// The core's name of a client.
#[derive(Clone, Copy)]
pub(super) struct Handle(pub(super) NonNull<c_void>);

// SAFETY: The core accepts a handle in any task.
unsafe impl Send for Handle {}
// SAFETY: A shared reference only allows to copy the handle, which is `Send`.
unsafe impl Sync for Handle {}

/// The right to revoke one region.
///
/// Clients usually keep tickets in [`Tickets`](super::Tickets).
#[derive(Clone)]
pub struct Ticket {
    link: Arc<Link>,
    /// The core's name of the region.
    core_context: u64,
}

impl Ticket {
    pub(super) fn new(link: Arc<Link>, core_context: u64) -> Self {
        Self { link, core_context }
    }

    /// Revokes the region: fences the device, then drops the region's [`Memory`](super::Memory) in
    /// this task. If a deregistration is already in progress, the deregistering task drops the
    /// memory, possibly after this function has returned. Does nothing if the region is gone or the
    /// client is unregistered.
    ///
    /// Waits for a registration of the region that is in progress. Context: may sleep. Must be
    /// called without a lock that dropping the [`Memory`](super::Memory) takes, and not from a
    /// callback: in `get_pages` and `map` of the same region the call would wait for itself.
    pub fn invalidate(&self) {
        let mut state = self.link.state.lock();
        let (handle, invalidate) = loop {
            match &mut *state {
                State::Registering => self.link.changed.wait(&mut state),
                State::Live(handle, invalidate, users) => {
                    *users += 1;
                    break (*handle, *invalidate);
                }
                State::Gone => return,
            }
        };
        drop(state);

        if let Some(invalidate) = invalidate {
            // SAFETY: The core only compares `handle`. `Link::close` waits while `users` counts this task,
            // so the core's module, which this module depends on, stays.
            unsafe { invalidate(handle.0.as_ptr(), self.core_context) };
        }

        if let State::Live(_, _, users) = &mut *self.link.state.lock() {
            *users -= 1;
        }
        self.link.changed.notify_all();
    }
}
