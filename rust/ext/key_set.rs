// SPDX-License-Identifier: GPL-2.0

//! A set of 32-bit keys that readers search without a lock.
//!
//! C header: [`include/linux/xarray.h`](srctree/include/linux/xarray.h).
//!
//! # Examples
//!
//! ```
//! use crate::ext::key_set::KeySet;
//!
//! let set = KBox::pin_init(KeySet::new(), GFP_KERNEL)?;
//! set.insert(7);
//! assert!(set.may_contain(7));
//! set.remove(7);
//! assert!(!set.may_contain(7));
//! # Ok::<(), Error>(())
//! ```

use super::bindings::helpers;
use core::{
    mem::offset_of,
    ptr, //
};
use kernel::{
    bindings,
    prelude::*,
    sync::atomic::{
        Atomic,
        Relaxed, //
    },
    types::Opaque, //
};

/// A set of keys, by their upper 24 bits. Drivers count these up, and vary the lower ones when they
/// use an MR again; so they are dense, and a key costs some bytes.
///
/// # Invariants
///
/// The entry at an index is a value, the number of keys with these upper bits that are in the set,
/// except for those in `unknown`.
#[pin_data(PinnedDrop)]
#[repr(C)]
pub struct KeySet {
    #[pin]
    keys: Opaque<bindings::xarray>,
    /// The number of keys for which there was no memory. Any key may be one of them.
    unknown: Atomic<usize>,
}

const _: () = assert!(
    offset_of!(KeySet, keys) == offset_of!(helpers::ext_key_set, keys)
        && offset_of!(KeySet, unknown) == offset_of!(helpers::ext_key_set, unknown)
);

// SAFETY: An xarray belongs to no task.
unsafe impl Send for KeySet {}
// SAFETY: An xarray has a lock of its own for changes, and readers use RCU.
unsafe impl Sync for KeySet {}

impl KeySet {
    /// Creates an empty set.
    pub fn new() -> impl PinInit<Self> {
        pin_init!(Self {
            // SAFETY: `keys` is valid for writes and pinned.
            keys <- Opaque::ffi_init(|keys| unsafe { bindings::xa_init_flags(keys, 0) }),
            unknown: Atomic::new(0),
        })
    }

    /// Returns the index of a key.
    fn index(key: u32) -> usize {
        // CAST: `usize` has at least 32 bits.
        (key >> helpers::EXT_KEY_SET_SHIFT) as usize
    }

    /// Returns the number of keys at an index.
    fn count(&self, index: usize) -> usize {
        // SAFETY: The array is initialised.
        let entry = unsafe { bindings::xa_load(self.keys.get(), index) };
        // By the type invariants it is NULL or a value.
        count_of(entry)
    }

    /// Returns whether `key` may be in the set. `false` is certain.
    ///
    /// Context: any.
    pub fn may_contain(&self, key: u32) -> bool {
        // SAFETY: The set is initialised, and the function only reads it.
        unsafe { helpers::ext_key_set_may_contain(self.as_raw(), key) }
    }

    /// Returns the C object.
    pub(super) fn as_raw(&self) -> *const helpers::ext_key_set {
        ptr::from_ref(self).cast()
    }

    /// Adds `key`.
    ///
    /// Context: any. The caller keeps other tasks from changing the set.
    pub fn insert(&self, key: u32) {
        let index = Self::index(key);
        let no_wait = bindings::GFP_NOWAIT | (bindings::GFP_KERNEL_ACCOUNT & !bindings::GFP_KERNEL);
        // INVARIANT: The only key at this index, unless there was an entry.
        // SAFETY: The array is initialised, and a value needs no memory.
        let old = unsafe { bindings::xa_store(self.keys.get(), index, value_of(1), no_wait) };
        // SAFETY: `old` is a result of `xa_store()`.
        if unsafe { bindings::xa_err(old) } != 0 {
            // INVARIANT: The store has failed, so this key is counted here.
            self.unknown.add(1, Relaxed);
        } else if !old.is_null() {
            // INVARIANT: One more key than before.
            self.set(index, count_of(old) + 1);
        }
    }

    /// Sets the number of keys at an index that has an entry.
    fn set(&self, index: usize, n: usize) {
        // This cannot fail: there is an entry at this index.
        // SAFETY: The array is initialised, and a value needs no memory.
        unsafe {
            bindings::xa_store(
                self.keys.get(),
                index,
                value_of(n),
                bindings::GFP_NOWAIT, //
            )
        };
    }

    /// Removes `key`, which must have been added.
    ///
    /// Context: any. The caller keeps other tasks from changing the set.
    pub fn remove(&self, key: u32) {
        let index = Self::index(key);
        match self.count(index) {
            // INVARIANT: The key is one of those.
            0 => {
                self.unknown.fetch_sub(1, Relaxed);
            }
            1 => {
                // INVARIANT: It was the last key at this index.
                // SAFETY: The array is initialised.
                unsafe { bindings::xa_erase(self.keys.get(), index) };
            }
            // INVARIANT: One key less.
            n => self.set(index, n - 1),
        }
    }
}

/// Returns the entry that is the value `n`, in the encoding of `xa_mk_value()`.
fn value_of(n: usize) -> *mut c_void {
    ptr::without_provenance_mut(n << 1 | 1)
}

/// Returns the value of an entry, 0 for NULL.
fn count_of(entry: *mut c_void) -> usize {
    entry.addr() >> 1
}

#[pinned_drop]
impl PinnedDrop for KeySet {
    fn drop(self: Pin<&mut Self>) {
        // SAFETY: The array is initialised, and this is its last use.
        unsafe { bindings::xa_destroy(self.keys.get()) };
    }
}

#[cfg(ext_tests)]
#[kunit_tests(ext_key_set)]
mod tests {
    use super::*;

    #[test]
    fn keys_come_and_go() -> Result {
        let set = KBox::pin_init(KeySet::new(), GFP_KERNEL)?;
        for key in [0, 0x100, 0x4000, 0xffff_ff00, u32::MAX - 0x100] {
            assert!(!set.may_contain(key));
            set.insert(key);
            assert!(set.may_contain(key));
        }
        assert!(!set.may_contain(0x200));
        set.remove(0x100);
        assert!(!set.may_contain(0x100) && set.may_contain(0x4000));
        Ok(())
    }

    #[test]
    fn keys_with_the_same_upper_bits_are_counted() -> Result {
        let set = KBox::pin_init(KeySet::new(), GFP_KERNEL)?;
        set.insert(0x701);
        set.insert(0x702);
        set.remove(0x701);
        assert!(set.may_contain(0x702));
        set.remove(0x702);
        assert!(!set.may_contain(0x702));
        Ok(())
    }

    #[test]
    fn a_key_without_memory_may_be_any() -> Result {
        let set = KBox::pin_init(KeySet::new(), GFP_KERNEL)?;
        set.unknown.add(1, Relaxed);
        assert!(set.may_contain(7));
        // As it is not in the array.
        set.remove(3);
        assert!(!set.may_contain(7));
        Ok(())
    }
}
