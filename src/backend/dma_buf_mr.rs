// SPDX-License-Identifier: GPL-2.0

//! The dma-buf backend: the driver imports the memory of a region as a dma-buf of the core, like
//! any other dma-buf.
//!
//! [`DmaBuf`] is the backend of one device, and [`DmaBufMr`] the attachment of one MR;
//! [`Backend`](super::Backend) and [`Attachment`] call both.
//!
//! The client maps the memory for the adapter before the driver imports, so no callback of a client
//! runs under a reservation lock. The importer gets copies of the client's mapping.

use super::{
    trust::{
        Revocation,
        Trust, //
    },
    Attachment,
    DeviceAccess,
    Distrust,
    Failed,
    RegError,
    ACCESS, //
};
use crate::{
    callbacks::Acquired,
    ext::{
        base::device::max_segment,
        dma_buf::{
            Import,
            Importer,
            ImporterCaps,
            Mismatch,
            Pool, //
        }, //
    },
    prelude::*, //
};

const PINS: &str = "the client requires invalidation, and the driver pins dma-bufs (no revoke); \
                    use a client that does not invalidate";

const NOT_PEER2PEER: &str =
    "the memory has no struct pages, and the driver does not import peer-to-peer memory";

/// Whether the driver revokes a dma-buf on request. A driver shows the ability only at an import.
mod revokes {
    pub(super) const UNKNOWN: u32 = 0;
    pub(super) const YES: u32 = 1;
    pub(super) const NO: u32 = 2;
}

pub(crate) struct DmaBuf {
    dev: ARef<Device>,
    pool: Pool,
    /// One of [`revokes`].
    revokes: Atomic<u32>,
    trust: Arc<Trust>,
    /// The errors of failed imports that are in the log, a bit for each errno.
    logged: [Atomic<u64>; 3],
}

impl DmaBuf {
    /// Creates the backend of a device that imports dma-bufs and has a DMA device. Context: may
    /// sleep.
    pub(crate) fn new(dev: &Device) -> Result<Self> {
        let dma = dev.dma_device().ok_or(ENODEV)?;
        Ok(Self {
            dev: dev.get(),
            pool: Pool::new(dma)?,
            revokes: Atomic::new(revokes::UNKNOWN),
            trust: Arc::new(Trust::new(dev, dma), GFP_KERNEL)?,
            logged: [const { Atomic::new(0) }; 3],
        })
    }

    /// Returns whether the driver may be able to revoke.
    pub(crate) fn can_fence(&self) -> bool {
        self.revokes.load(Relaxed) != revokes::NO
    }

