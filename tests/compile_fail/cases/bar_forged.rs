// SPDX-License-Identifier: GPL-2.0
//
// The properties of a BAR come from its function.
//
// expect: error[E0451]: field `index` of struct `base::pci::Bar` is private
// expect: error[E0451]: field `start` of struct `base::pci::Bar` is private
// expect: error[E0451]: field `len` of struct `base::pci::Bar` is private
// expect: error[E0451]: field `flags` of struct `base::pci::Bar` is private

use crate::ext::base::pci::Bar;

/// Creates a BAR at any address.
pub fn forge() -> Bar {
    Bar {
        index: 0,
        start: 0,
        len: u64::MAX,
        flags: 0,
    }
}
