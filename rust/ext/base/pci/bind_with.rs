// SPDX-License-Identifier: GPL-2.0

//! The file `bind_with` of a driver in sysfs. A write binds the driver to one function, as `bind`
//! does, with options for that function.
//!
//! A driver implements [`BindWith`], and gets an [`Attach`] to bind itself.

use crate::shared::ext::base::{
    compat::PciDriver,
    device::as_raw as device_raw, //
};
use core::marker::PhantomData;
use kernel::{
    bindings,
    error::{
        from_result,
        to_result,
        VTABLE_DEFAULT_ERROR, //
    },
    pci,
    prelude::*, //
};

/// A driver that has the file, if the driver implements the function.
#[vtable]
pub trait BindWith: PciDriver {
    /// Handles a write of `text` to the file. White space at both ends has been removed. Context:
    /// may sleep.
    fn bind_with(_driver: &Attach<'_>, _text: &str) -> Result {
        build_error!(VTABLE_DEFAULT_ERROR)
    }
}

/// A driver that is registered during `'a`.
///
/// # Invariants
///
/// `driver` is a registered driver of the PCI bus during `'a`.
pub struct Attach<'a> {
    driver: *mut bindings::device_driver,
    _registered: PhantomData<&'a ()>,
}

impl Attach<'_> {
    /// Binds the driver to `dev`. The id or the `driver_override` of `dev` must match the driver.
    ///
    /// Returns `EBUSY` if `dev` has a driver, `ENODEV` if `dev` does not match, and otherwise the
    /// result of `probe()`. Context: may sleep. Calls `probe()` of the driver.
    pub fn attach(&self, dev: &pci::Device) -> Result {
        // SAFETY: By the type invariants the driver is registered, and `dev` is valid while
        // borrowed.
        to_result(unsafe { bindings::device_driver_attach(self.driver, device_raw(dev.as_ref())) })
    }
}

/// The file of the driver `T`. Drop removes the file, and waits for writers.
///
/// # Invariants
///
/// `driver` is registered, and has the file if `T` implements [`BindWith`].
pub(super) struct File<T: BindWith> {
    driver: *mut bindings::device_driver,
    _driver: PhantomData<T>,
}

// SAFETY: Any task may remove a file.
unsafe impl<T: BindWith> Send for File<T> {}
// SAFETY: A shared reference gives access to nothing.
unsafe impl<T: BindWith> Sync for File<T> {}

impl<T: BindWith> File<T> {
    // With lockdep the attribute has fields that are not named here.
    #[allow(clippy::needless_update)]
    const ATTRIBUTE: bindings::driver_attribute = bindings::driver_attribute {
        attr: bindings::attribute {
            name: kernel::str::as_char_ptr_in_const_context(c"bind_with"),
            mode: 0o200,
            ..pin_init::zeroed()
        },
        show: None,
        store: Some(Self::store),
    };

    const fn attribute() -> &'static bindings::driver_attribute {
        &Self::ATTRIBUTE
    }

    /// Creates the file, if `T` implements [`BindWith`].
    ///
    /// # Safety
    ///
    /// `driver` must be the driver `T` on the PCI bus, and stay registered until the object is dropped.
    pub(super) unsafe fn new(driver: *mut bindings::device_driver) -> Result<Self> {
        if T::HAS_BIND_WITH {
            // SAFETY: By the safety requirements the driver is registered, and the attribute is
            // `'static`.
            to_result(unsafe { bindings::driver_create_file(driver, Self::attribute()) })?;
        }
        // INVARIANT: The file was created above.
        Ok(Self {
            driver,
            _driver: PhantomData,
        })
    }

    /// # Safety
    ///
    /// `driver` must be a registered driver of the PCI bus, and `buf` must have `count` bytes, during
    /// the call.
    unsafe extern "C" fn store(
        driver: *mut bindings::device_driver,
        buf: *const c_char,
        count: usize,
    ) -> isize {
        // INVARIANT: By the safety requirements the driver is registered during the call.
        let driver = Attach {
            driver,
            _registered: PhantomData,
        };
        // SAFETY: By the safety requirements `buf` has `count` bytes.
        let text = unsafe { core::slice::from_raw_parts(buf.cast::<u8>(), count) };
        from_result(|| {
            let text = core::str::from_utf8(text).map_err(|_| EINVAL)?;
            T::bind_with(&driver, text.trim())?;
            // CAST: At most `PAGE_SIZE`.
            Ok(count as isize)
        })
    }
}

impl<T: BindWith> Drop for File<T> {
    fn drop(&mut self) {
        if T::HAS_BIND_WITH {
            // SAFETY: By the type invariants the driver is registered, and has the file.
            unsafe { bindings::driver_remove_file(self.driver, Self::attribute()) };
        }
    }
}
