// SPDX-License-Identifier: GPL-2.0

//! The ioctl structures of `include/uapi/`, for copying from and to user space.

use super::bindings::uapi;
use kernel::transmute::{
    AsBytes,
    FromBytes, //
};

pub use super::bindings::uapi::*;

/// Implements copying for structures of the ioctl ABI.
macro_rules! user_structs {
    ($($name:ident),* $(,)?) => {
        $(
            // SAFETY: The structure consists of integers without padding between or after them (the
            // assertion below), so any bytes are a value of it.
            unsafe impl FromBytes for uapi::$name {}

            // SAFETY:
            // - The structure has no padding (the assertion below), so each of its bytes is
            //   initialized;
            // - it has no interior mutability.
            unsafe impl AsBytes for uapi::$name {}

            // Fields are naturally aligned and reserved fields fill all gaps: the size is a multiple
            // of 8 and bindgen's layout tests pin each offset to that of the C structure.
            const _: () = assert!(core::mem::size_of::<uapi::$name>() % 8 == 0);
        )*
    };
}

user_structs! {
    ib_peer_mem_export,
    io_peer_mem_dm_alloc,
    io_peer_mem_dm_capacity,
    io_peer_mem_dm_free,
    io_peer_mem_dm_info,
    io_peer_mem_nearest,
    io_peer_mem_range,
}
