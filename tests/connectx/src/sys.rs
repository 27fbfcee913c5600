// SPDX-License-Identifier: GPL-2.0

//! The four calls of the C library that std has no form of, and memory shared with QEMU. All
//! `unsafe` of this program is here.

use std::ffi::{c_int, c_void};
use std::fs::File;
use std::io;
use std::mem::{offset_of, size_of, size_of_val};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;
use std::ptr::{copy, null_mut, NonNull};
use std::sync::atomic::{fence, AtomicU64, Ordering};

#[repr(C)]
struct IoVec {
    base: *mut c_void,
    len: usize,
}

#[repr(C)]
struct MsgHdr {
    name: *mut c_void,
    name_len: u32,
    iov: *mut IoVec,
    iov_len: usize,
    control: *mut c_void,
    control_len: usize,
    flags: c_int,
}

/// A `struct cmsghdr`, with its data.
#[repr(C)]
struct Control {
    len: usize,
    level: c_int,
    kind: c_int,
    fds: [c_int; MOST_FDS],
}

#[repr(C)]
#[derive(Clone, Copy)]
struct PollFd {
    fd: c_int,
    events: i16,
    revents: i16,
}

extern "C" {
    fn recvmsg(fd: c_int, msg: *mut MsgHdr, flags: c_int) -> isize;
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
const SOL_SOCKET: c_int = 1;
const SCM_RIGHTS: c_int = 1;
const MSG_CMSG_CLOEXEC: c_int = 0x4000_0000;
/// More file descriptors do not come with a message.
const MOST_FDS: usize = 16;

/// Receives up to `buf.len()` bytes, and the file descriptors that come with them.
pub fn receive(from: &UnixStream, buf: &mut [u8], fds: &mut Vec<OwnedFd>) -> io::Result<usize> {
    let mut control = Control {
        len: 0,
        level: 0,
        kind: 0,
        fds: [-1; MOST_FDS],
    };
    let mut iov = IoVec {
        base: buf.as_mut_ptr().cast(),
        len: buf.len(),
    };
    let mut msg = MsgHdr {
        name: null_mut(),
        name_len: 0,
        iov: &mut iov,
        iov_len: 1,
        control: (&raw mut control).cast(),
        control_len: size_of_val(&control),
        flags: 0,
    };
    // SAFETY:
    // - `msg` has the layout of a `struct msghdr` of this architecture;
    // - the buffers that it names live until the call returns, and are as long as it says.
    let n = unsafe { recvmsg(from.as_raw_fd(), &mut msg, MSG_CMSG_CLOEXEC) };
    if n < 0 {
        return Err(io::Error::last_os_error());
    }
    // The kernel puts all descriptors into one such header.
    if (control.level, control.kind) == (SOL_SOCKET, SCM_RIGHTS) {
        let count = control.len.saturating_sub(offset_of!(Control, fds)) / size_of::<c_int>();
        for fd in &control.fds[..count.min(MOST_FDS)] {
            // SAFETY: the kernel has just made this descriptor for this process, and it is taken from
            // this message once.
            fds.push(unsafe { OwnedFd::from_raw_fd(*fd) });
        }
    }
    Ok(n as usize)
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
    /// Maps `len` bytes of `file` from `offset` on.
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
