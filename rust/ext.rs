// SPDX-License-Identifier: GPL-2.0

//! Safe abstractions over parts of the kernel that the `kernel` crate lacks.
//!
//! No module in this tree depends on peer memory. Some modules need another kernel module or a
//! symbol namespace. Those modules depend on a cfg, and Kbuild sets the cfg for the crates that use
//! the modules.
//!
//! The documentation of a function has a line `Context:`, as in kernel-doc: `any` context, or a
//! context where the function `may sleep`, with the locks taken by the function or held by the
//! caller. A function without the line may be called in any context.

use super::bindings;

pub mod chardev;
pub mod compat;
pub mod device;
#[cfg(ext_rdma)]
pub mod dma_buf;
pub mod dma_table;
#[cfg(ext_p2pdma)]
pub mod gen_pool;
#[cfg(ext_rdma)]
pub mod key_filter;
pub mod lockdown;
pub mod log;
#[cfg(ext_p2pdma)]
pub mod memcg;
pub mod miscdev;
#[cfg(ext_p2pdma)]
pub mod mm;
#[cfg(ext_p2pdma)]
pub mod mmio_table;
#[cfg(ext_p2pdma)]
pub mod p2pdma;
pub mod params;
pub mod pci;
pub mod pci_watch;
#[cfg(ext_rdma)]
pub mod per_mm;
pub mod pfnmap;
pub mod pinned;
#[cfg(ext_p2pdma)]
pub mod quota;
pub mod ram;
#[cfg(ext_rdma)]
pub mod rdma;
#[cfg(ext_rdma)]
pub mod return_probe;
pub mod run_table;
pub mod sg;
pub mod small_vec;
pub mod snapshot;
pub mod sysfs;
#[cfg(ext_rdma)]
pub mod task;
#[cfg(ext_rdma)]
mod task_table;
pub mod vma;
#[cfg(ext_p2pdma)]
pub mod work;
#[cfg(ext_rdma)]
pub mod worker;
