// SPDX-License-Identifier: GPL-2.0

//! The calls that are inside a replacement function.

use super::bypass::TaskId;
use kernel::{
    sync::atomic::{
        Acquire,
        Atomic,
        Relaxed,
        Release, //
    },
    time::{
        delay::fsleep,
        Delta, //
    }, //
};

/// The number of counters, as a power of two.
const BITS: u32 = 6;

/// A counter with a cache line of its own.
#[repr(align(64))]
struct Counter(Atomic<i32>);

/// A count of calls, spread over several counters: umems are made on all CPUs at once.
pub(super) struct Callers([Counter; 1 << BITS]);

impl Callers {
    pub(super) const fn new() -> Self {
        Self([const { Counter(Atomic::new(0)) }; 1 << BITS])
    }

    /// Calls `f` counted.
    pub(super) fn within<R>(&self, f: impl FnOnce() -> R) -> R {
        let counter = &self.0[TaskId::current().hash(BITS)].0;
        counter.add(1, Relaxed);
        let result = f();
        // Orders `f` before a drain that sees the new count.
        counter.fetch_sub(1, Release);
        result
    }

    /// Waits until no call is counted. No new calls may begin. May sleep.
    pub(super) fn drain(&self) {
        for counter in &self.0 {
            while counter.0.load(Acquire) != 0 {
                fsleep(Delta::from_millis(1));
            }
        }
    }
}
