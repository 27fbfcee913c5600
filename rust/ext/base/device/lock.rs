// SPDX-License-Identifier: GPL-2.0

//! The lock of a device. [`Locked`] is the guard. Used to see a device in a state that no driver's
//! probe or removal changes.

use super::as_raw;
use crate::shared::bindings::helpers;
use kernel::device;

/// The lock of a device. The driver core binds and unbinds drivers under the lock. Dropping the
/// guard releases the lock.
///
/// # Invariants
///
/// The lock of the device is held for this object.
pub struct Locked<'a>(&'a device::Device);

/// Takes the lock of `dev`, or returns `None` if another task holds the lock: a driver may be being
/// bound or unbound. Context: may sleep.
pub fn try_lock(dev: &device::Device) -> Option<Locked<'_>> {
    // SAFETY: `dev` is a valid device while it is borrowed.
    let locked = unsafe { helpers::ext_device_trylock(as_raw(dev)) };
    // Not then_some(): a guard would be created and dropped, and the lock of another task released.
    // INVARIANT: The call above has taken the lock.
    locked.then(|| Locked(dev))
}

impl Drop for Locked<'_> {
    fn drop(&mut self) {
        // SAFETY: By the type invariants this object holds the lock.
        unsafe { helpers::ext_device_unlock(as_raw(self.0)) };
    }
}
