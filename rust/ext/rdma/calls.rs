// SPDX-License-Identifier: GPL-2.0

//! Calls in functions of a device that is removed, and in functions whose code goes away with the
//! module.
//!
//! # Examples
//!
//! ```
//! use crate::ext::rdma::Code;
//!
//! let code = Code::new()?;
//! let other = code.share();
//! // Does not wait, as a share is left.
//! drop(other);
//! // Waits until no call is in the functions.
//! drop(code);
//! # Ok::<(), Error>(())
//! ```

use super::super::{
    bindings::helpers,
    task::TaskId, //
};
use kernel::{
    bindings,
    prelude::*,
    sync::{
        atomic::{
            Acquire,
            Atomic,
            Full,
            Relaxed,
            Release, //
        },
        Arc, //
    },
    time::{
        delay::fsleep,
        Delta, //
    },
    types::Opaque, //
};

/// Number of slots, as a power of two.
const BITS: u32 = 5;

/// Calls of some tasks, on a cache line of its own.
#[repr(align(64))]
struct Slot {
    entered: Atomic<u64>,
    left: Atomic<u64>,
}

impl Slot {
    /// Waits until no call is inside. Returns the number of calls that have left: a call that
    /// enters while this returns is not among them.
    fn wait(&self) -> u64 {
        loop {
            let left = self.left.load(Acquire);
            if left == self.entered.load(Relaxed) {
                return left;
            }
            fsleep(Delta::from_millis(1));
        }
    }
}

/// Calls in the hooks of one device, which can be closed. Each CPU counts for itself.
///
/// # Invariants
///
/// The C object is initialised, and this object owns what it has allocated.
#[repr(transparent)]
pub(super) struct Gate(Opaque<helpers::ext_calls>);

// SAFETY: The counts belong to no task.
unsafe impl Send for Gate {}
// SAFETY: The functions for the counts may be called by any number of tasks.
unsafe impl Sync for Gate {}

impl Gate {
    /// Creates an open gate.
    ///
    /// Context: may sleep.
    pub(super) fn new() -> Result<Self> {
        let calls = Opaque::zeroed();
        // SAFETY: `calls` is valid for writes. The context of this function allows to sleep.
        if !unsafe { helpers::ext_calls_init(calls.get()) } {
            return Err(ENOMEM);
        }
        // INVARIANT: Just initialised. Nothing refers to the object, so it can move.
        Ok(Self(calls))
    }

    /// Ends a call that a function in C has counted.
    pub(super) fn leave(&self) {
        // SAFETY: By the type invariants the C object is initialised.
        unsafe { helpers::ext_calls_leave(self.0.get()) };
    }

    /// Closes the gate and waits for the calls inside.
    ///
    /// Context: may sleep.
    pub(super) fn close(&self) {
        // SAFETY: By the type invariants the C object is initialised.
        unsafe { helpers::ext_calls_close(self.0.get()) };
        // Every call that found the gate open has been counted after this, visibly for this task.
        // SAFETY: The function only sleeps, which the context of this function allows.
        unsafe { bindings::synchronize_rcu() };
        // SAFETY: By the type invariants the C object is initialised.
        while unsafe { helpers::ext_calls_inside(self.0.get()) } {
            fsleep(Delta::from_millis(1));
        }
    }
}

impl Drop for Gate {
    fn drop(&mut self) {
        // SAFETY: By the type invariants this object owns what is freed, and this is the last use.
        unsafe { helpers::ext_calls_destroy(self.0.get()) };
    }
}

/// The calls in the functions of this module that stand for others: operations of devices, and
/// functions of ib_core. Calls that a [`Gate`] counts are not among them.
pub(super) static CALLS: Calls = Calls::new();

/// A share of the functions of this module that stand for others.
///
/// Each owner of such functions has one. Dropping the last share, which may sleep, waits until no task
/// executes them any more, so that one Tasks RCU grace period serves all owners.
pub struct Code(Arc<Drain>);

/// Drains [`CALLS`] on drop.
struct Drain;

