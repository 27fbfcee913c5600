// SPDX-License-Identifier: GPL-2.0

//! What an exporter requires of its importers.

use super::attachment::ImporterCaps;

/// Capabilities that an importer must have.
#[derive(Clone, Copy)]
pub struct Requirements {
    /// Unmap in `invalidate_mappings` (`dma_buf_attach_revocable()`).
    pub revocable: bool,
    /// Import memory without struct pages (`allow_peer2peer`).
    pub peer2peer: bool,
}

/// The requirement that an importer does not meet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mismatch {
    NotRevocable,
    NotPeer2Peer,
}

impl Requirements {
    /// Returns the first requirement that `importer` does not meet.
    pub(super) fn unmet_by(self, importer: ImporterCaps) -> Option<Mismatch> {
        if self.revocable && !importer.revocable {
            Some(Mismatch::NotRevocable)
        } else if self.peer2peer && !importer.peer2peer {
            Some(Mismatch::NotPeer2Peer)
        } else {
            None
        }
    }
}
