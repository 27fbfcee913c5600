// SPDX-License-Identifier: GPL-2.0

//! Kernel lockdown, which restricts root.

use crate::shared::prelude::raw::*;

/// Returns `EPERM` if the kernel is locked down against direct access to PCI devices, as `mmap(2)`
/// of `resourceN` in sysfs does. The kernel logs the rejection.
pub fn pci_access() -> Result {
    let reason = bindings::lockdown_reason_LOCKDOWN_PCI_ACCESS;
    // SAFETY: The function has no requirements.
    to_result(unsafe { helpers::security_locked_down(reason) })
}
