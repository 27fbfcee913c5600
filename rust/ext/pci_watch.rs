// SPDX-License-Identifier: GPL-2.0

//! What happens to the functions on the PCI bus: notifications of the driver core.
//!
//! C header: [`include/linux/device/bus.h`](srctree/include/linux/device/bus.h).

use kernel::{
    bindings,
    container_of,
    error::to_result,
    pci,
    prelude::*,
    sync::Arc,
    types::Opaque, //
};

/// What happens to a function.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Event {
    /// A driver is about to be bound.
    Binding,
    /// A driver is bound now, or could not be.
    Settled,
    /// The driver is about to be unbound: it still runs.
    Unbinding,
    /// The driver is gone, and so is all that it had.
    Unbound,
    /// The function is about to go.
    Deleting,
    /// The function is gone.
    Deleted,
}

impl Event {
    /// The event that C calls `action`; `None` where nobody here wants to know.
    fn new(action: c_ulong) -> Option<Self> {
        Some(match u32::try_from(action).ok()? {
            bindings::bus_notifier_event_BUS_NOTIFY_BIND_DRIVER => Self::Binding,
            bindings::bus_notifier_event_BUS_NOTIFY_BOUND_DRIVER => Self::Settled,
            bindings::bus_notifier_event_BUS_NOTIFY_DRIVER_NOT_BOUND => Self::Settled,
            bindings::bus_notifier_event_BUS_NOTIFY_UNBIND_DRIVER => Self::Unbinding,
            bindings::bus_notifier_event_BUS_NOTIFY_UNBOUND_DRIVER => Self::Unbound,
            bindings::bus_notifier_event_BUS_NOTIFY_DEL_DEVICE => Self::Deleting,
            bindings::bus_notifier_event_BUS_NOTIFY_REMOVED_DEVICE => Self::Deleted,
            _ => return None,
        })
    }
}

/// Somebody who is told.
pub trait Watcher: Send + Sync + 'static {
    /// Something happens to `dev`. Until this returns it goes no further.
    ///
    /// Context: may sleep. The lock of `dev` is held, except for [`Event::Deleting`] and
    /// [`Event::Deleted`]; and that of the bus's notifiers, so no [`Registration`] may be made or
    /// dropped here.
    fn event(&self, dev: &pci::Device, event: Event);
}

/// Makes a [`Watcher`] be told. When it is dropped, it is not told any more.
///
/// # Invariants
///
/// `block` is registered with the PCI bus, and is the `block` of this object.
#[pin_data(PinnedDrop)]
pub struct Registration<T: Watcher> {
    /// The C structure.
    #[pin]
    block: Opaque<bindings::notifier_block>,
    /// Who is told.
    watcher: Arc<T>,
}

// SAFETY: A notifier may be unregistered from any task, and a `Watcher` may be sent.
unsafe impl<T: Watcher> Send for Registration<T> {}
// SAFETY: There is nothing to do with a shared reference.
unsafe impl<T: Watcher> Sync for Registration<T> {}

impl<T: Watcher> Registration<T> {
    /// Has `watcher` told from now on.
    ///
    /// Context: may sleep.
    pub fn new(watcher: Arc<T>) -> impl PinInit<Self, Error> {
        try_pin_init!(Self {
            watcher,
            // INVARIANT: On success it is registered; the object is pinned, so it stays in it.
            block <- Opaque::try_ffi_init(|slot: *mut bindings::notifier_block| {
                // SAFETY: The slot may be written to.
                unsafe {
                    slot.write(bindings::notifier_block {
                        notifier_call: Some(Self::call),
                        ..pin_init::zeroed()
                    })
                };
                // SAFETY: The slot has just been filled in, and `watcher`, which the callback uses,
                // has been initialised before. The PCI bus is never unregistered.
                to_result(unsafe {
                    bindings::bus_register_notifier(&raw const bindings::pci_bus_type, slot)
                })
            }),
        })
    }

    /// Who is told.
    pub fn watcher(&self) -> &Arc<T> {
        &self.watcher
    }

    /// # Safety
    ///
    /// `block` must be the `block` of a registration, and `dev` a device on the PCI bus.
    unsafe extern "C" fn call(
        block: *mut bindings::notifier_block,
        action: c_ulong,
        dev: *mut c_void,
    ) -> c_int {
        if let Some(event) = Event::new(action) {
            let block = block.cast::<Opaque<bindings::notifier_block>>();
            // SAFETY: By the requirements; it cannot be dropped now, as that waits for callbacks.
            let watcher = unsafe { &(*container_of!(block, Self, block)).watcher };
            let dev: *mut bindings::device = dev.cast();
            // SAFETY: Every device on the PCI bus is the `dev` of a `struct pci_dev`.
            let dev = unsafe { container_of!(dev, bindings::pci_dev, dev) };
            // SAFETY: The device is valid during the call; `pci::Device` is a transparent wrapper.
            watcher.event(unsafe { &*dev.cast_const().cast::<pci::Device>() }, event);
        }
        bindings::NOTIFY_DONE as c_int
    }
}

#[pinned_drop]
impl<T: Watcher> PinnedDrop for Registration<T> {
    fn drop(self: Pin<&mut Self>) {
        let bus = &raw const bindings::pci_bus_type;
        // SAFETY: By the type invariant it is registered. Waits for callbacks.
        unsafe { bindings::bus_unregister_notifier(bus, self.block.get()) };
    }
}
