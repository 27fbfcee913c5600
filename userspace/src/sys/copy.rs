// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause

//! Copies to and from device memory, by pwrite(2) and pread(2) on its file.

use crate::{Dm, Error, Result};
use std::os::fd::AsRawFd;

/// Copies `length` bytes by a call that may copy less, for example if a signal comes. `copy` gets what is done.
fn whole(length: usize, mut copy: impl FnMut(usize) -> Result<usize>) -> Result<()> {
    let mut done = 0;
    while done < length {
        match copy(done) {
            Ok(0) => return Err(Error::EIO),
            Ok(n) => done += n,
            Err(error) if error.errno() == libc::EINTR => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

impl Dm {
    /// Copies `from` to the bytes at `offset`, by the kernel: no signal is raised if the device is
    /// removed meanwhile. Fails with `EINVAL` if they exceed the memory, and with `ENODEV` if the
    /// device was removed or the memory was freed.
    pub fn write_at(&self, from: &[u8], offset: u64) -> Result<()> {
        // SAFETY: The bytes are borrowed.
        unsafe { self.write_from(from.as_ptr(), from.len(), offset) }
    }

    /// Does the same with the bytes at an address. Fails with `EFAULT` if there are none.
    ///
    /// # Safety
    ///
    /// Nothing writes the bytes meanwhile.
    pub unsafe fn write_from(&self, from: *const u8, length: usize, offset: u64) -> Result<()> {
        self.check(offset, length)?;
        whole(length, |done| {
            let from = from.wrapping_add(done);
            // CAST: The offset is a number to the kernel.
            let at = (offset + done as u64) as libc::off64_t;
            // SAFETY: By the safety requirements.
            let n = unsafe { libc::pwrite64(self.as_raw_fd(), from.cast(), length - done, at) };
            usize::try_from(n).map_err(|_| Error::last())
        })
    }

    /// Copies the bytes at `offset` to `to`. Fails as [`Dm::write_at`].
    pub fn read_at(&self, to: &mut [u8], offset: u64) -> Result<()> {
        // SAFETY: The bytes are the caller's.
        unsafe { self.read_to(to.as_mut_ptr(), to.len(), offset) }
    }

    /// Does the same with the bytes at an address. Fails with `EFAULT` if there are none.
    ///
    /// # Safety
    ///
    /// Nothing else accesses the bytes meanwhile.
    pub unsafe fn read_to(&self, to: *mut u8, length: usize, offset: u64) -> Result<()> {
        self.check(offset, length)?;
        whole(length, |done| {
            let to = to.wrapping_add(done);
            // CAST: The offset is a number to the kernel.
            let at = (offset + done as u64) as libc::off64_t;
            // SAFETY: By the safety requirements.
            let n = unsafe { libc::pread64(self.as_raw_fd(), to.cast(), length - done, at) };
            usize::try_from(n).map_err(|_| Error::last())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use libc::{EINTR, EIO, ENODEV};

    #[test]
    fn a_copy_ends_when_it_is_whole_or_fails() {
        for (length, results, at, result) in [
            (10, vec![Ok(10)], vec![0], Ok(())),
            (10, vec![Err(EINTR), Ok(4), Err(EINTR), Ok(6)], vec![0, 0, 4, 4], Ok(())),
            (0, vec![], vec![], Ok(())),
            // The device goes in the middle, and the file has no more bytes.
            (10, vec![Ok(3), Err(ENODEV)], vec![0, 3], Err(ENODEV)),
            (10, vec![Ok(3), Ok(0)], vec![0, 3], Err(EIO)),
        ] {
            let (mut results, mut calls) = (results.into_iter(), Vec::new());
            let copied = whole(length, |done| {
                calls.push(done);
                results.next().expect("a call more").map_err(Error::from)
            });
            assert_eq!((calls, copied.map_err(|error| error.errno())), (at, result));
        }
    }
}
