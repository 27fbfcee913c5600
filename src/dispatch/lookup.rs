// SPDX-License-Identifier: GPL-2.0

//! One lookup of a range: asks the clients, and the names and mappings of dma-bufs.
//!
//! A [`ClientLookup`] asks the clients for a range, one after the other, and records and logs why
//! memory is not served.
//!
//! Context: process context; may sleep. The caller holds no lock of the core.

use crate::{
    adapters,
    backend::RegError,
    callbacks::Acquired,
    client::Client,
    ext::{
        base::pinned::untagged,
        dma_buf::{
            self,
            Buffer,
            NoPart,
            Seam, //
        }, //
    },
    policy::named,
    prelude::*,
    records::rejections,
    region::{
        Importers,
        Region, //
    }, //
};

/// Why a client that requires invalidation does not serve a umem, and the remedy.
const UNFENCED: &str = "the driver pins the memory (queue, doorbell record, DEVX umem or MR) and \
    does not release it on invalidation, which the client requires; use memory of a client that does not";

/// Why an MR on host memory does not become an MR on other memory, and the remedy.
const WITHOUT_ACCESS: &str =
    "only the driver knows the access flags of the MR, which is on host memory; \
    re-register it with IBV_REREG_MR_CHANGE_ACCESS";

/// One pass over the clients, to find the client that serves a range.
pub(super) struct ClientLookup<'a> {
    pub(super) clients: &'a [Arc<Client>],
    pub(super) range: VaRange,
    device: Option<&'a Device>,
    /// The error of the first client that claimed the range but could not pin it.
    pub(super) unpinned: Option<Error>,
}

impl<'a> ClientLookup<'a> {
    pub(super) fn new(
        clients: &'a [Arc<Client>],
        range: VaRange,
        device: Option<&'a Device>,
    ) -> Self {
        Self {
            clients,
            range,
            device,
            unpinned: None,
        }
    }

    fn device_name(&self) -> Option<Name> {
        self.device.map(Device::name)
    }

    /// Records and logs why `client`, which claims the range, has not served the range. Returns the error
    /// that ends the lookup, or `Ok` if the next client is to be asked. Context: may sleep.
    pub(super) fn reject(&mut self, client: &Client, error: RegError) -> Result {
        match error {
            RegError::Error(e) => {
                self.record(Some(client), Some(e), "the memory could not be registered");
                Err(e)
            }
            // A signal: the system call begins again.
            RegError::NotPinned(ERESTARTNOINTR) => Err(ERESTARTNOINTR),
            RegError::NotPinned(e) => {
                self.record(Some(client), Some(e), "the client could not pin the memory");
                self.unpinned.get_or_insert(e);
                Ok(())
            }
            RegError::Draining => {
                self.record(Some(client), Some(EBUSY), "the client is being drained");
                Err(EBUSY)
            }
            RegError::Skip(cause) => {
                self.cannot_serve(client, None, cause);
                Ok(())
            }
            RegError::Rejected(cause) => {
                self.cannot_serve(client, Some(eopnotsupp()), cause);
                Err(eopnotsupp())
            }
        }
    }

    /// Exports the range with the first client that `admits` accepts and that serves the range. The
    /// importer must be the device that the memory is for, or the device of any adapter if the
    /// device is not known. Fails with the error of the first client that could not pin the range,
    /// if no other client serves the range. Context: may sleep.
    pub(super) fn export(
        &mut self,
        write: bool,
        admits: impl Fn(&Client) -> bool,
    ) -> Result<Option<Export>> {
        let only = self.device.and_then(Device::dma_device);
        let device = self.device_name();
        for client in self.clients.iter().filter(|client| admits(client)) {
            let Some(acquired) = Acquired::ask(client, self.range, None) else {
                continue;
            };
            let importers = match only {
                Some(dev) => Importers::Only(dev.into()),
                None => Importers::Which(adapters::trust_of),
            };
            match Region::export(acquired, self.range, write, importers, device) {
                Ok(export) => return Ok(Some(export)),
                Err(e) => self.reject(client, e)?,
            }
        }
        match self.unpinned {
            Some(e) => Err(e),
            None => Ok(None),
        }
    }

    /// Records and logs the clients that claim the range and require invalidation: a umem cannot be
    /// invalidated. Returns whether any client does. Context: may sleep.
    pub(super) fn reject_unfenced(&mut self) -> Result<bool> {
        let mut claimed = false;
        for client in self.clients {
            if client.flags().requires_invalidation
                && Acquired::ask(client, self.range, None).is_some()
            {
                claimed = true;
                self.reject(client, RegError::Skip(UNFENCED))?;
            }
        }
        Ok(claimed)
    }

    /// Records and logs that the range cannot take the place of the host memory of an MR, if the range is
    /// of a client or a dma-buf. Returns the error for user space, which is `error` for other memory.
    /// Context: may sleep.
    pub(super) fn without_access(&self, error: Error) -> Error {
        let claims = |client: &&Arc<Client>| Acquired::ask(client, self.range, None).is_some();
        if let Some(client) = self.clients.iter().find(claims) {
            self.cannot_serve(client, Some(eopnotsupp()), WITHOUT_ACCESS);
            return eopnotsupp();
        }
        let named = self.named().ok().flatten().map(|(part, _)| part);
        match named.or_else(|| self.mapped().ok().flatten()) {
            Some(part) => self.part_not_imported(&part, eopnotsupp(), WITHOUT_ACCESS),
            None => error,
        }
    }

