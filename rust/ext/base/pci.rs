// SPDX-License-Identifier: GPL-2.0

//! Functions that [`kernel::pci`] lacks: BAR flags, claiming a BAR, disabling a device, dynamic
//! ids, recovery from errors, options of one function, lookup of a function.

mod bar_range;
mod recovery;
mod registration;

pub use self::{
    bar_range::BarRange,
    recovery::{
        answers,
        save_state,
        Recovery, //
    },
    registration::{
        Attach,
        BindWith,
        Override,
        Registration, //
    },
};

use crate::shared::{
    ext::base::compat::CoreDevice,
    prelude::raw::*, //
};
use kernel::devres;

/// Number of BARs of a function, without the expansion ROM and bridge windows.
pub const BARS: u32 = 6;

/// Returns the `struct pci_dev` behind `dev`, valid as long as `dev` is borrowed.
pub(crate) fn as_raw<Ctx: device::DeviceContext>(dev: &pci::Device<Ctx>) -> *mut bindings::pci_dev {
    // `pci::Device` is a transparent wrapper of an `Opaque<bindings::pci_dev>`.
    core::ptr::from_ref(dev).cast_mut().cast()
}

#[derive(Clone, Copy)]
pub struct Bar {
    index: u32,
    start: u64,
    len: u64,
    flags: usize,
}

impl Bar {
    /// Returns the properties of BAR `index` of `dev`, or `EINVAL` if `index` is not less than
    /// [`BARS`].
    pub fn new(dev: &pci::Device<Bound>, index: u32) -> Result<Self> {
        Self::of(dev, index).ok_or(EINVAL)
    }

    /// As `pci_resource_flags()`, `pci_resource_start()` and `pci_resource_len()` in C.
    fn of<Ctx: device::DeviceContext>(dev: &pci::Device<Ctx>, index: u32) -> Option<Self> {
        if index >= BARS {
            return None;
        }
        // SAFETY: `dev` is valid while it is borrowed, and a function has more resources than standard BARs.
        // The kernel may assign addresses meanwhile, so no reference is made.
        let (flags, start, end) = unsafe {
            let bar = &raw const (*as_raw(dev)).resource[index as usize];
            ((*bar).flags, (*bar).start, (*bar).end)
        };
        // The last byte of a BAR that does not exist is 0.
        //
        // CAST: `IORESOURCE_*` are bits of a 64-bit word.
        let placed = flags & bindings::IORESOURCE_UNSET as usize == 0 && end != 0 && start <= end;
        Some(Self {
            index,
            start,
            len: if placed { end - start + 1 } else { 0 },
            flags,
        })
    }

    fn has(&self, flag: u32) -> bool {
        // CAST: `IORESOURCE_*` are bits of a 64-bit word.
        self.flags & flag as usize != 0
    }

    pub fn index(&self) -> u32 {
        self.index
    }

    pub fn start(&self) -> u64 {
        self.start
    }

    /// Returns the size in bytes; 0 if the function does not have the BAR, or if the BAR has no
    /// address assigned.
    pub fn size(&self) -> u64 {
        self.len
    }

    pub fn is_mem(&self) -> bool {
        self.has(bindings::IORESOURCE_MEM)
    }

    pub fn is_io(&self) -> bool {
        self.has(bindings::IORESOURCE_IO)
    }

    /// Returns whether the BAR is prefetchable. Reads should have no side effects, but many devices
    /// have registers in prefetchable BARs.
    pub fn is_prefetchable(&self) -> bool {
        self.has(bindings::IORESOURCE_PREFETCH)
    }
}

