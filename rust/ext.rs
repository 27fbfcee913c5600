// SPDX-License-Identifier: GPL-2.0

//! Safe abstractions over parts of the kernel that the `kernel` crate lacks.
//!
//! `LAYERS` lists the modules from top to bottom: a module uses only modules of lower layers. No
//! module in this tree depends on peer memory. Some modules need another kernel module or a
//! symbol namespace. Those modules depend on a cfg, and Kbuild sets the cfg for the crates that use
//! the modules.
//!
//! The documentation of a function says `Context:`, as in kernel-doc: `any` context, or a context
//! where the function `may sleep`, with the locks taken by the function or held by the caller. A
//! function without it may be called in any context.

pub mod base;
#[cfg(ext_rdma)]
pub mod dma_buf;
#[cfg(ext_p2pdma)]
pub mod p2pdma;
#[cfg(ext_rdma)]
pub mod rdma;
#[cfg(ext_rdma)]
pub mod task;
