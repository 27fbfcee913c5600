// SPDX-License-Identifier: GPL-2.0

//! The core's waits for the copies that software RDMA has begun.

use crate::helpers;
use kernel::{
    error::to_result,
    prelude::*, //
};

/// Counts them while it exists. Tests run one at a time, so there is one at most.
pub(crate) struct SoftwareWaits(());

impl SoftwareWaits {
    /// Counts from now on.
    pub(crate) fn watch() -> Result<Self> {
        // SAFETY: The probe is not registered: there is no other value of this type.
        to_result(unsafe { helpers::kt_waits_begin() })?;
        Ok(Self(()))
    }

    /// Returns the number of waits that have begun.
    pub(crate) fn count(&self) -> u32 {
        // SAFETY: The function reads a counter.
        unsafe { helpers::kt_waits() }
    }
}

impl Drop for SoftwareWaits {
    fn drop(&mut self) {
        // SAFETY: `watch` has registered the probe.
        unsafe { helpers::kt_waits_end() }
    }
}
