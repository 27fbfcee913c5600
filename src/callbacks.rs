// SPDX-License-Identifier: GPL-2.0

//! Calls to a client: the outbound half of the C ABI edge.
//!
//! Types enforce the order of the callbacks: an [`Acquired`] exists from `acquire` to `release`,
//! and a [`ClientPages`] spans `get_pages` to `put_pages` and, within, `dma_map` to `dma_unmap`.
//! Dropping an object calls the counterpart of each callback that has succeeded, once. The dispatch
//! creates an [`Acquired`], a region owns both objects, and a backend has the pages mapped.
//!
//! Context: may sleep. The caller must not hold a lock across any of the calls.

mod acquired;
mod client_pages;

pub(crate) use self::{
    acquired::Acquired,
    client_pages::ClientPages, //
};

use crate::ext::rdma::Access;
use kernel::ffi;

/// The client's context of one acquired range.
#[derive(Clone, Copy)]
struct Context(*mut ffi::c_void);

// SAFETY: The core never dereferences the pointer, and only passes the pointer to callbacks of the
// client. By the C ABI callbacks may run in any task.
unsafe impl Send for Context {}
// SAFETY: As for `Send`: the pointer is only copied.
unsafe impl Sync for Context {}

/// The direction of the DMA of an MR, as in `enum dma_data_direction`.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Direction {
    /// The device only reads the memory.
    Read,
    /// The device may write the memory.
    Write,
}

impl Direction {
    /// Returns the direction of an MR with the access flags `access`.
    pub(crate) fn of(access: Access) -> Self {
        if access.is_writable() {
            Self::Write
        } else {
            Self::Read
        }
    }
}
