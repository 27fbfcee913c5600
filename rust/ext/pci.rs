// SPDX-License-Identifier: GPL-2.0

//! What [`kernel::pci`] lacks: BAR flags, claiming a BAR, undoing an enable, dynamic ids, finding a
//! function.
//!
//! C header: [`include/linux/pci.h`](srctree/include/linux/pci.h).

use super::bindings::helpers;
use core::{
    ops::Range,
    ptr::NonNull, //
};
use kernel::{
    bindings,
    container_of,
    device::{
        self,
        Bound,
        Core, //
    },
    devres,
    driver,
    error::to_result,
    pci,
    prelude::*,
    sync::aref::ARef, //
};

/// How many BARs a function has (without the expansion ROM and bridge windows).
pub const BARS: u32 = 6;

/// The `struct pci_dev` behind `dev`.
pub(crate) fn as_raw<Ctx: device::DeviceContext>(dev: &pci::Device<Ctx>) -> *mut bindings::pci_dev {
    // `pci::Device` is a transparent wrapper around an `Opaque<bindings::pci_dev>`.
    core::ptr::from_ref(dev).cast_mut().cast()
}

/// What the bus knows about a BAR.
#[derive(Clone, Copy)]
pub struct Bar {
    /// Its number, 0 to 5.
    pub index: u32,
    /// Physical address of its first byte.
    pub start: u64,
    /// Its size in bytes; 0 where the function has no such BAR, or it got no address.
    pub len: u64,
    /// `IORESOURCE_*`.
    flags: usize,
}

impl Bar {
    /// Looks at BAR `index` of `dev`; `EINVAL` where there can be none of that number.
    ///
    /// Context: any.
    pub fn new(dev: &pci::Device<Bound>, index: u32) -> Result<Self> {
        if index >= BARS {
            return Err(EINVAL);
        }
        // SAFETY: `dev` is a valid device, `index` the number of a standard BAR.
        let flags = unsafe { helpers::ext_pci_resource_flags(as_raw(dev), index as i32) };
        let placed = flags & bindings::IORESOURCE_UNSET as usize == 0;
        Ok(Self {
            index,
            start: dev.resource_start(index)?,
            len: if placed { dev.resource_len(index)? } else { 0 },
            flags,
        })
    }

    /// Whether it is memory space.
    pub fn is_mem(&self) -> bool {
        self.flags & bindings::IORESOURCE_MEM as usize != 0
    }

    /// Whether it is I/O space.
    pub fn is_io(&self) -> bool {
        self.flags & bindings::IORESOURCE_IO as usize != 0
    }

    /// Whether it is prefetchable: reads have no side effects.
    pub fn is_prefetchable(&self) -> bool {
        self.flags & bindings::IORESOURCE_PREFETCH as usize != 0
    }
}

/// The function at an address on the bus; `None` where there is none. `slot` is the device number
/// times 8, and the function's.
///
/// Context: may sleep.
pub fn at(domain: u32, bus: u8, slot: u8) -> Option<ARef<pci::Device>> {
    // SAFETY: The function has no requirements.
    let dev =
        unsafe { bindings::pci_get_domain_bus_and_slot(domain as i32, bus.into(), slot.into()) };
    // SAFETY: The reference that the function took becomes ours; `pci::Device` is a transparent
    // wrapper.
    NonNull::new(dev).map(|dev| unsafe { ARef::from_raw(dev.cast()) })
}

/// Where `dev` is: what [`at`] takes.
pub fn address(dev: &pci::Device) -> (u32, u8, u8) {
    // SAFETY: The device is valid.
    let (domain, id) = unsafe {
        (
            helpers::ext_pci_domain(as_raw(dev)),
            helpers::ext_pci_id(as_raw(dev)),
        )
    };
    (domain as u32, (id >> 8) as u8, id as u8)
}

/// A memory BAR of a function that may be any.
#[derive(Clone)]
pub struct Window {
    /// The function it belongs to, which may have a driver or not.
    pub dev: ARef<pci::Device>,
    /// Its number.
    pub index: u32,
    /// Its physical addresses.
    pub phys: Range<u64>,
}

impl Window {
    /// What to add to physical addresses in it to get those on the bus.
    pub fn bus_offset(&self) -> i64 {
        // SAFETY: The device is valid, `index` the number of a standard BAR.
        unsafe { helpers::ext_pci_bus_offset(as_raw(&self.dev), self.index as i32) }
    }

