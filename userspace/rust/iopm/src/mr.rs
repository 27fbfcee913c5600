// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause

//! Memory regions on device memory.

use crate::{Dm, Error, Result};
use bitflags::bitflags;
use iopm_sys as ffi;
use std::ptr::NonNull;

bitflags! {
    /// `enum ibv_access_flags`.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub struct Access: u32 {
        /// The adapter may write.
        const LOCAL_WRITE = 1 << 0;
        /// The remote side may write.
        const REMOTE_WRITE = 1 << 1;
        /// The remote side may read.
        const REMOTE_READ = 1 << 2;
        /// The remote side may do atomics.
        const REMOTE_ATOMIC = 1 << 3;
        /// Addresses are offsets in the region. Required for device memory.
        const ZERO_BASED = 1 << 5;
        /// Other flags of the verbs.
        const _ = !0;
    }
}

/// A zero-based memory region. Dropping it deregisters it; the memory is in use until then.
///
/// # Invariants
///
/// The pointer was returned by `iopm_reg_dm_mr()`, and only this object deregisters it.
#[derive(Debug)]
pub struct Mr(NonNull<ffi::ibv_mr>);

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
        pd: NonNull<ffi::ibv_pd>,
        dm_offset: u64,
        length: usize,
        access: Access,
    ) -> Result<Mr> {
        // SAFETY:
        // - By the type invariant of `Dm` the object is valid.
        // - By the safety requirements `pd` is a valid protection domain.
        let mr = unsafe {
            ffi::iopm_reg_dm_mr(pd.as_ptr(), self.as_raw(), dm_offset, length, access.bits())
        };
        // INVARIANT: `iopm_reg_dm_mr()` has just returned the pointer.
        NonNull::new(mr)
            .map(Mr)
            .ok_or_else(|| Error::last("iopm_reg_dm_mr"))
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
        unsafe { ffi::ibv_dereg_mr(self.0.as_ptr()) };
    }
}
