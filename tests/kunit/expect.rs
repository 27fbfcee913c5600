// SPDX-License-Identifier: GPL-2.0

//! Expectations of tests.
//!
//! A failed KUnit assertion ends the test's thread without running destructors. So the expectations
//! return an error instead, and clients, MRs and tasks are cleaned up before the next test. The
//! text of the expectation becomes a KTAP diagnostic of the running case.

use crate::helpers;
use kernel::fmt;

/// Prints a diagnostic of the case that the calling task runs. See [`diagnostic`].
pub(crate) fn print(args: fmt::Arguments<'_>) {
    // SAFETY: The function passes the pointer only to `%pA`, and `%pA` takes `fmt::Arguments`.
    unsafe { helpers::kt_diagnostic(core::ptr::from_ref(&args).cast()) };
}

/// Prints a line as a KTAP diagnostic of the running case, or to the log in another task.
macro_rules! diagnostic {
    ($($arg:tt)*) => {
        $crate::expect::print(::kernel::prelude::fmt!($($arg)*))
    };
}

/// Returns `EINVAL` from the function, with a diagnostic, unless the condition holds.
macro_rules! ensure {
    ($cond:expr $(,)?) => {
        if !$cond {
            $crate::expect::diagnostic!(
                "expected at {}:{}: {}",
                file!(),
                line!(),
                stringify!($cond)
            );
            return Err(::kernel::error::code::EINVAL);
        }
    };
}

/// Returns `EINVAL` from the function, with a diagnostic, unless the two values are equal.
macro_rules! ensure_eq {
    ($left:expr, $right:expr $(,)?) => {{
        let (left, right) = (&$left, &$right);
        if *left != *right {
            $crate::expect::diagnostic!(
                "expected at {}:{}: {} == {:?}, but it is {:?}",
                file!(),
                line!(),
                stringify!($left),
                right,
                left
            );
            return Err(::kernel::error::code::EINVAL);
        }
    }};
}

pub(crate) use {
    diagnostic,
    ensure,
    ensure_eq, //
};
