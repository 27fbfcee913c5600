// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause

//! The structures and the numbers of `include/uapi/io_peer_mem.h` and `ib_peer_mem.h`, which describe them.

use std::marker::PhantomData;

/// The number of an ioctl with an argument `T`.
///
/// # Invariants
///
/// The kernel reads and writes a `T` at the argument, a structure of integers, and no other memory of
/// the process.
pub(crate) struct Ioctl<T>(u32, PhantomData<T>);

impl<T> Ioctl<T> {
    /// `_IOC()`, as most architectures have it: 1 is `_IOC_WRITE`, 2 is `_IOC_READ`.
    const fn new(direction: u32, magic: u8, number: u8) -> Self {
        // CAST: The structures are small.
        let size = size_of::<T>() as u32;
        Self((direction << 30) | (size << 16) | ((magic as u32) << 8) | number as u32, PhantomData)
    }

    pub(crate) fn number(&self) -> u32 {
        self.0
    }
}

/// Of each structure.
pub(crate) const VERSION: u32 = 1;

pub(crate) const RANGE: Ioctl<Range> = Ioctl::new(3, 0xbb, 1);
pub(crate) const NEAREST: Ioctl<Nearest> = Ioctl::new(3, 0xbb, 2);
pub(crate) const DM_ALLOC: Ioctl<DmAlloc> = Ioctl::new(3, 0xbb, 0x10);
pub(crate) const DM_CAPACITY: Ioctl<DmCapacity> = Ioctl::new(3, 0xbb, 0x11);
pub(crate) const DM_INFO: Ioctl<DmInfo> = Ioctl::new(3, 0xbb, 0x12);
pub(crate) const DM_FREE: Ioctl<DmFree> = Ioctl::new(1, 0xbb, 0x13);
pub(crate) const EXPORT: Ioctl<Export> = Ioctl::new(3, 0xbc, 1);
pub(crate) const NAME: Ioctl<Name> = Ioctl::new(1, 0xbc, 2);
pub(crate) const UNNAME: Ioctl<Name> = Ioctl::new(1, 0xbc, 3);

/// In `flags` of [`Nearest`].
pub(crate) const NEAREST_FOUND: u32 = 1 << 0;
pub(crate) const NEAREST_HERE: u32 = 1 << 1;
/// In `flags` of [`DmAlloc`].
pub(crate) const DM_ZERO: u32 = 1 << 0;
/// In the offset of `mmap(2)`.
pub(crate) const MMAP_WC: u64 = 1 << 43;

/// Structures with these members. Those of 64 bits are aligned to 8 bytes on every architecture.
macro_rules! structures {
    ($($name:ident { $($member:ident: $type:ty),* $(,)? })*) => {$(
        #[repr(C, align(8))]
        #[derive(Default)]
        pub(crate) struct $name {
            $(pub(crate) $member: $type,)*
        }
    )*};
}

structures! {
    Range {
        addr: u64, bar_offset: u64, length: u64, reserved: u64,
    }
    Nearest {
        version: u32, flags: u32, domain: u32, address: u32, provider_domain: u32,
        provider_address: u32, provider_distance: u32, distance: u32, reserved: [u64; 4],
    }
    DmAlloc {
        version: u32, flags: u32, length: u64, log_align: u32, fd: i32, bar_offset: u64,
        reserved: [u64; 4],
    }
    DmCapacity {
        version: u32, flags: u32, total: u64, free: u64, largest: u64, page_size: u64,
        reserved: [u64; 3],
    }
    DmInfo {
        version: u32, flags: u32, length: u64, size: u64, bar_offset: u64, domain: u32,
        address: u32, bar: u32, pad: u32, reserved: [u64; 2],
    }
    DmFree {
        version: u32, flags: u32, reserved: [u64; 3],
    }
    Export {
        version: u32, flags: u32, addr: u64, length: u64, fd: i32, pad: u32, reserved: [u64; 3],
    }
    Name {
        version: u32, flags: u32, addr: u64, length: u64, offset: u64, fd: i32, pad: u32,
        reserved: [u64; 3],
    }
}
