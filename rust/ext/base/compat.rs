// SPDX-License-Identifier: GPL-2.0

//! The room for what differs between the kernels that this tree builds for. It has the interface of
//! the newest one, and implements that on the others. `rust/probe` finds out what a kernel has: a
//! feature is `cfg(have_NAME)` here, and no other code of `rust/` has such a cfg, but
//! `rdma/umem_hook/entry.rs`. In C the room is `rust/helpers/compat.h` and `compat_rdma.h`.
//!
//! `scripts/kernels` lists the releases. An item is removed together with the last release that
//! needs the item.
//!
//! | item | needed by |
//! | --- | --- |
//! | [`edeadlk`], [`edquot`], [`eopnotsupp`], [`enetunreach`], [`eremoteio`] | 7.2, whose [`kernel::error::code`] lacks them |
//! | `ext_file_inode_number()` (C), [`is_shared`](super::vma::is_shared) | 7.2: types of a number and of a flag |
//! | [`added_ids!`] | 7.2: `pci::Driver::probe` and PCI tables always have data |
//! | [`DevresBar`] | 7.2: the type of a BAR that devres holds |
//! | [`faux_device`] | 7.2: the context of a faux device |
//! | [`PciDriver`], [`Adapted`], [`driver_data!`], [`CoreDevice`], [`MappedBar`], [`map_bar`] | 7.1: a PCI driver has the type of its data, which is dropped after devres |
//! | `umem_hook/entry/get.rs` | 7.1: memory is pinned by its address alone |
//! | `ib_umem_get_va()`, `ib_umem_get_cq_buf_or_va()` (C) | 7.1: the same |
//! | `ext_umem_find_best_pgsz()` (C) | 7.1: another type of the address |
//! | `tests/adapter/cq_entry.rs` | 7.1: ib_uverbs pins the buffer of a CQ; 7.0: no `create_user_cq` |
//! | `kt_fence_lock` (C) of the tests | 7.0: a fence has no lock of its own |
//! | [`AtomicPtr`] | 7.0: `Atomic` takes numbers only |
//! | [`attach_ops`], `invalidate_mappings`, `dma_buf_invalidate_mappings()` (C) | 7.0: other names |
//! | [`emsgsize`] | 7.0: another one that [`kernel::error::code`] lacks |
//! | `Device::name`, as `ext::base::device::name` | 7.0 lacks it |
//! | `wrapping_neg()` of a count | 7.0: `Atomic` has no `fetch_sub()` |
//! | `ext_dma_resv_lock()`, `ext_dma_resv_unlock()` (C) | 7.0: the kernel crate has no helpers for them |
//! | `ext_dma_map_sgtable()`, `ext_sg_is_left_unmapped()` (C), [`LEAVES_BARS_UNMAPPED`] | 7.0: `dma_map_sg()` leaves memory of a BAR without an address |
//! | `dma_buf_attach_revocable()` (C) | 7.0: only the name of its callback says whether an importer can be revoked |
//! | `device_has_driver_override()` and its like (C) | 7.0: a PCI function has an override of its own |
//! | `ib_umem_check_rereg()` (C) | 7.0 lacks it |
//! | `ib_umem_dmabuf_get_pinned_revocable_and_lock()` and its like, `EXT_UMEM_REVOCABLE` (C) | 7.0: an importer that pins cannot be revoked |

#[cfg(not(have_atomic_ptr))]
mod atomic_ptr;
#[cfg(have_pci_driver_data)]
mod pci_driver;
#[cfg(not(have_pci_driver_data))]
#[path = "compat/pci_driver_of_data.rs"]
mod pci_driver;

#[cfg(not(have_atomic_ptr))]
pub use self::atomic_ptr::AtomicPtr;
pub(crate) use self::pci_driver::driver_data;
pub use self::pci_driver::{
    map_bar,
    Adapted,
    CoreDevice,
    DevresBar,
    MappedBar, //
};

use crate::shared::prelude::raw::*;
use kernel::faux;

macro_rules! errors {
    ($($function:ident = $name:ident: $meaning:literal;)*) => {
        $(
            #[doc = concat!("Returns `", stringify!($name), "`: ", $meaning, ".")]
            pub fn $function() -> Error {
                // CAST: Error numbers are less than 4096.
                Error::from_errno(-(bindings::$name as i32))
            }
        )*
    };
}
errors! {
    edeadlk = EDEADLK: "the task would wait for itself";
    edquot = EDQUOT: "the quota of the user is exceeded";
    emsgsize = EMSGSIZE: "the message is too long";
    enetunreach = ENETUNREACH: "there is no address for the other end";
    eopnotsupp = EOPNOTSUPP: "the device does not support it, or not for this memory";
    eremoteio = EREMOTEIO: "the device cannot reach the memory";
}

/// A pointer that tasks change atomically.
#[cfg(have_atomic_ptr)]
pub type AtomicPtr<T> = kernel::sync::atomic::Atomic<*mut T>;

/// Whether `dma_map_sg()` may leave the entry of a BAR without a DMA address.
pub const LEAVES_BARS_UNMAPPED: bool = cfg!(not(have_dma_buf_revocable));

/// A driver of PCI functions, whose ids are all added at run time. The driver is registered as
/// [`Adapted`].
pub trait PciDriver: Sized + 'static {
    /// The data of a bound function. Dropped before the devres of the function.
    type Data: Send + 'static;

    /// `&PCI_TABLE`, defined by [`added_ids!`].
    const ID_TABLE: pci::IdTable<()>;

    /// Context: may sleep. The caller holds the lock of `dev`.
    fn probe(dev: &CoreDevice<'_>) -> Result<Self::Data>;
}

/// Returns the operations of an importer of dma-bufs that `invalidate` makes unmap.
pub const fn attach_ops(
    allow_peer2peer: bool,
    invalidate: unsafe extern "C" fn(*mut bindings::dma_buf_attachment),
) -> bindings::dma_buf_attach_ops {
    bindings::dma_buf_attach_ops {
        allow_peer2peer,
        #[cfg(have_dma_buf_invalidate)]
        invalidate_mappings: Some(invalidate),
        #[cfg(not(have_dma_buf_invalidate))]
        move_notify: Some(invalidate),
    }
}

/// Defines `PCI_TABLE` for a driver whose ids are all added at run time.
///
/// The table has one id that no function can have: the register is 16 bits wide.
macro_rules! added_ids {
    () => {
        #[cfg(not(have_pci_ids_without_data))]
        kernel::pci_device_table!(
            PCI_TABLE,
            MODULE_PCI_TABLE,
            (),
            [(
                kernel::pci::DeviceId::from_id(kernel::pci::Vendor::REDHAT, 0x10000),
                ()
            )]
        );
        // The table has no data: an id added at run time could not refer to any.
        #[cfg(have_pci_ids_without_data)]
        kernel::pci_device_table!(
            PCI_TABLE,
            @none,
            [kernel::pci::DeviceId::from_id(kernel::pci::Vendor::REDHAT, 0x10000)]
        );
    };
}
pub(crate) use added_ids;

/// Returns the device of a faux registration.
#[cfg(not(have_faux_device))]
pub fn faux_device(registration: &faux::Registration) -> &device::Device {
    registration.as_ref()
}
/// Returns the device of a faux registration.
#[cfg(have_faux_device)]
pub fn faux_device(registration: &faux::Registration) -> &device::Device {
    let dev: &faux::Device<device::Bound> = registration.as_ref();
    let dev: &device::Device<device::Bound> = dev.as_ref();
    dev
}
