// SPDX-License-Identifier: GPL-2.0

//! Errors and resets of a function. A driver implements [`Recovery`].
//!
//! When PCI reports an error, all functions below the port take part in the recovery. If a function
//! has a driver without these callbacks, or no driver, no function is recovered; see
//! Documentation/PCI/pci-error-recovery.rst.

use super::{
    as_raw,
    Bar,
    BARS, //
};
use crate::shared::{
    ext::base::compat::PciDriver,
    prelude::raw::*, //
};
use kernel::error::VTABLE_DEFAULT_ERROR;

/// A driver that takes part in the recovery from errors and resets, if the driver implements both
/// functions.
#[vtable]
pub trait Recovery: PciDriver {
    /// Ends all uses of the BARs of `dev`, because `dev` has an error or is about to be reset. May
    /// be called again before [`Recovery::resume`]. Context: may sleep. The caller holds the lock
    /// of `dev`, and may hold `pci_bus_sem` for reading.
    fn stop(_dev: &pci::Device<Bound>, _data: &Self::Data) {
        build_error!(VTABLE_DEFAULT_ERROR)
    }

    /// Allows uses of the BARs of `dev` again: `dev` [answers](answers). The contents of the memory
    /// may have changed. Context: as for [`Recovery::stop`].
    fn resume(_dev: &pci::Device<Bound>, _data: &Self::Data) {
        build_error!(VTABLE_DEFAULT_ERROR)
    }
}

/// The C callbacks, with the safety requirements of [`Handlers::with`].
pub(super) struct Handlers<T>(PhantomData<T>);

// The safety requirements of C callbacks are those of the type.
#[allow(clippy::missing_safety_doc)]
impl<T: Recovery> Handlers<T> {
    const TABLE: bindings::pci_error_handlers = bindings::pci_error_handlers {
        error_detected: Some(Self::error_detected),
        mmio_enabled: Some(Self::mmio_enabled),
        slot_reset: Some(Self::slot_reset),
        reset_prepare: Some(Self::reset_prepare),
        // The PCI core has saved and restored the state, also if the reset has failed.
        reset_done: Some(Self::resume),
        resume: Some(Self::resume),
        ..pin_init::zeroed()
    };

    /// Returns the callbacks, or `None` if the driver does not implement [`Recovery`].
    pub(super) const fn table() -> Option<&'static bindings::pci_error_handlers> {
        if T::HAS_STOP && T::HAS_RESUME {
            Some(&Self::TABLE)
        } else {
            None
        }
    }

    /// # Safety
    ///
    /// A driver must be bound to `dev` during `'a`.
    unsafe fn bound<'a>(dev: *mut bindings::pci_dev) -> &'a pci::Device<Bound> {
        // SAFETY: By the safety requirements. `pci::Device` is a transparent wrapper of `struct pci_dev`.
        unsafe { &*dev.cast_const().cast() }
    }

    /// Calls `f` for `dev` and the driver data of `dev`.
    ///
    /// # Safety
    ///
    /// `T` must be bound to `dev`, and the caller must hold the lock of `dev`.
    unsafe fn with(dev: *mut bindings::pci_dev, f: fn(&pci::Device<Bound>, &T::Data)) {
        // SAFETY: By the safety requirements `dev` is a valid device.
        let data = unsafe { bindings::dev_get_drvdata(&raw mut (*dev).dev) };
        // SAFETY: By the safety requirements the driver is bound during this call.
        let dev = unsafe { Self::bound(dev) };
        if data.is_null() {
            return;
        }
        // SAFETY: `T` is bound, so `data` was stored by `Device::set_drvdata`, and has the layout of
        // `T::Data`. The data is dropped only with the lock held.
        let data = unsafe { <Pin<KBox<T::Data>> as ForeignOwnable>::borrow(data.cast()) };
        f(dev, &data);
    }

    unsafe extern "C" fn error_detected(
        dev: *mut bindings::pci_dev,
        state: bindings::pci_channel_state_t,
    ) -> bindings::pci_ers_result_t {
        // SAFETY: The safety requirements are those of this function.
        unsafe { Self::with(dev, T::stop) };
        match state {
            // A reset would hit all functions, so this driver asks for none. If another driver
            // needs a reset, the kernel resets nevertheless.
            bindings::pci_channel_io_normal => bindings::pci_ers_result_PCI_ERS_RESULT_CAN_RECOVER,
            bindings::pci_channel_io_frozen => bindings::pci_ers_result_PCI_ERS_RESULT_NEED_RESET,
            _ => bindings::pci_ers_result_PCI_ERS_RESULT_DISCONNECT,
        }
    }

    unsafe extern "C" fn mmio_enabled(dev: *mut bindings::pci_dev) -> bindings::pci_ers_result_t {
        // SAFETY: By the safety requirements the driver is bound during this call.
        if answers(unsafe { Self::bound(dev) }) {
            bindings::pci_ers_result_PCI_ERS_RESULT_RECOVERED
        } else {
            bindings::pci_ers_result_PCI_ERS_RESULT_NEED_RESET
        }
    }

    unsafe extern "C" fn slot_reset(dev: *mut bindings::pci_dev) -> bindings::pci_ers_result_t {
        // SAFETY: By the safety requirements `dev` is a valid device, and the driver is bound during this call.
        let dev = unsafe {
            // The state saved by the driver or by the PCI core.
            bindings::pci_restore_state(dev);
            Self::bound(dev)
        };
        if answers(dev) {
            // The kernel may use the saved state only once, so save the state for the next error.
            save_state(dev);
            bindings::pci_ers_result_PCI_ERS_RESULT_RECOVERED
        } else {
            bindings::pci_ers_result_PCI_ERS_RESULT_DISCONNECT
        }
    }

    unsafe extern "C" fn reset_prepare(dev: *mut bindings::pci_dev) {
        // SAFETY: The safety requirements are those of this function.
        unsafe { Self::with(dev, T::stop) };
    }

    unsafe extern "C" fn resume(dev: *mut bindings::pci_dev) {
        let resume = |dev: &pci::Device<Bound>, data: &T::Data| {
            if answers(dev) {
                T::resume(dev, data);
            } else {
                dev_err!(dev, "does not answer after a reset, and stays stopped\n");
            }
        };
        // SAFETY: The safety requirements are those of this function.
        unsafe { Self::with(dev, resume) };
    }
}

