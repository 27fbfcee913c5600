// SPDX-License-Identifier: GPL-2.0

//! From 7.2 on, a PCI driver has a type for its data.

/// Uses the feature.
pub type Probe<T> = <T as kernel::pci::Driver>::Data<'static>;
