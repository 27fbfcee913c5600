// SPDX-License-Identifier: GPL-2.0

//! A set of 32-bit keys that readers search without a lock.
//!
//! The main type is [`KeySet`]. Used for the lkeys of the MRs whose deregistration must not go
//! straight to the driver. Writers are serialised by the caller.
//!
//! # Examples
//!
//! ```
//! use crate::ext::key_set::KeySet;
//!
//! let set = KeySet::new()?;
//! set.insert(7);
//! assert!(set.may_contain(7));
//! set.remove(7);
//! assert!(!set.may_contain(7));
//! # Ok::<(), Error>(())
//! ```

use super::bindings::helpers;
use core::{
    mem::{
        offset_of,
        size_of, //
    },
    ptr, //
};
use kernel::{
    prelude::*,
    sync::atomic::{
        Acquire,
        Atomic,
        Relaxed,
        Release, //
    },
};

/// The number of words of a bitmap.
const WORDS: usize = (helpers::EXT_KEY_SET_BITS / usize::BITS) as usize;

/// The number of bitmaps.
const BITMAPS: usize = helpers::EXT_KEY_SET_BITMAPS as usize;

/// A bitmap of 4 KiB.
type Bitmap = [Atomic<usize>; WORDS];

/// A set of lkeys, with one bit for each index (upper 24 bits). Drivers allocate indices densely,
/// and change only the low byte when they reuse an MR. A bitmap stays until the set is dropped. All
/// bitmaps together take 2 MiB.
///
/// # Invariants
///
/// - An entry of `bitmaps` is NULL, or a [`Bitmap`] that the set owns.
/// - `keys` is the number of keys in the set, and is the sum of `unknown` and the number of bits
///   that are set. For each key in the set the bit is set, or `unknown` is not 0.
#[repr(C)]
pub struct KeySet {
    keys: Atomic<usize>,
    /// The number of keys without a bit: there was no memory for the bitmap, or another key has the
    /// bit. Any key may be among these keys.
    unknown: Atomic<usize>,
    bitmaps: KBox<[Atomic<*mut Bitmap>; BITMAPS]>,
}

const _: () = assert!(
    offset_of!(KeySet, keys) == offset_of!(helpers::ext_key_set, keys)
        && offset_of!(KeySet, unknown) == offset_of!(helpers::ext_key_set, unknown)
        && offset_of!(KeySet, bitmaps) == offset_of!(helpers::ext_key_set, bitmaps)
        && size_of::<KeySet>() == size_of::<helpers::ext_key_set>()
);

impl KeySet {
    /// Creates an empty set.
    ///
    /// Context: may sleep.
    pub fn new() -> Result<Self> {
        let none = pin_init::init_array_from_fn(|_| Atomic::new(ptr::null_mut()));
        // INVARIANT: There is no bitmap, and no key.
        Ok(Self {
            keys: Atomic::new(0),
            unknown: Atomic::new(0),
            bitmaps: KBox::init(none, GFP_KERNEL)?,
        })
    }

    /// Returns whether `key` may be in the set. `false` is certain if the call is ordered after the
    /// insertion of the key and before the removal. A caller that got the key from the inserting
    /// task is ordered after the insertion.
    ///
    /// Context: any.
    pub fn may_contain(&self, key: u32) -> bool {
        // SAFETY: The set is initialised, and the function only reads the set.
        unsafe { helpers::ext_key_set_may_contain(self.as_raw(), key) }
    }

    /// Returns the C object.
    pub(super) fn as_raw(&self) -> *const helpers::ext_key_set {
        ptr::from_ref(self).cast()
    }

    /// Returns the word that has the bit of `key`, and the bit. Returns `None` if there is no
    /// bitmap for the key and `make` could not create the bitmap.
    fn bit(&self, key: u32, make: impl FnOnce() -> *mut Bitmap) -> Option<(&Atomic<usize>, usize)> {
        // CAST: `usize` has at least 32 bits.
        let index = (key >> helpers::EXT_KEY_SET_SHIFT) as usize;
        let bit = index % (WORDS * usize::BITS as usize);
        let entry = self.bitmaps.get(index / (WORDS * usize::BITS as usize))?;
        let mut bitmap = entry.load(Acquire);
        if bitmap.is_null() {
            bitmap = make();
            // INVARIANT: `make` returns NULL or a bitmap that belongs to the set.
            entry.store(bitmap, Release);
        }
        // SAFETY: By the type invariants the pointer is NULL, or valid while `self` is valid.
        let word = unsafe { bitmap.as_ref() }?.get(bit / usize::BITS as usize)?;
        Some((word, 1 << (bit % usize::BITS as usize)))
    }