    /// The memory BAR that the physical address `phys` lies in; `None` for host memory, and
    /// whatever else is not in a BAR.
    ///
    /// Looks at every function.
    ///
    /// Context: may sleep.
    pub fn of(phys: u64) -> Option<Self> {
        let any = bindings::PCI_ANY_ID as u32;
        let mut raw = core::ptr::null_mut();
        loop {
            // SAFETY: `raw` is null or the device that the last call returned, whose reference
            // this call puts.
            raw = unsafe { bindings::pci_get_device(any, any, raw) };
            let start = NonNull::new(raw)?;
            for index in 0..BARS {
                let (mut start_at, mut end) = (0, 0);
                // SAFETY: The device is valid, `index` the number of a standard BAR.
                let found =
                    unsafe { helpers::ext_pci_mem_bar(raw, index as i32, &mut start_at, &mut end) };
                if found && (start_at..end).contains(&phys) {
                    return Some(Self {
                        // SAFETY: The reference that the last call took becomes ours; `pci::Device`
                        // is a transparent wrapper.
                        dev: unsafe { ARef::from_raw(start.cast()) },
                        index,
                        phys: start_at..end,
                    });
                }
            }
        }
    }
}

/// A function whose memory space this driver has enabled.
///
/// # Invariants
///
/// One `pci_enable_device_mem()` is this object's to undo.
struct Enabled(ARef<pci::Device>);

impl Drop for Enabled {
    fn drop(&mut self) {
        // SAFETY: By the type invariant there is an enable to undo, and the device is valid.
        unsafe { bindings::pci_disable_device(as_raw(&self.0)) };
    }
}

/// Enables the memory space of `dev` until its driver is unbound. What is put into the device's
/// resources later is released before.
///
/// Context: may sleep.
pub fn enable_mem(dev: &pci::Device<Core<'_>>) -> Result {
    dev.enable_device_mem()?;
    // INVARIANT: It has just been enabled. Where `register` fails, it drops the object.
    devres::register(dev.as_ref(), Enabled(dev.into()), GFP_KERNEL)
}

/// Claims BAR `index` of `dev` until its driver is unbound; `EBUSY` where somebody else has it.
///
/// Context: may sleep.
pub fn request_bar(dev: &pci::Device<Bound>, index: u32, name: &'static CStr) -> Result {
    if index >= BARS {
        return Err(EINVAL);
    }
    // SAFETY: `dev` is bound to a driver, whose devres undoes this; `name` lives as long as the
    // module does, and with it the driver.
    to_result(unsafe {
        bindings::pcim_request_region(as_raw(dev), index as i32, name.as_char_ptr())
    })
}

/// The registration of a PCI driver that can be given more ids to match.
///
/// # Invariants
///
/// A driver is registered under `name`, and stays so until this object is dropped.
#[pin_data]
pub struct Registration<T: pci::Driver + 'static> {
    /// The registration.
    #[pin]
    inner: driver::Registration<pci::Adapter<T>>,
    /// The driver's name.
    name: &'static CStr,
}

impl<T: pci::Driver + 'static> Registration<T> {
    /// Registers the driver `T` under `name`.
    ///
    /// Context: may sleep; probes.
    pub fn new(name: &'static CStr, module: &'static ThisModule) -> impl PinInit<Self, Error> {
        // INVARIANT: Where `inner` could be made, it is registered under that name.
        try_pin_init!(Self {
            inner <- driver::Registration::new(name, module),
            name,
        })
    }

    /// Makes the driver match `vendor`:`device` as well, and binds it to such functions as have no
    /// driver. Like a write to `new_id`.
    ///
    /// Context: may sleep; probes.
    pub fn add_id(&self, vendor: u16, device: u16) -> Result {
        let bus = &raw const bindings::pci_bus_type;
        // SAFETY: The name is a C string, and the PCI bus is never unregistered.
        let drv = unsafe { bindings::driver_find(self.name.as_char_ptr(), bus) };
        if drv.is_null() {
            return Err(ENOENT);
        }
        // SAFETY: Names are unique on a bus, so by the type invariant `drv` is our driver, which
        // stays registered while `self` is borrowed; and every driver on the PCI bus is the
        // `driver` of a `struct pci_driver`.
        let drv = unsafe { container_of!(drv, bindings::pci_driver, driver) };
        let any = u32::MAX;
        // SAFETY: As above: `drv` is a registered driver.
        to_result(unsafe {
            bindings::pci_add_dynid(drv, vendor.into(), device.into(), any, any, 0, 0, 0)
        })
    }
}
