// SPDX-License-Identifier: GPL-2.0

//! Error codes that [`kernel::error::code`] does not name in every release we build for.

use kernel::{
    bindings,
    error::Error, //
};

/// The operation is not supported by this device or for this memory.
pub fn eopnotsupp() -> Error {
    Error::from_errno(-(bindings::EOPNOTSUPP as i32))
}

/// No address to reach the other end by.
pub fn enetunreach() -> Error {
    Error::from_errno(-(bindings::ENETUNREACH as i32))
}

/// The other end cannot be reached from here.
pub fn eremoteio() -> Error {
    Error::from_errno(-(bindings::EREMOTEIO as i32))
}
