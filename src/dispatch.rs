// SPDX-License-Identifier: GPL-2.0

//! Dispatch: asks the clients, one after the other, which of them claims a range.
//!
//! The driver comes first: it pins host memory, and no client sees that. If it cannot pin the
//! memory the clients are asked, and if none claims the range the driver's error stands. Clients
//! whose memory can be pinned by the CPU are asked before the driver, and with
//! `order=clients_first` all are. Memory that no client claims may be a mapping of a dma-buf of another
//! exporter: the driver imports that. Memory that its process has named as a part of a dma-buf comes
//! before all of them, unless it looks ordinary.

use crate::{
    adapter::Adapter,
    adapters,
    backend::Refusal,
    callbacks::{
        Acquired,
        Intent, //
    },
    client::{
        Client,
        Use, //
    },
    ext::{
        compat::eopnotsupp,
        dma_buf::{
            mapped,
            Export,
            Part, //
        },
        pinned::{
            can_pin,
            could_not_pin,
            untagged,
            MemoryKind, //
        },
        rdma::{
            Asked,
            Device,
            Request,
            UserMr, //
        }, //
    },
    named,
    order::{
        Order,
        ASKED, //
    },
    pr_warn_limited,
    range::VaRange,
    refusals,
    region::{
        Importers,
        Region, //
    },
    registry, //
};
use kernel::{
    prelude::*,
    sync::Arc, //
};

/// Why a client that requires invalidation serves no umem, and the remedy.
const UNFENCED: &str = "the driver pins the memory (queue, doorbell record, DEVX umem or MR) and \
    does not release it on invalidation, which the client requires; use memory of a client that does not";

/// A pass over the clients that asks them for a range.
struct Round<'a> {
    clients: &'a [Arc<Client>],
    range: VaRange,
    /// The device that the memory is for, if that is known.
    device: Option<&'a Device>,
    /// The error of the first client that claimed the range but could not pin it.
    unpinned: Option<Error>,
}

impl<'a> Round<'a> {
    /// Begins a round.
    fn new(clients: &'a [Arc<Client>], range: VaRange, device: Option<&'a Device>) -> Self {
        Self {
            clients,
            range,
            device,
            unpinned: None,
        }
    }

    /// Asks the clients that `admits` accepts, in the order of registration. Returns the result of
    /// `make` for the first client that can serve the range, or `None` if there is no such client.
    /// Context: may sleep.
    fn ask<T>(
        &mut self,
        admits: impl Fn(&Client) -> bool,
        acquire: impl Fn(Use) -> Option<Acquired>,
        mut make: impl FnMut(Acquired) -> Result<T, Refusal>,
    ) -> Result<Option<T>> {
        for client in self.clients.iter().filter(|client| admits(client)) {
            let Some(acquired) = client.enter().and_then(&acquire) else {
                continue;
            };
            match make(acquired) {
                Ok(made) => return Ok(Some(made)),
                Err(Refusal::Error(e)) => {
                    self.record(Some(client), Some(e), "the memory could not be registered");
                    return Err(e);
                }
                Err(Refusal::NotPinned(e)) => {
                    self.record(Some(client), Some(e), "the client could not pin the memory");
                    self.unpinned.get_or_insert(e);
                }
                Err(Refusal::Skip(cause)) => {
                    self.record(Some(client), None, cause);
                    pr_warn_limited!(
                        "client {}: cannot serve {}: {}\n",
                        client.name(),
                        self.device
                            .map(Device::name)
                            .as_deref()
                            .unwrap_or("an importer"),
                        cause
                    );
                }
            }
        }
        Ok(None)
    }

    /// Exports the range with the first client that `admits` accepts and that claims it, for the device
    /// that the memory is for, or for those of all adapters. Context: may sleep.
    fn export(
        &mut self,
        intent: Intent,
        admits: impl Fn(&Client) -> bool,
    ) -> Result<Option<Export>> {
        let range = self.range;
        let only = self.device.and_then(Device::dma_device);
        let importers = || match only {
            Some(dev) => Importers::Only(dev.into()),
            None => Importers::Which(adapters::trust_of),
        };
        let exported = self.ask(
            admits,
            |entered| Acquired::ask(entered, range, None),
            |acquired| Region::export(acquired, range, intent, importers()),
        )?;
        match (exported, self.unpinned) {
            (None, Some(e)) => Err(e),
            (exported, _) => Ok(exported),
        }
    }

    /// Refuses the clients that claim the range and require invalidation, which a umem does not
    /// have. Returns whether there is one. Context: may sleep.
    fn refuse_unfenced(&mut self) -> Result<bool> {
        let range = self.range;
        let mut claimed = false;
        self.ask(
            |client| client.traits().requires_invalidation,
            |entered| Acquired::ask(entered, range, None),
            |_| {
                claimed = true;
                Err::<(), _>(Refusal::Skip(UNFENCED))
            },
        )?;
        Ok(claimed)
    }

