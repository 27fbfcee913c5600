// SPDX-License-Identifier: GPL-2.0

//! Notifications of the driver core about functions on the PCI bus. A [`Watcher`] handles an
//! [`Event`] while its [`Registration`] exists.

use crate::shared::prelude::raw::*;

/// A change of the state of a function.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Event {
    Binding,
    Bound,
    /// Binding a driver has failed. Devres still holds its resources, and releases them before the
    /// lock of the function is released.
    NotBound,
    /// The driver is about to be unbound; it still runs.
    Unbinding,
    /// The driver is unbound, and devres has released its resources.
    Unbound,
    Deleting,
    Deleted,
}

impl Event {
    fn new(action: c_ulong) -> Option<Self> {
        Some(match u32::try_from(action).ok()? {
            bindings::bus_notifier_event_BUS_NOTIFY_BIND_DRIVER => Self::Binding,
            bindings::bus_notifier_event_BUS_NOTIFY_BOUND_DRIVER => Self::Bound,
            bindings::bus_notifier_event_BUS_NOTIFY_DRIVER_NOT_BOUND => Self::NotBound,
            bindings::bus_notifier_event_BUS_NOTIFY_UNBIND_DRIVER => Self::Unbinding,
            bindings::bus_notifier_event_BUS_NOTIFY_UNBOUND_DRIVER => Self::Unbound,
            bindings::bus_notifier_event_BUS_NOTIFY_DEL_DEVICE => Self::Deleting,
            bindings::bus_notifier_event_BUS_NOTIFY_REMOVED_DEVICE => Self::Deleted,
            _ => return None,
        })
    }
}

/// What follows the events. Implemented by a layer above.
pub trait Watcher: Send + Sync + 'static {
    /// Handles `event` of `dev`. The driver core continues when this function returns. Context: may
    /// sleep. The caller holds the rwsem of the bus's notifiers, so no [`Registration`] may be
    /// created or dropped here; and the lock of `dev`, except for [`Event::Deleting`] and
    /// [`Event::Deleted`].
    fn event(&self, dev: &pci::Device, event: Event);
}

/// Registration of a [`Watcher`]. Drop waits for running calls of the watcher; no call follows.
///
/// # Invariants
///
/// `block` is registered with the PCI bus, and is a field of this object.
#[pin_data(PinnedDrop)]
pub struct Registration<T: Watcher> {
    #[pin]
    block: Opaque<bindings::notifier_block>,
    watcher: Arc<T>,
}

// SAFETY: Any task may unregister a notifier, and a `Watcher` is `Send` and `Sync`.
unsafe impl<T: Watcher> Send for Registration<T> {}
// SAFETY: A shared reference gives access only to `watcher`, and a `Watcher` is `Sync`.
unsafe impl<T: Watcher> Sync for Registration<T> {}

impl<T: Watcher> Registration<T> {
    /// Registers `watcher`, which receives events from now on. Context: may sleep.
    pub fn new(watcher: Arc<T>) -> impl PinInit<Self, Error> {
        try_pin_init!(Self {
            watcher,
            // INVARIANT: On success `block` is registered. The object is pinned, so `block` stays a
            // field of the object.
            block <- Opaque::try_ffi_init(|slot: *mut bindings::notifier_block| {
                let block = bindings::notifier_block {
                    notifier_call: Some(Self::call),
                    ..pin_init::zeroed()
                };
                // SAFETY: `slot` is valid for writes. `watcher`, which the callback uses, is initialised before
                // `block`. The PCI bus is never unregistered.
                to_result(unsafe {
                    slot.write(block);
                    bindings::bus_register_notifier(&raw const bindings::pci_bus_type, slot)
                })
            }),
        })
    }

    pub fn watcher(&self) -> &Arc<T> {
        &self.watcher
    }

    /// # Safety
    ///
    /// - `block` must be the field of a `Registration<T>`.
    /// - `dev` must be a device on the PCI bus, valid for the duration of the call.
    unsafe extern "C" fn call(
        block: *mut bindings::notifier_block,
        action: c_ulong,
        dev: *mut c_void,
    ) -> c_int {
        if let Some(event) = Event::new(action) {
            let (block, dev) = (Opaque::cast_from(block), dev.cast::<bindings::device>());
            // SAFETY: By the safety requirements `block` is the field of a registration. The
            // registration is valid, as dropping it waits for this call.
            let watcher = unsafe { &(*container_of!(block, Self, block)).watcher };
            // SAFETY: By the safety requirements `dev` is valid during the call, and on the PCI bus: the
            // field of a `struct pci_dev`, of which `pci::Device` is a transparent wrapper.
            let dev: &pci::Device = unsafe { &*container_of!(dev, bindings::pci_dev, dev).cast() };
            watcher.event(dev, event);
        }
        // CAST: The constant is 0.
        bindings::NOTIFY_DONE as c_int
    }
}

#[pinned_drop]
impl<T: Watcher> PinnedDrop for Registration<T> {
    fn drop(self: Pin<&mut Self>) {
        let bus = &raw const bindings::pci_bus_type;
        // SAFETY: By the type invariants `block` is registered. The call waits for running callbacks.
        unsafe { bindings::bus_unregister_notifier(bus, self.block.get()) };
    }
}
