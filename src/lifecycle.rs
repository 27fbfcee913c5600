// SPDX-License-Identifier: GPL-2.0

//! The life of a region between the tasks that want something of it.
//!
//! ```text
//!                    registered                       close
//!   Registering ───────────────────▶ Live ◀────────────────────▶ Closing
//!     │     │                         │ take        reopen        │    │
//!     │     │ abandon                 ▼                           │    │ closed
//!     │     └────────▶ Ending      Revoking ──revoked──▶ Revoked  │    └──▶ Ending
//!     │                  │            ▲                           │           │
//!     │                  ▼ ended      │                           │           ▼ ended
//!     │                Closed         │                           │         Closed
//!     └──────────────▶ Handed ────────┘◀──────────────────────────┘
//!        somebody waits        take          somebody waits
//! ```
//!
//! What there is to undo, `H`, moves with the state: whoever takes it out of [`Lifecycle`] owns
//! the transition and is the only one who can undo it, and does so with no lock held. So each
//! undo happens once, whatever races with what, and no lock is held across a client's callback
//! or a driver's operation.
//!
//! A task that registers or deregisters does not undo while an invalidation waits: it hands what
//! there is to undo over to the invalidating task. A client may invalidate under a lock that its
//! own `put_pages` takes when another task calls it; calling it from another task, with the
//! invalidation waiting for that, would be a deadlock. Once a deregistration has begun to undo,
//! an invalidation returns at once: the adapter is past touching the memory. Only who is to
//! call `release` next waits for the undoing as well, see [`Until`].

use core::mem;
use kernel::{
    new_condvar, new_spinlock,
    prelude::*,
    sync::{
        CondVar,
        SpinLock, //
    },
};

/// Where a region is.
enum State<H> {
    /// The registering task is at work; `wanted`: somebody waits to revoke.
    Registering { wanted: bool },
    /// The adapter may touch the memory.
    Live(H),
    /// The deregistering task has called the driver; `wanted` as above.
    Closing { wanted: bool },
    /// Left for the task that waits to revoke. `fenced`: the adapter is past touching it.
    Handed { held: H, fenced: bool },
    /// A revoking task is at work.
    Revoking { fenced: bool },
    /// Revoked; the MR is still the user's.
    Revoked,
    /// The task that deregisters, or whose registration has failed, undoes.
    Ending,
    /// The end: nothing is left to undo.
    Closed,
}

/// What [`Lifecycle::close`] found.
pub(crate) enum Close<H> {
    /// A live region: call the driver, then [`Lifecycle::closed`] or [`Lifecycle::reopen`].
    Live(H),
    /// A revoked one: call the driver.
    Revoked,
    /// One that has been let go of altogether.
    Closed,
}

/// How long a revoker waits for another task that undoes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Until {
    /// Until the adapter can no longer touch the memory. It must not wait for the undoing: that
    /// may need a lock that the revoker's caller holds.
    Fenced,
    /// Until everything is undone: what comes next is `release`.
    Undone,
}

/// The state of one region, and who waits for it to change.
///
/// # Invariants
///
/// - `H` is in the state or in the hands of exactly one task.
/// - `Handed` is entered only while a task waits in [`Lifecycle::take`], which takes it.
#[pin_data]
pub(crate) struct Lifecycle<H> {
    #[pin]
    state: SpinLock<State<H>>,
    #[pin]
    changed: CondVar,
}

impl<H: Send + Unpin> Lifecycle<H> {
    /// A region whose registration begins in the calling task.
    pub(crate) fn new() -> impl PinInit<Self> {
        pin_init!(Self {
            state <- new_spinlock!(State::Registering { wanted: false }, "Lifecycle::state"),
            changed <- new_condvar!("Lifecycle::changed"),
        })
    }

    /// Puts a new state in.
    fn set(&self, new: State<H>) {
        *self.state.lock() = new;
        self.changed.notify_all();
    }

    /// Registering: the adapter may touch the memory from now on.
    pub(crate) fn registered(&self, held: H) {
        let mut state = self.state.lock();
        *state = match *state {
            // INVARIANT: `wanted` is set by a task that waits in `take`.
            State::Registering { wanted: true } => State::Handed {
                held,
                fenced: false,
            },
            _ => State::Live(held),
        };
        drop(state);
        self.changed.notify_all();
    }

    /// Registering has failed; `held` is to be undone. Returns it for the caller to undo, who
    /// then calls [`Self::ended`], or hands it to a waiting invalidation and returns once that
    /// has undone it. May sleep.
    pub(crate) fn abandon(&self, held: H) -> Option<H> {
        self.end(held)
    }

    /// Registering has failed with nothing to undo.
    pub(crate) fn abandon_empty(&self) {
        self.set(State::Closed);
    }

    /// Begins a deregistration. Waits for a revoking task. May sleep.
    pub(crate) fn close(&self) -> Close<H> {
        let mut state = self.state.lock();
        loop {
            match *state {
                State::Live(_) => {
                    let old = mem::replace(&mut *state, State::Closing { wanted: false });
                    if let State::Live(held) = old {
                        return Close::Live(held);
                    }
                }
                State::Revoked => return Close::Revoked,
                State::Ending | State::Closed => return Close::Closed,
                _ => self.changed.wait(&mut state),
            }
        }
    }

    /// Begins to end a region whose MR nobody deregisters through us. `None` where somebody does,
    /// or has. Waits for a task that looks at it or tries to revoke it. May sleep.
    pub(crate) fn close_left(&self) -> Option<H> {
        let mut state = self.state.lock();
        loop {
            match *state {
                State::Live(_) => {
                    let old = mem::replace(&mut *state, State::Closing { wanted: false });
                    if let State::Live(held) = old {
                        return Some(held);
                    }
                }
                State::Revoking { .. } | State::Handed { .. } => self.changed.wait(&mut state),
                _ => return None,
            }
        }
    }

