// SPDX-License-Identifier: GPL-2.0

//! State machine of a region, shared by the tasks that register, deregister, invalidate and remove
//! the region.
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
//!        a revoker waits       take          a revoker waits
//! ```
//!
//! [`Lifecycle`] orders the steps of the tasks. The resources of the region, `R`, move with the
//! state. The task that takes the resources out of [`Lifecycle`] owns the transition: only the
//! owner can tear the resources down, with no lock held. So each resource is torn down once in
//! every interleaving, and no lock is held across a client's callback or a driver's operation.
//!
//! A client may invalidate under a lock that `put_pages` of the client takes in another task. If
//! the invalidation waited for the other task, both would deadlock. So a task that registers or
//! deregisters does not tear down while an invalidation waits, but hands the resources over to the
//! invalidating task. Once a deregistration has begun to tear down, an invalidation returns at
//! once: the adapter cannot access the memory any more. Only a task that calls `release` next waits
//! for the teardown as well, see [`Until`].
//!
//! Context: waits may sleep; each function says so. The lock, `Lifecycle::inner`, is a leaf.

use crate::prelude::*;
use kernel::sync::lock::{
    spinlock::SpinLockBackend,
    Guard, //
};

/// The states of a region with resources `R`. Torn down resources stay until `release`.
enum State<R> {
    /// The registering task is at work. `wanted`: a revoker waits.
    Registering {
        wanted: bool,
    },
    /// The adapter may access the memory.
    Live(R),
    /// The deregistering task has called the driver. `wanted`: a revoker waits.
    Closing {
        wanted: bool,
    },
    Handed(Taken<R>),
    /// A revoker is at work. `fenced`: the adapter cannot access the memory.
    Revoking {
        fenced: bool,
    },
    /// Revoked. The user still has the MR. Has what is left for `release`.
    Revoked(Option<R>),
    /// The deregistering task, or the task whose registration failed, tears down.
    Ending,
    /// Torn down. Has what is left for `release`.
    Closed(Option<R>),
}

/// The state of a region, and how many tasks wait for a change.
struct Inner<R> {
    state: State<R>,
    waiting: u32,
}

/// The resources that a revoker has taken.
#[derive(PartialEq, Eq, Debug)]
pub(crate) enum Taken<R> {
    /// The adapter may access the memory: fence it first.
    Live(R),
    /// The adapter cannot access the memory.
    Fenced(R),
}

pub(crate) enum Close<R> {
    /// The region was live: call the driver, then [`Lifecycle::closed`] or [`Lifecycle::reopen`].
    Live(R),
    /// The region is revoked: call the driver.
    Revoked,
    /// The region is torn down.
    Closed,
}

/// How long a revoker waits for another task that tears down.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Until {
    /// Until the adapter cannot access the memory. A wait for the teardown could deadlock: the
    /// teardown may need a lock that the caller of the revoker holds.
    Fenced,
    /// Until the teardown is complete: the caller calls `release` next.
    TornDown,
}

/// The state of one region, and the tasks that wait for a change.
///
/// # Invariants
///
/// - The resources are in the state or owned by exactly one task.
/// - `Handed` is entered only while a task waits in [`Lifecycle::take`]; the waiting task takes the
///   resources.
#[pin_data]
pub(crate) struct Lifecycle<R> {
    #[pin]
    inner: SpinLock<Inner<R>>,
    #[pin]
    changed: CondVar,
}

impl<R: Send + Unpin> Lifecycle<R> {
    /// Creates the state of a region whose registration begins in the calling task.
    pub(crate) fn new() -> impl PinInit<Self> {
        pin_init!(Self {
            inner <- new_spinlock!(
                Inner { state: State::Registering { wanted: false }, waiting: 0 },
                "Lifecycle::inner"
            ),
            changed <- new_condvar!("Lifecycle::changed"),
        })
    }

    /// Waits until the state has changed. Context: may sleep.
    fn wait(&self, inner: &mut Guard<'_, Inner<R>, SpinLockBackend>) {
        inner.waiting += 1;
        self.changed.wait(inner);
        inner.waiting -= 1;
    }

    /// Unlocks and wakes the tasks that wait, if there are any.
    fn notify(&self, inner: Guard<'_, Inner<R>, SpinLockBackend>) {
        let awaited = inner.waiting > 0;
        drop(inner);
        if awaited {
            self.changed.notify_all();
        }
    }

    fn set(&self, new: State<R>) {
        let mut inner = self.inner.lock();
        inner.state = new;
        self.notify(inner);
    }

    /// Ends a registration with success: the adapter may access the memory.
    pub(crate) fn registered(&self, resources: R) {
        self.make_live(resources);
    }

    /// Ends a deregistration without success, or [`Self::with_live`]: the region stays live.
    pub(crate) fn reopen(&self, resources: R) {
        self.make_live(resources);
    }

