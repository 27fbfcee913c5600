// SPDX-License-Identifier: GPL-2.0

//! The ioctl structures of `include/uapi/` and of `/dev/dmabuf_reg`, for copying from and to user
//! space.
//!
//! Used by the ioctl handlers. Each structure implements [`FromBytes`] and [`AsBytes`], so
//! [`read`] and [`write()`] copy it.

use crate::shared::bindings::uapi;
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

// The numbers, which have the sizes of the structures, and the flags are a part of the ABI.
const _: () = {
    assert!(uapi::IB_PEER_MEM_IOC_EXPORT == 0xc038_bc01);
    assert!(uapi::IB_PEER_MEM_IOC_NAME == 0x4040_bc02);
    assert!(uapi::IB_PEER_MEM_IOC_UNNAME == 0x4040_bc03);
    assert!(uapi::IB_PEER_MEM_IOC_QUERY == 0xc040_bc04);
    assert!(uapi::IO_PEER_MEM_IOC_RANGE == 0xc020_bb01);
    assert!(uapi::IO_PEER_MEM_IOC_NEAREST == 0xc040_bb02);
    assert!(uapi::IO_PEER_MEM_IOC_DM_ALLOC == 0xc040_bb10);
    assert!(uapi::IO_PEER_MEM_IOC_DM_CAPACITY == 0xc040_bb11);
    assert!(uapi::IO_PEER_MEM_IOC_DM_INFO == 0xc040_bb12);
    assert!(uapi::IO_PEER_MEM_IOC_DM_FREE == 0x4020_bb13);
    assert!(uapi::IB_PEER_MEM_UNNAME_DMABUF == 1 && uapi::IB_PEER_MEM_NAME_REPLACE == 2);
    assert!(uapi::IO_PEER_MEM_NEAREST_FOUND == 1 && uapi::IO_PEER_MEM_NEAREST_HERE == 2);
};

/// Reads the structure at the user address `arg`. Returns `EFAULT` if the structure is not
/// readable. Context: process context; may sleep.
pub fn read<T: FromBytes>(arg: usize) -> Result<T> {
    slice::<T>(arg).reader().read()
}

/// Writes `value` to the user address `arg`. Returns `EFAULT` if the address is not writable.
/// Context: process context; may sleep.
pub fn write<T: AsBytes>(arg: usize, value: &T) -> Result {
    slice::<T>(arg).writer().write(value)
}

fn slice<T>(arg: usize) -> UserSlice {
    UserSlice::new(UserPtr::from_addr(arg), size_of::<T>())
}