    /// Adds `key`.
    ///
    /// Context: any. The caller keeps other tasks from changing the set.
    pub fn insert(&self, key: u32) {
        let empty = || pin_init::init_array_from_fn(|_| Atomic::new(0));
        let make = || KBox::init(empty(), GFP_NOWAIT).map_or(ptr::null_mut(), KBox::into_raw);
        match self.bit(key, make) {
            // INVARIANT: The bit now belongs to this key.
            Some((word, bit)) if word.load(Relaxed) & bit == 0 => {
                word.store(word.load(Relaxed) | bit, Relaxed);
            }
            // INVARIANT: The key has no bit.
            _ => self.unknown.add(1, Relaxed),
        }
        self.keys.add(1, Relaxed);
    }

    /// Removes `key`, which must have been added.
    ///
    /// Context: any. The caller keeps other tasks from changing the set.
    pub fn remove(&self, key: u32) {
        match self.bit(key, ptr::null_mut) {
            // INVARIANT: If the bit belonged to another key, this key was counted in `unknown`.
            // From here on that count stands for the other key.
            Some((word, bit)) if word.load(Relaxed) & bit != 0 => {
                // Pairs with the `smp_rmb()` in `ext_key_set_may_contain()`: a reader that sees the
                // cleared bit sees the other key in `unknown`.
                word.store(word.load(Relaxed) & !bit, Release);
            }
            // INVARIANT: The key had no bit.
            _ => {
                self.unknown.fetch_sub(1, Relaxed);
            }
        }
        self.keys.fetch_sub(1, Relaxed);
    }
}

impl Drop for KeySet {
    fn drop(&mut self) {
        for entry in self.bitmaps.iter() {
            let bitmap = entry.load(Relaxed);
            if !bitmap.is_null() {
                // SAFETY: By the type invariants the set owns the bitmap, and this is the last use.
                drop(unsafe { KBox::from_raw(bitmap) });
            }
        }
    }
}

#[cfg(ext_tests)]
#[kunit_tests(ext_key_set)]
mod tests {
    use super::*;

    #[test]
    fn keys_come_and_go() -> Result {
        let set = KeySet::new()?;
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
        let set = KeySet::new()?;
        for first in [0x701, 0x702] {
            set.insert(0x701);
            set.insert(0x702);
            set.remove(first);
            let second = if first == 0x701 { 0x702 } else { 0x701 };
            assert!(set.may_contain(second));
            set.remove(second);
            assert!(!set.may_contain(0x701) && !set.may_contain(0x702));
        }
        Ok(())
    }

    #[test]
    fn a_key_without_memory_may_be_any() -> Result {
        let set = KeySet::new()?;
        // The effect of an insertion without memory.
        set.keys.add(1, Relaxed);
        set.unknown.add(1, Relaxed);
        assert!(set.may_contain(7));
        // Another key has a bitmap.
        set.insert(0x300);
        set.remove(0x300);
        assert!(set.may_contain(3));
        set.remove(3);
        assert!(!set.may_contain(7));
        Ok(())
    }

    #[test]
    fn all_keys_of_a_device() -> Result {
        let set = KeySet::new()?;
        let keys = || (0..100_000).map(|n| n << helpers::EXT_KEY_SET_SHIFT | n % 7);
        keys().for_each(|key| set.insert(key));
        assert!(keys().all(|key| set.may_contain(key)));
        assert_eq!(set.unknown.load(Relaxed), 0);
        let gone = |key: &u32| key % 3 == 0;
        keys().filter(gone).for_each(|key| set.remove(key));
        assert!(keys().all(|key| set.may_contain(key) != gone(&key)));
        Ok(())
    }
}
