// SPDX-License-Identifier: GPL-2.0

//! Registration of a PCI driver.

use super::{
    bind_with::File,
    recovery::Handlers,
    BindWith,
    Recovery, //
};
use crate::shared::ext::base::compat::{
    driver_data,
    Adapted, //
};
use core::{
    marker::PhantomData,
    mem::offset_of, //
};
use kernel::{
    bindings,
    container_of,
    driver::{
        self,
        DriverLayout,
        RegistrationOps, //
    },
    error::to_result,
    pci,
    prelude::*,
    types::Opaque, //
};

/// [`pci::Adapter`], with the callbacks of [`Recovery`].
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

/// Registration of a PCI driver that accepts more ids at run time. Drop unregisters the driver.
///
/// # Invariants
///
/// The driver `T` is registered under `name` until this object is dropped.
#[pin_data]
pub struct Registration<T: Recovery + BindWith> {
    // Drop order: the file is removed before the driver is unregistered.
    _file: File<T>,
    #[pin]
    inner: driver::Registration<Adapter<T>>,
    pub(super) name: &'static CStr,
}

impl<T: Recovery + BindWith> Registration<T> {
    /// Registers the driver `T` under `name`. Context: may sleep. Calls `probe()` of the driver.
    pub fn new(name: &'static CStr, module: &'static ThisModule) -> impl PinInit<Self, Error> {
        // INVARIANT: If `inner` is initialised, the driver is registered under `name`.
        try_pin_init!(Self {
            inner <- driver::Registration::new(name, module),
            name,
            // SAFETY: The driver was registered above, and the file is dropped before it.
            _file: unsafe { File::new(find(name)?) }?,
        })
    }

    /// Returns the driver, which stays registered while `self` is borrowed.
    pub(super) fn driver(&self) -> Result<*mut bindings::device_driver> {
        // Names are unique on a bus, so by the type invariants this is the driver of `self`.
        find(self.name)
    }

    /// Adds the id `vendor`:`device` to the driver, as a write to `new_id` does.
    ///
    /// Binds the driver to matching functions that have no driver. Context: may sleep. Calls
    /// `probe()` of the driver.
    pub fn add_id(&self, vendor: u16, device: u16) -> Result {
        let drv = self.driver()?;
        // SAFETY: Every driver on the PCI bus is embedded in a `struct pci_driver`, and `drv` stays
        // registered while `self` is borrowed.
        let drv = unsafe { container_of!(drv, bindings::pci_driver, driver) };
        let any = u32::MAX;
        // SAFETY: `drv` stays registered while `self` is borrowed.
        to_result(unsafe {
            bindings::pci_add_dynid(drv, vendor.into(), device.into(), any, any, 0, 0, 0)
        })
    }
}

/// Returns the driver `name` of the PCI bus.
fn find(name: &CStr) -> Result<*mut bindings::device_driver> {
    let bus = &raw const bindings::pci_bus_type;
    // SAFETY: `name` is a C string, and the PCI bus is never unregistered.
    let drv = unsafe { bindings::driver_find(name.as_char_ptr(), bus) };
    if drv.is_null() {
        return Err(ENOENT);
    }
    Ok(drv)
}
