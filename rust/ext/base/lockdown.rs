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
///
/// Context: any.
///
/// # Examples
///
/// ```
/// use crate::ext::base::lockdown;
/// use kernel::prelude::*;
///
/// /// Maps registers for a process.
/// fn map_registers() -> Result {
///     lockdown::pci_access()?;
///     // Map them here.
///     Ok(())
/// }
/// ```
pub fn pci_access() -> Result {
    // SAFETY: The function has no requirements.
    to_result(unsafe { helpers::ext_locked_down_pci() })
}
