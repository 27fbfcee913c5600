// SPDX-License-Identifier: GPL-2.0

//! PCI drivers.
//!
//! [`Wrapper`] is what the kernel crate sees of a [`PciDriver`].

use super::Core;
use core::marker::PhantomData;
use kernel::{
    device::Bound,
    pci,
    prelude::*,
    types::Opaque, //
};

/// A PCI driver whose ids are all added at run time.
pub trait PciDriver: Sized + 'static {
    /// The data of a bound function. Dropped before the devres of the function.
    type Data: Send;

    /// Binds the driver to `dev`.
    ///
    /// Context: may sleep.
    fn probe(dev: &pci::Device<Core<'_>>) -> Result<Self::Data>;
}

/// The driver data of a function that is bound to `T`, as the driver core has it.
///
/// Before 7.2 the driver core drops the driver data after devres. So the wrapper drops the data of
/// the driver in `unbind()`, which is called before devres.
///
/// # Invariants
///
/// The value is initialised until `unbind()`.
pub struct DriverData<T: PciDriver> {
    value: Opaque<T::Data>,
}

impl<T: PciDriver> DriverData<T> {
    /// Takes the result of `probe()`. Without memory for the driver data the result is dropped.
    fn new(data: Result<T::Data>) -> impl Init<Self, Error> {
        // INVARIANT: The value is initialised with the object.
        try_init!(Self {
            value: Opaque::new(data?),
        })
    }

    /// Returns the data of the driver.
    ///
    /// # Safety
    ///
    /// `unbind()` must not have been called, and not be called as long as the result is used.
    pub unsafe fn get(&self) -> &T::Data {
        // SAFETY: By the type invariants and the safety requirements the value is initialised.
        unsafe { &*self.value.get() }
    }

    /// Drops the data of the driver.
    ///
    /// # Safety
    ///
    /// The caller must be `unbind()`.
    unsafe fn unbind(&self) {
        // SAFETY: By the type invariants the value is initialised. `unbind()` is called once, and by
        // the safety requirements of `get` no reference is left.
        unsafe { self.value.get().drop_in_place() };
    }
}

/// The driver `T`, as the kernel crate has it.
#[cfg(has_pci_data)]
pub struct Wrapper<T>(PhantomData<T>);
/// The driver `T`, as the kernel crate has it.
#[cfg(not(has_pci_data))]
pub type Wrapper<T> = DriverData<T>;

/// What the kernel crate passes to `probe()` for an id.
#[cfg(has_pci_no_info)]
type Info<'a> = Option<&'a ()>;
/// What the kernel crate passes to `probe()` for an id.
#[cfg(not(has_pci_no_info))]
type Info<'a> = &'a ();

// The table has one id, which no function can have: the register is 16 bits wide. The table has no
// data if it may: an id added at run time could not refer to any.
#[cfg(has_pci_no_info)]
kernel::pci_device_table!(
    PCI_TABLE,
    @none,
    [pci::DeviceId::from_id(pci::Vendor::REDHAT, 0x10000)]
);
#[cfg(not(has_pci_no_info))]
kernel::pci_device_table!(
    PCI_TABLE,
    MODULE_PCI_TABLE,
    (),
    [(pci::DeviceId::from_id(pci::Vendor::REDHAT, 0x10000), ())]
);

#[cfg(has_pci_data)]
impl<T: PciDriver> pci::Driver for Wrapper<T> {
    type IdInfo = ();
    type Data<'bound> = DriverData<T>;
    const ID_TABLE: pci::IdTable<Self::IdInfo> = &PCI_TABLE;

    fn probe<'bound>(
        dev: &'bound pci::Device<Core<'_>>,
        _info: Info<'bound>,
    ) -> impl PinInit<DriverData<T>, Error> + 'bound {
        DriverData::new(T::probe(dev))
    }

    fn unbind<'bound>(_dev: &'bound pci::Device<Core<'_>>, data: Pin<&DriverData<T>>) {
        // SAFETY: This is `unbind()`.
        unsafe { data.unbind() };
    }
}

#[cfg(not(has_pci_data))]
impl<T: PciDriver> pci::Driver for DriverData<T> {
    type IdInfo = ();
    const ID_TABLE: pci::IdTable<Self::IdInfo> = &PCI_TABLE;

    fn probe(dev: &pci::Device<Core<'_>>, _info: Info<'_>) -> impl PinInit<Self, Error> {
        DriverData::new(T::probe(dev))
    }

    fn unbind(_dev: &pci::Device<Core<'_>>, data: Pin<&Self>) {
        // SAFETY: This is `unbind()`.
        unsafe { data.unbind() };
    }
}

/// Makes `$adapter<T>` the layout of a PCI driver, for a `T` that is a [`PciDriver`] and a `$bound`.
macro_rules! pci_layout {
    ($adapter:ident, $bound:ident) => {
        // SAFETY: `DriverType` is that of `pci::Adapter`, with the same properties:
        // - `bindings::pci_driver` is `repr(C)`.
        // - `DriverData` is the type of the driver's device private data.
        // - `DEVICE_DRIVER_OFFSET` is the offset of the embedded `struct device_driver`.
        unsafe impl<T: $bound> kernel::driver::DriverLayout for $adapter<T> {
            type DriverType = kernel::bindings::pci_driver;
            #[cfg(has_pci_data)]
            type DriverData<'bound> = $crate::shared::ext::base::compat::DriverData<T>;
            #[cfg(not(has_pci_data))]
            type DriverData = $crate::shared::ext::base::compat::DriverData<T>;
            const DEVICE_DRIVER_OFFSET: usize =
                core::mem::offset_of!(kernel::bindings::pci_driver, driver);
        }
    };
}
pub(crate) use pci_layout;

/// BAR of which `SIZE` bytes are mapped while its function is bound.
#[cfg(has_devres_bar)]
pub type DevresBar<const SIZE: usize> = pci::DevresBar<SIZE>;
/// BAR of which `SIZE` bytes are mapped while its function is bound.
#[cfg(all(has_pci_data, not(has_devres_bar)))]
pub type DevresBar<const SIZE: usize> = kernel::devres::Devres<pci::Bar<'static, SIZE>>;
/// BAR of which `SIZE` bytes are mapped while its function is bound.
#[cfg(not(has_pci_data))]
pub type DevresBar<const SIZE: usize> = Pin<KBox<kernel::devres::Devres<pci::Bar<SIZE>>>>;

/// BAR of which `SIZE` bytes are mapped.
#[cfg(has_pci_data)]
pub type Bar<'a, const SIZE: usize> = pci::Bar<'a, SIZE>;
/// BAR of which `SIZE` bytes are mapped.
#[cfg(not(has_pci_data))]
pub type Bar<'a, const SIZE: usize> = pci::Bar<SIZE>;

/// Maps `SIZE` bytes of BAR `index` of `dev`.
///
/// Context: may sleep.
pub fn map_bar<const SIZE: usize>(
    dev: &pci::Device<Bound>,
    index: u32,
    name: &'static CStr,
) -> Result<DevresBar<SIZE>> {
    let bar = dev.iomap_region_sized::<SIZE>(index, name);
    #[cfg(has_pci_data)]
    return bar?.into_devres();
    #[cfg(not(has_pci_data))]
    return KBox::pin_init(bar, GFP_KERNEL);
}