    /// Deregistering: the driver refused, the region lives on.
    pub(crate) fn reopen(&self, held: H) {
        let mut state = self.state.lock();
        *state = match *state {
            // INVARIANT: `wanted` is set by a task that waits in `take`.
            State::Closing { wanted: true } => State::Handed {
                held,
                fenced: false,
            },
            _ => State::Live(held),
        };
        drop(state);
        self.changed.notify_all();
    }

    /// Deregistering: the driver is done, the adapter is past touching the memory. As
    /// [`Self::abandon`].
    pub(crate) fn closed(&self, held: H) -> Option<H> {
        self.end(held)
    }

    /// Ends a life of which only the undoing is left.
    fn end(&self, held: H) -> Option<H> {
        let mut state = self.state.lock();
        match *state {
            State::Registering { wanted: true } | State::Closing { wanted: true } => {
                // INVARIANT: `wanted` is set by a task that waits in `take`.
                *state = State::Handed { held, fenced: true };
                self.changed.notify_all();
                while !matches!(*state, State::Revoked) {
                    self.changed.wait(&mut state);
                }
                *state = State::Closed;
                None
            }
            _ => {
                *state = State::Ending;
                Some(held)
            }
        }
    }

    /// What [`Self::abandon`] or [`Self::closed`] returned is undone.
    pub(crate) fn ended(&self) {
        self.set(State::Closed);
    }

    /// Wants to revoke. Returns what there is to undo, and whether the adapter is already past
    /// touching the memory; the caller fences if not, then calls [`Self::fenced`], undoes, and
    /// calls [`Self::revoked`]. Returns `None` where there is nothing to do, or where another
    /// task has done it. May sleep: waits for a registration or deregistration to end, and for
    /// another task that undoes as `until` says.
    pub(crate) fn take(&self, until: Until) -> Option<(H, bool)> {
        let mut state = self.state.lock();
        loop {
            match &mut *state {
                State::Registering { wanted } | State::Closing { wanted } => *wanted = true,
                State::Revoking { fenced: true } if until == Until::Fenced => return None,
                State::Ending if until == Until::Fenced => return None,
                State::Revoking { .. } | State::Ending => {}
                State::Revoked | State::Closed => return None,
                State::Live(_) => {
                    let old = mem::replace(&mut *state, State::Revoking { fenced: false });
                    if let State::Live(held) = old {
                        return Some((held, false));
                    }
                }
                State::Handed { fenced, .. } => {
                    let fenced = *fenced;
                    let old = mem::replace(&mut *state, State::Revoking { fenced });
                    if let State::Handed { held, .. } = old {
                        return Some((held, fenced));
                    }
                }
            }
            self.changed.wait(&mut state);
        }
    }

    /// Revoking: the adapter can no longer touch the memory.
    pub(crate) fn fenced(&self) {
        self.set(State::Revoking { fenced: true });
    }

    /// Revoking: the adapter could not be made to stop; the region lives on.
    pub(crate) fn unfenced(&self, held: H) {
        self.set(State::Live(held));
    }

    /// Revoking: everything is undone.
    pub(crate) fn revoked(&self) {
        self.set(State::Revoked);
    }
}

#[kunit_tests(peer_mem_lifecycle)]
mod tests {
    use super::*;
    use kernel::sync::Arc;

    /// A life to play with.
    fn life() -> Result<Arc<Lifecycle<u32>>> {
        Arc::pin_init(Lifecycle::new(), GFP_KERNEL)
    }

    #[test]
    fn an_undisturbed_life() -> Result {
        let l = life()?;
        l.registered(7);
        assert!(matches!(l.close(), Close::Live(7)));
        assert_eq!(l.closed(7), Some(7));
        l.ended();
        assert!(matches!(l.close(), Close::Closed));
        Ok(())
    }

    #[test]
    fn a_refused_deregistration_leaves_it_live() -> Result {
        let l = life()?;
        l.registered(7);
        assert!(matches!(l.close(), Close::Live(7)));
        l.reopen(7);
        assert!(matches!(l.close(), Close::Live(7)));
        Ok(())
    }

    #[test]
    fn revoked_then_deregistered() -> Result {
        let l = life()?;
        l.registered(7);
        assert_eq!(l.take(Until::Fenced), Some((7, false)));
        l.fenced();
        // A second invalidation does not wait for the undoing.
        assert_eq!(l.take(Until::Fenced), None);
        l.revoked();
        assert_eq!(l.take(Until::Undone), None);
        assert!(matches!(l.close(), Close::Revoked));
        Ok(())
    }

    #[test]
    fn what_could_not_be_fenced_lives_on() -> Result {
        let l = life()?;
        l.registered(7);
        assert_eq!(l.take(Until::Fenced), Some((7, false)));
        l.unfenced(7);
        assert!(matches!(l.close(), Close::Live(7)));
        Ok(())
    }

    #[test]
    fn a_failed_registration_is_over() -> Result {
        let l = life()?;
        assert_eq!(l.abandon(7), Some(7));
        // An invalidation does not wait for the undoing, which may wait for its caller's lock.
        assert_eq!(l.take(Until::Fenced), None);
        l.ended();
        assert_eq!(l.take(Until::Undone), None);
        let l = life()?;
        l.abandon_empty();
        assert_eq!(l.take(Until::Fenced), None);
        Ok(())
    }

    #[test]
    fn an_invalidation_after_deregistration_does_nothing() -> Result {
        let l = life()?;
        l.registered(7);
        assert!(matches!(l.close(), Close::Live(7)));
        assert_eq!(l.closed(7), Some(7));
        assert_eq!(l.take(Until::Fenced), None);
        Ok(())
    }
}
