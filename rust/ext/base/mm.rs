// SPDX-License-Identifier: GPL-2.0

//! The address space of the calling process. [`Locked`] shows that the `mmap_lock` is held. Used to
//! pin memory.

use crate::shared::prelude::raw::*;
use core::ops::Deref;
use kernel::{
    mm::{
        MmWithUser,
        MmapReadGuard, //
    },
    task::CurrentTask, //
};

/// The `mmap_lock` of the calling process, held for reading.
///
/// # Invariants
///
/// `guard` is a lock of `mm`, the address space of the task that holds this object.
pub struct Locked<'a> {
    mm: &'a MmWithUser,
    /// The lock. Cannot be sent to another task.
    guard: MmapReadGuard<'a>,
}

impl<'a> Locked<'a> {
    /// Takes the lock. Returns `None` in a kernel thread.
    ///
    /// Another task of the process may hold the lock while waiting for memory that a process serves
    /// (FUSE, userfaultfd). The serving process determines how long the wait lasts. Context:
    /// process context; may sleep.
    pub fn of(task: &'a CurrentTask) -> Option<Self> {
        let mm = task.mm()?;
        // INVARIANT: A `CurrentTask` is the calling task, and the guard stays in the calling task.
        Some(Self {
            mm,
            guard: mm.mmap_read_lock(),
        })
    }

    /// Handles a page fault at `addr`, for writing if `write`. The lock may be released and taken again.
    /// Returns `EFAULT` if the process may not access the page, or the driver of the mapping has none, and
    /// `EINTR` at a signal that kills the process. Context: process context; may sleep.
    pub fn fault(&mut self, addr: usize, write: bool) -> Result {
        let (write, mut unlocked) = (u32::from(write), false);
        let flags = write * bindings::fault_flag_FAULT_FLAG_WRITE;
        // SAFETY: By the type invariants this task holds the lock of `mm` for reading, and as `self` is
        // borrowed exclusively, no VMA of `mm` is in use. The lock is held again when the call returns.
        to_result(unsafe {
            bindings::fixup_user_fault(self.mm.as_raw(), addr, flags, &mut unlocked)
        })
    }
}

impl<'a> Deref for Locked<'a> {
    type Target = MmapReadGuard<'a>;

    fn deref(&self) -> &MmapReadGuard<'a> {
        &self.guard
    }
}
