// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause

//! Device memory: allocations and imports.

use crate::{
    sys::{self, uapi, Mapping},
    Error, PciAddress, Result,
};
use std::{
    ffi::c_void,
    os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd},
};

/// Device memory.
///
/// Dropping it unmaps the memory and closes its file. The memory is free when the last process has
/// closed the file and the last memory region is gone. [`Dm::free_dm`] frees it explicitly, unless
/// it is in use.
///
/// A child of the process can copy and drop, but only an import of its own has an address there, by which
/// memory is registered and exported.
#[derive(Debug)]
pub struct Dm {
    file: OwnedFd,
    length: u64,
    mapping: Mapping,
}

/// The place of device memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DmAttr {
    /// Length in bytes, as requested.
    pub length: u64,
    /// Bytes that can be mapped: whole pages.
    pub size: u64,
    /// Offset in bytes from the start of the BAR.
    pub bar_offset: u64,
    /// The number of the BAR.
    pub bar: u32,
    /// The PCI function.
    pub function: PciAddress,
    /// What is added to an offset of `mmap(2)` for a mapping that combines writes; `None` if the BAR
    /// has no such mappings.
    pub mmap_wc: Option<u64>,
}

/// Returns what the kernel knows of an allocation.
fn info(fd: RawFd) -> Result<uapi::DmInfo> {
    let mut info = uapi::DmInfo { version: uapi::VERSION, ..Default::default() };
    sys::ioctl(fd, &uapi::DM_INFO, &mut info)?;
    Ok(info)
}

impl DmAttr {
    /// Returns the place of the memory of a file. Fails with `ENOTTY` if the file is no allocation, and with
    /// `EBADF` if the number is of no file.
    pub fn of_file(file: RawFd) -> Result<Self> {
        let info = info(file)?;
        // The kernel decides, by the BAR.
        let combines = Mapping::new(file, sys::page_size(), uapi::MMAP_WC).is_ok();
        Ok(Self {
            length: info.length,
            size: info.size,
            bar_offset: info.bar_offset,
            bar: info.bar,
            function: PciAddress {
                domain: info.domain,
                // CAST: The kernel fills in 16 bits.
                bdf: info.address as u16,
            },
            mmap_wc: combines.then_some(uapi::MMAP_WC),
        })
    }
}

/// Takes the file of an allocation. Fails with `EINVAL` if the file is none.
impl TryFrom<OwnedFd> for Dm {
    type Error = Error;

    fn try_from(fd: OwnedFd) -> Result<Self> {
        let info = info(fd.as_raw_fd()).map_err(|error| match error.errno() {
            libc::ENOTTY => Error::EINVAL,
            _ => error,
        })?;
        // An import of 4 GiB or more in a program of 32 bits: ENOMEM, as of mmap(2).
        let size = usize::try_from(info.size).map_err(|_| Error::ENOMEM)?;
        Ok(Self { mapping: Mapping::new(fd.as_raw_fd(), size, 0)?, file: fd, length: info.length })
    }
}

impl Dm {
    /// Imports device memory by its file. The caller keeps the file. Fails with `EINVAL` if the file
    /// is no allocation.
    pub fn import_dm(handle: BorrowedFd<'_>) -> Result<Self> {
        Self::import_raw(handle.as_raw_fd())
    }

    /// Imports device memory by the number of its file. Fails with `EBADF` if the number is of no file.
    pub fn import_raw(handle: RawFd) -> Result<Self> {
        sys::duplicate(handle)?.try_into()
    }

    /// Frees the memory, for all processes. Later copies, by any holder, fail with `ENODEV`. Fails with `EBUSY`
    /// if the memory is in use.
    pub fn free_dm(&self) -> Result<()> {
        let mut arg = uapi::DmFree { version: uapi::VERSION, ..Default::default() };
        self.mapping.drop_pages();
        match sys::ioctl(self.file.as_raw_fd(), &uapi::DM_FREE, &mut arg) {
            // ENODEV: the device was removed or another process has freed the memory.
            Err(error) if error.errno() != libc::ENODEV => Err(error),
            _ => Ok(()),
        }
    }

    /// Fails with `EINVAL` unless the memory has `length` bytes at `offset`.
    pub(crate) fn check(&self, offset: u64, length: usize) -> Result<()> {
        let end = offset.checked_add(length as u64);
        match end {
            Some(end) if end <= self.length => Ok(()),
            _ => Err(Error::EINVAL),
        }
    }

    /// Returns the length and the place. Fails with `ENODEV` if the device was removed.
    pub fn query(&self) -> Result<DmAttr> {
        DmAttr::of_file(self.file.as_raw_fd())
    }

    /// Returns the address of the bytes at `offset`, which begins a page. Fails with `EINVAL`, also in a child
    /// of the process.
    pub(crate) fn addr(&self, offset: u64, length: usize) -> Result<*mut c_void> {
        self.check(offset, length)?;
        let addr = self.mapping.addr();
        match addr {
            Some(addr) if length != 0 && sys::pages(offset) == offset => {
                // CAST: The offset is less than the size of the mapping.
                Ok(addr.as_ptr().wrapping_byte_add(offset as usize))
            }
            _ => Err(Error::EINVAL),
        }
    }

    /// Exports `length` bytes from `offset` on, in whole pages, as a dma-buf, for example for
    /// `ibv_reg_dmabuf_mr(3)`. The memory is in use until it is closed.
    pub fn export_dmabuf(&self, offset: u64, length: usize) -> Result<OwnedFd> {
        let (addr, length) = (self.addr(offset, length)?, length as u64);
        // The last page of the allocation counts as a whole.
        if sys::pages(length) != length && offset + length != self.length {
            return Err(Error::EINVAL);
        }
        let mut arg = uapi::Export {
            version: uapi::VERSION,
            addr: addr.addr() as u64,
            length: sys::pages(length),
            ..Default::default()
        };
        let control = sys::open(c"/dev/ib_peer_mem")?;
        sys::ioctl(control.as_raw_fd(), &uapi::EXPORT, &mut arg)?;
        sys::opened_by_ioctl(arg.fd)
    }
}

/// The file to send to another process: see `SCM_RIGHTS` in `unix(7)`.
impl AsFd for Dm {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

impl AsRawFd for Dm {
    fn as_raw_fd(&self) -> RawFd {
        self.file.as_raw_fd()
    }
}
