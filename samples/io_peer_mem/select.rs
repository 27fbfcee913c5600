// SPDX-License-Identifier: GPL-2.0

//! Selection of the BARs that become memory, and of the BARs that are published to other drivers.
//!
//! Behind a bridge only prefetchable BARs can be placed above 4 GiB. So many devices have registers
//! in prefetchable BARs. A process that writes registers can make the device access any host
//! memory. So without `bars=` or `ranges=` only functions with a memory class are used. Processing
//! accelerators do not count, because the registers of a shell, or doorbells, are next to the
//! memory.

use kernel::macros::kunit_tests;

const MEMORY: u32 = 0x05;

/// QEMU's ivshmem: shared memory of virtual machines.
const IVSHMEM: (u16, u16) = (0x1af4, 0x1110);

#[derive(Clone, Copy)]
pub(crate) struct Identity {
    /// Class code, 24 bits.
    pub(crate) class: u32,
    pub(crate) id: (u16, u16),
}

/// The properties of a BAR that the selection depends on.
#[derive(Clone, Copy)]
pub(crate) struct Properties {
    pub(crate) index: u32,
    /// Whether the BAR is memory space that reads do not change.
    pub(crate) prefetchable: bool,
    pub(crate) len: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Choice {
    Use,
    Skip,
    /// The BAR looks like memory, but the function does not. The BAR is not used, and a message in
    /// the log names the BAR.
    Registers,
}

impl Identity {
    /// Returns whether BARs of the function are expected to be memory.
    pub(crate) fn is_memory(self) -> bool {
        self.class >> 16 == MEMORY || self.id == IVSHMEM
    }

    /// Decides about `bar`. `bars` is the mask that the user has selected. Without one BARs of less
    /// than `min` bytes are not used.
    pub(crate) fn choose(self, bars: Option<u32>, min: u64, bar: Properties) -> Choice {
        let candidate = bar.prefetchable && bar.len >= min;
        match bars {
            Some(mask) if mask & (1 << bar.index) != 0 => Choice::Use,
            Some(_) => Choice::Skip,
            None if !candidate => Choice::Skip,
            None if self.is_memory() => Choice::Use,
            None => Choice::Registers,
        }
    }

    /// Returns whether the memory of `used` BARs is published to other drivers by default.
    /// Registers must not be published, so only memory without side effects is.
    pub(crate) fn publishes(self, mut used: impl Iterator<Item = Properties>) -> bool {
        self.is_memory() && used.all(|bar| bar.prefetchable)
    }
}

#[kunit_tests(io_peer_mem_select)]
mod tests {
    use super::*;

    /// The smallest BAR that is used without `bars=`.
    const MIN: u64 = 2 << 20;

    fn function(class: u32) -> Identity {
        Identity {
            class,
            id: (0x10ee, 0x9038),
        }
    }

    fn bar(prefetchable: bool, len: u64) -> Properties {
        Properties {
            index: 2,
            prefetchable,
            len,
        }
    }

    /// Functions that are memory: RAM, other memory controllers, ivshmem.
    #[test]
    fn memory_functions() {
        for class in [0x05_0000, 0x05_8000, 0x05_02ff] {
            assert!(function(class).is_memory());
        }
        // Storage, network, display, bridges, communication, serial bus, accelerators; codes with 05
        // elsewhere.
        for class in [
            0x01_0802, 0x02_0000, 0x03_0200, 0x06_0400, 0x07_8000, 0x0c_0330, 0x12_0000, 0x12_00ff,
        ] {
            assert!(!function(class).is_memory());
        }
        for class in [0x00_0500, 0x00_0005, 0x01_0500, 0xff_0512] {
            assert!(!function(class).is_memory());
        }
        let mut virtual_device = function(0xff_0000);
        for (id, is_memory) in [((0x1af4, 0x1110), true), ((0x1af4, 0x1041), false)] {
            virtual_device.id = id;
            assert_eq!(virtual_device.is_memory(), is_memory);
        }
    }

    /// Without `bars=`: large prefetchable BARs of memory functions.
    #[test]
    fn default_choice() {
        let (memory, network) = (function(0x05_0000), function(0x02_0000));
        let choose = |function: Identity, bar| function.choose(None, MIN, bar);
        // The shell registers of an FPGA, and the doorbells of a GPU.
        for len in [32 << 20, MIN] {
            let accelerator = function(0x12_0000);
            assert_eq!(choose(accelerator, bar(true, len)), Choice::Registers);
        }
        assert_eq!(choose(memory, bar(true, MIN)), Choice::Use);
        assert_eq!(choose(memory, bar(true, MIN - 1)), Choice::Skip);
        assert_eq!(choose(memory, bar(true, 0)), Choice::Skip);
        assert_eq!(choose(memory, bar(false, MIN)), Choice::Skip);
        assert_eq!(choose(network, bar(true, 32 << 20)), Choice::Registers);
        assert_eq!(choose(network, bar(true, 4096)), Choice::Skip);
        assert_eq!(choose(network, bar(false, 32 << 20)), Choice::Skip);
    }

    /// With `bars=`: exactly these, of any function.
    #[test]
    fn selected() {
        for class in [0x05_0000, 0x02_0000] {
            for b in [bar(true, 2 << 20), bar(false, 4096), bar(false, 0)] {
                assert_eq!(function(class).choose(Some(1 << 2), MIN, b), Choice::Use);
                assert_eq!(
                    function(class).choose(Some(!(1 << 2)), MIN, b),
                    Choice::Skip
                );
                assert_eq!(function(class).choose(Some(0), MIN, b), Choice::Skip);
            }
        }
    }

    /// Registers and BARs with side effects are not published.
    #[test]
    fn publishing() {
        let (ram, registers) = (bar(true, 2 << 20), bar(false, 2 << 20));
        assert!(function(0x05_0000).publishes([ram, ram].into_iter()));
        assert!(!function(0x05_0000).publishes([ram, registers].into_iter()));
        for class in [0x02_0000, 0x12_0000] {
            assert!(!function(class).publishes([ram].into_iter()));
        }
    }
}
