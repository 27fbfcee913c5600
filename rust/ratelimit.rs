// SPDX-License-Identifier: GPL-2.0

//! Log lines that user space can cause, limited in rate.
//!
//! C header: [`include/linux/ratelimit.h`](srctree/include/linux/ratelimit.h).

use crate::bindings_mm;

/// Whether one more line may be printed now. All callers of a module share one allowance.
///
/// Context: any.
pub fn allow() -> bool {
    // SAFETY: The function has no requirements; its state is a static of its own.
    unsafe { bindings_mm::ext_ratelimit() }
}

/// Like [`kernel::dev_err!`], but dropped when there have been too many.
#[macro_export]
macro_rules! dev_err_ratelimited {
    ($($f:tt)*) => {
        if $crate::ratelimit::allow() {
            ::kernel::dev_err!($($f)*)
        }
    };
}
