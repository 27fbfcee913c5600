// SPDX-License-Identifier: GPL-2.0

//! Dispatch: finds the client, or the dma-buf, that a range belongs to.
//!
//! The interposed verbs call [`register_memory`] and [`register_after_driver`], `/dev/ib_peer_mem`
//! calls [`export_memory`], and the hook on `ib_umem_get_desc()` calls [`part_for_umem`]. A
//! [`ClientLookup`] asks the clients for a range, one after the other.
//!
//! An MR is tried in this order:
//!
//! 1. the driver, which pins host memory: no client sees host memory. Skipped if a client comes
//!    before the driver, or if the page tables show that the memory may belong to a client or have
//!    a name;
//! 2. the part of a dma-buf as which the process has named the range: the driver imports the part;
//! 3. the clients whose memory the CPU can pin; with `order=clients_first` all clients;
//! 4. the driver, if not called yet and possibly able to pin the memory;
//! 5. the other clients;
//! 6. the part of a dma-buf of another exporter that is mapped at the range: the driver imports the
//!    part;
//! 7. the driver, if not called yet.
//!
//! An error of the driver ends the registration, unless the error can mean that the memory cannot
//! be pinned. If no client claims the range, the driver's error stands.
//!
//! Context: process context; may sleep. The caller holds no lock of the core.

use crate::{
    adapter::Adapter,
    adapters,
    backend::RegError,
    callbacks::{
        Acquired,
        Direction, //
    },
    client::{
        Client,
        ClientRef, //
    },
    ext::{
        base::{
            compat::eopnotsupp,
            pinned::{
                can_pin,
                could_not_pin,
                untagged,
                MemoryKind, //
            }, //
        },
        rdma::{
            dma_buf::{
                mapped,
                Export,
                Part, //
            },
            Device,
            Dispatch,
            Request,
            UserMr, //
        }, //
    },
    named,
    order::{
        Order,
        DISPATCH, //
    },
    pr_warn_limited,
    range::VaRange,
    region::{
        Importers,
        Region, //
    },
    registry, //
    reject_log,
};
use kernel::{
    prelude::*,
    sync::Arc, //
};

/// Why a client that requires invalidation does not serve a umem, and the remedy.
const UNFENCED: &str = "the driver pins the memory (queue, doorbell record, DEVX umem or MR) and \
    does not release it on invalidation, which the client requires; use memory of a client that does not";

/// One pass over the clients, to find the client that serves a range.
struct ClientLookup<'a> {
    clients: &'a [Arc<Client>],
    range: VaRange,
    /// The device that the memory is for, if known.
    device: Option<&'a Device>,
    /// The error of the first client that claimed the range but could not pin it.
    unpinned: Option<Error>,
}

impl<'a> ClientLookup<'a> {
    /// Begins a lookup.
    fn new(clients: &'a [Arc<Client>], range: VaRange, device: Option<&'a Device>) -> Self {
        Self {
            clients,
            range,
            device,
            unpinned: None,
        }
    }

    /// Asks the clients that `admits` accepts, in the order of registration. Returns the result of
    /// `make` for the first client that serves the range, or `None` if no client does. Skips a
    /// client that cannot pin the range or cannot serve the device. Fails with any other error of
    /// `make`. Context: may sleep.
    fn ask<T>(
        &mut self,
        admits: impl Fn(&Client) -> bool,
        acquire: impl Fn(ClientRef) -> Option<Acquired>,
        mut make: impl FnMut(Acquired) -> Result<T, RegError>,
    ) -> Result<Option<T>> {
        for client in self.clients.iter().filter(|client| admits(client)) {
            let Some(acquired) = client.get_ref().and_then(&acquire) else {
                continue;
            };
            match make(acquired) {
                Ok(made) => return Ok(Some(made)),
                Err(RegError::Error(e)) => {
                    self.record(Some(client), Some(e), "the memory could not be registered");
                    return Err(e);
                }
                Err(RegError::NotPinned(e)) => {
                    self.record(Some(client), Some(e), "the client could not pin the memory");
                    self.unpinned.get_or_insert(e);
                }
                Err(RegError::Skip(cause)) => self.cannot_serve(client, None, cause),
                Err(RegError::Refused(cause)) => {
                    self.cannot_serve(client, Some(eopnotsupp()), cause);
                    return Err(eopnotsupp());
                }
            }
        }
        Ok(None)
    }

