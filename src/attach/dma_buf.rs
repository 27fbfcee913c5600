// SPDX-License-Identifier: GPL-2.0

//! dma-buf: the region becomes a dma-buf of ours, which the driver imports as it imports any
//! other.
//!
//! The client has mapped its memory for the adapter before there is a dma-buf: no callback of a
//! client runs under a reservation lock. What the importer gets are copies of that mapping.

use super::Refusal;
use crate::{
    callbacks::Pages,
    ext::{
        dma_buf::{
            Importer,
            Mismatch, //
            OnDetach,
            Requirements,
            SingleUse,
        },
        rdma::{
            Device,
            Request,
            UserMr, //
        }, //
    },
    range::Range, //
};
use kernel::{
    prelude::*,
    sync::{
        aref::ARef,
        atomic::{
            Atomic,
            Relaxed, //
        },
        Arc, //
    },
};

const CANNOT_FENCE: &str = "the client takes memory back, and the driver does not let go of a \
                            dma-buf before its user does";

/// What is known of whether a driver lets go of a dma-buf when it is told to. There is no asking:
/// it shows when the driver imports one.
mod fence {
    pub(super) const UNKNOWN: u32 = 0;
    pub(super) const YES: u32 = 1;
    pub(super) const NO: u32 = 2;
}

/// The backend of one device.
pub(crate) struct DmaBuf {
    dev: ARef<Device>,
    /// One of [`fence`].
    fence: Atomic<u32>,
}

impl DmaBuf {
    /// For a device that imports dma-bufs.
    pub(crate) fn new(dev: &Device) -> Self {
        Self {
            dev: dev.get(),
            fence: Atomic::new(fence::UNKNOWN),
        }
    }

    /// Is nothing known against it?
    pub(crate) fn can_fence(&self) -> bool {
        self.fence.load(Relaxed) != fence::NO
    }

    /// See [`super::Backend::fence_word`].
    pub(crate) fn fence_word(&self) -> &'static str {
        match self.fence.load(Relaxed) {
            fence::YES => "yes",
            fence::NO => "no",
            _ => "not seen yet",
        }
    }

    /// The driver has imported.
    fn seen(&self, revocable: bool) {
        let word = if revocable { fence::YES } else { fence::NO };
        self.fence.store(word, Relaxed);
    }

    /// Makes an MR on `pages`. May sleep.
    pub(crate) fn register(
        &self,
        req: &Request<'_>,
        range: Range,
        pages: &mut Pages,
        must_fence: bool,
    ) -> Result<(UserMr, Attachment), Refusal> {
        let Some(access) = req.access.for_dma_buf() else {
            return Err(Refusal::access(&self.dev, req));
        };
        let dma = self.dev.dma_device().ok_or(ENODEV)?;
        let segments = pages.map(dma, self.dev.max_segment())?;
        let rules = Requirements {
            revocable: must_fence,
            peer2peer: !pages.have_struct_pages(),
        };
        let export = SingleUse::new(segments, dma, rules)?;
        let made = export.lend(|fd| req.import(fd, range.page_offset() as u64, access))?;
        let importer = export.importer();
        match (made, importer) {
            (Ok(mr), Importer::Attached { revocable }) => {
                self.seen(revocable);
                Ok((mr, Attachment { export, revocable }))
            }
            (Ok(mr), _) => {
                // Another thread has put something else under the number of our descriptor.
                if let Err(e) = mr.discard(req.pd) {
                    pr_warn!("{}: a stray MR stays: {:?}\n", self.dev.name(), e);
                }
                Err(EBADF.into())
            }
            (Err(_), Importer::Refused(Mismatch::NotRevocable)) => {
                self.seen(false);
                Err(Refusal::Skip(CANNOT_FENCE))
            }
            (Err(_), Importer::Refused(Mismatch::NotPeer2Peer)) => Err(Refusal::Skip(
                "it gives no struct pages, and the driver takes no other memory",
            )),
            (Err(e), _) => Err(e.into()),
        }
    }
}

/// A dma-buf that the driver has imported.
pub(crate) struct Attachment {
    export: SingleUse,
    revocable: bool,
}

impl Attachment {
    /// See [`super::Attachment::can_fence`].
    pub(crate) fn can_fence(&self) -> bool {
        self.revocable
    }

    /// See [`super::Attachment::fence`].
    pub(crate) fn fence(&self) -> Result {
        self.export.revoke()
    }

    /// See [`super::Attachment::leave_to_driver`].
    pub(crate) fn leave_to_driver(&self, hook: Arc<dyn OnDetach>) {
        self.export.on_detach(hook);
    }
}
