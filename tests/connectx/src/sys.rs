// SPDX-License-Identifier: GPL-2.0

//! The calls of the C library that std has no form of, and memory shared with QEMU. All
//! `unsafe` of this program is here.

use std::ffi::{c_int, c_void};
use std::fs::File;
use std::io::{self, IoSliceMut};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::net::{AncillaryData, SocketAncillary, UnixStream};
use std::ptr::{copy, null_mut, NonNull};
use std::sync::atomic::{fence, AtomicU64, Ordering};

#[repr(C)]
#[derive(Clone, Copy)]
struct PollFd {
    fd: c_int,
    events: i16,
    revents: i16,
}

extern "C" {
    fn mmap(
        at: *mut c_void,
        len: usize,
        prot: c_int,
        flags: c_int,
        fd: c_int,
        off: i64,
    ) -> *mut c_void;
    fn munmap(at: *mut c_void, len: usize) -> c_int;
    fn poll(fds: *mut PollFd, n: u64, timeout: c_int) -> c_int;
}

const POLLIN: i16 = 1;
const PROT_READ: c_int = 1;
const PROT_WRITE: c_int = 2;
const MAP_SHARED: c_int = 1;

/// Receives up to `buf.len()` bytes, and the file descriptors that come with them.
pub fn receive(from: &UnixStream, buf: &mut [u8], fds: &mut Vec<OwnedFd>) -> io::Result<usize> {
    // QEMU sends at most 8 descriptors with a message, see VERSION in vfio_user.rs.
    let mut space = [0; 128];
    let mut ancillary = SocketAncillary::new(&mut space);
    let n = from.recv_vectored_with_ancillary(&mut [IoSliceMut::new(buf)], &mut ancillary)?;
    for message in ancillary.messages().flatten() {
        if let AncillaryData::ScmRights(rights) = message {
            // SAFETY: the kernel has just made these descriptors for this process, and each is taken
            // from this message once.
            fds.extend(rights.map(|fd| unsafe { OwnedFd::from_raw_fd(fd) }));
        }
    }
    Ok(n)
}

/// Waits until one of `fds` has something to read, for up to `timeout` milliseconds (-1: without
/// an end); returns which have.
pub fn wait(fds: &[RawFd], timeout: i32) -> Vec<bool> {
    let entry = |&fd: &RawFd| PollFd {
        fd,
        events: POLLIN,
        revents: 0,
    };
    let mut all: Vec<PollFd> = fds.iter().map(entry).collect();
    // SAFETY: the array has the layout of `struct pollfd`, and as many entries as the call is given.
    let n = unsafe { poll(all.as_mut_ptr(), all.len() as u64, timeout) };
    all.iter().map(|fd| n > 0 && fd.revents != 0).collect()
}

/// A file of QEMU's, mapped: guest memory, or the memory behind a BAR.
///
/// # Invariants
///
/// `at` is the address of a shared mapping of `len` bytes that lives as long as this does.
pub struct Mapping {
    at: NonNull<u8>,
    len: usize,
}

impl Mapping {
    pub fn new(file: &File, offset: u64, len: usize, write: bool) -> io::Result<Self> {
        let prot = PROT_READ | if write { PROT_WRITE } else { 0 };
        // SAFETY: a new mapping, at an address of the kernel's choice, touches no other memory.
        let at = unsafe {
            mmap(
                null_mut(),
                len,
                prot,
                MAP_SHARED,
                file.as_raw_fd(),
                offset as i64,
            )
        };
        if at as isize == -1 {
            return Err(io::Error::last_os_error());
        }
        let at = NonNull::new(at.cast()).ok_or(io::ErrorKind::InvalidInput)?;
        // INVARIANT: mmap has just made this mapping; only `drop` removes it.
        Ok(Self { at, len })
    }

    /// Returns the address of `len` bytes at `offset`, if they lie in the mapping.
    fn range(&self, offset: usize, len: usize) -> Option<*mut u8> {
        (offset <= self.len && len <= self.len - offset)
            .then(|| self.at.as_ptr().wrapping_add(offset))
    }

    /// Copies bytes out; fails if the range does not lie in the mapping.
    pub fn read(&self, offset: usize, to: &mut [u8]) -> bool {
        let Some(from) = self.range(offset, to.len()) else {
            return false;
        };
        // SAFETY:
        // - `range` has checked that the bytes lie in the mapping, which lives as long as `self`;
        // - the guest writes to it at any time: it is read through a raw pointer only, and no
        //   value is relied upon.
        unsafe { copy(from, to.as_mut_ptr(), to.len()) };
        true
    }

    /// Copies bytes in; fails if the range does not lie in the mapping. The last byte is written
    /// after all others: it holds the ownership bit of queue entries.
    pub fn write(&self, offset: usize, from: &[u8]) -> bool {
        let Some(to) = self.range(offset, from.len()) else {
            return false;
        };
        let Some((last, first)) = from.split_last() else {
            return true;
        };
        // SAFETY: as in `read`; a mapping of memory that is read-only was refused in `spans`.
        unsafe { copy(first.as_ptr(), to, first.len()) };
        fence(Ordering::Release);
        // SAFETY: `range` has checked that `to` has `first.len() + 1` bytes in the mapping.
        unsafe { to.wrapping_add(first.len()).write_volatile(*last) };
        true
    }

    /// Replaces 8 bytes by what `change` makes of them, at once; returns the old ones. Fails
    /// unless they are aligned and lie in the mapping.
    pub fn swap(&self, offset: usize, change: impl Fn(u64) -> u64) -> Option<u64> {
        let at = self.range(offset, 8)?;
        if at.align_offset(8) != 0 {
            return None;
        }
        // SAFETY:
        // - `at` is valid for reads and writes of 8 bytes, and aligned;
        // - other processes access these bytes with single instructions only.
        let word = unsafe { AtomicU64::from_ptr(at.cast()) };
        word.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |old| Some(change(old)))
            .ok()
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: by the invariant of the type; nothing has a pointer into it any more, as all
        // are made from `self`.
        unsafe { munmap(self.at.as_ptr().cast(), self.len) };
    }
}
