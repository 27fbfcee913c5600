// SPDX-License-Identifier: GPL-2.0

//! Hints of a kernel driver about the memory of a user context, for `acquire`.
//!
//! The C ABI sets and clears a [`Hint`], the dispatch passes the hint of a registration to
//! `acquire`, and the hooks clear the hint at the end of the user context. Context: any, except
//! [`Hints::set`], which may sleep.

use crate::prelude::*;
use kernel::rbtree::RBTreeNode;

/// A hint. Each half is optional.
pub(crate) struct Hint {
    /// `peer_mem_name`.
    pub(crate) name: Option<CString>,
    /// `peer_mem_private_data`: a pointer that only the driver and its client interpret, 0 for NULL.
    pub(crate) private_data: usize,
}

#[pin_data]
pub(crate) struct Hints {
    /// Number of hints; lets the fast path skip the lock.
    count: Atomic<usize>,
    /// A leaf lock, held for a look-up or a change.
    #[pin]
    tree: SpinLock<RBTree<UcontextId, Arc<Hint>>>,
}

impl Hints {
    pub(crate) fn new() -> impl PinInit<Self> {
        pin_init!(Self {
            count: Atomic::new(0),
            tree <- new_spinlock!(RBTree::new(), "Hints::tree"),
        })
    }

    /// Sets or replaces the hint of a context. Context: may sleep.
    pub(crate) fn set(&self, ucontext: UcontextId, hint: Hint) -> Result {
        let node = RBTreeNode::new(ucontext, Arc::new(hint, GFP_KERNEL)?, GFP_KERNEL)?;
        let old = self.tree.lock().insert(node);
        if old.is_none() {
            self.count.add(1, Relaxed);
        }
        Ok(())
    }

    pub(crate) fn clear(&self, ucontext: UcontextId) {
        let old = self.tree.lock().remove_node(&ucontext);
        if old.is_some() {
            self.count.add(1_usize.wrapping_neg(), Relaxed);
        }
    }

    pub(crate) fn get(&self, ucontext: Option<UcontextId>) -> Option<Arc<Hint>> {
        if self.count.load(Relaxed) == 0 {
            return None;
        }
        self.tree.lock().get(&ucontext?).cloned()
    }
}
