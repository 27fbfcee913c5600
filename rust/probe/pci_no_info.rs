// SPDX-License-Identifier: GPL-2.0

//! From 7.3 on, a table of PCI ids has no data.

use kernel::pci;

kernel::pci_device_table!(
    PCI_TABLE,
    @none,
    [pci::DeviceId::from_id(pci::Vendor::REDHAT, 1)]
);

/// Uses the feature.
pub const ID_TABLE: pci::IdTable<()> = &PCI_TABLE;
