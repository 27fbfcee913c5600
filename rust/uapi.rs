// SPDX-License-Identifier: GPL-2.0

//! The ioctl structures of `include/uapi/` and of `/dev/dmabuf_reg`, for copying from and to user
//! space.
//!
//! Used by the ioctl handlers. Each structure implements [`FromBytes`] and [`AsBytes`], so a
//! handler can read and write a structure without unsafe code.

use crate::shared::bindings::uapi;
use kernel::transmute::{
    AsBytes,
    FromBytes, //
};

pub use crate::shared::bindings::uapi::*;

/// Implements copying for structures of the ioctl ABI.
macro_rules! user_structs {
    ($($name:ident),* $(,)?) => {
        $(
            // SAFETY: The structure consists of integers without padding between or after them, as
            // the assertion below checks. So all bit patterns are valid.
            unsafe impl FromBytes for uapi::$name {}

            // SAFETY:
            // - The structure has no padding, as the assertion below checks, so each byte is
            //   initialized.
            // - The structure has no interior mutability.
            unsafe impl AsBytes for uapi::$name {}

            // Fields are naturally aligned and reserved fields fill all gaps: the size is a
            // multiple of 8 and bindgen's layout tests pin each offset to the offset in the C
            // structure.
            const _: () = assert!(core::mem::size_of::<uapi::$name>() % 8 == 0);
        )*
    };
}

user_structs! {
    dmabuf_reg_request,
    ib_peer_mem_export,
    ib_peer_mem_name,
    io_peer_mem_dm_alloc,
    io_peer_mem_dm_capacity,
    io_peer_mem_dm_free,
    io_peer_mem_dm_info,
    io_peer_mem_nearest,
    io_peer_mem_range,
}