    /// Makes the region live, or hands the resources to a waiting revoker.
    fn make_live(&self, resources: R) {
        let mut inner = self.inner.lock();
        inner.state = match inner.state {
            // INVARIANT: A task that waits in `take` has set `wanted`.
            State::Registering { wanted: true } | State::Closing { wanted: true } => {
                State::Handed(Taken::Live(resources))
            }
            _ => State::Live(resources),
        };
        self.notify(inner);
    }

    /// Ends a failed registration. Returns the resources for the caller to tear down, followed by
    /// [`Self::torn_down`], or `None` after a waiting revoker has torn the resources down. Context:
    /// may sleep.
    pub(crate) fn abandon(&self, resources: R) -> Option<R> {
        self.end(resources)
    }

    /// Ends a registration that failed before anything had to be torn down.
    pub(crate) fn abandon_empty(&self, resources: R) {
        self.torn_down(resources);
    }

    /// Begins a deregistration. Waits for a registration, another deregistration or a revoker at
    /// work. Context: may sleep.
    pub(crate) fn close(&self) -> Close<R> {
        let mut inner = self.inner.lock();
        loop {
            match inner.state {
                State::Live(_) => {
                    let old = mem::replace(&mut inner.state, State::Closing { wanted: false });
                    if let State::Live(resources) = old {
                        return Close::Live(resources);
                    }
                }
                State::Revoked(_) => return Close::Revoked,
                State::Ending | State::Closed(_) => return Close::Closed,
                _ => self.wait(&mut inner),
            }
        }
    }

    /// Starts closing a region whose driver deregistered the MR directly. Waits for a revoker at
    /// work. Returns `None` if the region is not live: another task registers or deregisters, or
    /// the region is revoked or ended. Context: may sleep.
    pub(crate) fn close_deferred(&self) -> Option<R> {
        let mut inner = self.inner.lock();
        loop {
            match inner.state {
                State::Live(_) => {
                    let old = mem::replace(&mut inner.state, State::Closing { wanted: false });
                    if let State::Live(resources) = old {
                        return Some(resources);
                    }
                }
                State::Revoking { .. } | State::Handed(_) => self.wait(&mut inner),
                _ => return None,
            }
        }
    }

    /// Returns the state in a word, for debugfs, or `None` once the region is torn down and the user
    /// has no MR.
    pub(crate) fn word(&self) -> Option<&'static str> {
        Some(match self.inner.lock().state {
            State::Registering { .. } => "registering",
            State::Live(_) => "live",
            State::Closing { .. } => "deregistering",
            State::Handed(_) | State::Revoking { fenced: false } => "revoking",
            State::Revoking { fenced: true } => "fenced",
            State::Revoked(_) => "revoked",
            State::Ending => "ending",
            State::Closed(_) => return None,
        })
    }

    /// Returns whether the region is revoked, and so torn down.
    pub(crate) fn is_revoked(&self) -> bool {
        matches!(self.inner.lock().state, State::Revoked(_))
    }

    /// Runs `f` on the resources of a live region. No other task can take the resources meanwhile.
    /// Waits as [`Self::close`]. Returns `None` if the region is revoked or ended. Context: may
    /// sleep.
    pub(crate) fn with_live<T>(&self, f: impl FnOnce(&mut R) -> T) -> Option<T> {
        let Close::Live(mut resources) = self.close() else {
            return None;
        };
        let result = f(&mut resources);
        self.reopen(resources);
        Some(result)
    }

    /// Ends a deregistration with success: the adapter cannot access the memory. Returns as
    /// [`Self::abandon`]. Context: may sleep.
    pub(crate) fn closed(&self, resources: R) -> Option<R> {
        self.end(resources)
    }

    /// Hands the resources to a waiting revoker, or returns the resources.
    fn end(&self, resources: R) -> Option<R> {
        let mut inner = self.inner.lock();
        match inner.state {
            State::Registering { wanted: true } | State::Closing { wanted: true } => {
                // INVARIANT: A task that waits in `take` has set `wanted`.
                inner.state = State::Handed(Taken::Fenced(resources));
                self.changed.notify_all();
                loop {
                    self.wait(&mut inner);
                    if let State::Revoked(left) = &mut inner.state {
                        inner.state = State::Closed(left.take());
                        return None;
                    }
                }
            }
            _ => {
                inner.state = State::Ending;
                Some(resources)
            }
        }
    }

    /// Ends the teardown of the resources that [`Self::abandon`] or [`Self::closed`] returned.
    pub(crate) fn torn_down(&self, resources: R) {
        self.set(State::Closed(Some(resources)));
    }

    /// Returns what the teardown has left, to the first caller after the end of the teardown.
    pub(crate) fn take_left(&self) -> Option<R> {
        match &mut self.inner.lock().state {
            State::Revoked(left) | State::Closed(left) => left.take(),
            _ => None,
        }
    }

    /// Begins a revocation. The caller fences the adapter if the result is [`Taken::Live`], then
    /// calls [`Self::fenced`], tears down, and calls [`Self::revoked`]; or calls [`Self::unfenced`]
    /// if the fence fails.
    ///
    /// Returns `None` if the region is torn down already, or, with [`Until::Fenced`], if another
    /// task tears down and the adapter cannot access the memory. Waits for a registration or
    /// deregistration to end, and for a teardown according to `until`.
    ///
    /// Context: may sleep.
    pub(crate) fn take(&self, until: Until) -> Option<Taken<R>> {
        let mut inner = self.inner.lock();
        loop {
            match &mut inner.state {
                State::Registering { wanted } | State::Closing { wanted } => *wanted = true,
                State::Revoking { fenced: true } if until == Until::Fenced => return None,
                State::Ending if until == Until::Fenced => return None,
                State::Revoking { .. } | State::Ending => {}
                State::Revoked(_) | State::Closed(_) => return None,
                State::Live(_) => {
                    let old = mem::replace(&mut inner.state, State::Revoking { fenced: false });
                    if let State::Live(resources) = old {
                        return Some(Taken::Live(resources));
                    }
                }
                State::Handed(taken) => {
                    let fenced = matches!(taken, Taken::Fenced(_));
                    let old = mem::replace(&mut inner.state, State::Revoking { fenced });
                    if let State::Handed(taken) = old {
                        return Some(taken);
                    }
                }
            }
            self.wait(&mut inner);
        }
    }

    /// Continues a revocation: the adapter cannot access the memory any more.
    pub(crate) fn fenced(&self) {
        self.set(State::Revoking { fenced: true });
    }

    /// Ends a revocation without success: the fence failed, and the region stays live.
    pub(crate) fn unfenced(&self, resources: R) {
        self.set(State::Live(resources));
    }

    /// Ends a revocation: the teardown is complete.
    pub(crate) fn revoked(&self, resources: R) {
        self.set(State::Revoked(Some(resources)));
    }
}