impl Drop for Drain {
    fn drop(&mut self) {
        CALLS.drain();
    }
}

impl Code {
    /// Creates the first share.
    ///
    /// Context: may sleep.
    pub fn new() -> Result<Self> {
        Ok(Self(Arc::new(Drain, GFP_KERNEL)?))
    }

    /// Returns another share.
    pub fn share(&self) -> Self {
        Self(self.0.clone())
    }

    /// Drops the share, and waits as the last one does. No function pointer may lead to the functions of
    /// the caller.
    ///
    /// Context: may sleep.
    pub(super) fn leave(self) {
        match Arc::into_unique_or_drop(self.0) {
            Some(last) => drop(last),
            None => CALLS.drain(),
        }
    }
}

/// A count of calls that tasks on different CPUs rarely share a cache line of.
pub(super) struct Calls([Slot; 1 << BITS]);

impl Calls {
    /// Creates a count without calls.
    pub(super) const fn new() -> Self {
        Self(
            [const {
                Slot {
                    entered: Atomic::new(0),
                    left: Atomic::new(0),
                }
            }; 1 << BITS],
        )
    }

    /// Calls `f` and counts the call. `f` reads nothing older than the caller has read before.
    pub(super) fn within<R>(&self, f: impl FnOnce() -> R) -> R {
        let slot = &self.0[TaskId::current().hash(BITS)];
        slot.entered.fetch_add(1, Full);
        let result = f();
        // Pairs with the load in `wait`, which sees the effects of `f` too.
        slot.left.fetch_add(1, Release);
        result
    }

    /// Returns the number of calls so far.
    fn entered(&self) -> u64 {
        let entered = self.0.iter().map(|slot| slot.entered.load(Relaxed));
        entered.fold(0, u64::wrapping_add)
    }

    /// Waits until no call is inside. Returns the number of calls that have left.
    fn wait(&self) -> u64 {
        self.0.iter().map(Slot::wait).fold(0, u64::wrapping_add)
    }

    /// Waits until the code of the functions is not used any more. No function pointer may lead to
    /// it when this is called, but tasks may have read one before.
    ///
    /// An RCU-tasks grace period, in which every task passes a voluntary context switch, waits for
    /// such a task to enter the function, and for one that has left the count to leave the function.
    /// If a call was counted meanwhile, it may be at either place again.
    ///
    /// Context: may sleep.
    pub(super) fn drain(&self) {
        loop {
            let before = self.wait();
            // SAFETY: The function only sleeps, which the context of this function allows.
            unsafe { helpers::ext_synchronize_rcu_tasks() };
            if self.entered() == before {
                return;
            }
        }
    }
}

#[cfg(ext_tests)]
#[kunit_tests(ext_calls)]
mod tests {
    use super::*;
    use kernel::sync::rcu;

    #[test]
    fn a_closed_gate_admits_no_call() -> Result {
        let gate = Gate::new()?;
        let enter = || {
            let _rcu = rcu::read_lock();
            // SAFETY: By the type invariants of `Gate` the C object is initialised.
            unsafe { helpers::ext_calls_enter(gate.0.get()) }
        };
        let admitted = enter();
        // SAFETY: By the type invariants of `Gate` the C object is initialised.
        let inside = unsafe { helpers::ext_calls_inside(gate.0.get()) };
        if admitted {
            gate.leave();
        }
        gate.close();
        let late = enter();
        assert!(admitted && inside && !late);
        Ok(())
    }

    #[test]
    fn the_last_share_of_the_code_drains() -> Result {
        let code = Code::new()?;
        let other = code.share();
        // Neither waits for the other.
        other.leave();
        drop(code);
        Ok(())
    }

    #[test]
    fn a_drain_without_calls_ends() {
        static CALLS: Calls = Calls::new();
        assert_eq!(CALLS.within(|| 7), 7);
        assert_eq!(CALLS.entered(), 1);
        CALLS.drain();
        assert_eq!(CALLS.wait(), 1);
    }
}
