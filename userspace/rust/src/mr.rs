// SPDX-License-Identifier: GPL-2.0

//! Memory regions on device memory.

use crate::{check, ffi, Dm};
use std::{io, ptr::NonNull};

/// `enum ibv_access_flags`.
pub mod access {
    /// The adapter may write.
    pub const LOCAL_WRITE: u32 = 1 << 0;
    /// The other end may write.
    pub const REMOTE_WRITE: u32 = 1 << 1;
    /// The other end may read.
    pub const REMOTE_READ: u32 = 1 << 2;
    /// The other end may do atomics.
    pub const REMOTE_ATOMIC: u32 = 1 << 3;
    /// Addresses are offsets. Needed for device memory.
    pub const ZERO_BASED: u32 = 1 << 5;
}

/// A zero-based memory region. When it is dropped it is deregistered; the memory is in use until
/// then.
///
/// # Invariants
///
/// The pointer is what `iopm_reg_dm_mr()` returned, and is deregistered by nobody else.
pub struct Mr(NonNull<ffi::IbvMr>);

// SAFETY: A memory region belongs to no thread.
unsafe impl Send for Mr {}
// SAFETY: There are only constants to read.
unsafe impl Sync for Mr {}

impl Dm<'_> {
    /// Registers `length` bytes from `dm_offset` on, which has to be a multiple of the page size.
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
        // SAFETY: The object is valid, and by the requirements `pd` is, too.
        let mr =
            unsafe { ffi::iopm_reg_dm_mr(pd.as_ptr(), self.as_raw(), dm_offset, length, access) };
        // INVARIANT: It was just returned.
        NonNull::new(mr)
            .map(Mr)
            .ok_or_else(io::Error::last_os_error)
    }
}

impl Mr {
    /// For requests of this end.
    pub fn lkey(&self) -> u32 {
        // SAFETY: By the type invariant it is valid.
        unsafe { self.0.as_ref() }.lkey
    }

    /// For requests of the other end.
    pub fn rkey(&self) -> u32 {
        // SAFETY: By the type invariant it is valid.
        unsafe { self.0.as_ref() }.rkey
    }

    /// In bytes.
    pub fn length(&self) -> usize {
        // SAFETY: By the type invariant it is valid.
        unsafe { self.0.as_ref() }.length
    }
}

impl Drop for Mr {
    fn drop(&mut self) {
        // SAFETY: By the type invariant it is ours. It fails only where it is in use, as by a memory
        // window; then it goes with its protection domain.
        let _ = check(unsafe { ffi::ibv_dereg_mr(self.0.as_ptr()) });
    }
}
