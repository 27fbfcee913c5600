// SPDX-License-Identifier: GPL-2.0

//! A character device with ioctls only. A driver implements [`Control`] and keeps a
//! [`Registration`].
//!
//! Adds to [`kernel::miscdevice`]: open files keep the module loaded on all supported kernels, and
//! the node has a mode.
//!
//! C header: [`include/linux/miscdevice.h`](srctree/include/linux/miscdevice.h).
//!
//! # Examples
//!
//! ```
//! use crate::ext::base::miscdev::{Control, Registration};
//!
//! struct Example;
//!
//! impl Control for Example {
//!     const NAME: &'static CStr = c"example";
//!     const MODE: u16 = 0o600;
//!
//!     fn ioctl(_cmd: u32, _arg: usize) -> Result<isize> {
//!         Err(ENOTTY)
//!     }
//! }
//!
//! let registration = KBox::pin_init(Registration::<Example>::new(), GFP_KERNEL)?;
//! // Removes /dev/example.
//! drop(registration);
//! # Ok::<(), Error>(())
//! ```

use core::marker::PhantomData;
use kernel::{
    bindings,
    error::{
        from_result,
        to_result, //
    },
    ffi::{
        c_int,
        c_long,
        c_uint,
        c_ulong, //
    },
    prelude::*,
    types::Opaque, //
};

/// Operations of the device.
pub trait Control: 'static {
    /// Name in `/dev`.
    const NAME: &'static CStr;

    /// Mode of the node, which udev may change.
    const MODE: u16;

    /// Handles `ioctl(2)` of 64-bit and of 32-bit processes.
    ///
    /// Context: process context; may sleep.
    fn ioctl(cmd: u32, arg: usize) -> Result<isize>;
}

/// Registration of a device. Dropping it removes the node.
///
/// # Invariants
///
/// `misc` is registered with `misc_register()`.
#[pin_data(PinnedDrop)]
pub struct Registration<T: Control> {
    #[pin]
    misc: Opaque<bindings::miscdevice>,
    _control: PhantomData<fn() -> T>,
}

// SAFETY: Any task may deregister a misc device.
unsafe impl<T: Control> Send for Registration<T> {}
// SAFETY: A shared reference gives access to nothing.
unsafe impl<T: Control> Sync for Registration<T> {}

impl<T: Control> Registration<T> {
    /// Registers the device.
    ///
    /// Context: may sleep.
    pub fn new() -> impl PinInit<Self, Error> {
        try_pin_init!(Self {
            // INVARIANT: On success `misc` is registered. The object is pinned, so `misc` does not
            // move.
            misc <- Opaque::try_ffi_init(|slot: *mut bindings::miscdevice| {
                // SAFETY: `slot` is valid for writes during the initialisation.
                unsafe {
                    slot.write(bindings::miscdevice {
                        // CAST: The constant is 255.
                        minor: bindings::MISC_DYNAMIC_MINOR as c_int,
                        name: T::NAME.as_char_ptr(),
                        fops: &VTable::<T>::VTABLE,
                        mode: T::MODE,
                        ..pin_init::zeroed()
                    })
                };
                // SAFETY: The write above initialised the slot. The name and the operations live as
                // long as the module.
                to_result(unsafe { bindings::misc_register(slot) })
            }),
            _control: PhantomData,
        })
    }
}

#[pinned_drop]
impl<T: Control> PinnedDrop for Registration<T> {
    fn drop(self: Pin<&mut Self>) {
        // SAFETY: By the type invariants `misc` is registered.
        unsafe { bindings::misc_deregister(self.misc.get()) };
    }
}

/// File operations of a [`Registration`].
struct VTable<T: Control>(PhantomData<T>);

impl<T: Control> VTable<T> {
    /// `file_operations.unlocked_ioctl`.
    ///
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
