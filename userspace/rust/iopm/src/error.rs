// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause

//! Errors of the library.

use std::{error, fmt, io};

/// A failed call of the library: its errno. The manual pages list them.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Error {
    function: &'static str,
    errno: i32,
}

/// The result of a call of the library.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// Creates the error of `function`.
    pub(crate) fn new(function: &'static str, errno: i32) -> Self {
        Self { function, errno }
    }

    /// Creates the error of `function`, which has set `errno`.
    pub(crate) fn last(function: &'static str) -> Self {
        Self::new(
            function,
            io::Error::last_os_error().raw_os_error().unwrap_or(0),
        )
    }

    /// Converts the result of `function`, which returns an errno.
    pub(crate) fn check(function: &'static str, errno: i32) -> Result<()> {
        match errno {
            0 => Ok(()),
            _ => Err(Self::new(function, errno)),
        }
    }

    /// Returns the errno.
    pub fn errno(&self) -> i32 {
        self.errno
    }

    /// Returns the kind of the error.
    pub fn kind(&self) -> io::ErrorKind {
        io::Error::from(*self).kind()
    }
}

impl From<Error> for io::Error {
    fn from(e: Error) -> Self {
        Self::from_raw_os_error(e.errno)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.function, io::Error::from(*self))
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl error::Error for Error {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_has_the_function_and_the_cause() {
        let e = Error::new("iopm_alloc_dm", 12);
        assert!(e.to_string().starts_with("iopm_alloc_dm: "));
        assert_eq!(e.errno(), 12);
        assert_eq!(e.kind(), io::ErrorKind::OutOfMemory);
        assert_eq!(io::Error::from(e).raw_os_error(), Some(12));
    }

    #[test]
    fn an_errno_of_0_is_no_error() {
        assert_eq!(Error::check("iopm_free_dm", 0), Ok(()));
        assert_eq!(
            Error::check("iopm_free_dm", 16),
            Err(Error::new("iopm_free_dm", 16))
        );
    }
}
