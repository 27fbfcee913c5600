// SPDX-License-Identifier: GPL-2.0

//! Rate-limited log lines, for events that a user can cause.

/// Returns whether another rate-limited line may be logged now.
///
/// All callers in a module share one limit; the kernel logs how many lines it suppressed.
pub fn allowed() -> bool {
    // SAFETY: The helper has no preconditions: the helper only changes a static variable, under a
    // lock.
    unsafe { crate::shared::bindings::helpers::ext_log_allowed() }
}

/// Logs like [`kernel::pr_warn!`], at a limited rate.
#[macro_export]
macro_rules! pr_warn_limited {
    ($($arg:tt)*) => {
        if $crate::ext::base::log::allowed() {
            ::kernel::pr_warn!($($arg)*);
        }
    };
}

/// Logs like [`kernel::pr_err!`], at a limited rate.
#[macro_export]
macro_rules! pr_err_limited {
    ($($arg:tt)*) => {
        if $crate::ext::base::log::allowed() {
            ::kernel::pr_err!($($arg)*);
        }
    };
}

/// Logs like [`kernel::dev_err!`], at a limited rate.
#[macro_export]
macro_rules! dev_err_limited {
    ($($arg:tt)*) => {
        if $crate::ext::base::log::allowed() {
            ::kernel::dev_err!($($arg)*);
        }
    };
}
