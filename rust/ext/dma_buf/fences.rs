// SPDX-License-Identifier: GPL-2.0

//! The time that revocations wait for fences, for several dma-bufs together.
//!
//! The owner of the dma-bufs keeps a [`FenceBudget`], and passes the budget to each revocation.

use crate::shared::prelude::raw::*;

/// Time that fences have to be signalled. Every driver must signal a fence within this time, if
/// need be by a reset of the device.
const TIME: Delta = Delta::from_secs(30);

struct State {
    /// When the whole time is available again.
    full_at: Instant<Monotonic>,
    /// An expired wait has been logged. Cleared when the whole time is available.
    logged: bool,
}

/// The time that the revocations of several dma-bufs wait for fences: 30 s for all revocations
/// together, in parallel or one after the other.
///
/// The time used by waits is regained at the rate at which time passes without a wait. So
/// revocations that take `t` without waits wait 30 s + `t` at most, whatever the number of
/// dma-bufs, and a revocation long after all others has the whole time.
#[pin_data]
pub struct FenceBudget {
    #[pin]
    state: SpinLock<State>,
}

impl FenceBudget {
    /// Creates a budget with the whole time.
    pub fn new() -> impl PinInit<Self> {
        pin_init!(Self {
            state <- new_spinlock!(
                State { full_at: Instant::now(), logged: false },
                "dma_buf::FenceBudget::state"
            ),
        })
    }

    /// Resets the budget to the whole time, at the beginning of an operation.
    pub fn renew(&self) {
        let mut state = self.state.lock();
        state.full_at = Instant::now();
        state.logged = false;
    }

    /// Calls `wait` with the time that is left, and subtracts the duration of the call from the
    /// budget. Logs if `wait` returns `false`, and then not again until the whole time is
    /// available.
    fn spend(&self, wait: impl FnOnce(Delta) -> bool) {
        let begin = Instant::now();
        let mut state = self.state.lock();
        let spent = (state.full_at - begin).max(Delta::ZERO);
        if spent.is_zero() {
            state.logged = false;
        }
        drop(state);
        let signalled = wait((TIME - spent).max(Delta::ZERO));
        let end = Instant::now();
        let mut state = self.state.lock();
        // Tasks that wait in parallel use the same time.
        let full_at = end + spent + (end - begin);
        if !(full_at - state.full_at).is_negative() {
            state.full_at = full_at;
        }
        let log = !signalled && !mem::replace(&mut state.logged, true);
        drop(state);
        if log {
            crate::pr_err_limited!(
                "a revoked dma-buf has a fence that is not signalled after {} ms; not waiting for \
                 it, nor for those of other dma-bufs that are revoked with it\n",
                TIME.as_millis()
            );
        }
    }

    /// Waits until the fences of `resv` are signalled, or the budget is used up. Context: may
    /// sleep. The caller must not hold the reservation lock.
    ///
    /// # Safety
    ///
    /// The reservation object must be valid during the call.
    pub(super) unsafe fn wait(&self, resv: *mut bindings::dma_resv) {
        self.spend(|left| {
            // Less than 2³²: at most `TIME`.
            let ms = left.as_millis() as u32;
            // SAFETY: By the safety requirements the reservation object is valid.
            unsafe { helpers::ext_dma_resv_wait(resv, ms) }
        });
    }
}

#[cfg(ext_tests)]
#[kernel::macros::kunit_tests(ext_dma_buf_fences)]
mod tests {
    use super::*;
    use pin_init::stack_pin_init;

    /// Returns the time that a wait would have now.
    fn left(budget: &FenceBudget) -> Delta {
        let mut left = Delta::ZERO;
        budget.spend(|delta| {
            left = delta;
            true
        });
        left
    }

    /// Waits 100 ms or more, and returns an upper bound of the time taken from the budget.
    fn wait(budget: &FenceBudget) -> Delta {
        let begin = Instant::<Monotonic>::now();
        budget.spend(|_| {
            fsleep(Delta::from_millis(100));
            true
        });
        begin.elapsed()
    }

    #[test]
    fn waits_one_after_another_share_the_time() {
        stack_pin_init!(let budget = FenceBudget::new());
        let begin = Instant::<Monotonic>::now();
        for _ in 0..3 {
            wait(&budget);
        }
        let left = left(&budget);
        let (waits, elapsed) = (Delta::from_millis(300), begin.elapsed());
        // At most what is no wait comes back.
        assert!(left <= TIME - waits + (elapsed - waits));
        assert!(left >= TIME - elapsed);
    }

    #[test]
    fn what_was_taken_comes_back() {
        stack_pin_init!(let budget = FenceBudget::new());
        let waited = wait(&budget);
        fsleep(waited);
        fsleep(Delta::from_millis(1));
        assert!(left(&budget) == TIME);
    }

    #[test]
    fn a_renewed_budget_has_all_of_the_time() {
        stack_pin_init!(let budget = FenceBudget::new());
        wait(&budget);
        budget.renew();
        assert!(left(&budget) == TIME);
    }

    /// Nested waits stand for the waits of other tasks.
    #[test]
    fn waits_in_parallel_take_the_time_once() {
        stack_pin_init!(let budget = FenceBudget::new());
        let begin = Instant::<Monotonic>::now();
        budget.spend(|_| {
            budget.spend(|_| {
                budget.spend(|_| {
                    fsleep(Delta::from_millis(100));
                    true
                });
                true
            });
            true
        });
        assert!(left(&budget) >= TIME - begin.elapsed());
    }
}
