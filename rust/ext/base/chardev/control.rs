// SPDX-License-Identifier: GPL-2.0

//! A character device with ioctls only, without an object behind the node. A driver implements
//! [`Control`] and keeps a [`Registration`].

use super::misc::Misc;
use core::{
    marker::PhantomData,
    ptr, //
};
use kernel::{
    bindings,
    error::from_result,
    ffi::{
        c_long,
        c_uint,
        c_ulong, //
    },
    prelude::*, //
};

/// Operations of the device.
pub trait Control: 'static {
    /// Name in `/dev`.
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
