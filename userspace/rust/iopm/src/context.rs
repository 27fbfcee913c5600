// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause

//! Open BARs.

use crate::{Dm, Error, PciAddress, Result};
use iopm_sys as ffi;
use std::{
    ffi::CString,
    mem::size_of,
    os::{
        fd::{AsFd, BorrowedFd},
        unix::ffi::OsStrExt,
    },
    path::Path,
    ptr::{self, NonNull},
};

/// `EINVAL`.
const EINVAL: i32 = 22;

/// An open BAR.
///
/// # Invariants
///
/// The pointer was returned by `iopm_open_path()`, and only this object closes it.
#[derive(Debug)]
pub struct Context(NonNull<ffi::iopm_context>);

// SAFETY: A context is an open file, which is not bound to a thread.
unsafe impl Send for Context {}
// SAFETY: The library does not write to a context after it is open.
unsafe impl Sync for Context {}

/// The memory of a BAR, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeviceAttr {
    /// Size of the memory.
    pub size: u64,
    /// Free bytes.
    pub free: u64,
    /// The largest free range.
    pub largest: u64,
    /// Allocations are rounded up to this.
    pub page_size: u64,
}

/// The wish for an allocation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AllocDmAttr {
    /// Length in bytes.
    pub length: usize,
    /// Log base 2 of the alignment of the offset in the BAR.
    pub log_align: u32,
    /// Whether the memory is cleared also if the administrator has set `zero=never`. If not, it has
    /// the contents of its last user then.
    pub zero: bool,
}

/// How far memory is from a PCI function. Distances are those of the kernel's p2pdma.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Nearest {
    /// The distance of the BAR, if the function reaches it.
    pub distance: Option<u32>,
    /// The nearest function with peer-to-peer memory, and its distance.
    pub provider: Option<(PciAddress, u32)>,
}

impl Context {
    /// Opens the character device of a BAR. Fails with `ENOTTY` if the file is none.
    pub fn open_path(path: impl AsRef<Path>) -> Result<Self> {
        let function = "iopm_open_path";
        let path = CString::new(path.as_ref().as_os_str().as_bytes())
            .map_err(|_| Error::new(function, EINVAL))?;
        // SAFETY: `path` is a C string.
        NonNull::new(unsafe { ffi::iopm_open_path(path.as_ptr()) })
            // INVARIANT: `iopm_open_path()` has just returned the pointer.
            .map(Self)
            .ok_or_else(|| Error::last(function))
    }

    /// Returns the size and the free memory of the BAR.
    pub fn query(&self) -> Result<DeviceAttr> {
        let mut attr = ffi::iopm_device_attr_ex::default();
        // SAFETY: By the type invariant the context is open; `attr` is valid for writes of its size.
        Error::check("iopm_query_device_ex", unsafe {
            ffi::_iopm_query_device_ex(self.0.as_ptr(), ptr::null(), &mut attr, size_of_val(&attr))
        })?;
        Ok(DeviceAttr {
            size: attr.max_dm_size,
            free: attr.free_dm_size,
            largest: attr.largest_dm_size,
            page_size: attr.dm_page_size,
        })
    }

    /// Returns how far memory is from `function`, for an RDMA device its PCI function. Fails with
    /// `ENXIO` if there is no such function.
    pub fn nearest(&self, function: PciAddress) -> Result<Nearest> {
        let (address, mut nearest) = (function.to_raw(), ffi::iopm_nearest::default());
        let size = size_of::<ffi::iopm_nearest>();
        // SAFETY: By the type invariant the context is open; `address` is valid, and `nearest` for
        // writes of its size.
        Error::check("iopm_query_nearest", unsafe {
            ffi::_iopm_query_nearest(self.0.as_ptr(), &address, &mut nearest, size)
        })?;
        let has = |flag| nearest.comp_mask & flag != 0;
        Ok(Nearest {
            distance: has(ffi::IOPM_NEAREST_DISTANCE).then_some(nearest.distance),
            provider: has(ffi::IOPM_NEAREST_PROVIDER).then_some((
                PciAddress::from_raw(nearest.provider),
                nearest.provider_distance,
            )),
        })
    }

    /// Allocates memory.
    pub fn alloc_dm(&self, attr: &AllocDmAttr) -> Result<Dm<'_>> {
        let mut attr = ffi::iopm_alloc_dm_attr {
            length: attr.length,
            log_align_req: attr.log_align,
            comp_mask: ffi::IOPM_ALLOC_DM_MASK_FLAGS,
            flags: if attr.zero {
                ffi::IOPM_ALLOC_DM_ZERO
            } else {
                0
            },
        };
        // SAFETY: By the type invariant the context is open; `attr` is valid.
        let dm = NonNull::new(unsafe { ffi::iopm_alloc_dm(self.0.as_ptr(), &mut attr) })
            .ok_or_else(|| Error::last("iopm_alloc_dm"))?;
        // SAFETY:
        // - `iopm_alloc_dm()` has just returned `dm`.
        // - The context is open while `self` is borrowed.
        Ok(unsafe { Dm::from_raw(dm) })
    }
}

/// The character device.
impl AsFd for Context {
    fn as_fd(&self) -> BorrowedFd<'_> {
        // SAFETY: By the type invariant the context is open, and so is its file.
        unsafe { BorrowedFd::borrow_raw(self.0.as_ref().cmd_fd) }
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        // SAFETY: By the type invariant the context is open and has no other owner. Allocations
        // borrow `self`, so all are gone.
        unsafe { ffi::iopm_close_device(self.0.as_ptr()) };
    }
}
