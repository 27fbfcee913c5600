// SPDX-License-Identifier: GPL-2.0

//! The registration of a `struct miscdevice`. [`Misc`] is the C structure.

use kernel::{
    bindings,
    error::to_result,
    ffi::{
        c_char,
        c_int, //
    },
    prelude::*,
    types::Opaque, //
};

/// A registered misc device. Dropping it removes the node and waits for `open(2)`.
///
/// # Invariants
///
/// The C structure is registered with `misc_register()`.
#[pin_data(PinnedDrop)]
#[repr(transparent)]
pub(super) struct Misc {
    #[pin]
    raw: Opaque<bindings::miscdevice>,
}

// SAFETY: Any task may deregister a misc device.
unsafe impl Send for Misc {}
// SAFETY: A shared reference gives access to nothing.
unsafe impl Sync for Misc {}

impl Misc {
    /// Registers a device. `mode` is the mode of the node, which udev may change. `parent` may be
    /// null. Context: may sleep.
    ///
    /// # Safety
    ///
    /// - `name` must be a C string and `fops` must be valid, both as long as the object.
    /// - `parent` must be null, or valid during the initialisation.
    /// - All that `fops.open` uses must be initialised before the object.
    pub(super) unsafe fn new(
        name: *const c_char,
        fops: *const bindings::file_operations,
        parent: *mut bindings::device,
        mode: u16,
    ) -> impl PinInit<Self, Error> {
        try_pin_init!(Self {
            // INVARIANT: On success the structure is registered. The object is pinned, so the
            // structure does not move.
            raw <- Opaque::try_ffi_init(move |slot: *mut bindings::miscdevice| {
                // SAFETY: `slot` is valid for writes during the initialisation.
                unsafe {
                    slot.write(bindings::miscdevice {
                        // CAST: The constant is 255.
                        minor: bindings::MISC_DYNAMIC_MINOR as c_int,
                        name,
                        fops,
                        parent,
                        mode,
                        ..pin_init::zeroed()
                    })
                };
                // SAFETY: The write above initialised the slot. By the safety requirements the
                // name, the operations and what they use are valid, and `parent` is valid during
                // the call, which takes a reference.
                to_result(unsafe { bindings::misc_register(slot) })
            }),
        })
    }
}

#[pinned_drop]
impl PinnedDrop for Misc {
    fn drop(self: Pin<&mut Self>) {
        // SAFETY: By the type invariants the structure is registered.
        unsafe { bindings::misc_deregister(self.raw.get()) };
    }
}
