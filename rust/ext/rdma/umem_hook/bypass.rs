// SPDX-License-Identifier: GPL-2.0

//! Tasks whose calls are exempt from the umem hook.
//!
//! A task enters itself in a table while running [`bypass`]. The callback of ftrace looks for the
//! task in the table. A task that finds no free slot there is an [`UnplacedTask`], which the hook
//! itself looks for. Used for calls of a driver whose failure is handled elsewhere.

use crate::shared::{
    bindings::helpers,
    ext::task::{
        id::TaskId,
        task_table::{
            TaskTable,
            UnplacedTask, //
        }, //
    }, //
};
use core::ptr::NonNull;
use kernel::prelude::*;

pub(super) fn bypassed() -> &'static TaskTable {
    // SAFETY: The table is static, and only the functions of task tables access the table. `TaskTable` has
    // the same layout and alignment.
    unsafe { &*(&raw const helpers::ext_bypass_tasks).cast() }
}

/// Returns whether the current task is inside [`bypass`] without a slot in the table, so that the
/// callback of ftrace does not see the task. Context: any but interrupts.
pub(super) fn is_unplaced() -> bool {
    UnplacedTask::value(bypassed(), TaskId::current()).is_some()
}

/// Enters the current task as one without a slot. Returns `None` if the task has a slot, or if there is
/// no memory.
fn unplaced() -> Option<UnplacedTask> {
    let task = TaskId::current();
    match bypassed().value(task) {
        Some(_) => None,
        None => UnplacedTask::new(bypassed(), task, NonNull::dangling()).ok(),
    }
}

/// Calls `f`, and meanwhile exempts the calls of the current task from the umem hook, also if the
/// pages cannot be pinned. Calls may be nested.
///
/// The exemption is best effort: if other tasks occupy all slots that the current task tries, and there
/// is no memory for an entry of its own, the calls are hooked. Then the hook serves an MR whose pages
/// cannot be pinned: the MR gets a pinned umem, which cannot be revoked, instead of a dma-buf from the
/// interposer. Context: that of `f`; may sleep.
pub fn bypass<R>(f: impl FnOnce() -> R) -> R {
    let entry = bypassed().enter(TaskId::current());
    let unplaced = match entry {
        Some(_) => None,
        None => unplaced(),
    };
    let result = f();
    drop((entry, unplaced));
    result
}

#[cfg(ext_tests)]
#[kunit_tests(ext_umem_hook_bypass)]
mod tests {
    use super::*;
    use crate::shared::ext::task::task_table::tests::fill;

    fn is_bypassed() -> bool {
        bypassed().value(TaskId::current()).is_some() || is_unplaced()
    }

    /// The task is exempt also while other tasks have all slots, as when hundreds of tasks wait in the
    /// driver.
    #[test]
    fn without_a_slot() -> Result {
        let others = fill(bypassed(), TaskId::current())?;
        let filled = others.iter().all(Option::is_some);
        let seen = bypass(|| (is_unplaced(), bypass(is_bypassed), is_bypassed()));
        let after = is_bypassed();
        drop(others);
        assert!(filled);
        assert!(seen == (true, true, true));
        assert!(!after);
        Ok(())
    }

    /// The exemption lasts as long as the function, also in an outer call after the inner call.
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
}
