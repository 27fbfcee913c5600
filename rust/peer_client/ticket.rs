// SPDX-License-Identifier: GPL-2.0

//! Tickets: how a client takes memory back.

use super::super::bindings::peer;
use core::ptr::NonNull;
use kernel::{
    new_condvar,
    new_mutex,
    prelude::*,
    sync::{
        Arc,
        CondVar,
        Mutex, //
    }, //
};

/// What tickets and the registration share.
#[pin_data]
pub(super) struct Link {
    /// How far the registration has got. Never held across a call.
    #[pin]
    state: Mutex<State>,
    /// Woken when `state` has changed.
    #[pin]
    changed: CondVar,
}

impl Link {
    /// That of a registration that is under way.
    pub(super) fn new() -> Result<Arc<Self>> {
        Arc::pin_init(
            pin_init!(Self {
                state <- new_mutex!(State::Registering),
                changed <- new_condvar!(),
            }),
            GFP_KERNEL,
        )
    }

    /// The core has returned `handle`, or nothing.
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

    /// Makes tickets do nothing any more, and waits for those that are being used.
    pub(super) fn leave(&self) {
        let mut state = self.state.lock();
        while matches!(*state, State::Live(_, _, users) if users > 0) {
            self.changed.wait(&mut state);
        }
        *state = State::Gone;
    }
}

/// How far a registration has got.
enum State {
    /// The core already calls, and has not returned the handle yet.
    Registering,
    /// Registered: the handle, the invalidate function, how many tasks are inside it.
    Live(Handle, peer::invalidate_peer_memory, usize),
    /// To be unregistered, or never registered.
    Gone,
}

/// What the core knows a client by.
#[derive(Clone, Copy)]
pub(super) struct Handle(pub(super) NonNull<c_void>);

// SAFETY: The core takes a handle from any task.
unsafe impl Send for Handle {}
// SAFETY: As above; a shared reference is good for no more than a copy.
unsafe impl Sync for Handle {}

/// The right to take one region back from the adapter.
#[derive(Clone)]
pub struct Ticket {
    /// The registration of the region's client.
    link: Arc<Link>,
    /// What the core calls the region.
    core_context: u64,
}

impl Ticket {
    /// That of the region that the core calls `core_context`.
    pub(super) fn new(link: Arc<Link>, core_context: u64) -> Self {
        Self { link, core_context }
    }

    /// Makes the adapter let go of the region, and drops the region's [`Memory`](super::Memory), in
    /// this task; where a deregistration has begun already, it is dropped by that one, perhaps only
    /// just after this has returned. Does nothing for a region that is gone, and where the client has
    /// been unregistered.
    ///
    /// A registration of the region that is under way is waited for.
    ///
    /// Context: may sleep; with no lock held that dropping the [`Memory`](super::Memory) takes, and
    /// not from a callback: in `get_pages` and `map` of the same region it waits for itself.
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
            // SAFETY: The client is registered, and stays so while `users` counts this task.
            unsafe { invalidate(handle.0.as_ptr(), self.core_context) };
        }

        if let State::Live(_, _, users) = &mut *self.link.state.lock() {
            *users -= 1;
        }
        self.link.changed.notify_all();
    }
}
