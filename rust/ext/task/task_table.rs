// SPDX-License-Identifier: GPL-2.0

//! Tables of tasks, each with a value. A task enters itself for the duration of a function call.
//! Code in the call that cannot get the value as an argument, such as a hook, looks for the task in
//! the table. [`TaskTable`] is a table, and [`TaskEntry`] an entry. Used by the hooks on kernel functions.
//!
//! There is no lock, and tasks that start at different slots write to different cache lines. A table has
//! a limited number of slots; [`UnplacedTask`] is a task beyond these.

use super::id::TaskId;
use crate::shared::bindings::helpers;
use core::{
    ffi::c_void,
    marker::PhantomData,
    ptr::NonNull, //
};
use kernel::{
    prelude::*,
    types::Opaque, //
};

/// A set of tasks.
#[repr(align(64))]
pub struct TaskTable(Opaque<helpers::ext_task_table>);

// SAFETY: The functions for the table may be called by any number of tasks.
unsafe impl Sync for TaskTable {}

impl TaskTable {
    /// Creates an empty table.
    pub const fn new() -> Self {
        Self(Opaque::zeroed())
    }

    /// Returns the C object.
    pub fn as_raw(&self) -> *mut helpers::ext_task_table {
        self.0.get()
    }

    /// Enters `task`. Returns `None` if the task has a slot before the first free slot, or if all
    /// slots that the task tries are taken. A task that is in the table twice leaves the table when
    /// both entries are dropped.
    pub fn enter(&self, task: TaskId) -> Option<TaskEntry<'_>> {
        // SAFETY: The table is valid: a slot of zero is free.
        let entry = unsafe { helpers::ext_task_table_enter(self.as_raw(), task.0) };
        // INVARIANT: The function has entered the task in the slot.
        NonNull::new(entry).map(|entry| TaskEntry(entry, PhantomData))
    }

    /// Returns the value of `task`, or `None` if `task` is not in the table. `task` must be the
    /// caller.
    pub fn value(&self, task: TaskId) -> Option<*mut c_void> {
        // SAFETY: The table is valid.
        let entry = unsafe { helpers::ext_task_table_find(self.as_raw(), task.0) };
        // SAFETY: The slot belongs to the caller, and only the caller writes the value.
        unsafe { entry.as_ref() }.map(|entry| entry.value)
    }
}

/// An entry of a task in the table. Drop removes the entry.
///
/// # Invariants
///
/// The slot belongs to a table that lives for `'a`, and contains the task.
pub struct TaskEntry<'a>(NonNull<helpers::ext_task_entry>, PhantomData<&'a TaskTable>);

impl TaskEntry<'_> {
    /// Sets the value of the task. The caller must be the task.
    pub fn set_value(&self, value: *mut c_void) {
        // SAFETY: By the type invariants the slot is valid and contains the task, and only the task
        // uses the field.
        unsafe { (*self.0.as_ptr()).value = value };
    }
}

impl Drop for TaskEntry<'_> {
    fn drop(&mut self) {
        // SAFETY: By the type invariants the slot is valid, and contains the task on behalf of this
        // object.
        unsafe { helpers::ext_task_table_leave(self.0.as_ptr()) };
    }
}

/// A task with a value, for which a table has no slot: there is no limit to the number of such tasks.
/// Drop removes the task. Each module has one set of them.
///
/// # Invariants
///
/// The C object is in the set, and the value is not NULL.
pub struct UnplacedTask(KBox<Opaque<helpers::ext_unplaced_task>>);

impl UnplacedTask {
    /// Adds `task`, which must be the caller and has no slot in `tasks`, with `value`. Context: may
    /// sleep.
    pub fn new(tasks: &'static TaskTable, task: TaskId, value: NonNull<c_void>) -> Result<Self> {
        let entry = KBox::new(Opaque::zeroed(), GFP_KERNEL)?;
        // SAFETY: The object stays in its box until drop.
        unsafe {
            helpers::ext_unplaced_task_add(
                entry.get(),
                tasks.as_raw().cast(),
                task.0,
                value.as_ptr(),
            )
        };
        // INVARIANT: Just added.
        Ok(Self(entry))
    }

    /// Returns the value of `task` for `tasks`, or `None` if `task` was not added. `task` must be the
    /// caller. Context: any but interrupts.
    pub fn value(tasks: &'static TaskTable, task: TaskId) -> Option<NonNull<c_void>> {
        // SAFETY: The function only compares the pointer to the table.
        NonNull::new(unsafe { helpers::ext_unplaced_task_value(tasks.as_raw().cast(), task.0) })
    }
}

