// SPDX-License-Identifier: GPL-2.0

//! Tasks whose calls are exempt from the umem hook.
//!
//! A task takes its slot in a table while running [`bypass`]. The callback of ftrace looks for the
//! task there. A task whose slot another one has gets a value, which the hook itself looks for. Used for
//! calls of a driver whose failure is handled elsewhere.

use crate::shared::{
    bindings::helpers,
    ext::task::{
        id::TaskId,
        task_value::{
            value_of,
            TaskValue, //
        }, //
    }, //
};
use pin_init::stack_pin_init;

/// The owner of the values.
static UNPLACED: u8 = 0;

/// Returns whether the current task is inside [`bypass`] without a slot in the table, so that the
/// callback of ftrace does not see the task. Context: any but interrupts.
pub(super) fn is_unplaced() -> bool {
    value_of(&UNPLACED, TaskId::current()).is_some()
}

fn is_bypassed() -> bool {
    // SAFETY: The function only reads the table.
    let has_slot = unsafe { helpers::ext_bypass_has(TaskId::current().0) };
    has_slot || is_unplaced()
}

/// Calls `f`, and meanwhile exempts the calls of the current task from the umem hook, also if the
/// pages cannot be pinned. Calls may be nested. Context: that of `f`; may sleep.
pub fn bypass<R>(f: impl FnOnce() -> R) -> R {
    let task = TaskId::current();
    // SAFETY: The task leaves the table below.
    let entry = unsafe { helpers::ext_bypass_enter(task.0) };
    if !entry.is_null() {
        let result = f();
        // SAFETY: The task has entered above.
        unsafe { helpers::ext_bypass_leave(entry) };
        return result;
    }
    if is_bypassed() {
        return f();
    }
    stack_pin_init!(let _value = TaskValue::new(&UNPLACED, task, &UNPLACED));
    f()
}

#[cfg(ext_tests)]
#[kernel::macros::kunit_tests(ext_umem_hook_bypass)]
mod tests {
    use super::*;

    /// Takes the slot of the current task for another one.
    fn take_slot() -> *mut helpers::ext_task_entry {
        // SAFETY: Each task that enters leaves, but for the one that is returned.
        unsafe {
            let own = helpers::ext_bypass_enter(TaskId::current().0);
            helpers::ext_bypass_leave(own);
            let mut n = 0;
            loop {
                n += 1;
                let entry = helpers::ext_bypass_enter(n);
                if entry == own {
                    return entry;
                }
                if !entry.is_null() {
                    helpers::ext_bypass_leave(entry);
                }
            }
        }
    }

    /// The task is exempt also while another one has its slot, as when hundreds of tasks wait in the
    /// driver.
    #[test]
    fn without_a_slot() {
        let other = take_slot();
        let before = is_bypassed();
        let seen = bypass(|| (is_unplaced(), bypass(is_bypassed), is_bypassed()));
        let after = is_bypassed();
        // SAFETY: `take_slot` has entered a task.
        unsafe { helpers::ext_bypass_leave(other) };
        assert!(seen == (true, true, true));
        assert!(!before && !after);
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
