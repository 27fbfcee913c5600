// SPDX-License-Identifier: GPL-2.0

//! The address space of the calling process. [`Locked`] shows that the `mmap_lock` is held. Used to
//! pin memory.
//!
//! C header: [`include/linux/mmap_lock.h`](srctree/include/linux/mmap_lock.h).

use core::ops::Deref;
use kernel::{
    mm::MmapReadGuard,
    task::CurrentTask, //
};

/// The `mmap_lock` of the calling process, held for reading.
///
/// # Invariants
///
/// `guard` is a lock of the address space of the task that holds this object.
pub struct Locked<'a> {
    /// The lock. Cannot be sent to another task.
    guard: MmapReadGuard<'a>,
}

impl<'a> Locked<'a> {
    /// Takes the lock. Returns `None` in a kernel thread.
    ///
    /// Another task of the process may hold the lock while waiting for memory that a process serves
    /// (FUSE, userfaultfd). The serving process determines how long the wait lasts.
    ///
    /// Context: process context; may sleep.
    pub fn of(task: &'a CurrentTask) -> Option<Self> {
        // INVARIANT: A `CurrentTask` is the calling task, and the guard stays in the calling task.
        Some(Self {
            guard: task.mm()?.mmap_read_lock(),
        })
    }
}

impl<'a> Deref for Locked<'a> {
    type Target = MmapReadGuard<'a>;

    fn deref(&self) -> &MmapReadGuard<'a> {
        &self.guard
    }
}
