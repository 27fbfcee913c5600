// SPDX-License-Identifier: GPL-2.0

//! From 7.1 on, `Atomic` takes pointers.

/// Uses the feature.
pub type Probe = kernel::sync::atomic::Atomic<*mut u8>;

/// Uses the feature.
pub fn probe(ptr: &Probe) -> *mut u8 {
    ptr.load(kernel::sync::atomic::Relaxed)
}
