// SPDX-License-Identifier: GPL-2.0

//! Exporting dma-bufs: memory that drivers import and have to let go of when they are told to.
//!
//! - [`Export`]: for one importer, once, while a function runs;
//! - [`Offer`]: for whoever has the file descriptor.
//!
//! C header: [`include/linux/dma-buf.h`](srctree/include/linux/dma-buf.h). The locking follows
//! "DOC: locking convention" of `drivers/dma-buf/dma-buf.c`: `attach`, `detach` and `release` are
//! called without the reservation lock, `map_dma_buf` and `unmap_dma_buf` with it; whoever uses
//! an [`Export`] or an [`Offered`] does so without it.

#[path = "dma_buf/buf.rs"]
mod buf;
#[path = "dma_buf/lent.rs"]
mod lent;
#[path = "dma_buf/offer.rs"]
mod offer;
#[path = "dma_buf/tables.rs"]
mod tables;

pub use self::{
    lent::{
        Export,
        Importer,
        OnDetach, //
    },
    offer::{
        Memory,
        Offer,
        Offered, //
    },
};

use kernel::bindings;

/// What an importer must be able to do.
#[derive(Clone, Copy)]
pub struct Rules {
    /// Let go of its mapping when it is told to (`dma_buf_attach_revocable()`).
    pub revocable: bool,
    /// Take memory without struct pages (`allow_peer2peer`).
    pub peer2peer: bool,
}

/// Which rule an importer did not follow.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Unfit {
    /// [`Rules::revocable`].
    NotRevocable,
    /// [`Rules::peer2peer`].
    NotPeer2Peer,
}

/// What an importer can do.
#[derive(Clone, Copy)]
struct Abilities {
    revocable: bool,
    peer2peer: bool,
}

impl Abilities {
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

impl Rules {
    /// The first rule that is not followed.
    fn broken_by(self, importer: Abilities) -> Option<Unfit> {
        if self.revocable && !importer.revocable {
            Some(Unfit::NotRevocable)
        } else if self.peer2peer && !importer.peer2peer {
            Some(Unfit::NotPeer2Peer)
        } else {
            None
        }
    }
}
