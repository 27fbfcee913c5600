// SPDX-License-Identifier: GPL-2.0

//! The place of a function's MSI-X table. Used to keep processes from the interrupts of a function.
//!
//! C header: [`include/uapi/linux/pci_regs.h`](srctree/include/uapi/linux/pci_regs.h).

use super::{
    as_raw,
    BARS, //
};
use core::ops::Range;
use kernel::{
    bindings,
    macros::kunit_tests,
    pci,
    prelude::*, //
};

/// Returns the BARs and the offsets of the MSI-X table of `dev` and of its pending bits, which are empty without
/// a table, or `None` if the function does not answer. Context: may sleep.
pub(super) fn parts_of(dev: &pci::Device) -> [Option<(u32, Range<u64>)>; 2] {
    // SAFETY: `dev` is valid while it is borrowed. The field does not change.
    let cap = unsafe { (*as_raw(dev)).msix_cap };
    if cap == 0 {
        return [const { Some((BARS, 0..0)) }; 2];
    }
    // The flags are the upper half of the first word.
    let registers = [0, bindings::PCI_MSIX_TABLE, bindings::PCI_MSIX_PBA];
    let [flags, table, pending] = registers.map(|register| {
        let mut word = u32::MAX;
        // SAFETY: `dev` is valid while it is borrowed, and `word` is valid for a write.
        // CAST: The configuration space has 4096 bytes.
        unsafe {
            bindings::pci_read_config_dword(
                as_raw(dev),
                i32::from(cap) + register as i32,
                &mut word,
            )
        };
        word
    });
    if flags == u32::MAX {
        return [None, None];
    }
    parts(flags, table, pending).map(Some)
}

/// Returns the BARs and the offsets of the table and of the pending bits.
fn parts(flags: u32, table: u32, pending: u32) -> [(u32, Range<u64>); 2] {
    let vectors = u64::from((flags >> 16) & bindings::PCI_MSIX_FLAGS_QSIZE) + 1;
    [(table, vectors * 16), (pending, vectors.div_ceil(64) * 8)].map(|(register, len)| {
        let start = u64::from(register & bindings::PCI_MSIX_TABLE_OFFSET);
        (register & bindings::PCI_MSIX_TABLE_BIR, start..start + len)
    })
}

#[cfg(ext_tests)]
#[kunit_tests(ext_pci_msix)]
mod tests {
    use super::*;

    /// The places that the registers describe.
    #[test]
    fn places() {
        let [table, pending] = parts(0x8040_0011, 0x0000_2003, 0x0000_3004);
        assert_eq!(table, (3, 0x2000..0x2000 + 65 * 16));
        assert_eq!(pending, (4, 0x3000..0x3010));
    }
}
