// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause

//! Errors of the library.

use crate::sys;
use std::{error, fmt, io};

/// A failed call of the library: its errno. The manual pages list them.
// Not an io::Error, which may own memory: by dropping it libiopm would have all that panics and prints.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Error(i32);

/// The result of a call of the library.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    pub(crate) const EINVAL: Self = Self(libc::EINVAL);
    pub(crate) const EIO: Self = Self(libc::EIO);
    pub(crate) const ENOMEM: Self = Self(libc::ENOMEM);
    pub(crate) const ENOSYS: Self = Self(libc::ENOSYS);

    /// Returns the error of the system call that has failed last in this thread.
    pub fn last() -> Self {
        Self(sys::errno())
    }

    /// Returns the errno.
    pub fn errno(self) -> i32 {
        self.0
    }

    /// Returns the kind of the error.
    pub fn kind(self) -> io::ErrorKind {
        io::Error::from(self).kind()
    }
}

impl From<i32> for Error {
    fn from(errno: i32) -> Self {
        Self(errno)
    }
}

impl From<Error> for io::Error {
    fn from(error: Error) -> Self {
        Self::from_raw_os_error(error.0)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        io::Error::from(*self).fmt(f)
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl error::Error for Error {}
