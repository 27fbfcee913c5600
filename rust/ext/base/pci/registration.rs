// SPDX-License-Identifier: GPL-2.0

//! Registration of a PCI driver, and binding the driver to one function: by [`Registration::bind`], or by
//! a write to the file `bind_with` of the driver in sysfs, which has options for that function.

use super::{
    recovery::Handlers,
    Recovery, //
};
use crate::shared::{
    ext::base::{
        compat::{
            driver_data,
            Adapted,
            PciDriver, //
        },
        device::as_raw as device_raw, //
    },
    prelude::raw::*, //
};
use core::mem::offset_of;
use kernel::{
    driver::{
        self,
        DriverLayout,
        RegistrationOps, //
    },
    error::VTABLE_DEFAULT_ERROR, //
};

/// A driver that has the file `bind_with`, if the driver implements the function.
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
        // SAFETY: By the type invariants the driver is registered, and `dev` is valid while borrowed.
        to_result(unsafe { bindings::device_driver_attach(self.driver, device_raw(dev.as_ref())) })
    }
}

/// [`pci::Adapter`], with the callbacks of [`Recovery`] and the file of [`BindWith`].
struct Adapter<T>(PhantomData<T>);

// SAFETY: `DriverType` is that of `pci::Adapter`, with the same properties:
// - `bindings::pci_driver` is `repr(C)`.
// - `driver_data` defines the type of the driver's device private data.
// - `DEVICE_DRIVER_OFFSET` is the offset of the embedded `struct device_driver`.
unsafe impl<T: Recovery> DriverLayout for Adapter<T> {
    type DriverType = bindings::pci_driver;
    driver_data!(T);
    const DEVICE_DRIVER_OFFSET: usize = offset_of!(bindings::pci_driver, driver);
}

// SAFETY: Both functions call the functions of `pci::Adapter`.
unsafe impl<T: Recovery> RegistrationOps for Adapter<T> {
    unsafe fn register(
        pdrv: &Opaque<bindings::pci_driver>,
        name: &'static CStr,
        module: &'static ThisModule,
    ) -> Result {
        if let Some(handlers) = Handlers::<T>::table() {
            // SAFETY: The fields of a driver may be set before its registration.
            unsafe { (*pdrv.get()).err_handler = handlers };
        }
        // SAFETY: By the safety requirements `pdrv` stays valid until it is unregistered.
        unsafe { pci::Adapter::<Adapted<T>>::register(pdrv, name, module) }
    }

    unsafe fn unregister(pdrv: &Opaque<bindings::pci_driver>) {
        // SAFETY: By the safety requirements `register` has succeeded.
        unsafe { pci::Adapter::<Adapted<T>>::unregister(pdrv) }
    }
}

impl<T: BindWith> Adapter<T> {
    // With lockdep the attribute has fields that are not named here.
    #[allow(clippy::needless_update)]
    const BIND_WITH: bindings::driver_attribute = bindings::driver_attribute {
        attr: bindings::attribute {
            name: kernel::str::as_char_ptr_in_const_context(c"bind_with"),
            mode: 0o200,
            ..pin_init::zeroed()
        },
        show: None,
        store: Some(Self::store),
    };

    const fn bind_with() -> &'static bindings::driver_attribute {
        &Self::BIND_WITH
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

/// Registration of a PCI driver that accepts more ids at run time. Drop unregisters the driver.
///
/// # Invariants
///
/// Until this object is dropped `driver` is the driver `T`, registered under `name`, and has the file if `T`
/// implements [`BindWith`].
#[pin_data(PinnedDrop)]
pub struct Registration<T: Recovery + BindWith> {
    #[pin]
    inner: driver::Registration<Adapter<T>>,
    name: &'static CStr,
    driver: *mut bindings::device_driver,
}

// SAFETY: Any task may use the driver, and remove the file.
unsafe impl<T: Recovery + BindWith> Send for Registration<T> {}
// SAFETY: As for `Send`.
unsafe impl<T: Recovery + BindWith> Sync for Registration<T> {}

impl<T: Recovery + BindWith> Registration<T> {
    /// Registers the driver `T` under `name`. Context: may sleep. Calls `probe()` of the driver.
    pub fn new(name: &'static CStr, module: &'static ThisModule) -> impl PinInit<Self, Error> {
        try_pin_init!(Self {
            inner <- driver::Registration::new(name, module),
            name,
            // INVARIANT: Names are unique on a bus, so this is the driver that was registered above. The file
            // is created here.
            driver: {
                let driver = find(name)?;
                if T::HAS_BIND_WITH {
                    // SAFETY: The driver is registered, and the attribute is `'static`.
                    to_result(unsafe {
                        bindings::driver_create_file(driver, Adapter::<T>::bind_with())
                    })?;
                }
                driver
            },
        })
    }

