// SPDX-License-Identifier: GPL-2.0

//! Functions of [`kernel::workqueue`] that the `kernel` crate lacks.
//!
//! C header: [`include/linux/workqueue.h`](srctree/include/linux/workqueue.h).

use crate::shared::prelude::raw::*;
use kernel::workqueue::Work;

/// Waits until `work` is not queued and its function has returned, and no worker executes its code. If
/// others queue it meanwhile, that call is not waited for. Context: may sleep; not in the function
/// of `work`, which would wait for itself.
pub fn flush<T: ?Sized, const ID: u64>(work: &Work<T, ID>) {
    // SAFETY:
    // - A `Work` exists only as an initialized and pinned `struct work_struct`.
    // - It stays valid while it is borrowed.
    unsafe { bindings::flush_work(Work::raw_get(work)) };
}
