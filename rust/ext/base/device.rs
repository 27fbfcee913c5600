// SPDX-License-Identifier: GPL-2.0

//! Functions of [`kernel::device::Device`] that the `kernel` crate lacks.

use crate::shared::prelude::raw::*;

/// Returns the `struct device` behind `dev`, valid as long as `dev` is borrowed.
pub(crate) fn as_raw<Ctx: device::DeviceContext>(
    dev: &device::Device<Ctx>,
) -> *mut bindings::device {
    // `device::Device` is a transparent wrapper of an `Opaque<bindings::device>`.
    core::ptr::from_ref(dev).cast_mut().cast()
}

/// Returns the length in bytes of the longest scatterlist entry that `dev` takes.
pub fn max_segment(dev: &device::Device) -> u32 {
    // SAFETY: `dev` is a valid device while it is borrowed.
    unsafe { helpers::dma_get_max_seg_size(as_raw(dev)) }
}

/// Returns the name of `dev`: `Device::name`, which 7.0 lacks.
pub fn name<Ctx: device::DeviceContext>(dev: &device::Device<Ctx>) -> &CStr {
    let raw = as_raw(dev);
    // SAFETY: `dev` is valid while borrowed. A device has one of the two names, which does not change
    // while the device is in use.
    unsafe {
        let initial = (*raw).init_name;
        CStr::from_char_ptr(if initial.is_null() {
            (*raw).kobj.name
        } else {
            initial
        })
    }
}

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
    let locked = unsafe { helpers::device_trylock(as_raw(dev)) } != 0;
    // Not then_some(): a guard would be created and dropped, and the lock of another task released.
    // INVARIANT: The call above has taken the lock.
    locked.then(|| Locked(dev))
}

impl Drop for Locked<'_> {
    fn drop(&mut self) {
        // SAFETY: By the type invariants this object holds the lock.
        unsafe { helpers::device_unlock(as_raw(self.0)) };
    }
}
