// SPDX-License-Identifier: GPL-2.0

//! Calls in functions whose code goes away with the module.

use super::super::{
    bindings::helpers,
    task::TaskId, //
};
#[cfg(ext_tests)]
use kernel::prelude::*;
use kernel::{
    sync::atomic::{
        Acquire,
        Atomic,
        Full,
        Relaxed,
        Release, //
    },
    time::{
        delay::fsleep,
        Delta, //
    },
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

    /// Calls `f` and counts the call. What `f` reads is not older than what the caller read before.
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

    #[test]
    fn a_drain_without_calls_ends() {
        static CALLS: Calls = Calls::new();
        assert_eq!(CALLS.within(|| 7), 7);
        assert_eq!(CALLS.entered(), 1);
        CALLS.drain();
        assert_eq!(CALLS.wait(), 1);
    }
}