    /// Keeps a refusal for debugfs. Context: may sleep.
    fn record(&self, client: Option<&Client>, error: Option<Error>, cause: &'static str) {
        refusals::record(refusals::Refusal {
            range: self.range,
            device: self.device.map(Device::name).as_deref(),
            client: client.map(Client::name),
            error,
            cause,
        });
    }

    /// Returns the part of a dma-buf that the process has named at the range, if it has. Fails with
    /// `EFAULT` if only a part of the range has a name. Context: may sleep.
    fn named(&self) -> Result<Option<Part>> {
        named::find(self.range).inspect_err(|e| {
            self.record(
                None,
                Some(*e),
                "the range is not named as one part of one dma-buf",
            )
        })
    }

    /// Returns the part of a dma-buf that is mapped at the range, if one is. Fails with `EFAULT` if only a
    /// part of the range is in the dma-buf. Context: may sleep.
    fn mapped(&self) -> Result<Option<Part>> {
        mapped(self.range.addr(), self.range.len()).inspect_err(|e| {
            self.record(
                None,
                Some(*e),
                "the range is not mapped from one part of one dma-buf",
            )
        })
    }

    /// Returns `part`, or `EACCES` if it is to be written and must not be. Context: may sleep.
    fn writable(&self, part: Part, intent: Intent) -> Result<Part> {
        match part.permits(intent == Intent::Write) {
            Ok(()) => Ok(part),
            Err(e) => Err(self.not_imported(&part, e)),
        }
    }

    /// Records and logs that `part` could not be imported. Returns the error.
    fn not_imported(&self, part: &Part, e: Error) -> Error {
        let cause = if e == EACCES {
            "the mapping or the descriptor is read-only; the MR would be written to"
        } else if e == eopnotsupp() {
            "the driver or the exporter does not support it; use an adapter whose driver imports dma-bufs"
        } else {
            "the driver or the exporter refuses"
        };
        self.record(None, Some(e), cause);
        pr_warn_limited!(
            "{}: cannot import {} bytes of a dma-buf of {}: {:?} ({})\n",
            self.device
                .map(Device::name)
                .as_deref()
                .unwrap_or("an importer"),
            self.range.len(),
            part.buffer.exporter(),
            e,
            cause
        );
        e
    }

