// SPDX-License-Identifier: GPL-2.0

//! Abstractions that need neither RDMA nor PCI peer-to-peer memory: devices, files, tables of DMA
//! addresses, parameters, logs.
//!
//! Modules of this directory use no other directory of `ext`.

pub mod chardev;
pub mod compat;
pub mod device;
pub mod lockdown;
pub mod log;
pub mod mm;
pub mod module;
pub mod params;
pub mod pci;
pub mod pci_watch;
pub mod pfnmap;
pub mod pinned;
pub mod ram;
pub mod sg;
pub mod small_vec;
pub mod snapshot;
pub mod sysfs;
pub mod unmap_watch;
pub mod vma;