impl Drop for UnplacedTask {
    fn drop(&mut self) {
        // SAFETY: By the type invariants the object is in the set.
        unsafe { helpers::ext_unplaced_task_remove(self.0.get()) };
    }
}

#[cfg(ext_tests)]
#[kunit_tests(ext_task_table)]
pub mod tests {
    use super::*;

    /// Number of slots that a task tries.
    const PROBES: usize = helpers::EXT_TASK_PROBES as usize;

    impl TaskTable {
        fn contains(&self, task: TaskId) -> bool {
            self.value(task).is_some()
        }
    }

    /// Returns the first slot of a task.
    fn first(task: TaskId) -> u32 {
        // SAFETY: The function only computes.
        unsafe { helpers::ext_task_first_slot(task.0) }
    }

    /// Takes all slots of `task` in `tasks`.
    pub fn fill(tasks: &TaskTable, task: TaskId) -> Result<KVec<Option<TaskEntry<'_>>>> {
        let mut others = KVec::with_capacity(PROBES, GFP_KERNEL)?;
        let mut n = task.0;
        for _ in 0..PROBES {
            let other = neighbour(task, n);
            n = other.0;
            others.push(tasks.enter(other), GFP_KERNEL)?;
        }
        Ok(others)
    }

    fn table() -> Result<KBox<TaskTable>> {
        // 16 KiB: not on the stack.
        let mut tasks = KBox::<TaskTable>::new_uninit(GFP_KERNEL)?;
        // SAFETY: All zeroes are free slots.
        unsafe { tasks.as_mut_ptr().write_bytes(0, 1) };
        // SAFETY: Just initialized.
        Ok(unsafe { tasks.assume_init() })
    }

    /// Returns a task that has the same slots as `task`.
    fn neighbour(task: TaskId, after: usize) -> TaskId {
        let mut n = after + 1;
        while first(TaskId(n)) != first(task) {
            n += 1;
        }
        TaskId(n)
    }

    /// Tasks that share slots do not see the entries of each other.
    #[test]
    fn collision() -> Result {
        let tasks = table()?;
        let a = TaskId(0x1000);
        let b = neighbour(a, 0x1000);
        let entry = tasks.enter(a);
        let alone = (tasks.contains(a), tasks.contains(b));
        let other = tasks.enter(b);
        let both = (tasks.contains(a), tasks.contains(b));
        drop(entry);
        let left = (tasks.contains(a), tasks.contains(b));
        drop(other);
        assert!(alone == (true, false));
        assert!(both == (true, true));
        assert!(left == (false, true));
        assert!(!tasks.contains(b));
        Ok(())
    }

    /// A task is not entered while all slots of the task are taken, and is entered when a slot is
    /// free again.
    #[test]
    fn full() -> Result {
        let tasks = table()?;
        let task = TaskId(0x1000);
        let mut others = fill(&tasks, task)?;
        let rejected = tasks.enter(task).is_none();
        let absent = !tasks.contains(task);
        others.pop();
        let accepted = tasks.enter(task).is_some();
        drop(others);
        assert!(rejected && absent && accepted);
        Ok(())
    }

    /// Unplaced tasks with the same slots have values of their own, in each table.
    #[test]
    fn unplaced() -> Result {
        static TASKS: TaskTable = TaskTable::new();
        static OTHERS: TaskTable = TaskTable::new();
        let a = TaskId(0x1000);
        let b = neighbour(a, 0x1000);
        let (mut x, mut y) = (0, 0);
        let (x, y) = (NonNull::from(&mut x).cast(), NonNull::from(&mut y).cast());
        let values = || {
            (
                UnplacedTask::value(&TASKS, a),
                UnplacedTask::value(&TASKS, b),
                UnplacedTask::value(&OTHERS, a),
            )
        };
        let first = UnplacedTask::new(&TASKS, a, x)?;
        let alone = values();
        let second = UnplacedTask::new(&TASKS, b, y)?;
        let both = values();
        let other = UnplacedTask::new(&OTHERS, a, y)?;
        let in_both = values();
        drop(other);
        drop(first);
        let left = values();
        drop(second);
        assert!(alone == (Some(x), None, None));
        assert!(both == (Some(x), Some(y), None));
        assert!(in_both == (Some(x), Some(y), Some(y)));
        assert!(left == (None, Some(y), None));
        assert!(values() == (None, None, None));
        Ok(())
    }
}