#[kunit_tests(peer_mem_lifecycle)]
mod tests {
    use super::*;

    /// Creates a state machine whose resources are a number.
    fn life() -> Result<Arc<Lifecycle<u32>>> {
        Arc::pin_init(Lifecycle::new(), GFP_KERNEL)
    }

    #[test]
    fn register_then_deregister() -> Result {
        let l = life()?;
        assert_eq!(l.word(), Some("registering"));
        l.registered(7);
        assert_eq!(l.word(), Some("live"));
        assert!(matches!(l.close(), Close::Live(7)));
        assert_eq!(l.word(), Some("deregistering"));
        assert_eq!(l.closed(7), Some(7));
        assert_eq!(l.word(), Some("ending"));
        // An invalidation does nothing from here on.
        assert_eq!(l.take(Until::Fenced), None);
        assert_eq!(l.take_left(), None);
        l.torn_down(7);
        assert_eq!(l.word(), None);
        assert!(matches!(l.close(), Close::Closed));
        assert_eq!((l.take_left(), l.take_left()), (Some(7), None));
        Ok(())
    }

    #[test]
    fn a_failed_deregistration_or_fence_leaves_it_live() -> Result {
        let l = life()?;
        l.registered(7);
        assert!(matches!(l.close(), Close::Live(7)));
        l.reopen(7);
        assert_eq!(l.take(Until::Fenced), Some(Taken::Live(7)));
        l.unfenced(7);
        assert!(matches!(l.close(), Close::Live(7)));
        Ok(())
    }

    #[test]
    fn revoked_then_deregistered() -> Result {
        let l = life()?;
        l.registered(7);
        assert_eq!(l.take(Until::Fenced), Some(Taken::Live(7)));
        assert_eq!(l.word(), Some("revoking"));
        l.fenced();
        assert_eq!(l.word(), Some("fenced"));
        // A second invalidation does not wait for the teardown.
        assert_eq!(l.take(Until::Fenced), None);
        l.revoked(7);
        assert_eq!(l.word(), Some("revoked"));
        assert_eq!(l.take(Until::TornDown), None);
        assert!(matches!(l.close(), Close::Revoked));
        assert_eq!((l.take_left(), l.take_left()), (Some(7), None));
        Ok(())
    }

    #[test]
    fn a_failed_registration_ends() -> Result {
        let l = life()?;
        assert_eq!(l.abandon(7), Some(7));
        // An invalidation does not wait for the teardown, which may wait for a lock of its caller.
        assert_eq!(l.take(Until::Fenced), None);
        l.torn_down(7);
        assert_eq!(l.take(Until::TornDown), None);
        let l = life()?;
        l.abandon_empty(7);
        assert_eq!(l.take(Until::Fenced), None);
        Ok(())
    }

    #[test]
    fn only_a_live_region_can_be_borrowed() -> Result {
        let l = life()?;
        l.registered(7);
        assert_eq!(l.with_live(|r| mem::replace(r, 8)), Some(7));
        assert!(matches!(l.close(), Close::Live(8)));
        assert_eq!(l.closed(8), Some(8));
        assert_eq!(l.with_live(|r| *r), None);
        Ok(())
    }
}
