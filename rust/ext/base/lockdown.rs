// SPDX-License-Identifier: GPL-2.0

//! Kernel lockdown, which restricts root.
//!
//! C header: [`include/linux/security.h`](srctree/include/linux/security.h).

use crate::shared::bindings::helpers;
use kernel::{
    error::to_result,
    prelude::*, //
};

/// Returns `EPERM` if the kernel is locked down against direct access to PCI devices, as `mmap(2)`
/// of `resourceN` in sysfs does. The kernel logs the rejection.
pub fn pci_access() -> Result {
    // SAFETY: The function has no requirements.
    to_result(unsafe { helpers::ext_locked_down_pci() })
}
