// SPDX-License-Identifier: GPL-2.0
//
// A window is found by an address or belongs to a provider: with another one, a table could
// give a device any physical address.
//
// expect: error[E0451]: field `dev` of struct `Window` is private
// expect: error[E0451]: field `index` of struct `Window` is private
// expect: error[E0451]: field `phys` of struct `Window` is private

use crate::ext::base::pci::Window;

/// Declares all physical memory to be a BAR.
pub fn forge(dev: kernel::sync::aref::ARef<kernel::pci::Device>) -> Window {
    Window {
        dev,
        index: 0,
        phys: 0..u64::MAX,
    }
}
