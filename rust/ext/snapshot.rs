// SPDX-License-Identifier: GPL-2.0

//! A pointer to shared data that is read without a lock and replaced as a whole.

use core::{
    marker::PhantomData,
    ptr, //
};
use kernel::{
    bindings,
    sync::{
        atomic::{
            Acquire,
            Atomic,
            Full, //
        },
        rcu,
        Arc,
        ArcBorrow, //
    },
};

/// An RCU-protected `Option<Arc<T>>`.
///
/// Readers get a reference of their own at the price of one RCU read-side section and one
/// reference count: no lock, no allocation. A writer replaces the whole.
///
/// # Invariants
///
/// `ptr` is null or came from [`Arc::into_raw`], and this object owns that reference. The
/// reference is given up only a grace period after `ptr` has been replaced.
pub struct Snapshot<T: Send + Sync + 'static> {
    ptr: Atomic<*mut T>,
    _owns: PhantomData<Arc<T>>,
}

impl<T: Send + Sync + 'static> Snapshot<T> {
    /// Makes an empty snapshot.
    pub const fn new() -> Self {
        // INVARIANT: `ptr` is null.
        Self {
            ptr: Atomic::new(ptr::null_mut()),
            _owns: PhantomData,
        }
    }

    /// Returns what is there now. May be called in any context.
    pub fn load(&self) -> Option<Arc<T>> {
        let _rcu = rcu::read_lock();
        let ptr = self.ptr.load(Acquire);
        if ptr.is_null() {
            return None;
        }
        // SAFETY: By the type invariants `ptr` came from `Arc::into_raw`, and the reference owned
        // by `self` cannot go away before the RCU read-side section that we are in has ended.
        Some(unsafe { ArcBorrow::from_raw(ptr) }.into())
    }

    /// Puts `new` in and returns what was there. Waits for an RCU grace period: may sleep.
    pub fn replace(&self, new: Option<Arc<T>>) -> Option<Arc<T>> {
        let new = new.map_or(ptr::null_mut(), |arc| Arc::into_raw(arc).cast_mut());
        // INVARIANT: `new` is null or from `Arc::into_raw`.
        let old = self.ptr.xchg(new, Full);
        if old.is_null() {
            return None;
        }
        // SAFETY: Just a grace period; the caller may sleep.
        unsafe { bindings::synchronize_rcu() };
        // SAFETY: `old` came from `Arc::into_raw`. It is no longer reachable through `self` and
        // no reader that saw it is still about to take a reference, so its reference is ours.
        Some(unsafe { Arc::from_raw(old) })
    }
}

impl<T: Send + Sync + 'static> Default for Snapshot<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T: Send + Sync + 'static> Drop for Snapshot<T> {
    fn drop(&mut self) {
        self.replace(None);
    }
}
