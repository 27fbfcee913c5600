// SPDX-License-Identifier: GPL-2.0

//! How a test says what does not hold.
//!
//! A failing KUnit assertion ends the test's thread without running destructors. These return an
//! error instead, so that clients, MRs and threads are cleaned up and the next test starts clean.

/// Returns `EINVAL` from the function, with a line in the log, unless the condition holds.
macro_rules! ensure {
    ($cond:expr $(,)?) => {
        if !$cond {
            ::kernel::pr_err!(
                "{}:{}: does not hold: {}\n",
                file!(),
                line!(),
                stringify!($cond)
            );
            return Err(::kernel::error::code::EINVAL);
        }
    };
}

/// As [`ensure`], for two values that must be equal; prints both.
macro_rules! ensure_eq {
    ($left:expr, $right:expr $(,)?) => {{
        let (left, right) = (&$left, &$right);
        if *left != *right {
            ::kernel::pr_err!(
                "{}:{}: {} is {:?}, expected {:?}\n",
                file!(),
                line!(),
                stringify!($left),
                left,
                right
            );
            return Err(::kernel::error::code::EINVAL);
        }
    }};
}

pub(crate) use {
    ensure,
    ensure_eq, //
};
