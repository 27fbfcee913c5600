// SPDX-License-Identifier: GPL-2.0

//! A vector without an allocation for a single element, which most lists have.

use crate::shared::prelude::*;
use core::{
    ops::{
        Deref,
        DerefMut, //
    },
    slice, //
};
use kernel::alloc::Flags;

/// A vector that needs no allocation for a single element. For most types as large as a [`KVVec`].
pub struct SmallVec<T>(Storage<T>);

enum Storage<T> {
    One(T),
    /// None, or several. A user may determine the number, so the memory need not be contiguous.
    Many(KVVec<T>),
}

impl<T> SmallVec<T> {
    pub const fn new() -> Self {
        Self(Storage::Many(KVVec::new()))
    }

    /// Appends `value`. Returns `ENOMEM`, and does not change the vector, if there is no memory.
    /// Context: that of an allocation with `flags`.
    pub fn push(&mut self, value: T, flags: Flags) -> Result {
        match &mut self.0 {
            Storage::Many(list) if list.capacity() == 0 => {
                // There is no memory to free.
                mem::forget(mem::replace(&mut self.0, Storage::One(value)));
            }
            Storage::Many(list) => list.push(value, flags)?,
            Storage::One(_) => {
                let mut list = KVVec::with_capacity(4, flags)?;
                // The list has capacity, so no step fails from here on.
                let one = mem::take(self).0;
                if let Storage::One(first) = one {
                    list.push(first, flags)?;
                }
                list.push(value, flags)?;
                self.0 = Storage::Many(list);
            }
        }
        Ok(())
    }
}

impl<T> Default for SmallVec<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> Deref for SmallVec<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        match &self.0 {
            Storage::One(value) => slice::from_ref(value),
            Storage::Many(list) => list,
        }
    }
}

impl<T> DerefMut for SmallVec<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        match &mut self.0 {
            Storage::One(value) => slice::from_mut(value),
            Storage::Many(list) => list,
        }
    }
}

#[cfg(ext_tests)]
#[kunit_tests(ext_small_vec)]
mod tests {
    use super::*;

    #[test]
    fn elements_stay_in_order() -> Result {
        let mut v = SmallVec::new();
        assert!(v.is_empty());
        for n in 0..9 {
            v.push(n, GFP_KERNEL)?;
            assert_eq!(v.len(), n + 1);
            assert!(v.iter().copied().eq(0..=n));
        }
        if let Some(last) = v.last_mut() {
            *last = 70;
        }
        assert_eq!(v.last(), Some(&70));
        Ok(())
    }

    #[test]
    fn one_element_is_in_the_object() -> Result {
        let mut v = SmallVec::new();
        v.push(7u64, GFP_KERNEL)?;
        let object = &raw const v as usize..&raw const v as usize + size_of_val(&v);
        assert!(object.contains(&(v.as_ptr() as usize)));
        v.push(8, GFP_KERNEL)?;
        assert!(!object.contains(&(v.as_ptr() as usize)));
        assert_eq!(size_of::<SmallVec<u64>>(), size_of::<KVVec<u64>>());
        Ok(())
    }
}
