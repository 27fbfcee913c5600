// SPDX-License-Identifier: GPL-2.0

//! Values of tasks. A task gives itself a value for the duration of a function call. Code in the call
//! that cannot get the value as an argument, such as a hook, looks for the value of the task.

use super::id::TaskId;
use crate::shared::prelude::raw::*;

/// A task with a value, which the object has borrowed for `'a`. Drop removes the value. Each module has
/// one set of them.
///
/// # Invariants
///
/// The C object is in the set.
#[pin_data(PinnedDrop)]
pub struct TaskValue<'a> {
    #[pin]
    entry: Opaque<helpers::ext_task_value>,
    _value: PhantomData<&'a ()>,
}

impl<'a> TaskValue<'a> {
    /// Gives `task`, which must be the caller, a value for `owner`, of which only the address counts.
    pub fn new<T, O>(
        owner: &'static O,
        task: TaskId,
        value: &'a T,
    ) -> impl PinInit<Self> + use<'a, T, O> {
        let owner: *const O = owner;
        let value = NonNull::from(value).cast::<c_void>();
        pin_init!(Self {
            // INVARIANT: The function adds the object, which stays in place until drop.
            entry <- Opaque::ffi_init(move |slot| {
                // SAFETY: The slot is valid for writes, and stays in place until drop.
                unsafe { helpers::ext_task_value_add(slot, owner.cast(), task.0, value.as_ptr()) }
            }),
            _value: PhantomData,
        })
    }
}

/// Returns the value of `task` for `owner`, or `None` if the task has none. `task` must be the caller.
/// Context: any but interrupts.
pub fn value_of<O>(owner: &'static O, task: TaskId) -> Option<NonNull<c_void>> {
    let owner: *const O = owner;
    // SAFETY: The function only compares the pointer to the owner.
    NonNull::new(unsafe { helpers::ext_task_value_of(owner.cast(), task.0) })
}

#[pinned_drop]
impl PinnedDrop for TaskValue<'_> {
    fn drop(self: Pin<&mut Self>) {
        // SAFETY: By the type invariants the object is in the set.
        unsafe { helpers::ext_task_value_remove(self.entry.get()) };
    }
}

#[cfg(ext_tests)]
#[kunit_tests(ext_task_value)]
mod tests {
    use super::*;

    /// Each task has a value of its own for each owner, also if another task is in the same list.
    #[test]
    fn tasks_and_owners_have_own_values() -> Result {
        static OWNER: u8 = 0;
        static OTHER: u8 = 1;
        let (x, y) = (0, 0);
        let add =
            |owner, task, value| KBox::pin_init(TaskValue::new(owner, task, value), GFP_KERNEL);
        // Of so many tasks some are in one list.
        let task = |n| TaskId(0x1000 + n);
        let mut others = KVec::new();
        for n in 1..=helpers::EXT_TASK_SLOTS as usize {
            others.push(add(&OWNER, task(n), &y)?, GFP_KERNEL)?;
        }
        let first = add(&OWNER, task(0), &x)?;
        let other = add(&OTHER, task(0), &y)?;
        let values = || [value_of(&OWNER, task(0)), value_of(&OTHER, task(0))];
        let (at_x, at_y) = (NonNull::from(&x).cast(), NonNull::from(&y).cast());
        let both = values();
        drop(first);
        let one = values();
        drop(other);
        let none = values();
        let rest = (1..=others.len()).all(|n| value_of(&OWNER, task(n)) == Some(at_y));
        drop(others);
        assert_eq!(both, [Some(at_x), Some(at_y)]);
        assert_eq!(one, [None, Some(at_y)]);
        assert_eq!(none, [None, None]);
        assert!(rest);
        assert_eq!(value_of(&OWNER, task(1)), None);
        Ok(())
    }
}
