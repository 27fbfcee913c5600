// SPDX-License-Identifier: GPL-2.0

//! Tasks whose calls are exempt from the umem hook.
//!
//! A task enters itself in a table while running [`bypass`]. The callback of ftrace looks for the
//! task in the table. Used for calls of a driver whose failure is handled elsewhere.

use crate::shared::{
    bindings::helpers,
    ext::rdma::{
        task::TaskId,
        task_table::TaskTable, //
    }, //
};
use kernel::prelude::*;

/// Returns the tasks that are inside [`bypass`].
pub(super) fn bypassed() -> &'static TaskTable {
    // SAFETY: The table is static, and only the functions of task tables access the table. `TaskTable` has
    // the same layout and alignment.
    unsafe { &*(&raw const helpers::ext_bypass_tasks).cast() }
}

/// Calls `f`, and meanwhile exempts the calls of the current task from the umem hook, also if the
/// pages cannot be pinned. Calls may be nested.
///
/// The exemption is best effort: if 8 other tasks occupy all slots that the current task tries, the
/// calls are hooked. Then the hook serves an MR whose pages cannot be pinned: the MR gets a pinned
/// umem, which cannot be revoked, instead of a dma-buf from the interposer.
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
///
/// Context: that of `f`.
pub fn bypass<R>(f: impl FnOnce() -> R) -> R {
    let entry = bypassed().enter(TaskId::current());
    let result = f();
    drop(entry);
    result
}

#[cfg(ext_tests)]
#[kunit_tests(ext_umem_hook_bypass)]
mod tests {
    use super::*;

    fn is_bypassed() -> bool {
        bypassed().value(TaskId::current()).is_some()
    }

    /// The exemption lasts as long as the function, also in an outer call after the inner call.
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
