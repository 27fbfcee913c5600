// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause

//! Memory that is a part of a dma-buf, to register it by address.

use crate::{
    sys::{self, uapi},
    Result,
};
use std::{
    mem::ManuallyDrop,
    os::fd::{AsRawFd, BorrowedFd},
};

/// A range of addresses that the kernel knows to be a part of a dma-buf. Dropping it ends that: drop it
/// before the addresses are used for other memory.
///
/// ```no_run
/// use std::os::fd::{AsFd, OwnedFd};
///
/// /// Has `f` register the addresses of the dma-buf `fd` by ibv_reg_mr().
/// fn with(addr: usize, length: usize, fd: OwnedFd, f: impl FnOnce()) -> iopm::Result<()> {
///     let named = iopm::DmaBufRange::register(addr, length, fd.as_fd(), 0)?;
///     drop(fd);
///     f();
///     named.unregister()
/// }
/// ```
#[derive(Debug)]
pub struct DmaBufRange {
    addr: usize,
    length: usize,
}

/// Calls an ioctl of /dev/ib_peer_mem, again if a signal comes.
fn call(request: &uapi::Ioctl<uapi::Name>, mut arg: uapi::Name) -> Result<()> {
    let control = sys::open(c"/dev/ib_peer_mem")?;
    loop {
        match sys::ioctl(control.as_raw_fd(), request, &mut arg) {
            Err(error) if error.errno() == libc::EINTR => continue,
            result => return result,
        }
    }
}

impl DmaBufRange {
    /// Registers `length` bytes at `addr` as the part of the dma-buf `fd` from its byte `offset` on. All
    /// three are multiples of the page size. The memory is not accessed.
    pub fn register(addr: usize, length: usize, fd: BorrowedFd<'_>, offset: u64) -> Result<Self> {
        let range = ManuallyDrop::new(Self { addr, length });
        let arg = uapi::Name { offset, fd: fd.as_raw_fd(), ..range.arg() };
        call(&uapi::NAME, arg)?;
        Ok(ManuallyDrop::into_inner(range))
    }

    /// Returns the range that was registered with these arguments, and left registered by [`Self::leave`].
    pub fn registered(addr: usize, length: usize) -> Self {
        Self { addr, length }
    }

    fn arg(&self) -> uapi::Name {
        uapi::Name {
            version: uapi::VERSION,
            addr: self.addr as u64,
            length: self.length as u64,
            ..Default::default()
        }
    }

    /// Returns the first address.
    pub fn addr(&self) -> usize {
        self.addr
    }

    /// Returns the length in bytes.
    pub fn length(&self) -> usize {
        self.length
    }

    /// Leaves the range registered, until [`Self::registered`] or the end of the process.
    pub fn leave(self) {
        let _ = ManuallyDrop::new(self);
    }

    /// Ends the registration. Fails only if another caller has, or in a child of the process that has
    /// registered the range.
    pub fn unregister(self) -> Result<()> {
        let range = ManuallyDrop::new(self);
        call(&uapi::UNNAME, range.arg())
    }
}

impl Drop for DmaBufRange {
    fn drop(&mut self) {
        let _ = call(&uapi::UNNAME, self.arg());
    }
}