    /// Exports the range with the first client that `admits` accepts and that serves the range. The
    /// importer must be the device that the memory is for, or the device of any adapter if the
    /// device is not known. Fails with the error of the first client that could not pin the range,
    /// if no other client serves the range. Context: may sleep.
    fn export(
        &mut self,
        direction: Direction,
        admits: impl Fn(&Client) -> bool,
    ) -> Result<Option<Export>> {
        let range = self.range;
        let only = self.device.and_then(Device::dma_device);
        let device = self.device.map(Device::name);
        let importers = || match only {
            Some(dev) => Importers::Only(dev.into()),
            None => Importers::Which(adapters::trust_of),
        };
        let exported = self.ask(
            admits,
            |client| Acquired::ask(client, range, None),
            |acquired| Region::export(acquired, range, direction, importers(), device),
        )?;
        match (exported, self.unpinned) {
            (None, Some(e)) => Err(e),
            (exported, _) => Ok(exported),
        }
    }

    /// Records and logs the clients that claim the range and require invalidation: a umem cannot be
    /// invalidated. Returns whether any client does. Context: may sleep.
    fn reject_unfenced(&mut self) -> Result<bool> {
        let range = self.range;
        let mut claimed = false;
        self.ask(
            |client| client.flags().requires_invalidation,
            |client| Acquired::ask(client, range, None),
            |_| {
                claimed = true;
                Err::<(), _>(RegError::Skip(UNFENCED))
            },
        )?;
        Ok(claimed)
    }

