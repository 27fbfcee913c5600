// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause

//! Open BARs.

use crate::{
    sys::{self, uapi},
    Dm, Error, PciAddress, Result,
};
use std::{
    ffi::{c_void, CStr, CString},
    os::{
        fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd},
        unix::ffi::OsStrExt,
    },
    path::Path,
};

/// An open BAR.
// Transparent: programs in C have it as their `struct iopm_context`.
#[derive(Debug)]
#[repr(transparent)]
pub struct Context(OwnedFd);

/// The memory of a BAR, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeviceAttr {
    /// Size of the memory.
    pub size: u64,
    /// Free bytes.
    pub free: u64,
    /// The largest free range.
    pub largest: u64,
    /// Allocations are rounded up to this.
    pub page_size: u64,
}

/// The wish for an allocation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AllocDmAttr {
    /// Length in bytes.
    pub length: usize,
    /// Log base 2 of the alignment of the offset in the BAR.
    pub log_align: u32,
    /// Whether the memory is cleared also if the administrator has set `zero=never`. If not, it has
    /// the contents of its last user then.
    pub zero: bool,
}

/// How far memory is from a PCI function. Distances are those of the kernel's p2pdma.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Nearest {
    /// The distance of the BAR, if the function reaches it.
    pub distance: Option<u32>,
    /// The nearest function with peer-to-peer memory, and its distance.
    pub provider: Option<(PciAddress, u32)>,
}

/// The place of a mapping in a BAR.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Range {
    /// Offset in bytes from the start of the BAR.
    pub bar_offset: u64,
    /// Bytes to the end of the mapping.
    pub length: u64,
}

impl Context {
    /// Opens the character device of a BAR. Fails with `ENOTTY` if the file is none.
    pub fn open_path(path: impl AsRef<Path>) -> Result<Self> {
        let path = CString::new(path.as_ref().as_os_str().as_bytes()).map_err(|_| Error::EINVAL)?;
        Self::open(&path)
    }

    /// Opens the character device of a BAR.
    pub fn open(path: &CStr) -> Result<Self> {
        let context = Self(sys::open(path)?);
        // Fails if the file is not a BAR, or its driver lacks these ioctls.
        context.query()?;
        Ok(context)
    }

    /// Returns the size and the free memory of the BAR.
    pub fn query(&self) -> Result<DeviceAttr> {
        let mut arg = uapi::DmCapacity { version: uapi::VERSION, ..Default::default() };
        sys::ioctl(self.0.as_raw_fd(), &uapi::DM_CAPACITY, &mut arg)?;
        Ok(DeviceAttr { size: arg.total, free: arg.free, largest: arg.largest, page_size: arg.page_size })
    }

    /// Returns how far memory is from `function`, for an RDMA device its PCI function. Fails with
    /// `ENXIO` if there is no such function.
    pub fn nearest(&self, function: PciAddress) -> Result<Nearest> {
        let mut arg = uapi::Nearest {
            version: uapi::VERSION,
            domain: function.domain,
            address: function.bdf.into(),
            ..Default::default()
        };
        sys::ioctl(self.0.as_raw_fd(), &uapi::NEAREST, &mut arg)?;
        let has = |flag| arg.flags & flag != 0;
        let provider = PciAddress {
            domain: arg.provider_domain,
            // CAST: The kernel fills in 16 bits.
            bdf: arg.provider_address as u16,
        };
        Ok(Nearest {
            distance: has(uapi::NEAREST_HERE).then_some(arg.distance),
            provider: has(uapi::NEAREST_FOUND).then_some((provider, arg.provider_distance)),
        })
    }

    /// Returns the place of the address of a mapping of this BAR by the calling process.
    pub fn range(&self, addr: *const c_void) -> Result<Range> {
        let mut arg = uapi::Range { addr: addr.addr() as u64, ..Default::default() };
        sys::ioctl(self.0.as_raw_fd(), &uapi::RANGE, &mut arg)?;
        Ok(Range { bar_offset: arg.bar_offset, length: arg.length })
    }

    /// Allocates memory.
    pub fn alloc_dm(&self, attr: &AllocDmAttr) -> Result<Dm> {
        let mut arg = uapi::DmAlloc {
            version: uapi::VERSION,
            flags: if attr.zero { uapi::DM_ZERO } else { 0 },
            length: attr.length as u64,
            log_align: attr.log_align,
            ..Default::default()
        };
        sys::ioctl(self.0.as_raw_fd(), &uapi::DM_ALLOC, &mut arg)?;
        sys::opened_by_ioctl(arg.fd)?.try_into()
    }
}

/// The character device.
impl AsFd for Context {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
