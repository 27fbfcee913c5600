// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause

//! The BARs that can be opened.

use crate::{context::Context, sys, Error, Result};
use std::{
    ffi::{CStr, OsStr},
    fmt,
    os::unix::ffi::OsStrExt,
    path::Path,
    str::FromStr,
};

const DEVICES: &CStr = c"/dev/io_peer_mem/";

/// The address of a PCI function. Prints as `0000:03:00.0`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PciAddress {
    /// The domain.
    pub domain: u32,
    /// Bus, device and function: `bus << 8 | device << 3 | function`.
    pub bdf: u16,
}

impl fmt::Display for PciAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (bus, device, function) = (self.bdf >> 8, (self.bdf >> 3) & 0x1f, self.bdf & 7);
        write!(f, "{:04x}:{bus:02x}:{device:02x}.{function:x}", self.domain)
    }
}

/// Parses what `Display` prints. Fails with `EINVAL`.
impl FromStr for PciAddress {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        // By the byte: what finds and slices text has code that panics.
        let mut bytes = text.bytes();
        let mut number = |end, limit| {
            let mut value = char::from(bytes.next()?).to_digit(16)?;
            loop {
                match bytes.next() {
                    byte if byte == end => return Some(value).filter(|value| *value <= limit),
                    byte => value = value.checked_mul(16)? | char::from(byte?).to_digit(16)?,
                }
            }
        };
        let mut parse = || {
            let (domain, bus) = (number(Some(b':'), u32::MAX)?, number(Some(b':'), 0xff)?);
            let (device, function) = (number(Some(b'.'), 0x1f)?, number(None, 7)?);
            // CAST: By the limits of the parts it has 16 bits.
            Some(Self { domain, bdf: ((bus << 8) | (device << 3) | function) as u16 })
        };
        parse().ok_or(Error::EINVAL)
    }
}

/// A BAR that `io_peer_mem` serves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Device {
    path: Text,
    address: PciAddress,
}

/// A path that needs no memory of its own. It ends with zeros.
type Text = [u8; 64];

/// Returns `base/name`, or `None` if it is too long.
fn join(base: &CStr, name: &CStr) -> Option<Text> {
    let mut text = [0; 64];
    // The last byte stays 0.
    let mut rest = text.iter_mut().take(63);
    for &byte in base.to_bytes().iter().chain(b"/").chain(name.to_bytes()) {
        *rest.next()? = byte;
    }
    Some(text)
}

fn c_str(text: &Text) -> &CStr {
    CStr::from_bytes_until_nul(text).unwrap_or_default()
}

impl Device {
    /// Returns the character device, for C.
    pub fn c_path(&self) -> &CStr {
        c_str(&self.path)
    }

    /// Returns the name, for C.
    pub fn c_name(&self) -> &CStr {
        let bytes = self.c_path().to_bytes_with_nul();
        let name = bytes.get(DEVICES.count_bytes()..);
        name.and_then(|name| CStr::from_bytes_until_nul(name).ok()).unwrap_or_default()
    }

    /// Returns the name, as `0000:03:00.0/bar2`.
    pub fn name(&self) -> &str {
        self.c_name().to_str().unwrap_or_default()
    }

    /// Returns the character device.
    pub fn path(&self) -> &Path {
        OsStr::from_bytes(self.c_path().to_bytes()).as_ref()
    }

    /// Returns the address of the PCI function.
    pub fn address(&self) -> PciAddress {
        self.address
    }

    /// Opens the BAR.
    pub fn open(&self) -> Result<Context> {
        Context::open(self.c_path())
    }
}

/// Returns the BARs, sorted by address.
pub fn devices() -> Result<Vec<Device>> {
    let mut list = Vec::new();
    let add = |function: &CStr| {
        let address = function.to_str().ok().and_then(|name| name.parse().ok());
        let (Some(address), Some(dir)) = (address, join(c"/dev/io_peer_mem", function)) else {
            return Ok(());
        };
        let bars = sys::entries(c_str(&dir), |name| {
            let Some(path) = join(c_str(&dir), name) else {
                return Ok(());
            };
            let at = list.partition_point(|other: &Device| other.path < path);
            sys::push(&mut list, Device { path, address })?;
            if let Some(rest @ [_, ..]) = list.get_mut(at..) {
                rest.rotate_right(1);
            }
            Ok(())
        });
        match bars {
            // The function may have gone meanwhile.
            Err(error) if error.errno() != libc::ENOMEM => Ok(()),
            result => result,
        }
    };
    match sys::entries(DEVICES, add) {
        // The module is not loaded, or serves no BAR.
        Err(error) if error.errno() != libc::ENOENT => Err(error),
        _ => Ok(list),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_prints_as_lspci_does() {
        let address = PciAddress { domain: 1, bdf: (0x81 << 8) | (0x1f << 3) | 7 };
        assert_eq!(address.to_string(), "0001:81:1f.7");
        assert_eq!("0001:81:1f.7".parse::<PciAddress>().ok(), Some(address));
        for wrong in ["0001:81:20.0", "0001:81:1f.8", "81:1f.7", "0001:100:1f.7", "+1:81:1f.7", ""] {
            assert!(wrong.parse::<PciAddress>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_device_has_its_path_in_place() {
        let path = join(c"/dev/io_peer_mem/10000:e1:00.0", c"bar2").expect("a path");
        let device = Device { path, address: PciAddress::default() };
        assert_eq!(device.path(), Path::new("/dev/io_peer_mem/10000:e1:00.0/bar2"));
        assert_eq!(device.name(), "10000:e1:00.0/bar2");
        assert_eq!(
            join(DEVICES, CStr::from_bytes_with_nul(&[[1; 63].as_slice(), &[0]].concat()).expect("C")),
            None
        );
    }
}
