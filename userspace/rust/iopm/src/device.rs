// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause

//! The BARs that can be opened.

use crate::{context::Context, Error, Result};
use iopm_sys as ffi;
use std::{
    ffi::{CStr, OsStr},
    fmt,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
    slice,
};

/// The address of a PCI function. Prints as `0000:03:00.0`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PciAddress {
    /// The domain.
    pub domain: u32,
    /// Bus, device and function: `bus << 8 | device << 3 | function`.
    pub bdf: u16,
}

impl PciAddress {
    /// Converts the address of the library.
    pub(crate) fn from_raw(raw: ffi::iopm_pci_address) -> Self {
        // CAST: The library fills in 16 bits.
        Self {
            domain: raw.domain,
            bdf: raw.bdf as u16,
        }
    }

    /// Converts to the address of the library.
    pub(crate) fn to_raw(self) -> ffi::iopm_pci_address {
        ffi::iopm_pci_address {
            domain: self.domain,
            bdf: self.bdf.into(),
        }
    }
}

impl fmt::Display for PciAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (bus, device, function) = (self.bdf >> 8, (self.bdf >> 3) & 0x1f, self.bdf & 7);
        write!(f, "{:04x}:{bus:02x}:{device:02x}.{function:x}", self.domain)
    }
}

/// A BAR that `io_peer_mem` serves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Device {
    name: String,
    path: PathBuf,
    address: PciAddress,
}

impl Device {
    /// Returns the name, as `0000:03:00.0/bar2`.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the character device.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the address of the PCI function.
    pub fn address(&self) -> PciAddress {
        self.address
    }

    /// Opens the BAR.
    pub fn open(&self) -> Result<Context> {
        Context::open_path(&self.path)
    }
}

/// Returns the BARs, sorted by address.
pub fn devices() -> Result<Vec<Device>> {
    let mut count = 0;
    // SAFETY: `count` is valid for writes.
    let list = unsafe { ffi::iopm_get_device_list(&mut count) };
    if list.is_null() {
        return Err(Error::last("iopm_get_device_list"));
    }
    // CAST: The number of entries is not negative.
    // SAFETY: The list has `count` entries and is not freed before the end of this function.
    let entries = unsafe { slice::from_raw_parts(list, count as usize) };
    let devices = entries.iter().map(|&device| {
        let mut address = ffi::iopm_pci_address::default();
        // SAFETY: `device` is on the list; `address` is valid for writes.
        Error::check("iopm_get_device_address", unsafe {
            ffi::iopm_get_device_address(device, &mut address)
        })?;
        // SAFETY: `device` is on the list, so its name is a C string that is valid until the list
        // is freed.
        let name = unsafe { CStr::from_ptr(ffi::iopm_get_device_name(device)) };
        // SAFETY: `device` is on the list, so its path is such a string, too.
        let path = unsafe { CStr::from_ptr(ffi::iopm_get_device_path(device)) };
        Ok(Device {
            name: name.to_string_lossy().into_owned(),
            path: OsStr::from_bytes(path.to_bytes()).into(),
            address: PciAddress::from_raw(address),
        })
    });
    let devices = devices.collect();
    // SAFETY: `iopm_get_device_list()` returned the list, and nothing uses it afterwards.
    unsafe { ffi::iopm_free_device_list(list) };
    devices
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_prints_as_lspci_does() {
        let address = PciAddress {
            domain: 1,
            bdf: (0x81 << 8) | (0x1f << 3) | 7,
        };
        assert_eq!(address.to_string(), "0001:81:1f.7");
        assert_eq!(PciAddress::from_raw(address.to_raw()), address);
    }
}