    /// Keeps the refusal of memory that no client claims. `can_fence`: whether MRs of the device can
    /// be fenced. Context: may sleep.
    fn record_unclaimed(&self, error: Option<Error>, can_fence: bool) {
        let asked = |client: &Arc<Client>| can_fence || !client.traits().requires_invalidation;
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

/// Registers memory with the driver, by `driver`, or with the client that claims it. Context: may
/// sleep.
///
/// For memory that the driver registers this writes no memory that CPUs share.
pub(crate) fn register_memory<T: From<UserMr>>(
    adapter: &Adapter,
    req: &Request<'_>,
    driver: impl Fn() -> Result<T>,
) -> Result<T> {
    let asked = ASKED.get();
    // CAST: Addresses of this machine; the driver has the errno for others.
    let memory = MemoryKind::at(req.start as usize);
    // The first page is not tried here: that is for `ask_clients`, after the clients that come first.
    let driver_first = driver_can_pin(adapter.device(), memory, || false);
    let mut error = None;
    // The driver could pin other memory at addresses that are reserved for named memory.
    let may_be_named = memory != MemoryKind::Ordinary && named::exist();
    let driver_first = driver_first && !may_be_named;
    if asked == Asked::Never || (asked == Asked::AfterDriver && driver_first) {
        match driver() {
            Err(e) if could_not_pin(e) => error = Some(e),
            result => return result,
        }
    }
    ask_clients(adapter, req, driver, memory, error)
}

/// Registers memory that looked ordinary, but which the driver could not register: it failed with
/// `error`. Context: may sleep.
pub(crate) fn register_after_driver(
    adapter: &Adapter,
    req: &Request<'_>,
    error: Error,
) -> Result<UserMr> {
    if !could_not_pin(error) {
        return Err(error);
    }
    let driver = || Err(error);
    ask_clients(adapter, req, driver, MemoryKind::Ordinary, Some(error))
}

/// Returns whether the driver may be able to pin the memory, so that it is called first. `try_pin`
/// tries to pin the first page. Context: that of `try_pin`.
fn driver_can_pin(dev: &Device, memory: MemoryKind, try_pin: impl FnOnce() -> bool) -> bool {
    match memory {
        MemoryKind::Ordinary => true,
        // rdma_rxe logs every failure as an error, so it must not fail for memory that clients may
        // claim.
        MemoryKind::Unknown => !dev.is_rxe() || try_pin(),
        MemoryKind::Device => false,
    }
}

/// Asks the clients, and the driver in its turn: last for memory of devices, which it cannot pin, and
/// not at all if it has failed with `error` already. Context: may sleep.
#[cold]
fn ask_clients<T: From<UserMr>>(
    adapter: &Adapter,
    req: &Request<'_>,
    driver: impl Fn() -> Result<T>,
    memory: MemoryKind,
    mut error: Option<Error>,
) -> Result<T> {
    let unclaimed = |error: Option<Error>| error.map_or_else(&driver, Err);
    // The driver has the errno for a range that is empty or wraps.
    let Some(range) = VaRange::new(untagged(req.start), req.length) else {
        return unclaimed(error);
    };
    let clients = registry::clients();
    let clients = clients.as_deref().map_or(&[][..], |clients| clients);
    let hint = adapter.hints().get(req.ucontext());
    let all_first = Order::get() == Order::ClientsFirst;
    let mut round = Round::new(clients, range, Some(adapter.device()));
    if let Some(part) = round.named()? {
        return import(adapter, req, &round, part).map(T::from);
    }
    let ask = |round: &mut Round<'_>, before_driver: bool| {
        round.ask(
            |client| {
                (all_first || client.traits().pinnable) == before_driver
                    && (!client.traits().requires_invalidation || adapter.backend().can_fence())
            },
            |entered| Acquired::ask(entered, range, hint.as_deref()),
            |acquired| Region::register(acquired, adapter.backend(), adapter.mrs(), req, range),
        )
    };

    if error.is_none() {
        if let Some(mr) = ask(&mut round, true)? {
            return Ok(mr.into());
        }
        let try_pin = || can_pin(range.addr(), Intent::of(req.access) == Intent::Write);
        if driver_can_pin(adapter.device(), memory, try_pin) {
            match driver() {
                Err(e) if could_not_pin(e) => error = Some(e),
                result => return result,
            }
        }
    }
    match (ask(&mut round, false)?, round.unpinned) {
        (Some(mr), _) => return Ok(mr.into()),
        (None, Some(e)) => return Err(e),
        (None, None) => {}
    }
    match round.mapped() {
        Ok(Some(part)) => import(adapter, req, &round, part).map(T::from),
        Ok(None) => unclaimed(error)
            .inspect_err(|e| round.record_unclaimed(Some(*e), adapter.backend().can_fence())),
        Err(e) => unclaimed(error.or(Some(e))),
    }
}

/// Registers `part`, which is the memory of the round. Context: may sleep.
fn import(adapter: &Adapter, req: &Request<'_>, round: &Round<'_>, part: Part) -> Result<UserMr> {
    adapter
        .imports()
        .register(part.clone(), round.range, adapter.backend(), req)
        .map_err(|e| round.not_imported(&part, e))
}

/// Exports memory of the calling process as a dma-buf, with the first client that claims it.
/// Returns `None` if no client claims it. Which devices can import the dma-buf shows when they do.
/// Context: may sleep.
pub(crate) fn export_memory(range: VaRange) -> Result<Option<Export>> {
    let Some(clients) = registry::clients() else {
        return Ok(None);
    };
    let mut round = Round::new(&clients, range, None);
    // A dma-buf cannot forbid its importers to write.
    let exported = round.export(Intent::Write, |_| true)?;
    if exported.is_none() {
        round.record_unclaimed(None, true);
    }
    Ok(exported)
}

/// Returns memory that `dev` could not pin as a part of a dma-buf, for a umem, which cannot be fenced:
/// memory that its process has named, memory of the first client that claims it, which is exported, or
/// a mapping of a dma-buf. Returns
/// `None` if it is neither. A client that claims the memory and requires invalidation is logged.
/// Context: may sleep.
pub(crate) fn part_for_umem(dev: &Device, range: VaRange, intent: Intent) -> Result<Option<Part>> {
    let clients = registry::clients();
    let clients = clients.as_deref().map_or(&[][..], |clients| clients);
    let mut round = Round::new(clients, range, Some(dev));
    if let Some(part) = round.named()? {
        return round.writable(part, intent).map(Some);
    }
    let exported = round.export(intent, |client| !client.traits().requires_invalidation)?;
    if let Some(export) = exported {
        return Ok(Some(Part {
            buffer: export.buffer(),
            offset: range.page_offset() as u64,
            writable: true,
        }));
    }
    if round.refuse_unfenced()? {
        return Ok(None);
    }
    match round.mapped()? {
        Some(part) => round.writable(part, intent).map(Some),
        None => {
            round.record_unclaimed(None, true);
            Ok(None)
        }
    }
}

/// Records and logs that the umem of a dma-buf from [`part_for_umem`] failed with `e`. Context: may
/// sleep.
pub(crate) fn umem_failed(dev: &Device, range: VaRange, part: &Part, e: Error) {
    // Exports of clients have lines of their own.
    if !part.buffer.is_of_this_module() {
        Round::new(&[], range, Some(dev)).not_imported(part, e);
    }
}
