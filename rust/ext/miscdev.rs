// SPDX-License-Identifier: GPL-2.0

//! A character device that is asked by ioctls alone.
//!
//! As [`kernel::miscdevice`], and in addition: open files keep the module loaded, which that one
//! does not see to in all kernels, and the node has a mode.
//!
//! C header: [`include/linux/miscdevice.h`](srctree/include/linux/miscdevice.h).

use core::marker::PhantomData;
use kernel::{
    bindings,
    error::to_result,
    ffi::{
        c_int,
        c_long,
        c_uint,
        c_ulong, //
    },
    prelude::*,
    types::Opaque, //
};

/// What the device does.
pub trait Control: 'static {
    /// Its name in `/dev`.
    const NAME: &'static CStr;

    /// The node's mode, unless udev knows better.
    const MODE: u16;

    /// `ioctl(2)`, of 64-bit and 32-bit processes alike.
    ///
    /// Context: process context; may sleep.
    fn ioctl(cmd: u32, arg: usize) -> Result<isize>;
}

/// The registration of a device. When it is dropped the node is gone.
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

// SAFETY: A misc device may be deregistered from any thread.
unsafe impl<T: Control> Send for Registration<T> {}
// SAFETY: There is nothing to do with a shared reference.
unsafe impl<T: Control> Sync for Registration<T> {}

impl<T: Control> Registration<T> {
    /// Registers the device. May sleep.
    pub fn new() -> impl PinInit<Self, Error> {
        try_pin_init!(Self {
            // INVARIANT: On success it is registered; the object is pinned, so it stays in it.
            misc <- Opaque::try_ffi_init(|slot: *mut bindings::miscdevice| {
                // SAFETY: The slot may be written to.
                unsafe {
                    slot.write(bindings::miscdevice {
                        minor: bindings::MISC_DYNAMIC_MINOR as c_int,
                        name: T::NAME.as_char_ptr(),
                        fops: &VTable::<T>::VTABLE,
                        mode: T::MODE,
                        ..pin_init::zeroed()
                    })
                };
                // SAFETY: The slot has just been filled in, with what lives as long as the module.
                to_result(unsafe { bindings::misc_register(slot) })
            }),
            _control: PhantomData,
        })
    }
}

#[pinned_drop]
impl<T: Control> PinnedDrop for Registration<T> {
    fn drop(self: Pin<&mut Self>) {
        // SAFETY: By the type invariants it is registered.
        unsafe { bindings::misc_deregister(self.misc.get()) };
    }
}

/// The file operations of a [`Registration`].
struct VTable<T: Control>(PhantomData<T>);

impl<T: Control> VTable<T> {
    /// # Safety
    ///
    /// As `file_operations.unlocked_ioctl`.
    unsafe extern "C" fn ioctl(_: *mut bindings::file, cmd: c_uint, arg: c_ulong) -> c_long {
        match T::ioctl(cmd, arg) {
            Ok(value) => value,
            Err(e) => e.to_errno() as c_long,
        }
    }

    const VTABLE: bindings::file_operations = bindings::file_operations {
        // What keeps the module loaded while a file is open.
        owner: &raw mut bindings::__this_module,
        unlocked_ioctl: Some(Self::ioctl),
        compat_ioctl: bindings::compat_ptr_ioctl,
        ..pin_init::zeroed()
    };
}