    pub(crate) fn fence_word(&self) -> &'static str {
        match self.revokes.load(Relaxed) {
            _ if self.trust.is_fatal() => "fatal error",
            revokes::YES => "yes",
            revokes::NO => "no",
            _ => "not seen yet",
        }
    }

    pub(crate) fn trust(&self) -> &Arc<Trust> {
        &self.trust
    }

    /// Records whether the driver can revoke, as an import has shown.
    fn record(&self, revocable: bool) {
        let word = if revocable { revokes::YES } else { revokes::NO };
        self.revokes.store(word, Relaxed);
    }

    /// Logs an error of the driver's import, once for each errno. A lack of memory is no property of
    /// the backend.
    fn log_once(&self, e: Error) {
        if e == ENOMEM {
            return;
        }
        let errno = e.to_errno().unsigned_abs();
        let Some(word) = self.logged.get(errno as usize / 64) else {
            return;
        };
        let bit = 1 << (errno % 64);
        let old = word.load(Relaxed);
        // Two tasks may both log the line. A bit can get lost, and the line is then logged again.
        if old & bit == 0 {
            word.store(old | bit, Relaxed);
            pr_warn!(
                "{}: the driver refuses to import peer memory as a dma-buf: {:?}; try \
                 backend={}:umem\n",
                self.dev.name(),
                e,
                self.dev.name()
            );
        }
    }

    /// Returns the attachment of an import that the driver has begun. `orphan`: there is no MR.
    fn attachment(&self, import: Import, revocable: bool, orphan: bool) -> Attachment {
        Attachment::DmaBuf(DmaBufMr {
            import,
            revocable,
            trust: self.trust.clone(),
            orphan,
            revocation: Revocation::default(),
            deferred: false,
        })
    }

    /// Makes an MR on `pages`. If the driver has begun an import, failed, and not undone the import, the
    /// device may still use the pages, and the error has the import. Context: process context; may
    /// sleep.
    pub(crate) fn register(
        &self,
        req: &Request<'_>,
        range: VaRange,
        pages: &mut Acquired,
        fenced: bool,
    ) -> Result<(UserMr, Attachment), Failed> {
        let Some(access) = req.access.for_dma_buf() else {
            return Err(RegError::Rejected(ACCESS).into());
        };
        let dma = self.dev.dma_device().ok_or(ENODEV)?;
        let memory = pages.map(dma, max_segment(dma))?;
        let requirements = ImporterCaps {
            revocable: fenced,
            peer2peer: !pages.have_struct_pages(),
        };
        let offset = range.page_offset() as u64;
        let import = |fd| req.import(fd, offset, access);
        let (made, import) = self.pool.import(memory, requirements, import)?;
        match (made, import.importer()) {
            (Ok(mr), Importer::Attached { revocable }) => {
                self.record(revocable);
                Ok((mr, self.attachment(import, revocable, false)))
            }
            (Ok(mr), _) => {
                pr_warn_limited!(
                    "{}: the driver made an MR without importing the dma-buf; report it to the \
                     maintainers of the driver\n",
                    self.dev.name()
                );
                mr.discard(req.pd)?;
                Err(EIO.into())
            }
            (Err(_), Importer::Rejected(Mismatch::NotRevocable)) => {
                self.record(false);
                Err(RegError::Skip(PINS).into())
            }
            (Err(_), Importer::Rejected(Mismatch::NotPeer2Peer)) => {
                Err(RegError::Skip(NOT_PEER2PEER).into())
            }
            (Err(e), Importer::Attached { revocable }) if !import.close() => Err(Failed {
                error: e.into(),
                left: Some(self.attachment(import, revocable, true)),
            }),
            (Err(e), _) => {
                self.log_once(e);
                Err(e.into())
            }
        }
    }
}

impl Drop for DmaBuf {
    fn drop(&mut self) {
        self.trust.set_removed();
    }
}

/// The import of an MR's memory.
pub(crate) struct DmaBufMr {
    import: Import,
    revocable: bool,
    trust: Arc<Trust>,
    /// There is no MR: the driver has failed, and has not undone the import.
    orphan: bool,
    revocation: Revocation,
    /// The device is removed and not waited for: the driver is to deregister the MR.
    pub(super) deferred: bool,
}

impl DeviceAccess for DmaBufMr {
    fn can_fence(&self) -> bool {
        self.revocable
    }

    fn distrust(&self) -> Option<Distrust> {
        self.revocation.distrust(&self.trust)
    }

    fn fence(&mut self, fences: &FenceBudget) -> Result {
        if self.orphan && self.trust.is_removed() {
            // The driver has given up the import, and the device is taken to be dead.
            self.import.set_dead();
            return Ok(());
        }
        if !self.deferred {
            self.revocation.check(&self.trust)?;
        }
        self.stop()?;
        self.import.wait_revoked(fences)?;
        if self.deferred {
            Ok(())
        } else {
            // The error may have come meanwhile.
            self.revocation.check(&self.trust)
        }
    }

    fn stop(&mut self) -> Result {
        let watch = self.trust.watch()?;
        self.import.begin_revoke();
        self.revocation.record(watch);
        Ok(())
    }

    fn defer_to_dereg(&self, hook: Arc<dyn OnDetach>) -> bool {
        self.import.on_detach(hook)
    }

    fn is_attached(&self) -> bool {
        matches!(self.import.importer(), Importer::Attached { .. })
    }
}
