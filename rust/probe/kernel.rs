// SPDX-License-Identifier: GPL-2.0

//! Any kernel: shows that a crate compiles.

use kernel::prelude::*;

/// Uses the kernel crate.
pub fn probe() -> Result {
    Err(EINVAL)
}