    /// Records and logs that `client` cannot serve the device. Context: may sleep.
    fn cannot_serve(&self, client: &Client, error: Option<Error>, cause: &'static str) {
        self.record(Some(client), error, cause);
        pr_warn_limited!(
            "client {}: cannot serve {}: {}\n",
            client.name(),
            self.device_name().as_deref().unwrap_or("an importer"),
            cause
        );
    }

    /// Records a rejection for debugfs. Context: may sleep.
    fn record(&self, client: Option<&Client>, error: Option<Error>, cause: &'static str) {
        self.record_seam(client, error, cause, None);
    }

    /// Records a rejection, whose cause may be a seam. Context: may sleep.
    fn record_seam(
        &self,
        client: Option<&Client>,
        error: Option<Error>,
        cause: &'static str,
        seam: Option<&Seam<Buffer>>,
    ) {
        rejections::record(rejections::Rejection {
            range: self.range,
            device: self.device_name().as_deref(),
            client: client.map(Client::name),
            error,
            cause,
            seam,
        });
    }

    /// Records and logs why the range is not a part of a dma-buf. Returns the error for user space.
    /// Context: may sleep.
    fn no_part(&self, reason: NoPart, cause: &'static str) -> Error {
        let seam = match reason {
            NoPart::Seam(seam) => seam,
            NoPart::Error(e) => {
                self.record(None, Some(e), cause);
                return e;
            }
        };
        self.record_seam(None, Some(EFAULT), cause, Some(&seam));
        // Addresses are for root, in debugfs.
        pr_warn_limited!(
            "{}: {} of {} bytes are of the dma-buf {}, then comes {}: register them one by one, or have \
             the exporter make one dma-buf\n",
            self.device_name().as_deref().unwrap_or("an importer"),
            seam.at - self.untagged().addr(),
            self.range.len(),
            rejections::Id::of(seam.before.as_ref()),
            rejections::Id::of(seam.after.as_ref()),
        );
        EFAULT
    }

    /// Returns the range as the kernel looks it up, without the bits that the CPU ignores.
    fn untagged(&self) -> VaRange {
        // CAST: An address has 64 bits.
        let start = untagged(self.range.addr() as u64);
        VaRange::new(start, self.range.len() as u64).unwrap_or(self.range)
    }

    /// Returns the part of a dma-buf as which the process has named the range, or `None` if no part
    /// of the range has a name, as [`named::find`] does. Fails with `EFAULT` if the range spans two
    /// dma-bufs, or has a gap. Context: may sleep.
    pub(super) fn named(&self) -> Result<Option<(Part, named::Watched)>> {
        if !named::may_exist() {
            return Ok(None);
        }
        named::find(self.untagged())
            .map_err(|e| self.no_part(e, "the range is not named as one part of one dma-buf"))
    }

    /// Returns the part of a dma-buf that is mapped at the range, or `None` if no dma-buf is mapped
    /// there. Fails with `EFAULT` if the range spans two dma-bufs, or has a gap. Context: may sleep.
    pub(super) fn mapped(&self) -> Result<Option<Part>> {
        dma_buf::mapped(self.untagged().addr(), self.range.len())
            .map_err(|e| self.no_part(e, "the range is not mapped from one part of one dma-buf"))
    }

    /// Returns `part`. Fails with `EACCES` if the part is read-only and `write` is set.
    /// Context: may sleep.
    pub(super) fn writable(&self, part: Part, write: bool) -> Result<Part> {
        match part.permits(write) {
            Ok(()) => Ok(part),
            Err(e) => Err(self.not_imported(&part, e)),
        }
    }

    /// Records and logs that `part` could not be imported. Returns the error for user space: `e`, or
    /// `EOPNOTSUPP` for `ENOTSUPP`, which exporters return and C libraries do not know. Context: may
    /// sleep.
    pub(super) fn not_imported(&self, part: &Part, e: Error) -> Error {
        let e = if e == ENOTSUPP { eopnotsupp() } else { e };
        let cause = if e == EACCES {
            "the mapping or the descriptor is read-only; the MR would be written to"
        } else if e == eopnotsupp() {
            "the driver or the exporter does not support it; use an adapter whose driver imports dma-bufs"
        } else {
            "the driver or the exporter refuses"
        };
        self.part_not_imported(part, e, cause)
    }

    /// Records and logs `cause`, for which `part` was not imported. Returns `e`. Context: may sleep.
    fn part_not_imported(&self, part: &Part, e: Error, cause: &'static str) -> Error {
        self.record(None, Some(e), cause);
        pr_warn_limited!(
            "{}: cannot import {} bytes of a dma-buf of {}: {:?} ({})\n",
            self.device_name().as_deref().unwrap_or("an importer"),
            self.range.len(),
            part.buffer.exporter(),
            e,
            cause
        );
        e
    }

    /// Records that no client claims the memory. `can_fence`: whether MRs of the device can be
    /// fenced. Context: may sleep.
    pub(super) fn record_unclaimed(&self, error: Option<Error>, can_fence: bool) {
        let asked = |client: &Arc<Client>| can_fence || !client.flags().requires_invalidation;
        self.record(
            None,
            error,
            if self.clients.iter().all(asked) {
                "no client claims the memory"
            } else {
                "no client claims the memory; those that require invalidation were not asked: the \
                 device cannot be fenced"
            },
        );
    }
}
