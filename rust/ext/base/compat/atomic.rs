// SPDX-License-Identifier: GPL-2.0

//! Atomic pointers.

/// A pointer that several tasks read and write.
#[cfg(has_atomic_ptr)]
pub type AtomicPtr<T> = kernel::sync::atomic::Atomic<*mut T>;

#[cfg(not(has_atomic_ptr))]
pub use self::number::AtomicPtr;

/// [`AtomicPtr`] as a number.
#[cfg(not(has_atomic_ptr))]
mod number {
    use core::{
        marker::PhantomData,
        mem, //
    };
    use kernel::sync::atomic::{
        ordering::{
            AcquireOrRelaxed,
            Ordering,
            ReleaseOrRelaxed, //
        },
        Atomic, //
    };

    /// A pointer that several tasks read and write.
    ///
    /// # Invariants
    ///
    /// The number is the address of a pointer whose provenance is exposed.
    #[repr(transparent)]
    pub struct AtomicPtr<T>(Atomic<usize>, PhantomData<*mut T>);

    // SAFETY: As for `Atomic<*mut T>`: any task may have a pointer, and the user of the pointer
    // states why an access by the pointer is safe.
    unsafe impl<T> Send for AtomicPtr<T> {}
    // SAFETY: As above; all accesses to the number are atomic.
    unsafe impl<T> Sync for AtomicPtr<T> {}

    impl<T> AtomicPtr<T> {
        /// Creates an atomic pointer. In a constant the pointer must be null.
        pub const fn new(ptr: *mut T) -> Self {
            // INVARIANT: A transmute exposes the provenance, as a cast does.
            // SAFETY: Both types have the same size, and any bits are a valid number.
            let address = unsafe { mem::transmute::<*mut T, usize>(ptr) };
            Self(Atomic::new(address), PhantomData)
        }

        /// Returns the atomic pointer at `ptr`.
        ///
        /// # Safety
        ///
        /// As for [`Atomic::from_ptr`].
        pub unsafe fn from_ptr<'a>(ptr: *mut *mut T) -> &'a Self {
            // SAFETY: By the safety requirements the pointer is valid for `'a`, and all accesses are
            // atomic. The type is transparent, and a number has the size and alignment of a pointer.
            unsafe { &*ptr.cast() }
        }

        /// Returns the pointer.
        pub fn load<O: AcquireOrRelaxed>(&self, order: O) -> *mut T {
            self.0.load(order) as *mut T
        }

        /// Sets the pointer.
        pub fn store<O: ReleaseOrRelaxed>(&self, ptr: *mut T, order: O) {
            // INVARIANT: The cast exposes the provenance.
            self.0.store(ptr as usize, order);
        }

        /// Sets the pointer, and returns the old one.
        pub fn xchg<O: Ordering>(&self, ptr: *mut T, order: O) -> *mut T {
            // INVARIANT: The cast exposes the provenance.
            self.0.xchg(ptr as usize, order) as *mut T
        }

        /// Sets the pointer if it is `old`. Returns the pointer from before, as an error if the
        /// pointer was not `old`.
        pub fn cmpxchg<O: Ordering>(
            &self,
            old: *mut T,
            new: *mut T,
            order: O,
        ) -> Result<*mut T, *mut T> {
            // INVARIANT: The cast exposes the provenance.
            match self.0.cmpxchg(old as usize, new as usize, order) {
                Ok(old) => Ok(old as *mut T),
                Err(current) => Err(current as *mut T),
            }
        }
    }
}
