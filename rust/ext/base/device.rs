// SPDX-License-Identifier: GPL-2.0

//! Functions of [`kernel::device::Device`] that the `kernel` crate lacks.
//!
//! C headers: [`include/linux/device.h`](srctree/include/linux/device.h),
//! [`include/linux/dma-mapping.h`](srctree/include/linux/dma-mapping.h).

#[cfg(ext_p2pdma)]
mod lock;

#[cfg(ext_p2pdma)]
pub use self::lock::{
    try_lock,
    Locked, //
};

use crate::shared::bindings::helpers;
use kernel::{
    bindings,
    device,
    prelude::*, //
};

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
    unsafe { helpers::ext_dma_max_seg_size(as_raw(dev)) }
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
