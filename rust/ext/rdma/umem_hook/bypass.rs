// SPDX-License-Identifier: GPL-2.0

//! Tasks whose calls are exempt from the umem hook.
//!
//! A task enters itself in a table while it runs [`bypass`], and looks itself up there. There is no
//! lock, and tasks that start at different slots write to different cache lines.

use super::super::super::task::TaskId;
use kernel::{
    prelude::*,
    sync::atomic::{
        Atomic,
        Relaxed, //
    }, //
};

/// The number of slots, as a power of two.
const BITS: u32 = 8;

/// How many slots a task tries.
const PROBES: usize = 8;

/// The task in a slot; 0 if the slot is free. A cache line of its own.
#[repr(align(64))]
struct Slot(Atomic<usize>);

/// A set of tasks.
///
/// # Invariants
///
/// A slot changes from 0 to a task, and back, by that task only.
struct Marks([Slot; 1 << BITS]);

/// The tasks that are inside [`bypass`].
static MARKS: Marks = Marks::new();

impl Marks {
    const fn new() -> Self {
        Self([const { Slot(Atomic::new(0)) }; 1 << BITS])
    }

    /// Returns the slots of `task`, in the order in which they are tried.
    fn slots(&self, task: TaskId) -> impl Iterator<Item = &Slot> {
        let first = task.hash(BITS);
        (first..first + PROBES).map(|i| &self.0[i % self.0.len()])
    }

    /// Enters `task`. Returns `None` if the task has its first free slot already, or if all of its
    /// slots are taken. A task that is in the table twice leaves it when both marks are dropped.
    fn enter(&self, task: TaskId) -> Option<Mark<'_>> {
        for slot in self.slots(task) {
            match slot.0.load(Relaxed) {
                // INVARIANT: From 0 to the task.
                0 if slot.0.cmpxchg(0, task.0, Relaxed).is_ok() => return Some(Mark(slot)),
                holder if holder == task.0 => return None,
                _ => {}
            }
        }
        None
    }

    /// Returns whether `task`, which is the caller, is in the table. Only the task itself writes
    /// its number, so relaxed loads see it.
    fn contains(&self, task: TaskId) -> bool {
        self.slots(task).any(|slot| slot.0.load(Relaxed) == task.0)
    }
}

/// A task in the table, until this is dropped.
struct Mark<'a>(&'a Slot);

impl Drop for Mark<'_> {
    fn drop(&mut self) {
        // INVARIANT: From the task to 0.
        self.0 .0.store(0, Relaxed);
    }
}

/// Calls `f`, and exempts the calls that the current task makes meanwhile from the umem hook, also if
/// the pages cannot be pinned. Calls may be nested.
///
/// The mark is best effort: if 8 other tasks occupy all slots of this one, the calls are hooked. An
/// MR that fails to pin is then made on a pinned umem at once, which cannot be revoked, instead of
/// on a dma-buf by the interposer.
///
/// # Examples
///
/// ```
/// use crate::ext::rdma::bypass;
///
/// let pinned = bypass(|| {
///     // Call the driver here: the hook does not replace what it pins.
///     true
/// });
/// assert!(pinned);
/// ```
pub fn bypass<R>(f: impl FnOnce() -> R) -> R {
    let mark = MARKS.enter(TaskId::current());
    let result = f();
    drop(mark);
    result
}

/// Returns whether the current task is inside [`bypass`].
pub(super) fn is_bypassed() -> bool {
    MARKS.contains(TaskId::current())
}

/// Marks of tasks.
#[cfg(ext_tests)]
#[kunit_tests(ext_umem_hook_bypass)]
mod tests {
    use super::*;

    fn marks() -> Result<KBox<Marks>> {
        // 16 KiB: not on the stack.
        let mut marks = KBox::<Marks>::new_uninit(GFP_KERNEL)?;
        // SAFETY: All zeroes are free slots.
        unsafe { marks.as_mut_ptr().write_bytes(0, 1) };
        // SAFETY: Just initialized.
        Ok(unsafe { marks.assume_init() })
    }

    /// Returns a task that has the same slots as `task`.
    fn neighbour(task: TaskId, after: usize) -> TaskId {
        let mut n = after + 1;
        while TaskId(n).hash(BITS) != task.hash(BITS) {
            n += 1;
        }
        TaskId(n)
    }

    /// The mark lasts as long as the function, the outer of two nested ones included.
    #[test]
    fn nested() {
        let before = is_bypassed();
        let seen = bypass(|| {
            let outer = is_bypassed();
            let inner = bypass(is_bypassed);
            (outer, inner, is_bypassed())
        });
        assert!(!before);
        assert!(seen == (true, true, true));
        assert!(!is_bypassed());
    }

    /// Tasks that share slots do not see each other's marks.
    #[test]
    fn collision() -> Result {
        let marks = marks()?;
        let a = TaskId(0x1000);
        let b = neighbour(a, 0x1000);
        let mark = marks.enter(a);
        let alone = (marks.contains(a), marks.contains(b));
        let other = marks.enter(b);
        let both = (marks.contains(a), marks.contains(b));
        drop(mark);
        let left = (marks.contains(a), marks.contains(b));
        drop(other);
        assert!(alone == (true, false));
        assert!(both == (true, true));
        assert!(left == (false, true));
        assert!(!marks.contains(b));
        Ok(())
    }

    /// A task whose slots are all taken is not marked; it is again when one is free.
    #[test]
    fn full() -> Result {
        let marks = marks()?;
        let task = TaskId(0x1000);
        let mut others = KVec::with_capacity(PROBES, GFP_KERNEL)?;
        let mut n = task.0;
        for _ in 0..PROBES {
            let other = neighbour(task, n);
            n = other.0;
            others.push(marks.enter(other), GFP_KERNEL)?;
        }
        let refused = marks.enter(task).is_none();
        let absent = !marks.contains(task);
        others.pop();
        let accepted = marks.enter(task).is_some();
        drop(others);
        assert!(refused && absent && accepted);
        Ok(())
    }
}
