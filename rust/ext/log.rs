// SPDX-License-Identifier: GPL-2.0

//! Log lines that a user can cause, limited in rate.
//!
//! C header: [`include/linux/ratelimit.h`](srctree/include/linux/ratelimit.h).

/// May another line be logged now? All callers of a module share one allowance; the kernel says
/// how many lines were left out. Any context.
pub fn allowed() -> bool {
    extern "C" {
        /// See `rust/helpers/log.c`.
        fn ext_log_allowed() -> bool;
    }
    // SAFETY: The helper has no requirements; its state is a static of its own.
    unsafe { ext_log_allowed() }
}

/// Like [`kernel::pr_warn!`], but dropped when there have been too many.
#[macro_export]
macro_rules! pr_warn_limited {
    ($($arg:tt)*) => {
        if $crate::ext::log::allowed() {
            ::kernel::pr_warn!($($arg)*);
        }
    };
}

/// Like [`kernel::dev_err!`], but dropped when there have been too many.
#[macro_export]
macro_rules! dev_err_limited {
    ($($arg:tt)*) => {
        if $crate::ext::log::allowed() {
            ::kernel::dev_err!($($arg)*);
        }
    };
}
