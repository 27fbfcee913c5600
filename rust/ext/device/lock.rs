// SPDX-License-Identifier: GPL-2.0

//! The lock of a device.

use super::{
    super::bindings::helpers,
    as_raw, //
};
use kernel::device;

/// The lock of a device, under which the driver core binds and unbinds drivers. Dropping this releases
/// it.
///
/// # Invariants
///
/// The lock of the device is held for this object.
pub struct Locked<'a>(&'a device::Device);

/// Takes the lock of `dev`, or returns `None` if it is held: a driver may be being bound or unbound.
///
/// # Examples
///
/// ```
/// use crate::ext::device::try_lock;
/// use kernel::device;
///
/// /// Returns whether no driver is being bound to `dev` or unbound.
/// fn is_settled(dev: &device::Device) -> bool {
///     try_lock(dev).is_some()
/// }
/// ```
///
/// Context: may sleep.
pub fn try_lock(dev: &device::Device) -> Option<Locked<'_>> {
    // SAFETY: `dev` is a valid device while it is borrowed.
    let locked = unsafe { helpers::ext_device_trylock(as_raw(dev)) };
    // INVARIANT: The call above has taken the lock.
    locked.then_some(Locked(dev))
}

impl Drop for Locked<'_> {
    fn drop(&mut self) {
        // SAFETY: By the type invariants this object holds the lock.
        unsafe { helpers::ext_device_unlock(as_raw(self.0)) };
    }
}
