// SPDX-License-Identifier: GPL-2.0

//! Arguments of the device memory ioctls, `struct io_peer_mem_dm_*`.
//!
//! A later version may define fields that must be 0 now. So every input field is checked, including
//! the reserved fields.

use crate::{
    prelude::*,
    uapi::{
        self,
        io_peer_mem_dm_alloc,
        io_peer_mem_dm_capacity,
        io_peer_mem_dm_free,
        io_peer_mem_dm_info, //
    }, //
};

/// Returns `EINVAL` unless the version is known, and the flags and reserved fields are 0.
fn check(version: u32, flags: u32, reserved: &[u64]) -> Result {
    if version != uapi::IO_PEER_MEM_DM_VERSION || flags != 0 || reserved.iter().any(|&r| r != 0) {
        return Err(EINVAL);
    }
    Ok(())
}

/// The request of `IO_PEER_MEM_IOC_DM_ALLOC`, without its length.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Allocate {
    pub(crate) align: u64,
    pub(crate) clear: bool,
}

pub(crate) fn check_alloc(arg: &io_peer_mem_dm_alloc) -> Result<Allocate> {
    let flags = arg.flags & !uapi::IO_PEER_MEM_DM_ZERO;
    check(arg.version, flags, &arg.reserved)?;
    let align = 1u64.checked_shl(arg.log_align).ok_or(EINVAL)?;
    if arg.length == 0 {
        return Err(EINVAL);
    }
    Ok(Allocate {
        align,
        clear: arg.flags != 0,
    })
}

/// Checks the argument of `IO_PEER_MEM_IOC_DM_CAPACITY`. Output fields may have any value.
pub(crate) fn check_capacity(arg: &io_peer_mem_dm_capacity) -> Result {
    check(arg.version, arg.flags, &arg.reserved)
}

/// Checks the argument of `IO_PEER_MEM_IOC_DM_INFO`. Output fields may have any value.
pub(crate) fn check_info(arg: &io_peer_mem_dm_info) -> Result {
    check(arg.version, arg.flags, &arg.reserved)
}

pub(crate) fn check_free(arg: &io_peer_mem_dm_free) -> Result {
    check(arg.version, arg.flags, &arg.reserved)
}

#[kunit_tests(io_peer_mem_dm_abi)]
mod tests {
    use super::*;

    fn request(length: u64, log_align: u32) -> io_peer_mem_dm_alloc {
        io_peer_mem_dm_alloc {
            version: uapi::IO_PEER_MEM_DM_VERSION,
            length,
            log_align,
            // Output fields.
            fd: -1,
            bar_offset: 7,
            ..Default::default()
        }
    }

    #[test]
    fn allocations() {
        let want = |align, clear| Ok(Allocate { align, clear });
        assert!(check_alloc(&request(1, 0)) == want(1, false));
        assert!(check_alloc(&request(u64::MAX, 63)) == want(1 << 63, false));
        let mut zero = request(1, 12);
        zero.flags = uapi::IO_PEER_MEM_DM_ZERO;
        assert!(check_alloc(&zero) == want(4096, true));
        assert!(check_alloc(&request(0, 0)) == Err(EINVAL));
        assert!(check_alloc(&request(1, 64)) == Err(EINVAL));
        assert!(check_alloc(&request(1, u32::MAX)) == Err(EINVAL));
    }

    /// Any other version, any flag and any bit of a reserved field is rejected. Output fields may have
    /// any value.
    #[test]
    fn reserved_fields() {
        for bit in [0, 1, 31] {
            let mut arg = request(1, 0);
            arg.version ^= 1 << bit;
            assert!(check_alloc(&arg) == Err(EINVAL));
            let mut arg = request(1, 0);
            arg.flags = 1 << bit | 2;
            assert!(check_alloc(&arg) == Err(EINVAL));
        }
        macro_rules! check_reserved {
            ($check:ident, $arg:ident, $($output:ident: $type:ty),*) => {
                let mut arg = $arg {
                    version: uapi::IO_PEER_MEM_DM_VERSION,
                    $($output: <$type>::MAX,)*
                    ..Default::default()
                };
                assert!($check(&arg).is_ok());
                for i in 0..arg.reserved.len() {
                    for bit in [0, 31, 32, 63] {
                        arg.reserved[i] = 1 << bit;
                        assert!($check(&arg) == Err(EINVAL));
                    }
                    arg.reserved[i] = 0;
                }
            };
        }
        check_reserved!(check_alloc, io_peer_mem_dm_alloc, length: u64, fd: i32, bar_offset: u64);
        check_reserved!(check_capacity, io_peer_mem_dm_capacity,
            total: u64, free: u64, largest: u64, page_size: u64);
        check_reserved!(check_free, io_peer_mem_dm_free,);
        check_reserved!(check_info, io_peer_mem_dm_info, length: u64, size: u64, bar_offset: u64,
            domain: u32, address: u32, bar: u32, pad: u32);
    }
}
