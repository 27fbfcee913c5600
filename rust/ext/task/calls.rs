// SPDX-License-Identifier: GPL-2.0

//! Counts of calls, to wait for before data of a device is freed ([`InFlight`]) or the module's code is
//! unloaded ([`INFLIGHT`], [`TextRef`]). Used by the interposed verbs and by the hook on
//! `ib_umem_get_desc()`.

use super::id::{
    hash,
    TaskId, //
};
use crate::shared::prelude::raw::*;

/// Number of counters, as a power of two.
const BITS: u32 = 5;

/// The counters of calls of some tasks, on a separate cache line.
#[repr(align(64))]
struct CallCounter {
    entered: Atomic<u64>,
    left: Atomic<u64>,
}

impl CallCounter {
    /// Waits until no call is inside. Returns the number of calls that have left: a call that
    /// enters while this function returns is not included.
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

/// Calls in flight in the hooks of one device, in a `percpu_ref`.
///
/// # Invariants
///
/// The pointer is from `ext_inflight_new()`, and this object owns the C object.
#[repr(transparent)]
pub struct InFlight(NonNull<helpers::ext_inflight>);

// SAFETY: The count belongs to no task.
unsafe impl Send for InFlight {}
// SAFETY: Any number of tasks may call the functions of a count.
unsafe impl Sync for InFlight {}

impl InFlight {
    /// Creates a count without calls, which calls can enter. Context: may sleep.
    pub fn new() -> Result<Self> {
        // SAFETY: The context of this function allows sleeping.
        let calls = unsafe { helpers::ext_inflight_new() };
        // INVARIANT: The function returns NULL or a new object.
        NonNull::new(calls).map(Self).ok_or(ENOMEM)
    }

    #[cfg(ext_tests)]
    pub fn as_raw(&self) -> *mut helpers::ext_inflight {
        self.0.as_ptr()
    }

    /// Lets no call enter any more, and waits for those in flight. To be called once. Context: may
    /// sleep.
    pub fn close(&self) {
        // SAFETY: By the type invariants the object is valid.
        unsafe { helpers::ext_inflight_close(self.0.as_ptr()) };
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        // SAFETY: By the type invariants this object owns the C object. No call is in flight: calls
        // find an object only in the table of devices, and the object is closed before it is dropped
        // once it was there.
        unsafe { helpers::ext_inflight_free(self.0.as_ptr()) };
    }
}

/// The calls in the functions of this module that stand for others: operations of devices, and
/// functions of ib_core. Calls that an [`InFlight`] counts are not among them.
pub static INFLIGHT: InFlightCalls = InFlightCalls::new();

/// A reference to the text of the functions of this module that replace other functions, for each owner
/// of such functions. Dropping the last reference waits until no task executes the functions any more, so
/// that one Tasks RCU grace period serves all owners. Context: dropping the last reference may sleep.
#[derive(Clone)]
pub struct TextRef(Arc<Drain>);

/// Drains [`INFLIGHT`] on drop.
struct Drain;

impl Drop for Drain {
    fn drop(&mut self) {
        INFLIGHT.drain();
    }
}

impl TextRef {
    /// Creates the first reference. Context: may sleep.
    pub fn new() -> Result<Self> {
        Ok(Self(Arc::new(Drain, GFP_KERNEL)?))
    }

    /// Drops the reference, and waits like the drop of the last reference. No function pointer may
    /// lead to the functions of the caller. Context: may sleep.
    pub fn drain(self) {
        match Arc::into_unique_or_drop(self.0) {
            Some(last) => drop(last),
            None => INFLIGHT.drain(),
        }
    }
}

/// A count of calls. Tasks on different CPUs rarely share a cache line of the count.
pub struct InFlightCalls([CallCounter; 1 << BITS]);

impl InFlightCalls {
    pub const fn new() -> Self {
        Self(
            [const {
                CallCounter {
                    entered: Atomic::new(0),
                    left: Atomic::new(0),
                }
            }; 1 << BITS],
        )
    }

    /// Calls `f` and counts the call. The reads of `f` are ordered after earlier reads of the
    /// caller.
    pub fn within<R>(&self, f: impl FnOnce() -> R) -> R {
        let counter = &self.0[hash(TaskId::current().0, BITS)];
        counter.entered.fetch_add(1, Full);
        let result = f();
        // Pairs with the load in `wait`: the waiting task also sees the effects of `f`.
        counter.left.fetch_add(1, Release);
        result
    }

    fn entered(&self) -> u64 {
        let entered = self.0.iter().map(|counter| counter.entered.load(Relaxed));
        entered.fold(0, u64::wrapping_add)
    }

    /// Waits until no call is inside. Returns the number of calls that have left.
    fn wait(&self) -> u64 {
        let left = self.0.iter().map(CallCounter::wait);
        left.fold(0, u64::wrapping_add)
    }

    /// Waits until no task uses the code of the functions any more. When `drain` is called no
    /// function pointer may lead to the code, but tasks may have read a pointer earlier.
    ///
    /// An RCU-tasks grace period, in which every task passes a voluntary context switch, waits for
    /// tasks with such a pointer to enter the function, and for tasks that have left the count to
    /// leave the function. If a call was counted meanwhile, that call may be at either place again,
    /// so the loop repeats. Context: may sleep.
    pub fn drain(&self) {
        loop {
            let before = self.wait();
            // SAFETY: The context of this function allows sleeping.
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
    fn the_last_reference_to_the_text_drains() -> Result {
        let text = TextRef::new()?;
        let other = text.clone();
        // No reference waits for another reference.
        other.drain();
        drop(text);
        Ok(())
    }

    #[test]
    fn a_drain_without_calls_ends() {
        static INFLIGHT: InFlightCalls = InFlightCalls::new();
        assert_eq!(INFLIGHT.within(|| 7), 7);
        assert_eq!(INFLIGHT.entered(), 1);
        INFLIGHT.drain();
        assert_eq!(INFLIGHT.wait(), 1);
    }
}
