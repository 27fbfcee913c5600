// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause

//! Memory that is a part of a dma-buf, to register it by address.

use crate::{Error, Result};
use iopm_sys as ffi;
use std::{
    ffi::c_void,
    os::fd::{AsRawFd, BorrowedFd},
};

/// A range of addresses that the kernel knows to be a part of a dma-buf. Dropping it ends that: drop it
/// before the addresses are used for other memory.
///
/// ```no_run
/// use std::os::fd::{AsFd, OwnedFd};
///
/// /// Has `f` register the addresses of the dma-buf `fd` by ibv_reg_mr().
/// fn with(
///     addr: *const std::ffi::c_void,
///     length: usize,
///     fd: OwnedFd,
///     f: impl FnOnce(),
/// ) -> iopm::Result<()> {
///     let named = iopm::DmaBufRange::register(addr, length, fd.as_fd(), 0)?;
///     drop(fd);
///     f();
///     drop(named);
///     Ok(())
/// }
/// ```
#[derive(Debug)]
pub struct DmaBufRange {
    addr: *const c_void,
    length: usize,
}

// SAFETY: The address is a number: the range belongs to the process, not to a thread.
unsafe impl Send for DmaBufRange {}
// SAFETY: The methods read constants only.
unsafe impl Sync for DmaBufRange {}

impl DmaBufRange {
    /// Registers `length` bytes at `addr` as the part of the dma-buf `fd` from its byte `offset` on. All
    /// three are multiples of the page size. The memory is not accessed.
    // clippy takes each C function for one that accesses the memory.
    #[allow(clippy::not_unsafe_ptr_arg_deref)]
    pub fn register(
        addr: *const c_void,
        length: usize,
        fd: BorrowedFd<'_>,
        offset: u64,
    ) -> Result<Self> {
        // SAFETY: The function takes any address and does not access the memory there.
        match unsafe { ffi::iopm_register_dmabuf(addr, length, fd.as_raw_fd(), offset) } {
            0 => Ok(Self { addr, length }),
            errno => Err(Error::new("iopm_register_dmabuf", errno)),
        }
    }

    /// Returns the first address.
    pub fn addr(&self) -> *const c_void {
        self.addr
    }

    /// Returns the length in bytes.
    pub fn length(&self) -> usize {
        self.length
    }
}

impl Drop for DmaBufRange {
    fn drop(&mut self) {
        // Fails only if another caller has unregistered the range, or if the process is a child of that
        // which registered it.
        // SAFETY: The function takes any address and does not access the memory there.
        unsafe { ffi::iopm_unregister_dmabuf(self.addr, self.length) };
    }
}
