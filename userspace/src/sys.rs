// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause

//! System calls. This module and the modules below have all `unsafe` of the library.
//!
//! Descriptors are numbers: `BorrowedFd` and its conversions panic for -1, which a program in C may have, and
//! libiopm has no code that panics.

mod copy;
pub(crate) mod uapi;
pub(crate) mod verbs;

use crate::{Error, Result};
use std::{
    ffi::{c_void, CStr},
    mem::MaybeUninit,
    os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd},
    ptr::{self, NonNull},
};

/// Returns errno of this thread.
pub(crate) fn errno() -> i32 {
    // SAFETY: The function returns the address of errno.
    unsafe { *libc::__errno_location() }
}

pub(crate) fn page_size() -> usize {
    // CAST: A size is positive.
    // SAFETY: The function has no requirements.
    unsafe { libc::sysconf(libc::_SC_PAGESIZE) as usize }
}

/// Returns `length` in whole pages.
pub(crate) fn pages(length: u64) -> u64 {
    // A power of two. A division would have to be one by something that is not 0.
    let mask = page_size() as u64 - 1;
    length.wrapping_add(mask) & !mask
}

/// Appends to a list. `Vec::push()` ends the process if there is no memory.
pub(crate) fn push<T>(list: &mut Vec<T>, value: T) -> Result<()> {
    list.try_reserve(1).map_err(|_| Error::ENOMEM)?;
    let length = list.len();
    if let Some(free) = list.spare_capacity_mut().first_mut() {
        free.write(value);
        // SAFETY: One value more is initialized.
        unsafe { list.set_len(length + 1) };
    }
    Ok(())
}

pub(crate) fn open(path: &CStr) -> Result<OwnedFd> {
    // SAFETY: `path` is a C string.
    let fd = unsafe { libc::open64(path.as_ptr(), libc::O_RDWR | libc::O_CLOEXEC) };
    owned(fd)
}

