// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause

//! Device memory: allocations and imports.

use crate::{Error, PciAddress, Result};
use iopm_sys as ffi;
use std::{
    error, fmt,
    marker::PhantomData,
    mem::{size_of, ManuallyDrop},
    os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd},
    ptr::{self, NonNull},
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
#[derive(Debug)]
pub struct Dm<'a> {
    raw: NonNull<ffi::iopm_dm>,
    context: PhantomData<&'a crate::Context>,
}

// SAFETY: An allocation is an open file and a mapping, which are not bound to a thread.
unsafe impl Send for Dm<'_> {}
// SAFETY: Copies are system calls, which may run at the same time. The methods that change the object
// take it by value.
unsafe impl Sync for Dm<'_> {}

/// Memory that could not be freed: `EBUSY` if it is in use.
#[derive(Debug)]
pub struct Busy<'a> {
    /// The memory, unchanged.
    pub dm: Dm<'a>,
    /// The error.
    pub error: Error,
}

impl fmt::Display for Busy<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.error.fmt(f)
    }
}

impl error::Error for Busy<'_> {}

/// Drops the memory, which is free once nothing uses it.
impl From<Busy<'_>> for Error {
    fn from(busy: Busy<'_>) -> Self {
        busy.error
    }
}

/// The place of device memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DmAttr {
    /// Length in bytes, as requested.
    pub length: u64,
    /// Bytes that can be mapped: whole pages.
    pub size: u64,
    /// Offset in bytes from the start of the BAR.
    pub bar_offset: u64,
    /// The number of the BAR.
    pub bar: u32,
    /// The PCI function.
    pub function: PciAddress,
    /// What is added to an offset of `mmap(2)` for a mapping that combines writes; `None` if the BAR
    /// has no such mappings.
    pub mmap_wc: Option<u64>,
}

impl<'a> Dm<'a> {
    /// Takes ownership of `raw`.
    ///
    /// # Safety
    ///
    /// - `raw` was returned by `iopm_alloc_dm()` or `iopm_import_dm()` and has no other owner.
    /// - The context that it was allocated from is open during `'a`.
    pub(crate) unsafe fn from_raw(raw: NonNull<ffi::iopm_dm>) -> Self {
        // INVARIANT: The safety requirements are those of the type.
        Self {
            raw,
            context: PhantomData,
        }
    }

    /// Returns the C object.
    pub(crate) fn as_raw(&self) -> *mut ffi::iopm_dm {
        self.raw.as_ptr()
    }

    /// Imports device memory by its file. The caller keeps the file. Fails with `EINVAL` if the file
    /// is no allocation.
    pub fn import_dm(handle: BorrowedFd<'_>) -> Result<Dm<'static>> {
        // CAST: A file descriptor is not negative.
        let handle = handle.as_raw_fd() as u32;
        // SAFETY: The function accepts any file descriptor and a NULL context.
        let dm = NonNull::new(unsafe { ffi::iopm_import_dm(ptr::null_mut(), handle) })
            .ok_or_else(|| Error::last("iopm_import_dm"))?;
        // SAFETY: `iopm_import_dm()` has just returned `dm`, which refers to no context.
        Ok(unsafe { Dm::from_raw(dm) })
    }

    /// Frees the memory, for all processes. Later copies by other holders fail with `ENODEV`.
    pub fn free_dm(self) -> std::result::Result<(), Busy<'a>> {
        let this = ManuallyDrop::new(self);
        // SAFETY: By the type invariant the pointer is valid and owned by `this`.
        let errno = unsafe { ffi::iopm_free_dm(this.as_raw()) };
        Error::check("iopm_free_dm", errno).map_err(|error| Busy {
            // A failed free changes nothing.
            dm: ManuallyDrop::into_inner(this),
            error,
        })
    }

    /// Copies `from` to the bytes at `offset`, by the kernel: no signal is raised if the device is
    /// removed meanwhile. Fails with `EINVAL` if they exceed the memory, and with `ENODEV` if the
    /// device was removed or the memory was freed.
    pub fn write_at(&self, from: &[u8], offset: u64) -> Result<()> {
        // SAFETY: By the type invariant the object is valid; `from` is readable for its length.
        Error::check("iopm_memcpy_to_dm", unsafe {
            ffi::iopm_memcpy_to_dm(self.as_raw(), offset, from.as_ptr().cast(), from.len())
        })
    }

    /// Copies the bytes at `offset` to `to`. Fails as [`Dm::write_at`].
    pub fn read_at(&self, to: &mut [u8], offset: u64) -> Result<()> {
        // SAFETY: By the type invariant the object is valid; `to` is writable for its length.
        Error::check("iopm_memcpy_from_dm", unsafe {
            ffi::iopm_memcpy_from_dm(to.as_mut_ptr().cast(), self.as_raw(), offset, to.len())
        })
    }

    /// Returns the length and the place. Fails with `ENODEV` if the device was removed.
    pub fn query(&self) -> Result<DmAttr> {
        let mut attr = ffi::iopm_dm_attr::default();
        let size = size_of::<ffi::iopm_dm_attr>();
        // SAFETY: By the type invariant the object is valid; `attr` is valid for writes of its size.
        Error::check("iopm_query_dm", unsafe {
            ffi::_iopm_query_dm(self.as_raw(), &mut attr, size)
        })?;
        Ok(DmAttr {
            length: attr.length,
            size: attr.size,
            bar_offset: attr.bar_offset,
            bar: attr.bar,
            function: PciAddress::from_raw(attr.function),
            mmap_wc: (attr.comp_mask & ffi::IOPM_DM_ATTR_MMAP_WC != 0).then_some(attr.mmap_wc),
        })
    }

    /// Exports `length` bytes from `offset` on, in whole pages, as a dma-buf, for example for
    /// `ibv_reg_dmabuf_mr(3)`. The memory is in use until it is closed.
    pub fn export_dmabuf(&self, offset: u64, length: usize) -> Result<OwnedFd> {
        // SAFETY: By the type invariant the object is valid.
        let fd = unsafe { ffi::iopm_export_dmabuf(self.as_raw(), offset, length) };
        if fd < 0 {
            return Err(Error::last("iopm_export_dmabuf"));
        }
        // SAFETY: The function has opened the file for its caller.
        Ok(unsafe { OwnedFd::from_raw_fd(fd) })
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
