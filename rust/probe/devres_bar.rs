// SPDX-License-Identifier: GPL-2.0

//! From 7.3 on, the BAR that devres holds has a name.

/// Uses the feature.
pub type Probe = kernel::pci::DevresBar<16>;
