// SPDX-License-Identifier: GPL-2.0

//! Dma-bufs: exporters whose memory can be revoked, and dma-bufs of any exporter.
//!
//! - [`Pool`]: an exporter for one device. Each import happens within one function call;
//! - [`Export`]: an exporter for every process with the file descriptor;
//! - [`Buffer`]: a dma-buf of any exporter; [`mapped()`]: the dma-buf that a process has mapped at
//!   an address.
//!
//! C header: [`include/linux/dma-buf.h`](srctree/include/linux/dma-buf.h). The locking follows
//! "DOC: locking convention" of `drivers/dma-buf/dma-buf.c`: the core calls `attach`, `detach` and
//! `release` without the reservation lock, and `map_dma_buf` and `unmap_dma_buf` with the lock.
//! Callers of [`Import`] and [`Revoker`] must not hold the lock.

mod buffer;
mod export;
mod exporter;
mod fences;
mod mapped;
mod module_ref;
mod pool;
pub(super) mod private_fd;
mod tables;

pub(super) use self::module_ref::wait_released;

pub use self::{
    buffer::Buffer,
    export::{
        Export,
        ExportOps,
        Revoker, //
    },
    exporter::{
        ImporterCaps,
        Mismatch, //
    },
    fences::FenceBudget,
    mapped::{
        mapped,
        NoPart,
        Part,
        Seam, //
    },
    pool::{
        Import,
        Importer,
        OnDetach,
        Pool, //
    },
};
