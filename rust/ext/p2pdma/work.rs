// SPDX-License-Identifier: GPL-2.0

//! Functions of [`kernel::workqueue`] that the `kernel` crate lacks.
//!
//! C header: [`include/linux/workqueue.h`](srctree/include/linux/workqueue.h).
//!
//! # Examples
//!
//! ```
//! use crate::ext::p2pdma::work;
//! use kernel::{
//!     impl_has_work,
//!     sync::Arc,
//!     workqueue::{self, Work, WorkItem},
//! };
//!
//! #[pin_data]
//! struct Later {
//!     #[pin]
//!     work: Work<Self>,
//! }
//!
//! impl_has_work! {
//!     impl HasWork<Self> for Later { self.work }
//! }
//!
//! impl WorkItem for Later {
//!     type Pointer = Arc<Self>;
//!
//!     fn run(_: Arc<Self>) {
//!         pr_info!("a worker runs this\n");
//!     }
//! }
//!
//! /// Has a worker run it, and waits for that.
//! fn run(later: Arc<Later>) {
//!     let _ = workqueue::system().enqueue(later.clone());
//!     work::flush(&later.work);
//! }
//! ```

use kernel::{
    bindings,
    prelude::*,
    workqueue::Work, //
};

/// Waits until `work` is not queued and its function has returned, and no worker executes its code. If
/// others queue it meanwhile, that call is not waited for.
///
/// Context: may sleep; not in the function of `work`, which would wait for itself.
pub fn flush<T: ?Sized, const ID: u64>(work: &Work<T, ID>) {
    // SAFETY:
    // - A `Work` exists only as an initialized and pinned `struct work_struct`.
    // - It stays valid while it is borrowed.
    unsafe { bindings::flush_work(Work::raw_get(work)) };
}
