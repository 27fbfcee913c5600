// SPDX-License-Identifier: GPL-2.0

//! Differences between the kernel releases that this tree builds for. `scripts/kernels` lists the
//! releases. An item is removed together with the last release that needs the item.
//!
//! | item | needed by |
//! | --- | --- |
//! | [`edeadlk`], [`edquot`], [`eopnotsupp`], [`enetunreach`], [`eremoteio`] | 7.2, whose [`kernel::error::code`] lacks them |
//! | [`NoInfo`], [`added_ids!`] | 7.2 and 7.3: `pci::Driver::probe` and PCI tables without data |
//! | [`DevresBar`] | 7.2 and 7.3: the type of a BAR that devres holds |
//! | [`faux_device`] | 7.2 and 7.3: the context of a faux device |

use kernel::{
    bindings,
    device,
    error::Error,
    faux,
    pci, //
};

/// Returns `EDEADLK`: the task would wait for itself.
pub fn edeadlk() -> Error {
    // CAST: Error numbers are less than 4096.
    Error::from_errno(-(bindings::EDEADLK as i32))
}

/// Returns `EDQUOT`: the quota of the user is exceeded.
pub fn edquot() -> Error {
    // CAST: Error numbers are less than 4096.
    Error::from_errno(-(bindings::EDQUOT as i32))
}

/// Returns `EOPNOTSUPP`: the operation is not supported by this device or for this memory.
pub fn eopnotsupp() -> Error {
    // CAST: Error numbers are less than 4096.
    Error::from_errno(-(bindings::EOPNOTSUPP as i32))
}

/// Returns `ENETUNREACH`: there is no address for the other end.
pub fn enetunreach() -> Error {
    // CAST: Error numbers are less than 4096.
    Error::from_errno(-(bindings::ENETUNREACH as i32))
}

/// Returns `EREMOTEIO`: the device cannot reach the memory.
pub fn eremoteio() -> Error {
    // CAST: Error numbers are less than 4096.
    Error::from_errno(-(bindings::EREMOTEIO as i32))
}

/// Type of the `id_info` argument of `probe()` in a driver whose ids have no data.
#[cfg(not(kernel_7_3))]
pub type NoInfo<'a> = &'a ();
/// Type of the `id_info` argument of `probe()` in a driver whose ids have no data.
#[cfg(kernel_7_3)]
pub type NoInfo<'a> = Option<&'a ()>;

/// Defines `PCI_TABLE` for a driver whose ids are all added at run time.
///
/// The table has one id that no function can have: the register is 16 bits wide.
macro_rules! added_ids {
    ($driver:ty) => {
        #[cfg(not(kernel_7_3))]
        kernel::pci_device_table!(
            PCI_TABLE,
            MODULE_PCI_TABLE,
            <$driver as kernel::pci::Driver>::IdInfo,
            [(
                kernel::pci::DeviceId::from_id(kernel::pci::Vendor::REDHAT, 0x10000),
                ()
            )]
        );
        // The table has no data: an id added at run time could not refer to any.
        #[cfg(kernel_7_3)]
        kernel::pci_device_table!(
            PCI_TABLE,
            @none,
            [kernel::pci::DeviceId::from_id(kernel::pci::Vendor::REDHAT, 0x10000)]
        );
    };
}
pub(crate) use added_ids;

/// BAR of which `SIZE` bytes are mapped while its function is bound.
#[cfg(not(kernel_7_3))]
pub type DevresBar<const SIZE: usize> = kernel::devres::Devres<pci::Bar<'static, SIZE>>;
/// BAR of which `SIZE` bytes are mapped while its function is bound.
#[cfg(kernel_7_3)]
pub type DevresBar<const SIZE: usize> = pci::DevresBar<SIZE>;

/// Returns the device of a faux registration.
#[cfg(not(kernel_7_3))]
pub fn faux_device(registration: &faux::Registration) -> &device::Device {
    registration.as_ref()
}
/// Returns the device of a faux registration.
#[cfg(kernel_7_3)]
pub fn faux_device(registration: &faux::Registration) -> &device::Device {
    let dev: &faux::Device<device::Bound> = registration.as_ref();
    let dev: &device::Device<device::Bound> = dev.as_ref();
    dev
}
