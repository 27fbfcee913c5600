// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause

//! Memory regions on device memory.

use crate::{check, ffi, Dm};
use std::{io, ptr::NonNull};

/// `enum ibv_access_flags`.
pub mod access {
    /// The adapter may write.
    pub const LOCAL_WRITE: u32 = 1 << 0;
    /// The remote side may write.
    pub const REMOTE_WRITE: u32 = 1 << 1;
    /// The remote side may read.
    pub const REMOTE_READ: u32 = 1 << 2;
    /// The remote side may do atomics.
    pub const REMOTE_ATOMIC: u32 = 1 << 3;
    /// Addresses are offsets in the region. Required for device memory.
    pub const ZERO_BASED: u32 = 1 << 5;
}

/// A zero-based memory region. Dropping it deregisters it; the memory is in use until then.
///
/// # Invariants
///
/// The pointer was returned by `iopm_reg_dm_mr()`, and only this object deregisters it.
pub struct Mr(NonNull<ffi::IbvMr>);

// SAFETY: A memory region is not bound to a thread.
unsafe impl Send for Mr {}
// SAFETY: The methods read constants only.
unsafe impl Sync for Mr {}

impl Dm<'_> {
    /// Registers `length` bytes from `dm_offset` on, which must be a multiple of the page size.
    ///
    /// # Safety
    ///
    /// `pd` must be a protection domain that outlives the region.
    pub unsafe fn reg_dm_mr(
        &self,
        pd: NonNull<ffi::IbvPd>,
        dm_offset: u64,
        length: usize,
        access: u32,
    ) -> io::Result<Mr> {
        // SAFETY:
        // - By the type invariant of `Dm` the object is valid.
        // - By the safety requirements `pd` is a valid protection domain.
        let mr =
            unsafe { ffi::iopm_reg_dm_mr(pd.as_ptr(), self.as_raw(), dm_offset, length, access) };
        // INVARIANT: `iopm_reg_dm_mr()` has just returned the pointer.
        NonNull::new(mr)
            .map(Mr)
            .ok_or_else(io::Error::last_os_error)
    }
}

impl Mr {
    /// Returns the key for local use.
    pub fn lkey(&self) -> u32 {
        // SAFETY: By the type invariant the pointer is valid.
        unsafe { self.0.as_ref() }.lkey
    }

    /// Returns the key for remote use.
    pub fn rkey(&self) -> u32 {
        // SAFETY: By the type invariant the pointer is valid.
        unsafe { self.0.as_ref() }.rkey
    }

    /// Returns the length in bytes.
    pub fn length(&self) -> usize {
        // SAFETY: By the type invariant the pointer is valid.
        unsafe { self.0.as_ref() }.length
    }
}

impl Drop for Mr {
    fn drop(&mut self) {
        // Fails only if the region is in use, for example by a memory window. The kernel then frees
        // it with its protection domain.
        // SAFETY: By the type invariant the region is registered and has no other owner.
        let _ = check(unsafe { ffi::ibv_dereg_mr(self.0.as_ptr()) });
    }
}
