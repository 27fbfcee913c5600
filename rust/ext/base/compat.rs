// SPDX-License-Identifier: GPL-2.0

//! Differences between the kernels that this tree builds for. Code elsewhere is written for the
//! newest kernel, and this module implements the newer interface on older kernels.
//!
//! An item is removed together with the last kernel that needs the item. `rust/probe/probe` finds
//! out what a kernel has, and sets the cfgs. The same for C is in `rust/helpers/compat.h` and
//! `rust/helpers/compat_rdma.h`, and for the hook on ib_core in `rust/ext/rdma/umem_hook/entry.rs`.
//!
//! | item | needed by |
//! | --- | --- |
//! | [`AtomicPtr`] | 7.0: [`Atomic`](kernel::sync::atomic::Atomic) takes no pointers |
//! | [`dev_name`] | 7.0: no `Device::name` |
//! | [`emsgsize`] | 7.0: [`kernel::error::code`] lacks it |
//! | [`attach_ops`] | 7.0: `invalidate_mappings` is named `move_notify` |
//! | [`PciDriver`], [`Core`], [`pci_layout!`] | 7.0, 7.1: the driver is its own data, which is dropped after devres; 7.2: ids have data |
//! | [`Bar`], [`DevresBar`], [`map_bar`] | 7.0, 7.1, 7.2: the type of a BAR that devres holds |
//! | [`edeadlk`], [`edquot`], [`eopnotsupp`], [`enetunreach`], [`eremoteio`] | 7.0, 7.1, 7.2, as [`emsgsize`] |
//! | [`faux_device`] | 7.0, 7.1, 7.2: the context of a faux device |

mod atomic;
#[cfg(ext_pci_driver)]
mod pci_driver;

pub use self::atomic::AtomicPtr;
#[cfg(ext_pci_driver)]
pub use self::pci_driver::{
    map_bar,
    Bar,
    DevresBar,
    DriverData,
    PciDriver,
    Wrapper, //
};
#[cfg(ext_pci_driver)]
pub(crate) use self::pci_driver::pci_layout;

use crate::shared::bindings::helpers;
use kernel::{
    bindings,
    device,
    error::Error,
    faux,
    prelude::*, //
};

/// Defines functions that return errors.
macro_rules! errors {
    ($($(#[$doc:meta])* $name:ident: $errno:ident;)*) => {
        $(
            $(#[$doc])*
            pub fn $name() -> Error {
                // CAST: Error numbers are less than 4096.
                Error::from_errno(-(bindings::$errno as i32))
            }
        )*
    };
}

errors! {
    /// Returns `EDEADLK`: the task would wait for itself.
    edeadlk: EDEADLK;
    /// Returns `EDQUOT`: the quota of the user is exceeded.
    edquot: EDQUOT;
    /// Returns `EMSGSIZE`: the data is too long.
    emsgsize: EMSGSIZE;
    /// Returns `EOPNOTSUPP`: the operation is not supported by this device or for this memory.
    eopnotsupp: EOPNOTSUPP;
    /// Returns `ENETUNREACH`: there is no address for the other end.
    enetunreach: ENETUNREACH;
    /// Returns `EREMOTEIO`: the device cannot reach the memory.
    eremoteio: EREMOTEIO;
}

/// The context of a function that is being bound or unbound.
#[cfg(has_pci_data)]
pub type Core<'a> = device::Core<'a>;
/// The context of a function that is being bound or unbound.
#[cfg(not(has_pci_data))]
pub type Core<'a> = device::Core;

/// Returns the name of a device.
pub fn dev_name<Ctx: device::DeviceContext>(dev: &device::Device<Ctx>) -> &CStr {
    // `device::Device` is a transparent wrapper of an `Opaque<bindings::device>`.
    let dev = core::ptr::from_ref(dev).cast_mut().cast();
    // SAFETY: The device is valid while it is borrowed, and the name lives as long as the device.
    unsafe { CStr::from_char_ptr(helpers::ext_dev_name(dev)) }
}

/// Returns the operations of an importer of dma-bufs with this callback.
pub const fn attach_ops(
    allow_peer2peer: bool,
    invalidate_mappings: unsafe extern "C" fn(*mut bindings::dma_buf_attachment),
) -> bindings::dma_buf_attach_ops {
    bindings::dma_buf_attach_ops {
        allow_peer2peer,
        #[cfg(has_dma_buf_invalidate)]
        invalidate_mappings: Some(invalidate_mappings),
        #[cfg(not(has_dma_buf_invalidate))]
        move_notify: Some(invalidate_mappings),
    }
}

/// Returns the device of a faux registration.
#[cfg(not(has_faux_bound))]
pub fn faux_device(registration: &faux::Registration) -> &device::Device {
    registration.as_ref()
}
/// Returns the device of a faux registration.
#[cfg(has_faux_bound)]
pub fn faux_device(registration: &faux::Registration) -> &device::Device {
    let dev: &faux::Device<device::Bound> = registration.as_ref();
    let dev: &device::Device<device::Bound> = dev.as_ref();
    dev
}