    /// Records and logs that `client` cannot serve the device. Context: may sleep.
    fn cannot_serve(&self, client: &Client, error: Option<Error>, cause: &'static str) {
        self.record(Some(client), error, cause);
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

    /// Records a rejection for debugfs. Context: may sleep.
    fn record(&self, client: Option<&Client>, error: Option<Error>, cause: &'static str) {
        reject_log::record(reject_log::Rejection {
            range: self.range,
            device: self.device.map(Device::name).as_deref(),
            client: client.map(Client::name),
            error,
            cause,
        });
    }

    /// Returns the part of a dma-buf as which the process has named the range, or `None` if no part
    /// of the range has a name. Fails with `EFAULT` if the range is not one part of one dma-buf.
    /// Context: may sleep.
    fn named(&self) -> Result<Option<Part>> {
        named::find(self.range).inspect_err(|e| {
            self.record(
                None,
                Some(*e),
                "the range is not named as one part of one dma-buf",
            )
        })
    }

    /// Returns the part of a dma-buf that is mapped at the range, or `None` if no dma-buf is mapped
    /// there. Fails with `EFAULT` if the range is not one part of one dma-buf. Context: may sleep.
    fn mapped(&self) -> Result<Option<Part>> {
        mapped(self.range.addr(), self.range.len()).inspect_err(|e| {
            self.record(
                None,
                Some(*e),
                "the range is not mapped from one part of one dma-buf",
            )
        })
    }

    /// Returns `part`. Fails with `EACCES` if the part is read-only and `direction` is `Write`.
    /// Context: may sleep.
    fn writable(&self, part: Part, direction: Direction) -> Result<Part> {
        match part.permits(direction == Direction::Write) {
            Ok(()) => Ok(part),
            Err(e) => Err(self.not_imported(&part, e)),
        }
    }

    /// Records and logs that `part` could not be imported. Returns `e`. Context: may sleep.
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

    /// Records that no client claims the memory. `can_fence`: whether MRs of the device can be
    /// fenced. Context: may sleep.
    fn record_unclaimed(&self, error: Option<Error>, can_fence: bool) {
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

/// The driver's turn to register memory: only [`Self::take`] and [`Self::take_last`] call the driver.
struct DriverTurn<'a, T> {
    call: &'a dyn Fn() -> Result<T>,
    /// The error of a driver that could not pin the memory, which is not called again.
    error: Option<Error>,
}

impl<'a, T> DriverTurn<'a, T> {
    /// Creates the turn of a driver that has not been called.
    fn new(call: &'a dyn Fn() -> Result<T>) -> Self {
        Self { call, error: None }
    }

    /// Calls the driver before others are asked. Returns `None` if the driver could not pin the memory, so
    /// that others are to be asked. Context: process context; may sleep.
    fn take(&mut self) -> Option<Result<T>> {
        match (self.call)() {
            Err(e) if could_not_pin(e) => {
                self.error = Some(e);
                None
            }
            result => Some(result),
        }
    }

    /// Returns the driver's result after all others were asked. Context: process context; may sleep.
    fn take_last(self) -> Result<T> {
        match self.error {
            Some(e) => Err(e),
            None => (self.call)(),
        }
    }
}

/// Registers memory with the driver, by calling `driver`, or with the client or the dma-buf that
/// the memory belongs to. Context: process context; may sleep.
///
/// Registrations of host memory must scale with the number of CPUs: if the driver registers the
/// memory, this function writes no memory that CPUs share.
pub(crate) fn register_memory<T: From<UserMr>>(
    adapter: &Adapter,
    req: &Request<'_>,
    driver: impl Fn() -> Result<T>,
) -> Result<T> {
    let dispatch = DISPATCH.get();
    // CAST: `usize` holds every address of this machine; for others the driver has the errno.
    let memory = MemoryKind::at(req.start as usize);
    // Do not pin a test page here: `ask_clients` does, after the clients that come before the
    // driver.
    let driver_first = driver_can_pin(adapter.device(), memory, || false);
    let mut driver = DriverTurn::new(&driver);
    // A process may have only reserved the addresses of named memory: the driver could pin other
    // memory there.
    let may_be_named = memory != MemoryKind::Ordinary && named::exist();
    let driver_first = driver_first && !may_be_named;
    if dispatch == Dispatch::DriverOnly || (dispatch == Dispatch::DriverFirst && driver_first) {
        if let Some(result) = driver.take() {
            return result;
        }
    }
    ask_clients(adapter, req, driver, memory)
}

/// Registers memory that looked ordinary, after the driver has failed with `error`. Fails with
/// `error` if the error cannot mean that the memory cannot be pinned. Context: process context; may
/// sleep.
pub(crate) fn register_after_driver(
    adapter: &Adapter,
    req: &Request<'_>,
    error: Error,
) -> Result<UserMr> {
    if !could_not_pin(error) {
        return Err(error);
    }
    let driver = DriverTurn {
        call: &|| Err(error),
        error: Some(error),
    };
    ask_clients(adapter, req, driver, MemoryKind::Ordinary)
}

/// Returns whether the driver may be able to pin the memory, and so is called before the clients.
/// `try_pin` tries to pin the first page. Context: that of `try_pin`.
fn driver_can_pin(dev: &Device, memory: MemoryKind, try_pin: impl FnOnce() -> bool) -> bool {
    match memory {
        MemoryKind::Ordinary => true,
        MemoryKind::Unknown => !dev.quirks().logs_failed_pins || try_pin(),
        MemoryKind::Device => false,
    }
}

/// Asks the clients, and in turn the driver: last for device memory, which drivers cannot pin, and
/// not at all if the driver has already failed. Context: process context; may sleep.
#[cold]
fn ask_clients<T: From<UserMr>>(
    adapter: &Adapter,
    req: &Request<'_>,
    mut driver: DriverTurn<'_, T>,
    memory: MemoryKind,
) -> Result<T> {
    // The driver has the errno for a range that is empty or wraps.
    let Some(range) = VaRange::new(untagged(req.start), req.length) else {
        return driver.take_last();
    };
    let clients = registry::clients();
    let clients = clients.as_deref().map_or(&[][..], |clients| clients);
    let hint = adapter.hints().get(req.ucontext());
    let all_first = Order::get() == Order::ClientsFirst;
    let mut lookup = ClientLookup::new(clients, range, Some(adapter.device()));
    if let Some(part) = lookup.named()? {
        return import(adapter, req, &lookup, part).map(T::from);
    }
    let ask = |lookup: &mut ClientLookup<'_>, before_driver: bool| {
        lookup.ask(
            |client| {
                (all_first || client.flags().pinnable) == before_driver
                    && (!client.flags().requires_invalidation || adapter.backend().can_fence())
            },
            |client| Acquired::ask(client, range, hint.as_deref()),
            |acquired| Region::register(acquired, adapter.backend(), adapter.mrs(), req, range),
        )
    };

    if driver.error.is_none() {
        if let Some(mr) = ask(&mut lookup, true)? {
            return Ok(mr.into());
        }
        let try_pin = || can_pin(range.addr(), Direction::of(req.access) == Direction::Write);
        if driver_can_pin(adapter.device(), memory, try_pin) {
            if let Some(result) = driver.take() {
                return result;
            }
        }
    }
    match (ask(&mut lookup, false)?, lookup.unpinned) {
        (Some(mr), _) => return Ok(mr.into()),
        (None, Some(e)) => return Err(e),
        (None, None) => {}
    }
    match lookup.mapped() {
        Ok(Some(part)) => import(adapter, req, &lookup, part).map(T::from),
        Ok(None) => driver
            .take_last()
            .inspect_err(|e| lookup.record_unclaimed(Some(*e), adapter.backend().can_fence())),
        Err(e) => Err(driver.error.unwrap_or(e)),
    }
}

/// Has the driver import `part`, the memory of `lookup`. Records and logs a failure. Context: may
/// sleep.
fn import(
    adapter: &Adapter,
    req: &Request<'_>,
    lookup: &ClientLookup<'_>,
    part: Part,
) -> Result<UserMr> {
    adapter
        .imports()
        .register(part.clone(), lookup.range, adapter.backend(), req)
        .map_err(|e| lookup.not_imported(&part, e))
}

/// Exports memory of the calling process as a dma-buf, with the first client that claims the range.
/// Returns `None` if no client claims the range. Each importer is checked when the importer
/// attaches. Context: process context; may sleep.
pub(crate) fn export_memory(range: VaRange) -> Result<Option<Export>> {
    let Some(clients) = registry::clients() else {
        return Ok(None);
    };
    let mut lookup = ClientLookup::new(&clients, range, None);
    // A dma-buf cannot be read-only for importers.
    let exported = lookup.export(Direction::Write, |_| true)?;
    if exported.is_none() {
        lookup.record_unclaimed(None, true);
    }
    Ok(exported)
}

/// Finds a dma-buf for a umem of memory that `dev` could not pin. Returns, in this order: the part
/// of a dma-buf as which the process has named the range; an export by the first client that claims
/// the range; the part of a dma-buf that is mapped at the range. Otherwise returns `None`.
///
/// Umems cannot be fenced, so clients that require invalidation serve no umems. If the range
/// belongs to a client that requires invalidation, logs the client and returns `None`.
///
/// Fails with `EACCES` if the part is read-only and `direction` is `Write`.
///
/// Context: process context; may sleep.
pub(crate) fn part_for_umem(
    dev: &Device,
    range: VaRange,
    direction: Direction,
) -> Result<Option<Part>> {
    let clients = registry::clients();
    let clients = clients.as_deref().map_or(&[][..], |clients| clients);
    let mut lookup = ClientLookup::new(clients, range, Some(dev));
    if let Some(part) = lookup.named()? {
        return lookup.writable(part, direction).map(Some);
    }
    let exported = lookup.export(direction, |client| !client.flags().requires_invalidation)?;
    if let Some(export) = exported {
        return Ok(Some(Part {
            buffer: export.buffer(),
            offset: range.page_offset() as u64,
            writable: true,
        }));
    }
    if lookup.reject_unfenced()? {
        return Ok(None);
    }
    match lookup.mapped()? {
        Some(part) => lookup.writable(part, direction).map(Some),
        None => {
            lookup.record_unclaimed(None, true);
            Ok(None)
        }
    }
}

/// Records and logs that the umem of a dma-buf from [`part_for_umem`] failed with `e`. Context: may
/// sleep.
pub(crate) fn umem_failed(dev: &Device, range: VaRange, part: &Part, e: Error) {
    // A client's export logs failures in `region::export`.
    if !part.buffer.is_of_this_module() {
        ClientLookup::new(&[], range, Some(dev)).not_imported(part, e);
    }
}
