// SPDX-License-Identifier: GPL-2.0

//! Calls to a client: the outbound half of the C ABI edge.
//!
//! Types enforce the order of the callbacks: [`Acquired`] stands between `acquire` and `release`,
//! [`ClientPages`] between `get_pages` and `put_pages` and, within that, between `dma_map` and
//! `dma_unmap`. Dropping an object calls its counterpart, once. No lock may be held across any of
//! these calls.

mod acquired;
mod pages;

pub(crate) use self::{
    acquired::Acquired,
    pages::ClientPages, //
};

use crate::ext::rdma::Access;
use kernel::ffi;

/// The client's context of one acquired range.
#[derive(Clone, Copy)]
struct Context(*mut ffi::c_void);

// SAFETY: The core never dereferences the pointer. It passes it to callbacks of the client, which
// by the C ABI may run in any task.
unsafe impl Send for Context {}
// SAFETY: See `Send`: the pointer is only copied.
unsafe impl Sync for Context {}

/// How an MR is going to access the memory.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Intent {
    /// It only reads.
    Read,
    /// It may write.
    Write,
}

impl Intent {
    /// Returns the intent of an MR with these access flags.
    pub(crate) fn of(access: Access) -> Self {
        if access.is_writable() {
            Self::Write
        } else {
            Self::Read
        }
    }
}
