// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause

//! Device memory: allocations and imports.

use crate::{check, ffi};
use std::{
    fmt, io,
    marker::PhantomData,
    mem::ManuallyDrop,
    os::fd::{AsFd, AsRawFd, BorrowedFd},
    ptr::NonNull,
};

/// Device memory.
///
/// Dropping it unmaps the memory and closes its file. The memory is free when the last process has
/// closed the file and the last memory region is gone. [`Dm::free_dm`] frees it explicitly, unless
/// it is in use.
///
/// # Invariants
///
/// The pointer was returned by `iopm_alloc_dm()` or `iopm_import_dm()`, and only this object passes
/// it to `iopm_free_dm()` or `iopm_unimport_dm()`.
pub struct Dm<'a> {
    raw: NonNull<ffi::Dm>,
    context: PhantomData<&'a crate::Context>,
}

// SAFETY: An allocation is an open file and a mapping, which are not bound to a thread.
unsafe impl Send for Dm<'_> {}
// SAFETY: Concurrent copies are single volatile accesses, also if they overlap. The methods that
// change the object take it by value.
unsafe impl Sync for Dm<'_> {}

/// Memory that could not be freed: `EBUSY` if it is in use.
pub struct Busy<'a> {
    /// The memory, unchanged.
    pub dm: Dm<'a>,
    /// The error.
    pub error: io::Error,
}

impl fmt::Debug for Busy<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.error.fmt(f)
    }
}

impl<'a> Dm<'a> {
    /// Takes ownership of `raw`.
    ///
    /// # Safety
    ///
    /// - `raw` was returned by `iopm_alloc_dm()` or `iopm_import_dm()` and has no other owner.
    /// - The context that it was allocated from is open during `'a`.
    pub(crate) unsafe fn from_raw(raw: NonNull<ffi::Dm>) -> Self {
        // INVARIANT: The safety requirements are those of the type.
        Self {
            raw,
            context: PhantomData,
        }
    }

    /// Returns the C object.
    pub(crate) fn as_raw(&self) -> *mut ffi::Dm {
        self.raw.as_ptr()
    }

    /// Imports device memory by its file. The caller keeps the file.
    pub fn import_dm(handle: BorrowedFd<'_>) -> io::Result<Dm<'static>> {
        let handle = handle.as_raw_fd() as u32;
        // SAFETY: The function accepts any file descriptor and a NULL context.
        let dm = NonNull::new(unsafe { ffi::iopm_import_dm(std::ptr::null_mut(), handle) })
            .ok_or_else(io::Error::last_os_error)?;
        // SAFETY: `iopm_import_dm()` has just returned `dm`, which refers to no context.
        Ok(unsafe { Dm::from_raw(dm) })
    }

    /// Frees the memory.
    pub fn free_dm(self) -> Result<(), Busy<'a>> {
        let this = ManuallyDrop::new(self);
        // SAFETY: By the type invariant the pointer is valid and owned by `this`.
        check(unsafe { ffi::iopm_free_dm(this.as_raw()) }).map_err(|error| Busy {
            // A failed free changes nothing.
            dm: ManuallyDrop::into_inner(this),
            error,
        })
    }

    /// Copies `from` to the bytes at `dm_offset`. Fails with `EINVAL` if they exceed the memory, and
    /// with `ENODEV` if the device was removed.
    pub fn memcpy_to_dm(&self, dm_offset: u64, from: &[u8]) -> io::Result<()> {
        // SAFETY: By the type invariant the object is valid; `from` is readable for its length.
        check(unsafe {
            ffi::iopm_memcpy_to_dm(self.as_raw(), dm_offset, from.as_ptr().cast(), from.len())
        })
    }

    /// Copies the bytes at `dm_offset` to `to`. Fails as [`Dm::memcpy_to_dm`].
    pub fn memcpy_from_dm(&self, to: &mut [u8], dm_offset: u64) -> io::Result<()> {
        // SAFETY: By the type invariant the object is valid; `to` is writable for its length.
        check(unsafe {
            ffi::iopm_memcpy_from_dm(to.as_mut_ptr().cast(), self.as_raw(), dm_offset, to.len())
        })
    }
}

/// The file to send to another process: see `SCM_RIGHTS` in `unix(7)`.
impl AsFd for Dm<'_> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        // SAFETY: By the type invariant the object is valid, and its file is open while it exists.
        unsafe { BorrowedFd::borrow_raw((*self.as_raw()).handle as i32) }
    }
}

impl Drop for Dm<'_> {
    fn drop(&mut self) {
        // Not `iopm_free_dm()`: other processes may use the memory.
        // SAFETY: By the type invariant the pointer is valid and owned by `self`.
        unsafe { ffi::iopm_unimport_dm(self.as_raw()) };
    }
}
