// SPDX-License-Identifier: GPL-2.0

//! Exporting dma-bufs: memory that drivers import and have to let go of when they are told to.
//!
//! - [`SingleUse`]: for one importer, once, while a function runs;
//! - [`Export`]: for whoever has the file descriptor.
//!
//! C header: [`include/linux/dma-buf.h`](srctree/include/linux/dma-buf.h). The locking follows
//! "DOC: locking convention" of `drivers/dma-buf/dma-buf.c`: `attach`, `detach` and `release` are
//! called without the reservation lock, `map_dma_buf` and `unmap_dma_buf` with it; whoever uses
//! an [`SingleUse`] or an [`Revoker`] does so without it.

mod buf;
mod export;
mod single_use;
mod tables;

pub use self::{
    export::{
        Export,
        Memory,
        Revoker, //
    },
    single_use::{
        Importer,
        OnDetach, //
        SingleUse,
    },
};

use kernel::bindings;

/// What an importer must be able to do.
#[derive(Clone, Copy)]
pub struct Requirements {
    /// Let go of its mapping when it is told to (`dma_buf_attach_revocable()`).
    pub revocable: bool,
    /// Take memory without struct pages (`allow_peer2peer`).
    pub peer2peer: bool,
}

/// Which rule an importer did not follow.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mismatch {
    /// [`Requirements::revocable`].
    NotRevocable,
    /// [`Requirements::peer2peer`].
    NotPeer2Peer,
}

/// What an importer can do.
#[derive(Clone, Copy)]
struct ImporterCaps {
    revocable: bool,
    peer2peer: bool,
}

impl ImporterCaps {
    /// # Safety
    ///
    /// `attachment` must be one of a dma-buf of ours, being made or made.
    unsafe fn of(attachment: *mut bindings::dma_buf_attachment) -> Self {
        // SAFETY: The caller's promise; its device and operations are filled in.
        unsafe {
            Self {
                revocable: bindings::dma_buf_attach_revocable(attachment),
                peer2peer: (*attachment).peer2peer,
            }
        }
    }
}

impl Requirements {
    /// The first rule that is not followed.
    fn unmet_by(self, importer: ImporterCaps) -> Option<Mismatch> {
        if self.revocable && !importer.revocable {
            Some(Mismatch::NotRevocable)
        } else if self.peer2peer && !importer.peer2peer {
            Some(Mismatch::NotPeer2Peer)
        } else {
            None
        }
    }
}
