// SPDX-License-Identifier: GPL-2.0
//
// Only the abstractions create ranges of addresses that they have checked.
//
// expect: error[E0624]: associated function `new` is private

use crate::ext::base::pci::BarRange;

/// Declares all physical memory to be a BAR.
pub fn forge(dev: kernel::sync::aref::ARef<kernel::pci::Device>) -> BarRange {
    // SAFETY: There is no reason.
    unsafe { BarRange::new(dev, 0, 0..u64::MAX) }
}
