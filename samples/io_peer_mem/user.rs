// SPDX-License-Identifier: GPL-2.0

//! Copies of ioctl structures from and to user space.

use kernel::{
    prelude::*,
    transmute::{
        AsBytes,
        FromBytes, //
    },
    uaccess::{
        UserPtr,
        UserSlice, //
    }, //
};

/// Reads the structure at the user address `arg`. Returns `EFAULT` if the structure is not
/// readable.
///
/// Context: process context; may sleep.
pub(crate) fn read<T: FromBytes>(arg: usize) -> Result<T> {
    slice::<T>(arg).reader().read()
}

/// Writes `value` to the user address `arg`. Returns `EFAULT` if the address is not writable.
///
/// Context: process context; may sleep.
pub(crate) fn write<T: AsBytes>(arg: usize, value: &T) -> Result {
    slice::<T>(arg).writer().write(value)
}

/// Returns the user memory of a `T` at `arg`.
fn slice<T>(arg: usize) -> UserSlice {
    UserSlice::new(UserPtr::from_addr(arg), core::mem::size_of::<T>())
}
