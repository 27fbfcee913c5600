// SPDX-License-Identifier: GPL-2.0

//! Log lines that a user can trigger.

/// May another line be logged now? At most 10 in 5 seconds; the kernel says how many were left
/// out.
pub fn allowed() -> bool {
    // SAFETY: The helper locks for itself and may be called in any context.
    unsafe { crate::bindings::rdma::ext_log_allowed() }
}

/// `pr_warn!` that a user may trigger as often as he likes.
#[macro_export]
macro_rules! warn_limited {
    ($($arg:tt)*) => {
        if $crate::log::allowed() {
            kernel::pr_warn!($($arg)*);
        }
    };
}
