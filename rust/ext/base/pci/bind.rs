// SPDX-License-Identifier: GPL-2.0

//! Binding a driver to one function. [`Override`] keeps other drivers away from the function.

use super::{
    BindWith,
    Recovery,
    Registration, //
};
use crate::shared::{
    bindings::helpers,
    ext::base::device::as_raw as device_raw, //
};
use kernel::{
    bindings,
    error::to_result,
    pci,
    prelude::*,
    sync::aref::ARef, //
};

impl<T: Recovery + BindWith> Registration<T> {
    /// Binds the driver to `dev`, whatever the id of `dev`.
    ///
    /// Sets the `driver_override` of `dev` until the returned object is dropped, so that no other
    /// driver is bound to `dev`. The second part of the result is `EBUSY` if `dev` has a driver
    /// already, otherwise the result of `probe()`.
    ///
    /// Returns `EEXIST` if `dev` has a `driver_override` already. Context: may sleep. Calls
    /// `probe()` of the driver.
    pub fn bind(&self, dev: &ARef<pci::Device>) -> Result<(Override, Result)> {
        let device = device_raw((**dev).as_ref());
        // SAFETY: `dev` is valid while it is borrowed.
        if unsafe { helpers::ext_device_has_override(device) } {
            return Err(EEXIST);
        }
        // SAFETY: `dev` is valid while it is borrowed, and `name` is a C string.
        to_result(unsafe { helpers::ext_device_set_override(device, self.name.as_char_ptr()) })?;
        // INVARIANT: The call above has set the override.
        let set = Override {
            dev: dev.clone(),
            driver: self.name,
        };
        let drv = self.driver()?;
        // SAFETY: `drv` stays registered while `self` is borrowed, and `dev` is valid while
        // borrowed.
        let bound = to_result(unsafe { bindings::device_driver_attach(drv, device) });
        Ok((set, bound))
    }
}

/// A function with a `driver_override`. Drop removes the override, unless the administrator has
/// changed the override.
///
/// # Invariants
///
/// [`Registration::bind`] has set the override to `driver`.
pub struct Override {
    dev: ARef<pci::Device>,
    driver: &'static CStr,
}

impl Drop for Override {
    fn drop(&mut self) {
        let device = device_raw((*self.dev).as_ref());
        // SAFETY: The object holds a reference to the device, and the name is a C string.
        if !unsafe { helpers::ext_device_override_is(device, self.driver.as_char_ptr()) } {
            return;
        }
        // SAFETY: The object holds a reference to the device, and the text is a C string. Without a
        // name the call allocates nothing, so it succeeds.
        let _ = unsafe { helpers::ext_device_set_override(device, c"".as_char_ptr()) };
    }
}
