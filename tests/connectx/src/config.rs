// SPDX-License-Identifier: GPL-2.0

//! The PCI configuration space of one function.

use crate::bits::put;

/// Mellanox, ConnectX-5.
const VENDOR: [u8; 2] = [0xb3, 0x15];
const DEVICE: [u8; 2] = [0x17, 0x10];

/// The size of BAR 0: registers, and the UARs after them.
pub const BAR0_SIZE: u64 = 32 << 20;
/// The size of the configuration space, of which all after the header is capabilities.
pub const CONFIG_SIZE: u64 = 4096;
/// The MSI-X vectors. QEMU implements the table and the pending bits, in the second and third
/// page of BAR 0, which a ConnectX leaves free in its registers.
pub const VECTORS: u32 = 16;
const TABLE: u32 = 0x2000;
const PENDING: u32 = 0x3000;

const COMMAND: usize = 0x04;
const BUS_MASTER: u8 = 4;
const PCIE: usize = 0x40;
const DEVICE_CONTROL: usize = PCIE + 8;
const MSIX: usize = 0x80;

/// What is in the space: the offset, the bytes, and which of their bits can be written.
const INITIAL: &[(usize, &[u8], &[u8])] = &[
    (0x00, &VENDOR, &[]),
    (0x02, &DEVICE, &[]),
    (COMMAND, &[], &[0x47, 0x05]),
    (0x06, &[0x10, 0], &[]),
    // Network controller: InfiniBand.
    (0x0a, &[0x07, 0x02], &[]),
    // BAR 0: memory, 64 bits, prefetchable.
    (0x10, &[0x0c], &[]),
    (0x2c, &VENDOR, &[]),
    (0x2e, &[0x07, 0x00], &[]),
    (0x34, &[PCIE as u8], &[]),
    (0x3c, &[0, 1], &[0xff]),
    // PCI Express capability, version 2: an endpoint that can be reset alone. 8 GT/s, 8 lanes.
    (PCIE, &[0x10, MSIX as u8, 0x02, 0x00], &[]),
    (PCIE + 4, &[0x22, 0x80, 0x00, 0x10], &[]),
    (DEVICE_CONTROL, &[0x10, 0x28], &[0xff, 0x7f]),
    (PCIE + 0x0c, &[0x83], &[]),
    (PCIE + 0x10, &[], &[0xc0]),
    (PCIE + 0x12, &[0x83], &[]),
    (PCIE + 0x28, &[], &[0x1f, 0x04]),
    (PCIE + 0x2c, &[0x0e], &[]),
    (PCIE + 0x30, &[3], &[]),
    (MSIX, &[0x11, 0, VECTORS as u8 - 1, 0], &[0, 0, 0, 0xc0]),
    (MSIX + 4, &TABLE.to_le_bytes(), &[]),
    (MSIX + 8, &PENDING.to_le_bytes(), &[]),
];

/// The space, and which bits of it can be written.
pub struct Config {
    bytes: Vec<u8>,
    writable: Vec<u8>,
}

impl Default for Config {
    fn default() -> Self {
        let empty = || vec![0; CONFIG_SIZE as usize];
        let (mut bytes, mut writable) = (empty(), empty());
        for (at, values, masks) in INITIAL {
            put(&mut bytes, *at, values);
            put(&mut writable, *at, masks);
        }
        Self { bytes, writable }
    }
}

impl Config {
    /// Reads; what is past the end reads as 0.
    pub fn read(&self, offset: u64, data: &mut [u8]) {
        for (at, byte) in data.iter_mut().enumerate() {
            *byte = self.bytes.get(offset as usize + at).copied().unwrap_or(0);
        }
    }

    /// Writes what can be written. Returns whether a reset is asked for.
    pub fn write(&mut self, offset: u64, data: &[u8]) -> bool {
        let mut reset = false;
        for (at, value) in (offset as usize..).zip(data) {
            let Some(mask) = self.writable.get(at) else {
                break;
            };
            self.bytes[at] = self.bytes[at] & !mask | value & mask;
            reset |= at == DEVICE_CONTROL + 1 && value & 0x80 != 0;
        }
        reset
    }

    pub fn bus_master(&self) -> bool {
        self.bytes[COMMAND] & BUS_MASTER != 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bus_mastering_and_reset_are_seen() {
        let mut config = Config::default();
        assert!(!config.bus_master());
        assert!(!config.write(COMMAND as u64, &[6, 0]));
        assert!(config.bus_master());
        assert!(config.write(DEVICE_CONTROL as u64, &[0x10, 0xa8]));
    }
}
