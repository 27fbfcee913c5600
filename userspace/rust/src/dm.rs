// SPDX-License-Identifier: GPL-2.0

//! Allocations.

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
/// When it is dropped, this process has it no more; it is free when nobody has: no other process
/// that has its file, no memory region. [`Dm::free_dm`] frees it, or says that it is in use.
///
/// # Invariants
///
/// The pointer is what `iopm_alloc_dm()` or `iopm_import_dm()` returned, and is given back by nobody
/// else.
pub struct Dm<'a> {
    raw: NonNull<ffi::Dm>,
    context: PhantomData<&'a crate::Context>,
}

// SAFETY: An allocation is an open file and a mapping, which belong to no thread.
unsafe impl Send for Dm<'_> {}
// SAFETY: Copies may run at the same time, also of the same bytes: they are made of single accesses
// to volatile memory. What changes the object takes it by value.
unsafe impl Sync for Dm<'_> {}

/// Memory that could not be freed, and why: `EBUSY` while it is in use.
pub struct Busy<'a> {
    /// The memory, as it was.
    pub dm: Dm<'a>,
    /// Why.
    pub error: io::Error,
}

impl fmt::Debug for Busy<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.error.fmt(f)
    }
}

impl<'a> Dm<'a> {
    /// # Safety
    ///
    /// The library has just returned `raw`, and what it was allocated from is open during `'a`.
    pub(crate) unsafe fn from_raw(raw: NonNull<ffi::Dm>) -> Self {
        // INVARIANT: By the requirements.
        Self {
            raw,
            context: PhantomData,
        }
    }

    /// The C object.
    pub(crate) fn as_raw(&self) -> *mut ffi::Dm {
        self.raw.as_ptr()
    }

    /// Device memory whose file another process has passed on. The file remains the caller's.
    pub fn import_dm(handle: BorrowedFd<'_>) -> io::Result<Dm<'static>> {
        let handle = handle.as_raw_fd() as u32;
        // SAFETY: Any file descriptor will do, and no context as well.
        let dm = NonNull::new(unsafe { ffi::iopm_import_dm(std::ptr::null_mut(), handle) })
            .ok_or_else(io::Error::last_os_error)?;
        // SAFETY: It was just returned, and knows no context.
        Ok(unsafe { Dm::from_raw(dm) })
    }

    /// Frees the memory now.
    pub fn free_dm(self) -> Result<(), Busy<'a>> {
        let this = ManuallyDrop::new(self);
        // SAFETY: By the type invariant it is ours to give back.
        check(unsafe { ffi::iopm_free_dm(this.as_raw()) }).map_err(|error| Busy {
            // Where it fails all is as before.
            dm: ManuallyDrop::into_inner(this),
            error,
        })
    }

    /// Copies `from` to the bytes at `dm_offset`. `EINVAL` where there are not so many, `ENODEV` where
    /// the device is gone.
    pub fn memcpy_to_dm(&self, dm_offset: u64, from: &[u8]) -> io::Result<()> {
        // SAFETY: By the type invariant the object is valid; so many bytes may be read.
        check(unsafe {
            ffi::iopm_memcpy_to_dm(self.as_raw(), dm_offset, from.as_ptr().cast(), from.len())
        })
    }

    /// Copies the bytes at `dm_offset` to `to`; fails as [`Dm::memcpy_to_dm`].
    pub fn memcpy_from_dm(&self, to: &mut [u8], dm_offset: u64) -> io::Result<()> {
        // SAFETY: By the type invariant the object is valid; so many bytes may be written.
        check(unsafe {
            ffi::iopm_memcpy_from_dm(to.as_mut_ptr().cast(), self.as_raw(), dm_offset, to.len())
        })
    }
}

/// To pass it on: see `unix(7)`, `SCM_RIGHTS`.
impl AsFd for Dm<'_> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        // SAFETY: By the type invariant the object is valid, and its file open as long as it is.
        unsafe { BorrowedFd::borrow_raw((*self.as_raw()).handle as i32) }
    }
}

impl Drop for Dm<'_> {
    fn drop(&mut self) {
        // SAFETY: By the type invariant it is ours to give back. Not to be freed: others may have it.
        unsafe { ffi::iopm_unimport_dm(self.as_raw()) };
    }
}
