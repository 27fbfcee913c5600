// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause

//! Device memory on PCI BARs, with the semantics of `ibv_alloc_dm(3)`.
//!
//! The names and the order of arguments are those of the verbs; see `iopm_alloc_dm(3)`.
//!
//! ```no_run
//! let bar = iopm::Context::open_device("/dev/io_peer_mem/0000:00:07.0/bar2")?;
//! let dm = bar.alloc_dm(&iopm::AllocDmAttr { length: 4096, log_align_req: 3, comp_mask: 0 })?;
//! dm.memcpy_to_dm(8, b"hello")?;
//! dm.free_dm().map_err(|busy| busy.error)?;
//! # Ok::<(), std::io::Error>(())
//! ```

#![warn(missing_docs, clippy::undocumented_unsafe_blocks)]

mod dm;
#[allow(missing_docs)]
mod ffi;
mod mr;

pub use dm::{Busy, Dm};
pub use ffi::{AllocDmAttr, DeviceAttr, IbvPd};
pub use mr::{access, Mr};

use std::{ffi::CString, io, os::unix::ffi::OsStrExt, path::Path, ptr::NonNull};

/// Converts the result of a function that returns an errno.
fn check(errno: i32) -> io::Result<()> {
    match errno {
        0 => Ok(()),
        _ => Err(io::Error::from_raw_os_error(errno)),
    }
}

/// An open BAR.
///
/// # Invariants
///
/// The pointer was returned by `iopm_open_device()`, and only this object closes it.
pub struct Context(NonNull<ffi::Context>);

// SAFETY: A context is an open file, which is not bound to a thread.
unsafe impl Send for Context {}
// SAFETY: The library does not write to a context after it is open.
unsafe impl Sync for Context {}

impl Context {
    /// Opens the character device of a BAR.
    pub fn open_device(path: impl AsRef<Path>) -> io::Result<Self> {
        let path = CString::new(path.as_ref().as_os_str().as_bytes())?;
        // SAFETY: `path` is a C string.
        NonNull::new(unsafe { ffi::iopm_open_device(path.as_ptr()) })
            // INVARIANT: `iopm_open_device()` has just returned the pointer.
            .map(Self)
            .ok_or_else(io::Error::last_os_error)
    }

    /// Returns the size and the free memory of the BAR.
    pub fn query_device_ex(&self) -> io::Result<DeviceAttr> {
        let mut attr = DeviceAttr::default();
        let input = std::ptr::null();
        // SAFETY: By the type invariant the context is open; `attr` is valid for writes.
        check(unsafe { ffi::iopm_query_device_ex(self.0.as_ptr(), input, &mut attr) })?;
        Ok(attr)
    }

    /// Allocates memory. It is not cleared: it has the contents of its last user.
    pub fn alloc_dm(&self, attr: &AllocDmAttr) -> io::Result<Dm<'_>> {
        let mut attr = *attr;
        // SAFETY: By the type invariant the context is open; `attr` is valid.
        let dm = NonNull::new(unsafe { ffi::iopm_alloc_dm(self.0.as_ptr(), &mut attr) })
            .ok_or_else(io::Error::last_os_error)?;
        // SAFETY:
        // - `iopm_alloc_dm()` has just returned `dm`.
        // - The context is open while `self` is borrowed.
        Ok(unsafe { Dm::from_raw(dm) })
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        // SAFETY: By the type invariant the context is open and has no other owner. Allocations
        // borrow `self`, so all are gone.
        unsafe { ffi::iopm_close_device(self.0.as_ptr()) };
    }
}