    /// Adds the id `vendor`:`device` to the driver, as a write to `new_id` does, and binds the driver to
    /// matching functions that have no driver. Context: may sleep. Calls `probe()` of the driver.
    pub fn add_id(&self, vendor: u16, device: u16) -> Result {
        let any = u32::MAX;
        // SAFETY: By the type invariants the driver is registered. Every driver on the PCI bus is embedded in a
        // `struct pci_driver`.
        to_result(unsafe {
            let drv = container_of!(self.driver, bindings::pci_driver, driver);
            bindings::pci_add_dynid(drv, vendor.into(), device.into(), any, any, 0, 0, 0)
        })
    }

    /// Binds the driver to `dev`, whatever the id of `dev`.
    ///
    /// Sets the `driver_override` of `dev` until the returned object is dropped, so that no other
    /// driver is bound to `dev`. The second part of the result is `EBUSY` if `dev` has a driver
    /// already, otherwise the result of `probe()`.
    ///
    /// Returns `EEXIST` if `dev` has a `driver_override` already. Context: may sleep. Calls
    /// `probe()` of the driver.
    pub fn bind(&self, dev: &ARef<pci::Device>) -> Result<(Override, Result)> {
        let (device, name) = (device_raw((**dev).as_ref()), self.name.as_char_ptr());
        // SAFETY: `dev` is valid while it is borrowed.
        if unsafe { helpers::ext_device_has_override(device) } {
            return Err(EEXIST);
        }
        // SAFETY: `dev` is valid while it is borrowed, and `name` is a C string.
        to_result(unsafe { helpers::ext_device_set_override(device, name) })?;
        // INVARIANT: The call above has set the override.
        let set = Override {
            dev: dev.clone(),
            driver: self.name,
        };
        // INVARIANT: By the type invariants the driver is registered while `self` is borrowed.
        let driver = Attach {
            driver: self.driver,
            _registered: PhantomData,
        };
        Ok((set, driver.attach(dev)))
    }
}

#[pinned_drop]
impl<T: Recovery + BindWith> PinnedDrop for Registration<T> {
    fn drop(self: Pin<&mut Self>) {
        if T::HAS_BIND_WITH {
            // SAFETY: By the type invariants the driver is registered, and has the file. The call waits for
            // writers.
            unsafe { bindings::driver_remove_file(self.driver, Adapter::<T>::bind_with()) };
        }
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
        let (device, none) = (device_raw((*self.dev).as_ref()), c"".as_char_ptr());
        // SAFETY: The object holds a reference to the device, and both texts are C strings.
        unsafe {
            if helpers::ext_device_override_is(device, self.driver.as_char_ptr()) {
                // Without a name the call allocates nothing, so it succeeds.
                let _ = helpers::ext_device_set_override(device, none);
            }
        }
    }
}

/// Returns the driver `name` of the PCI bus.
fn find(name: &CStr) -> Result<*mut bindings::device_driver> {
    let bus = &raw const bindings::pci_bus_type;
    // SAFETY: `name` is a C string, and the PCI bus is never unregistered.
    let drv = unsafe { bindings::driver_find(name.as_char_ptr(), bus) };
    NonNull::new(drv).map(NonNull::as_ptr).ok_or(ENOENT)
}