/// Returns the function at an address on the bus, or `None` if there is no function.
///
/// `slot` is the device number times 8 plus the function number. Context: may sleep.
pub fn at(domain: u32, bus: u8, slot: u8) -> Option<ARef<pci::Device>> {
    // SAFETY: The function needs a context that may sleep, as this function does.
    // CAST: Domain numbers are `int` in the kernel; any value is safe.
    let dev =
        unsafe { bindings::pci_get_domain_bus_and_slot(domain as i32, bus.into(), slot.into()) };
    // SAFETY: The `ARef` takes over the reference of the call. `pci::Device` is a transparent wrapper of
    // `struct pci_dev`.
    NonNull::new(dev).map(|dev| unsafe { ARef::from_raw(dev.cast()) })
}

/// Returns whether `dev` is on the bus. A deleted function leaves the bus before the notification
/// [`Event::Deleted`](super::pci_watch::Event::Deleted). Context: may sleep.
pub fn is_on_bus(dev: &pci::Device) -> bool {
    let (domain, bus, slot) = address(dev);
    at(domain, bus, slot).is_some_and(|found| core::ptr::eq(&*found, dev))
}

/// Returns the address of `dev` on the bus: domain, bus and slot, as [`at`] takes them.
pub fn address(dev: &pci::Device) -> (u32, u8, u8) {
    let dev = as_raw(dev);
    // SAFETY: `dev` is valid while it is borrowed.
    let (domain, id) = unsafe {
        (
            helpers::pci_domain_nr((*dev).bus),
            bindings::pci_dev_id(dev),
        )
    };
    // CAST: Domain numbers are not negative. `id` has the bus in bits 8 to 15 and the slot below.
    (domain as u32, (id >> 8) as u8, id as u8)
}

/// A function whose memory space is enabled. Drop disables the memory space.
///
/// # Invariants
///
/// This object owns one `pci_enable_device_mem()` of the function.
struct Enabled(ARef<pci::Device>);

impl Drop for Enabled {
    fn drop(&mut self) {
        // SAFETY: By the type invariants this object owns one enable, of a device with a reference.
        unsafe { bindings::pci_disable_device(as_raw(&self.0)) };
    }
}

/// Enables the memory space of `dev` until the driver is unbound.
///
/// Devres disables the memory space after the release of all resources added later. Context: may
/// sleep.
pub fn enable_mem(dev: &CoreDevice<'_>) -> Result {
    dev.enable_device_mem()?;
    // INVARIANT: The call above enabled the memory space. If `register` fails, the object is
    // dropped.
    devres::register(dev.as_ref(), Enabled(dev.into()), GFP_KERNEL)
}

/// Stops `dev` from accessing memory: clears bus mastering, which firmware may have left enabled.
pub fn clear_master(dev: &CoreDevice<'_>) {
    // SAFETY: `dev` is a valid device, whose driver is being bound and has not set bus mastering.
    unsafe { bindings::pci_clear_master(as_raw(dev)) };
}

/// Returns whether `dev` is a bridge: its configuration header is not that of an endpoint.
pub fn is_bridge<Ctx: device::DeviceContext>(dev: &pci::Device<Ctx>) -> bool {
    // SAFETY: `dev` is a valid device, and `hdr_type` does not change after the enumeration.
    let hdr_type = unsafe { (*as_raw(dev)).hdr_type };
    u32::from(hdr_type) != bindings::PCI_HEADER_TYPE_NORMAL
}

/// Claims BAR `index` of `dev` until its driver is unbound.
///
/// Returns `EBUSY` if another driver has claimed the BAR, and `EINVAL` if `index` is not less than
/// [`BARS`]. Context: may sleep.
pub fn request_bar(dev: &pci::Device<Bound>, index: u32, name: &'static CStr) -> Result {
    if index >= BARS {
        return Err(EINVAL);
    }
    // SAFETY:
    // - `dev` is bound to a driver, whose devres releases the BAR.
    // - `name` is a C string that lives as long as the module, so longer than the driver.
    // CAST: `index` is less than `BARS`.
    to_result(unsafe {
        bindings::pcim_request_region(as_raw(dev), index as i32, name.as_char_ptr())
    })
}
