// SPDX-License-Identifier: GPL-2.0

//! Tasks whose calls are exempt from the umem hook.
//!
//! A task enters itself in a table while it runs [`bypass`], and the callback of ftrace looks it up
//! there.

use super::super::super::{
    bindings::helpers,
    marks::Marks,
    task::TaskId, //
};
use kernel::prelude::*;

/// Returns the tasks that are inside [`bypass`].
pub(super) fn bypassed() -> &'static Marks {
    // SAFETY: The table is static, and only the functions for it access it. `Marks` has the layout of
    // it and its alignment.
    unsafe { &*(&raw const helpers::ext_bypass_marks).cast() }
}

/// Calls `f`, and exempts the calls that the current task makes meanwhile from the umem hook, also if
/// the pages cannot be pinned. Calls may be nested.
///
/// The mark is best effort: if 8 other tasks occupy all slots of this one, the calls are hooked. An
/// MR that fails to pin is then made on a pinned umem at once, which cannot be revoked, instead of
/// on a dma-buf by the interposer.
///
/// # Examples
///
/// ```
/// use crate::ext::rdma::bypass;
///
/// let pinned = bypass(|| {
///     // Call the driver here: the hook does not replace what it pins.
///     true
/// });
/// assert!(pinned);
/// ```
pub fn bypass<R>(f: impl FnOnce() -> R) -> R {
    let mark = bypassed().enter(TaskId::current());
    let result = f();
    drop(mark);
    result
}

#[cfg(ext_tests)]
#[kunit_tests(ext_umem_hook_bypass)]
mod tests {
    use super::*;

    fn is_bypassed() -> bool {
        bypassed().value(TaskId::current()).is_some()
    }

    /// The mark lasts as long as the function, the outer of two nested ones included.
    #[test]
    fn nested() {
        let before = is_bypassed();
        let seen = bypass(|| {
            let outer = is_bypassed();
            let inner = bypass(is_bypassed);
            (outer, inner, is_bypassed())
        });
        assert!(!before);
        assert!(seen == (true, true, true));
        assert!(!is_bypassed());
    }
}
