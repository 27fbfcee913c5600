// SPDX-License-Identifier: GPL-2.0
//
// A range is found by an address or belongs to a provider: with another one, a table could
// give a device any physical address.
//
// expect: error[E0451]: field `dev` of struct `BarRange` is private
// expect: error[E0451]: field `index` of struct `BarRange` is private
// expect: error[E0451]: field `phys` of struct `BarRange` is private

use crate::ext::base::pci::BarRange;

/// Declares all physical memory to be a BAR.
pub fn forge(dev: kernel::sync::aref::ARef<kernel::pci::Device>) -> BarRange {
    BarRange {
        dev,
        index: 0,
        phys: 0..u64::MAX,
    }
}
