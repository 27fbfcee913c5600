// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause

//! Functions of libibverbs, which are found when they are called: a program that registers memory has the
//! library, since a protection domain is of it. Other programs do not need it.

use crate::{Dm, Error, Result};
use bitflags::bitflags;
use std::{
    ffi::{c_int, c_uint, c_void, CStr},
    mem::{transmute, ManuallyDrop},
    ptr::{self, NonNull},
    sync::atomic::{AtomicPtr, Ordering},
};

/// A protection domain of libibverbs.
#[repr(C)]
#[allow(non_camel_case_types)]
pub struct ibv_pd {
    _opaque: [u8; 0],
}

/// A memory region of libibverbs.
#[repr(C)]
#[allow(non_camel_case_types)]
#[derive(Debug)]
pub struct ibv_mr {
    context: *mut c_void,
    pd: *mut ibv_pd,
    /// The address; null if the region is zero-based.
    pub addr: *mut c_void,
    /// The length in bytes.
    pub length: usize,
    handle: u32,
    /// The key for local use.
    pub lkey: u32,
    /// The key for remote use.
    pub rkey: u32,
}

type RegMr = unsafe extern "C" fn(*mut ibv_pd, *mut c_void, usize, u64, c_uint) -> *mut ibv_mr;
type DeregMr = unsafe extern "C" fn(*mut ibv_mr) -> c_int;

/// A function of libibverbs, once it is found.
struct Symbol(&'static CStr, AtomicPtr<c_void>);

static REG_MR: Symbol = Symbol::new(c"ibv_reg_mr_iova2");
static DEREG_MR: Symbol = Symbol::new(c"ibv_dereg_mr");

impl Symbol {
    const fn new(name: &'static CStr) -> Self {
        Self(name, AtomicPtr::new(ptr::null_mut()))
    }

    /// Returns the function: of the program, which may have its own, or of the library, which the process
    /// keeps. Fails with `ENOSYS`.
    fn get(&self) -> Result<NonNull<c_void>> {
        let Self(name, found) = self;
        if let Some(known) = NonNull::new(found.load(Ordering::Relaxed)) {
            return Ok(known);
        }
        // SAFETY: `name` is a C string.
        let mut symbol = unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) };
        if symbol.is_null() {
            // The one that has made the protection domain: another one has other contexts.
            const FLAGS: c_int = libc::RTLD_NOW | libc::RTLD_NOLOAD;
            // SAFETY: The name is a C string; nothing is loaded.
            let library = unsafe { libc::dlopen(c"libibverbs.so.1".as_ptr(), FLAGS) };
            if !library.is_null() {
                // SAFETY: The library stays open; `name` is a C string.
                symbol = unsafe { libc::dlsym(library, name.as_ptr()) };
            }
        }
        found.store(symbol, Ordering::Relaxed);
        NonNull::new(symbol).ok_or(Error::ENOSYS)
    }
}

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
/// The pointer is of a memory region that only this object deregisters.
#[derive(Debug)]
pub struct Mr(NonNull<ibv_mr>);

// SAFETY: A memory region is not bound to a thread.
unsafe impl Send for Mr {}
// SAFETY: The methods read constants only.
unsafe impl Sync for Mr {}

impl Dm {
    /// Registers `length` bytes from `offset` on, which must be a multiple of the page size. Fails with
    /// `EINVAL` also without [`Access::ZERO_BASED`].
    ///
    /// # Safety
    ///
    /// `pd` must be a protection domain that outlives the region.
    pub unsafe fn reg_dm_mr(
        &self,
        pd: NonNull<ibv_pd>,
        offset: u64,
        length: usize,
        access: Access,
    ) -> Result<Mr> {
        let addr = self.addr(offset, length)?;
        if !access.contains(Access::ZERO_BASED) {
            return Err(Error::EINVAL);
        }
        let access = (access - Access::ZERO_BASED).bits();
        // SAFETY: `infiniband/verbs.h` declares the function of this name with this type.
        let reg_mr: RegMr = unsafe { transmute(REG_MR.get()?) };
        // The kernel requires that the address and the IOVA, 0, have the same offset in a page.
        // SAFETY: By the safety requirements `pd` is a protection domain. `length` bytes of device memory
        // are mapped at `addr`, which this process accesses only by the kernel.
        let mr = unsafe { reg_mr(pd.as_ptr(), addr, length, 0, access) };
        let mut mr = NonNull::new(mr).ok_or_else(Error::last)?;
        // As of ibv_reg_dm_mr(3): the region is zero-based.
        // SAFETY: The region is new.
        unsafe { mr.as_mut() }.addr = ptr::null_mut();
        // INVARIANT: The region is new.
        Ok(Mr(mr))
    }
}

impl Mr {
    fn get(&self) -> &ibv_mr {
        // SAFETY: By the type invariant the pointer is valid.
        unsafe { self.0.as_ref() }
    }

    /// Returns the key for local use.
    pub fn lkey(&self) -> u32 {
        self.get().lkey
    }

    /// Returns the key for remote use.
    pub fn rkey(&self) -> u32 {
        self.get().rkey
    }

    /// Returns the length in bytes.
    pub fn length(&self) -> usize {
        self.get().length
    }

    /// Returns the region of libibverbs, which the caller deregisters.
    pub fn into_raw(self) -> NonNull<ibv_mr> {
        ManuallyDrop::new(self).0
    }
}

impl Drop for Mr {
    fn drop(&mut self) {
        if let Ok(symbol) = DEREG_MR.get() {
            // SAFETY: `infiniband/verbs.h` declares the function of this name with this type.
            let dereg_mr: DeregMr = unsafe { transmute(symbol) };
            // Fails only if the region is in use, for example by a memory window. The kernel then frees
            // it with its protection domain.
            // SAFETY: By the type invariant the region is registered and has no other owner.
            unsafe { dereg_mr(self.0.as_ptr()) };
        }
    }
}