/// Takes ownership of the new file `fd`, or returns the error of the call that has returned it.
fn owned(fd: i32) -> Result<OwnedFd> {
    if fd < 0 {
        return Err(Error::last());
    }
    // SAFETY: The callers' system call has opened `fd`, which has no other owner.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Takes ownership of the file that an ioctl has opened for its caller.
pub(crate) fn opened_by_ioctl(fd: i32) -> Result<OwnedFd> {
    if fd < 0 {
        return Err(Error::EIO);
    }
    owned(fd)
}

pub(crate) fn duplicate(fd: RawFd) -> Result<OwnedFd> {
    // SAFETY: The command has no requirements.
    owned(unsafe { libc::fcntl(fd, libc::F_DUPFD_CLOEXEC, 0) })
}

pub(crate) fn ioctl<T>(fd: RawFd, request: &uapi::Ioctl<T>, arg: &mut T) -> Result<()> {
    let arg: *mut T = arg;
    // SAFETY: By the invariant of `Ioctl` the kernel accesses nothing but a `T` at `arg`, of which
    // every value is valid.
    match unsafe { libc::ioctl(fd, request.number() as _, arg) } {
        -1 => Err(Error::last()),
        _ => Ok(()),
    }
}

/// Calls `each` with the names in a directory that do not begin with a dot.
pub(crate) fn entries(path: &CStr, mut each: impl FnMut(&CStr) -> Result<()>) -> Result<()> {
    // SAFETY: `path` is a C string.
    let dir = NonNull::new(unsafe { libc::opendir(path.as_ptr()) }).ok_or_else(Error::last)?;
    let mut result = Ok(());
    while result.is_ok() {
        // SAFETY: `dir` is open, and no other thread has it.
        let entry = unsafe { libc::readdir64(dir.as_ptr()) };
        if entry.is_null() {
            break;
        }
        // SAFETY: The entry is valid until the next call, and its name is a C string.
        let name = unsafe { CStr::from_ptr((*entry).d_name.as_ptr()) };
        if name.to_bytes().first() != Some(&b'.') {
            result = each(name);
        }
    }
    // SAFETY: Nothing uses `dir` afterwards.
    unsafe { libc::closedir(dir.as_ptr()) };
    result
}

/// Returns the number of the process and that of the kernel's file for it (pidfs): namespaces repeat the first.
/// The second is 0 without a free descriptor.
fn process() -> (u32, u64) {
    let id = std::process::id();
    // CAST: As pidfd_open(2) declares it.
    // SAFETY: The call has no requirements.
    let fd = unsafe { libc::syscall(libc::SYS_pidfd_open, id, 0) };
    let file = owned(fd as RawFd).and_then(|file| {
        let mut stat = MaybeUninit::<libc::stat64>::uninit();
        // SAFETY: `stat` is valid for writes.
        match unsafe { libc::fstat64(file.as_raw_fd(), stat.as_mut_ptr()) } {
            // SAFETY: The call has filled it.
            0 => Ok(unsafe { stat.assume_init() }.st_ino),
            _ => Err(Error::last()),
        }
    });
    (id, file.unwrap_or(0))
}

/// The mapping of a file, for registrations, which take an address. The CPU does not access the memory,
/// and the kernel maps each page at the first access, so the mapping is cheap.
///
/// A child does not have the mapping: an inherited mapping would keep the memory. The child may have other
/// memory at the address, so the mapping has no address in another process.
///
/// # Invariants
///
/// In the process `process` `size` bytes are mapped at `addr`, and only this object unmaps them.
#[derive(Debug)]
pub(crate) struct Mapping {
    addr: NonNull<c_void>,
    size: usize,
    process: (u32, u64),
}

// SAFETY: A mapping belongs to the process, not to a thread.
unsafe impl Send for Mapping {}
// SAFETY: The methods change nothing.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Maps `size` bytes of `fd`, to read and to write, or only to read if the file allows no more.
    pub(crate) fn new(fd: RawFd, size: usize, offset: u64) -> Result<Self> {
        let map = |protection| {
            // CAST: The offset is a number to the kernel.
            let offset = offset as libc::off64_t;
            // SAFETY: The kernel chooses an address that is free.
            unsafe { libc::mmap64(ptr::null_mut(), size, protection, libc::MAP_SHARED, fd, offset) }
        };
        let mut addr = map(libc::PROT_READ | libc::PROT_WRITE);
        if addr == libc::MAP_FAILED && Error::last().errno() == libc::EACCES {
            addr = map(libc::PROT_READ);
        }
        let valid = NonNull::new(addr).filter(|_| addr != libc::MAP_FAILED);
        let addr = valid.ok_or_else(Error::last)?;
        // SAFETY: The range is mapped.
        unsafe { libc::madvise(addr.as_ptr(), size, libc::MADV_DONTFORK) };
        // INVARIANT: The mapping is new.
        Ok(Self { addr, size, process: process() })
    }

    /// Returns the address, or `None` in a child of the process that has the mapping.
    pub(crate) fn addr(&self) -> Option<NonNull<c_void>> {
        let (was, is) = (self.process, process());
        let same = was.0 == is.0 && (was.1 == is.1 || was.1 == 0 || is.1 == 0);
        same.then_some(self.addr)
    }

    /// Gives the pages back that `mlockall(2)`, which accesses every mapping, has mapped: they are in use.
    pub(crate) fn drop_pages(&self) {
        if let Some(addr) = self.addr() {
            // SAFETY: By the type invariant the range is mapped; the memory is shared, so no content is lost.
            unsafe { libc::madvise(addr.as_ptr(), self.size, libc::MADV_DONTNEED) };
        }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        if let Some(addr) = self.addr() {
            // SAFETY: By the type invariant the range is mapped, and belongs to this object.
            unsafe { libc::munmap(addr.as_ptr(), self.size) };
        }
    }
}
