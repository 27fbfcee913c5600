// SPDX-License-Identifier: GPL-2.0

//! A misc device, and a character device with ioctls only, without an object behind the node: a driver
//! implements [`Control`] and keeps a [`Registration`].

use crate::shared::prelude::raw::*;

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
                let device = bindings::miscdevice {
                    // CAST: The constant is 255.
                    minor: bindings::MISC_DYNAMIC_MINOR as c_int,
                    name,
                    fops,
                    parent,
                    mode,
                    ..pin_init::zeroed()
                };
                // SAFETY: `slot` is valid for writes. By the safety requirements the name, the operations and
                // what they use are valid, and `parent` is valid during the call, which takes a reference.
                to_result(unsafe {
                    slot.write(device);
                    bindings::misc_register(slot)
                })
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

pub trait Control: 'static {
    const NAME: &'static CStr;

    /// Mode of the node, which udev may change.
    const MODE: u16;

    /// Handles `ioctl(2)` of 64-bit and of 32-bit processes. Context: process context; may sleep.
    fn ioctl(cmd: u32, arg: usize) -> Result<isize>;
}

/// Registration of a device. Dropping it removes the node.
#[pin_data]
pub struct Registration<T: Control> {
    #[pin]
    misc: Misc,
    _control: PhantomData<fn() -> T>,
}

impl<T: Control> Registration<T> {
    /// Registers the device. Context: may sleep.
    pub fn new() -> impl PinInit<Self, Error> {
        try_pin_init!(Self {
            // SAFETY: The name and the operations live as long as the module. There is no parent,
            // and the operations use no object.
            misc <- unsafe {
                Misc::new(T::NAME.as_char_ptr(), &VTable::<T>::VTABLE, ptr::null_mut(), T::MODE)
            },
            _control: PhantomData,
        })
    }
}

struct VTable<T: Control>(PhantomData<T>);

impl<T: Control> VTable<T> {
    /// Dereferences no pointer, so any arguments are safe.
    extern "C" fn ioctl(_: *mut bindings::file, cmd: c_uint, arg: c_ulong) -> c_long {
        from_result(|| T::ioctl(cmd, arg))
    }

    const VTABLE: bindings::file_operations = bindings::file_operations {
        // Keeps the module loaded while a file is open.
        owner: &raw mut bindings::__this_module,
        unlocked_ioctl: Some(Self::ioctl),
        compat_ioctl: bindings::compat_ptr_ioctl,
        ..pin_init::zeroed()
    };
}
