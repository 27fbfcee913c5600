// SPDX-License-Identifier: GPL-2.0

//! Counts of the core's waits. The number of waits does not depend on the speed of the machine.

use crate::prelude::*;

/// Counts the waits of one kind while the object exists. Tests run one at a time, so there is at
/// most one object.
pub(crate) struct Waits(());

impl Waits {
    /// Counts the waits for copies that software RDMA has begun.
    pub(crate) fn for_software() -> Result<Self> {
        Self::watch(c"ib_peer_mem:ext_synchronize_rcu_tasks", 0)
    }

    /// Counts the waits for fences of dma-bufs with a limit of at least `ms`.
    pub(crate) fn for_fences(ms: usize) -> Result<Self> {
        Self::watch(c"ib_peer_mem:ext_dma_resv_wait", ms)
    }

    /// Counts the calls of `function`, whose second argument is at least `least`.
    fn watch(function: &'static CStr, least: usize) -> Result<Self> {
        // SAFETY: The probe is not registered, as only one object of the type may exist. The name
        // is static.
        to_result(unsafe { helpers::kt_waits_begin(function.as_char_ptr(), least) })?;
        Ok(Self(()))
    }

    pub(crate) fn count(&self) -> u32 {
        // SAFETY: The function reads a counter.
        unsafe { helpers::kt_waits() }
    }
}

impl Drop for Waits {
    fn drop(&mut self) {
        // SAFETY: `watch` has registered the probe.
        unsafe { helpers::kt_waits_end() }
    }
}
