// SPDX-License-Identifier: GPL-2.0

//! Pointers that tasks change atomically, for 7.0, whose [`Atomic`] takes numbers only.

use kernel::sync::atomic::{
    ordering,
    Atomic,
    AtomicType, //
};

#[repr(transparent)]
struct Pointer<T>(*mut T);

impl<T> Clone for Pointer<T> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<T> Copy for Pointer<T> {}
// SAFETY: A pointer may be passed between tasks; who dereferences it proves that this is valid.
unsafe impl<T> Send for Pointer<T> {}
// SAFETY: As for `Send`.
unsafe impl<T> Sync for Pointer<T> {}

// SAFETY: A pointer has the size and the alignment of an `i64`, and each `i64` that came from a pointer
// is a pointer again.
unsafe impl<T> AtomicType for Pointer<T> {
    type Repr = i64;
}

/// A pointer that tasks change atomically.
#[repr(transparent)]
pub struct AtomicPtr<T>(Atomic<Pointer<T>>);

impl<T> AtomicPtr<T> {
    /// In a constant the pointer must be NULL.
    pub const fn new(ptr: *mut T) -> Self {
        Self(Atomic::new(Pointer(ptr)))
    }

    /// Returns the pointer in the place `ptr`.
    ///
    /// # Safety
    ///
    /// As for `Atomic::from_ptr()`.
    pub unsafe fn from_ptr<'a>(ptr: *mut *mut T) -> &'a Self {
        // SAFETY: Both types are transparent, so that they have the layout of the pointer. By the
        // safety requirements the place is valid during `'a`.
        unsafe { &*ptr.cast() }
    }

    pub fn load<O: ordering::AcquireOrRelaxed>(&self, order: O) -> *mut T {
        self.0.load(order).0
    }

    pub fn store<O: ordering::ReleaseOrRelaxed>(&self, ptr: *mut T, order: O) {
        self.0.store(Pointer(ptr), order)
    }

    pub fn xchg<O: ordering::Ordering>(&self, ptr: *mut T, order: O) -> *mut T {
        self.0.xchg(Pointer(ptr), order).0
    }

    /// Stores `new` if the pointer is `old`. Returns the pointer before, as an error if it is not
    /// `old`.
    pub fn cmpxchg<O: ordering::Ordering>(
        &self,
        old: *mut T,
        new: *mut T,
        order: O,
    ) -> Result<*mut T, *mut T> {
        let result = self.0.cmpxchg(Pointer(old), Pointer(new), order);
        result.map(|found| found.0).map_err(|found| found.0)
    }
}
