// SPDX-License-Identifier: GPL-2.0

//! The memory cgroup of the calling process.
//!
//! C header: [`include/linux/slab.h`](srctree/include/linux/slab.h).

use crate::shared::prelude::raw::*;

/// Returns `ENOMEM` unless the memory cgroup of the calling process has headroom for `bytes` of
/// kernel memory.
///
/// Exceeding the limit in a `GFP_KERNEL_ACCOUNT` allocation invokes the OOM killer. Checking first
/// makes a small request fail with `ENOMEM` instead. Context: process context; may sleep.
pub fn check_headroom(bytes: usize) -> Result {
    // SAFETY: The function needs a context that may sleep, as this function does.
    if unsafe { helpers::ext_memcg_has_headroom(bytes) } {
        Ok(())
    } else {
        Err(ENOMEM)
    }
}
