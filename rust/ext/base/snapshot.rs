// SPDX-License-Identifier: GPL-2.0

//! A pointer to shared data. Readers load the pointer without a lock, and a writer replaces the
//! data as a whole. Used for lists that are read by every registration and seldom change.

use super::compat::AtomicPtr;
use crate::shared::prelude::raw::*;
use kernel::sync::rcu;

/// An RCU-protected `Option<Arc<T>>`, for a static: nothing drops the value with the object.
///
/// # Invariants
///
/// `ptr` is null or came from [`Arc::into_raw`], and this object owns the reference. The object
/// releases the reference only after an RCU grace period that begins after `ptr` has been replaced.
pub struct Snapshot<T: Send + Sync + 'static> {
    ptr: AtomicPtr<T>,
    _owns: PhantomData<Arc<T>>,
}

impl<T: Send + Sync + 'static> Snapshot<T> {
    pub const fn new() -> Self {
        // INVARIANT: `ptr` is null.
        Self {
            ptr: AtomicPtr::new(ptr::null_mut()),
            _owns: PhantomData,
        }
    }

    pub fn load(&self) -> Option<Arc<T>> {
        let _rcu = rcu::read_lock();
        let ptr = NonNull::new(self.ptr.load(Acquire))?;
        // SAFETY: By the type invariants `ptr` came from `Arc::into_raw`, and the reference is released only
        // after a grace period, so not before this RCU read-side section ends.
        Some(unsafe { ArcBorrow::from_raw(ptr.as_ptr()) }.into())
    }

    /// Calls `f` with the current value, if there is a value. Takes no reference, so that CPUs that
    /// read the value at the same time do not share a reference count. Context: any. `f` runs in an
    /// RCU read-side section.
    pub fn with<R>(&self, f: impl FnOnce(&T) -> R) -> Option<R> {
        let _rcu = rcu::read_lock();
        // SAFETY: `ptr` is null, or valid as in `load`.
        let value = unsafe { self.ptr.load(Acquire).as_ref() }?;
        Some(f(value))
    }

    /// Replaces the value with `new` and returns the old one, after an RCU grace period. Context:
    /// may sleep.
    pub fn replace(&self, new: Option<Arc<T>>) -> Option<Arc<T>> {
        let new = new.map_or(ptr::null_mut(), |arc| Arc::into_raw(arc).cast_mut());
        // INVARIANT: `new` is null or came from `Arc::into_raw`, and `self` takes over the reference.
        let old = self.ptr.xchg(new, Full);
        if old.is_null() {
            return None;
        }
        // SAFETY: The context allows sleeping. By the type invariants `old` came from `Arc::into_raw`. Every
        // reader that loaded the pointer has since taken a reference or left the RCU read-side section, so this
        // call may take over the reference of `self`.
        unsafe {
            bindings::synchronize_rcu();
            Some(Arc::from_raw(old))
        }
    }

    /// Sets the value until the result is dropped. Context: may sleep.
    pub fn publish(&'static self, value: Arc<T>) -> Published<T> {
        self.replace(Some(value));
        Published(self)
    }
}

/// A value in a [`Snapshot`]. Drop empties the snapshot. Context: drop may sleep.
#[must_use = "the snapshot is emptied when this is dropped"]
pub struct Published<T: Send + Sync + 'static>(&'static Snapshot<T>);

impl<T: Send + Sync + 'static> Drop for Published<T> {
    fn drop(&mut self) {
        self.0.replace(None);
    }
}
