// SPDX-License-Identifier: GPL-2.0

//! The suites. A suite has the name of the file.

mod bounds;
mod dispatch;
mod dma_buf;
mod failslab;
mod failure;
mod hints;
mod host_first;
mod interposers;
mod invalidate;
mod races;
mod registration;
mod removal;
mod rereg;
mod statistics;
mod tables;
mod unmap_watch;
mod unregister;

/// The vocabulary of all suites, and kinds of devices.
mod prelude {
    pub(super) use crate::prelude::*;

    pub(super) const DYNAMIC: Kind = Kind::Importer(Mode::Dynamic);
    pub(super) const NO_PEER2PEER: Kind = Kind::Importer(Mode::NoPeer2Peer);
    pub(super) const REVOCABLE: Kind = Kind::Importer(Mode::Revocable);
    pub(super) const PINNED: Kind = Kind::Importer(Mode::Pinned);
    /// Devices whose MRs can be revoked: fast registration, and both kinds of dma-bufs.
    pub(super) const FENCED: [Kind; 3] = [Kind::Dma, DYNAMIC, REVOCABLE];
    /// Devices with revocable MRs on dma-bufs.
    pub(super) const DMA_BUFS: [Kind; 2] = [DYNAMIC, REVOCABLE];
    /// Devices with imports of memory without struct pages.
    pub(super) const PEER2PEER: [Kind; 3] = [DYNAMIC, REVOCABLE, PINNED];
}