/// Saves the configuration space of `dev`, to be restored after a reset. The state saved by the PCI
/// core is from before the driver was bound, when memory space may not have been enabled. Context:
/// may sleep. The caller holds the lock of `dev`.
pub fn save_state(dev: &pci::Device<Bound>) {
    // Fails only if a capability has no buffer, and then does not restore it.
    // SAFETY: `dev` is valid while it is borrowed.
    unsafe { bindings::pci_save_state(as_raw(dev)) };
}

/// Returns whether `dev` answers: `dev` is present, memory space is enabled, and the BARs have the
/// assigned addresses. A reset clears the addresses. Context: may sleep.
pub fn answers(dev: &pci::Device<Bound>) -> bool {
    let raw = as_raw(dev);
    // SAFETY: `dev` is valid while it is borrowed.
    if !unsafe { bindings::pci_device_is_present(raw) } {
        return false;
    }
    // The BARs of a virtual function are in the physical function.
    // SAFETY: `dev` is valid while borrowed, and the field does not change.
    if unsafe { (*raw).is_virtfn() } != 0 {
        return true;
    }
    let mut command = 0;
    // SAFETY: `dev` is valid while borrowed, and every function has this register.
    // CAST: The constant is 4.
    unsafe { bindings::pci_read_config_word(raw, bindings::PCI_COMMAND as c_int, &mut command) };
    u32::from(command) & bindings::PCI_COMMAND_MEMORY != 0
        && (0..BARS).all(|index| Bar::new(dev, index).is_ok_and(|bar| bar.is_decoded(dev)))
}

impl Bar {
    /// Returns whether the registers of this BAR of `dev` have the assigned address. Returns true
    /// if no address is assigned.
    fn is_decoded(&self, dev: &pci::Device<Bound>) -> bool {
        if !self.is_mem() || self.len == 0 || self.has(bindings::IORESOURCE_PCI_FIXED) {
            return true;
        }
        // SAFETY: `dev` is valid while borrowed, and `index` is the number of a standard BAR.
        // CAST: `index` is less than `BARS`.
        let offset = unsafe { helpers::ext_pci_bus_offset(as_raw(dev), self.index as i32) };
        let address = self.start.wrapping_add_signed(offset);
        let register = |number: u32| {
            let mut value = 0;
            let at = bindings::PCI_BASE_ADDRESS_0 + 4 * number;
            // SAFETY: `dev` is valid while borrowed, and the offset is one of the six BAR registers.
            // CAST: At most 0x24.
            unsafe { bindings::pci_read_config_dword(as_raw(dev), at as c_int, &mut value) };
            value
        };
        // The lowest four bits are flags.
        // CAST: The casts take the halves of the address.
        register(self.index) & !0xf == address as u32
            && (!self.has(bindings::IORESOURCE_MEM_64)
                || register(self.index + 1) == (address >> 32) as u32)
    }
}
