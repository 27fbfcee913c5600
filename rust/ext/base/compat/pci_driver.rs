// SPDX-License-Identifier: GPL-2.0

//! A [`PciDriver`] as a driver of the kernel crate.

use super::PciDriver;
use crate::shared::prelude::raw::*;
use kernel::device::Core;

/// A function, while the driver core calls the driver.
pub type CoreDevice<'a> = pci::Device<Core<'a>>;

/// Type of the `id_info` argument of `probe()` in a driver whose ids have no data.
#[cfg(not(have_pci_ids_without_data))]
type NoInfo<'a> = &'a ();
/// Type of the `id_info` argument of `probe()` in a driver whose ids have no data.
#[cfg(have_pci_ids_without_data)]
type NoInfo<'a> = Option<&'a ()>;

/// The driver `T` in the form that the kernel crate registers.
pub struct Adapted<T>(PhantomData<T>);

impl<T: PciDriver> pci::Driver for Adapted<T> {
    type IdInfo = ();
    type Data<'bound> = T::Data;
    const ID_TABLE: pci::IdTable<()> = T::ID_TABLE;

    fn probe<'bound>(
        dev: &'bound CoreDevice<'_>,
        _info: NoInfo<'bound>,
    ) -> impl PinInit<T::Data, Error> + 'bound {
        T::probe(dev)
    }
}

/// Defines the type of the data in an implementation of `DriverLayout` for the driver.
macro_rules! driver_data {
    ($driver:ident) => {
        type DriverData<'bound> = <$driver as $crate::shared::ext::base::compat::PciDriver>::Data;
    };
}
pub(crate) use driver_data;

/// A BAR of which `SIZE` bytes are mapped.
pub type MappedBar<'a, const SIZE: usize> = pci::Bar<'a, SIZE>;

/// BAR of which `SIZE` bytes are mapped while its function is bound.
#[cfg(have_pci_devres_bar)]
pub type DevresBar<const SIZE: usize> = pci::DevresBar<SIZE>;
/// BAR of which `SIZE` bytes are mapped while its function is bound.
#[cfg(not(have_pci_devres_bar))]
pub type DevresBar<const SIZE: usize> = kernel::devres::Devres<pci::Bar<'static, SIZE>>;

/// Maps `SIZE` bytes of a BAR while the function is bound.
///
/// Context: may sleep.
pub fn map_bar<const SIZE: usize>(
    dev: &pci::Device<Bound>,
    bar: u32,
    name: &'static CStr,
) -> Result<DevresBar<SIZE>> {
    dev.iomap_region_sized::<SIZE>(bar, name)?.into_devres()
}
