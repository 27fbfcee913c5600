// SPDX-License-Identifier: GPL-2.0

//! [`KeyFilter`]: a filter of 32-bit keys that readers test without a lock.
//!
//! The functions in `rust/c/interpose.c` test the key of each MR that is deregistered. The filter
//! counts the keys by their hash. If a count is 0, no key with this hash is in the filter. With n keys in
//! the filter, at most n of 4,096 tests of other keys find a count that is not 0.

use crate::shared::prelude::raw::*;

const COUNTS: usize = 1 << helpers::EXT_KEY_FILTER_BITS;

/// A filter of keys, of 16 KiB.
///
/// # Invariants
///
/// Each count is the number of keys in the filter that have its hash.
pub struct KeyFilter(KBox<[Atomic<u32>; COUNTS]>);

impl KeyFilter {
    /// Creates a filter without keys. Context: may sleep.
    pub fn new() -> Result<Self> {
        // INVARIANT: There is no key.
        let none = pin_init::init_array_from_fn(|_| Atomic::new(0));
        Ok(Self(KBox::init(none, GFP_KERNEL)?))
    }

    fn count(&self, key: u32) -> Option<&Atomic<u32>> {
        // SAFETY: The function only computes.
        let slot = unsafe { helpers::ext_key_filter_slot(key) };
        // CAST: `usize` has at least 32 bits.
        self.0.get(slot as usize)
    }

    /// Returns whether `key` may be in the filter. `false` is certain for a caller that orders this after
    /// the insertion of the key, as one that got the key from the inserting task does, and before its
    /// removal.
    pub fn may_contain(&self, key: u32) -> bool {
        self.count(key).is_none_or(|count| count.load(Relaxed) != 0)
    }

    /// Returns the counts, for C. They are valid while the filter is.
    pub(super) fn as_ptr(&self) -> *const u32 {
        // An `Atomic<u32>` has the layout of a `u32`.
        self.0.as_ptr().cast()
    }

    /// Adds `key`, which may be in the filter already.
    pub fn insert(&self, key: u32) {
        if let Some(count) = self.count(key) {
            // INVARIANT: One more key.
            count.add(1, Relaxed);
        }
    }

    /// Removes `key`, which must have been added.
    pub fn remove(&self, key: u32) {
        if let Some(count) = self.count(key) {
            // INVARIANT: One key less.
            count.add(1_u32.wrapping_neg(), Relaxed);
        }
    }
}

#[cfg(ext_tests)]
#[kunit_tests(ext_key_filter)]
mod tests {
    use super::*;

    #[test]
    fn keys_come_and_go() -> Result {
        let filter = KeyFilter::new()?;
        for key in [0, 0x100, 0x4000, 0xffff_ff00, u32::MAX - 0x100] {
            assert!(!filter.may_contain(key));
            filter.insert(key);
            assert!(filter.may_contain(key));
        }
        filter.remove(0x100);
        assert!(!filter.may_contain(0x100) && filter.may_contain(0x4000));
        Ok(())
    }

    #[test]
    fn a_key_that_was_added_twice_is_removed_twice() -> Result {
        let filter = KeyFilter::new()?;
        filter.insert(0x701);
        filter.insert(0x701);
        filter.remove(0x701);
        assert!(filter.may_contain(0x701));
        filter.remove(0x701);
        assert!(!filter.may_contain(0x701));
        Ok(())
    }

    /// Drivers count the upper 24 bits of a key up. The keys of a driver use all counts about equally.
    #[test]
    fn keys_of_a_driver_are_spread() -> Result {
        let filter = KeyFilter::new()?;
        let keys = || (0..100_000).map(|n| n << 8 | n % 7);
        keys().for_each(|key| filter.insert(key));
        assert!(keys().all(|key| filter.may_contain(key)));
        let most = filter.0.iter().map(|count| count.load(Relaxed)).max();
        assert!(most.is_some_and(|most| most < 100));
        keys().for_each(|key| filter.remove(key));
        assert!(!keys().any(|key| filter.may_contain(key)));
        Ok(())
    }
}
