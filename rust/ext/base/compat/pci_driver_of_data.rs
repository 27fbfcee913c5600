// SPDX-License-Identifier: GPL-2.0

//! A [`PciDriver`] as a driver of the kernel crate of 7.0 and 7.1, where the type of a driver is the
//! type of its data, and the driver core drops the data after the devres of the function.

use super::PciDriver;
use crate::shared::prelude::raw::*;
use core::{
    cell::UnsafeCell,
    mem::ManuallyDrop, //
};
use kernel::{
    device::Core,
    devres::Devres, //
};

/// A function, while the driver core calls the driver.
pub type CoreDevice<'a> = pci::Device<Core>;

/// The driver `T` in the form that the kernel crate registers: the data of a bound function, with the
/// layout of `T::Data`.
#[repr(transparent)]
pub struct Adapted<T: PciDriver> {
    data: UnsafeCell<ManuallyDrop<T::Data>>,
}

impl<T: PciDriver> pci::Driver for Adapted<T> {
    type IdInfo = ();
    const ID_TABLE: pci::IdTable<()> = T::ID_TABLE;

    fn probe(dev: &pci::Device<Core>, _info: &()) -> impl PinInit<Self, Error> {
        let data = T::probe(dev);
        // Without memory for the object the kernel crate drops the initializer, and so the data.
        try_init!(Self {
            data: UnsafeCell::new(ManuallyDrop::new(data?)),
        }? Error)
    }

    /// Drops the data before the devres of the function, as later kernels do.
    fn unbind(_dev: &pci::Device<Core>, this: Pin<&Self>) {
        // SAFETY: The driver core calls this function once for a function, with the lock of the
        // function held. Nothing uses the data afterwards: the error handlers take that lock.
        unsafe { ManuallyDrop::drop(&mut *this.data.get()) };
    }
}

/// Defines the type of the data in an implementation of `DriverLayout` for the driver.
macro_rules! driver_data {
    ($driver:ident) => {
        type DriverData = $crate::shared::ext::base::compat::Adapted<$driver>;
    };
}
pub(crate) use driver_data;

/// A BAR of which `SIZE` bytes are mapped.
pub type MappedBar<'a, const SIZE: usize> = pci::Bar<SIZE>;

/// BAR of which `SIZE` bytes are mapped while its function is bound.
pub type DevresBar<const SIZE: usize> = Pin<KBox<Devres<pci::Bar<SIZE>>>>;

/// Maps `SIZE` bytes of a BAR while the function is bound.
///
/// Context: may sleep.
pub fn map_bar<const SIZE: usize>(
    dev: &pci::Device<Bound>,
    bar: u32,
    name: &'static CStr,
) -> Result<DevresBar<SIZE>> {
    KBox::pin_init(dev.iomap_region_sized::<SIZE>(bar, name), GFP_KERNEL)
}
