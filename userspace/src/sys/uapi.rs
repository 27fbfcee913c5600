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

#[repr(C)]
#[derive(Default)]
pub(crate) struct Range {
    pub(crate) addr: u64,
    pub(crate) bar_offset: u64,
    pub(crate) length: u64,
    pub(crate) reserved: u64,
}

#[repr(C)]
#[derive(Default)]
pub(crate) struct Nearest {
    pub(crate) version: u32,
    pub(crate) flags: u32,
    pub(crate) domain: u32,
    pub(crate) address: u32,
    pub(crate) provider_domain: u32,
    pub(crate) provider_address: u32,
    pub(crate) provider_distance: u32,
    pub(crate) distance: u32,
    pub(crate) reserved: [u64; 4],
}

// The 64-bit members are aligned to 8 bytes on every architecture.
#[repr(C, align(8))]
#[derive(Default)]
pub(crate) struct DmAlloc {
    pub(crate) version: u32,
    pub(crate) flags: u32,
    pub(crate) length: u64,
    pub(crate) log_align: u32,
    pub(crate) fd: i32,
    pub(crate) bar_offset: u64,
    pub(crate) reserved: [u64; 4],
}

#[repr(C, align(8))]
#[derive(Default)]
pub(crate) struct DmCapacity {
    pub(crate) version: u32,
    pub(crate) flags: u32,
    pub(crate) total: u64,
    pub(crate) free: u64,
    pub(crate) largest: u64,
    pub(crate) page_size: u64,
    pub(crate) reserved: [u64; 3],
}

#[repr(C, align(8))]
#[derive(Default)]
pub(crate) struct DmInfo {
    pub(crate) version: u32,
    pub(crate) flags: u32,
    pub(crate) length: u64,
    pub(crate) size: u64,
    pub(crate) bar_offset: u64,
    pub(crate) domain: u32,
    pub(crate) address: u32,
    pub(crate) bar: u32,
    pub(crate) pad: u32,
    pub(crate) reserved: [u64; 2],
}

#[repr(C, align(8))]
#[derive(Default)]
pub(crate) struct DmFree {
    pub(crate) version: u32,
    pub(crate) flags: u32,
    pub(crate) reserved: [u64; 3],
}

#[repr(C, align(8))]
#[derive(Default)]
pub(crate) struct Export {
    pub(crate) version: u32,
    pub(crate) flags: u32,
    pub(crate) addr: u64,
    pub(crate) length: u64,
    pub(crate) fd: i32,
    pub(crate) pad: u32,
    pub(crate) reserved: [u64; 3],
}

#[repr(C, align(8))]
#[derive(Default)]
pub(crate) struct Name {
    pub(crate) version: u32,
    pub(crate) flags: u32,
    pub(crate) addr: u64,
    pub(crate) length: u64,
    pub(crate) offset: u64,
    pub(crate) fd: i32,
    pub(crate) pad: u32,
    pub(crate) reserved: [u64; 3],
}
