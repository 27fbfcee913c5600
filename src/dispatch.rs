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
//! On-demand memory that is not of a dma-buf is the driver's ([`register_on_demand`]).
//!
//! An error of the driver ends the registration, unless the error can mean that the memory cannot
//! be pinned. If no client claims the range, the driver's error stands.
//!
//! Context: process context; may sleep. The caller holds no lock of the core.

mod lookup;

use self::lookup::ClientLookup;
use crate::{
    adapter::Adapter,
    callbacks::Acquired,
    ext::base::pinned::{
        can_pin,
        could_not_pin,
        MemoryKind, //
    },
    policy::{
        named,
        order::{
            clients_first,
            DISPATCH, //
        }, //
    },
    prelude::*,
    region::Region,
    registry, //
};

/// The driver's turn to register memory: only [`Self::take`] and [`Self::take_last`] call the driver.
struct DriverTurn<'a, T> {
    call: &'a dyn Fn() -> Result<T>,
    /// The error of a driver that could not pin the memory, which is not called again.
    error: Option<Error>,
}

impl<'a, T> DriverTurn<'a, T> {
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
    let memory = match req.memory {
        // CAST: `usize` holds every address of this machine; for others the driver has the errno.
        MemoryKind::Unknown => MemoryKind::at(req.start as usize),
        known => known,
    };
    // Do not pin a test page here: `ask_clients` does, after the clients that come before the
    // driver.
    let driver_first = driver_can_pin(&adapter.dev, memory, || false);
    let mut driver = DriverTurn::new(&driver);
    // A process may have only reserved the addresses of named memory: the driver could pin other
    // memory there.
    let may_be_named = memory != MemoryKind::Ordinary && named::may_exist();
    let driver_first = driver_first && !may_be_named;
    if dispatch == Dispatch::DriverOnly || (dispatch == Dispatch::DriverFirst && driver_first) {
        if let Some(result) = driver.take() {
            return result;
        }
    }
    ask_clients(adapter, req, driver, memory)
}

/// Registers on-demand memory with the driver, by calling `driver`: the driver pages the memory in by
/// itself. But no driver can page in the memory of a dma-buf by its address, so the driver imports a
/// dma-buf that is named or mapped at the range, as for any other MR. Context: process context; may
/// sleep.
pub(crate) fn register_on_demand(
    adapter: &Adapter,
    req: &Request<'_>,
    driver: impl FnOnce() -> Result<UserMr>,
) -> Result<UserMr> {
    // CAST: `usize` holds every address of this machine; for others the driver has the errno.
    let ordinary = MemoryKind::at(req.start as usize) == MemoryKind::Ordinary;
    // An MR of all addresses is no range.
    let range = VaRange::new(req.start, req.length).filter(|_| !ordinary);
    let Some(range) = range else {
        return driver();
    };
    let lookup = ClientLookup::new(&[], range, Some(&adapter.dev));
    let found = match lookup.named()? {
        Some((part, name)) => Some((part, Some(name))),
        None => lookup.mapped()?.map(|part| (part, None)),
    };
    let Some((part, name)) = found else {
        return driver();
    };
    let mut req = req.clone();
    req.access = req.access.without_on_demand();
    import(adapter, &req, &lookup, part, name)
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

/// Returns the error for user space of a re-registration without access flags, of an MR on host memory,
/// after the driver has failed with `error`: the driver alone knows the flags, so no other memory can take
/// the place. Context: process context; may sleep.
pub(crate) fn without_access(adapter: &Adapter, req: &Request<'_>, error: Error) -> Error {
    let Some(range) = VaRange::new(req.start, req.length).filter(|_| could_not_pin(error)) else {
        return error;
    };
    let clients = registry::clients();
    let clients = clients.as_deref().map_or(&[][..], |clients| clients);
    ClientLookup::new(clients, range, Some(&adapter.dev)).without_access(error)
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
    let Some(range) = VaRange::new(req.start, req.length) else {
        return driver.take_last();
    };
    let clients = registry::clients();
    let clients = clients.as_deref().map_or(&[][..], |clients| clients);
    let mut lookup = ClientLookup::new(clients, range, Some(&adapter.dev));
    if let Some((part, name)) = lookup.named()? {
        return import(adapter, req, &lookup, part, Some(name)).map(T::from);
    }

    if driver.error.is_none() {
        if let Some(mr) = register(&mut lookup, adapter, req, true)? {
            return Ok(mr.into());
        }
        let try_pin = || can_pin(range.addr(), req.access.is_writable());
        if driver_can_pin(&adapter.dev, memory, try_pin) {
            if let Some(result) = driver.take() {
                return result;
            }
        }
    }
    match (register(&mut lookup, adapter, req, false)?, lookup.unpinned) {
        (Some(mr), _) => return Ok(mr.into()),
        (None, Some(e)) => return Err(e),
        (None, None) => {}
    }
    match lookup.mapped() {
        Ok(Some(part)) => import(adapter, req, &lookup, part, None).map(T::from),
        Ok(None) => driver
            .take_last()
            .inspect_err(|e| lookup.record_unclaimed(Some(*e), adapter.backend.can_fence())),
        Err(e) => Err(driver.error.unwrap_or(e)),
    }
}

/// Registers the memory with the first client that claims the range and serves the device. Asks the
/// clients that come before the driver, or the others. Returns `None` if no client does. Context:
/// process context; may sleep.
fn register(
    lookup: &mut ClientLookup<'_>,
    adapter: &Adapter,
    req: &Request<'_>,
    before_driver: bool,
) -> Result<Option<UserMr>> {
    let hint = adapter.hints.get(req.ucontext());
    let all_first = clients_first();
    for client in lookup.clients {
        let flags = client.flags();
        if (all_first || flags.pinnable) != before_driver
            || flags.requires_invalidation && !adapter.backend.can_fence()
        {
            continue;
        }
        let Some(acquired) = Acquired::ask(client, lookup.range, hint.as_deref()) else {
            continue;
        };
        match Region::register(acquired, &adapter.backend, &adapter.mrs, req, lookup.range) {
            Ok(mr) => return Ok(Some(mr)),
            Err(e) => lookup.reject(client, e)?,
        }
    }
    Ok(None)
}

/// Has the driver import `part`, the memory of `lookup`, which may have a name. Records and logs a
/// failure. Context: may sleep.
fn import(
    adapter: &Adapter,
    req: &Request<'_>,
    lookup: &ClientLookup<'_>,
    part: Part,
    name: Option<named::Watched>,
) -> Result<UserMr> {
    adapter
        .imports
        .register(part.clone(), name, lookup.range, &adapter.backend, req)
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
    let exported = lookup.export(true, |_| true)?;
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
/// Fails with `EACCES` if the part is read-only and `write` is set.
///
/// Context: process context; may sleep.
pub(crate) fn part_for_umem(dev: &Device, range: VaRange, write: bool) -> Result<Option<Part>> {
    let clients = registry::clients();
    let clients = clients.as_deref().map_or(&[][..], |clients| clients);
    let mut lookup = ClientLookup::new(clients, range, Some(dev));
    if let Some((part, _)) = lookup.named()? {
        return lookup.writable(part, write).map(Some);
    }
    let exported = lookup.export(write, |client| !client.flags().requires_invalidation)?;
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
        Some(part) => lookup.writable(part, write).map(Some),
        None => {
            lookup.record_unclaimed(None, true);
            Ok(None)
        }
    }
}

/// Records and logs that the umem of a dma-buf from [`part_for_umem`] failed with `e`. Context: may
/// sleep.
pub(crate) fn umem_failed(dev: &Device, range: VaRange, part: &Part, e: Error) {
    // A client's export logs failures in `region::export_fd`.
    if !part.buffer.is_of_this_module() {
        ClientLookup::new(&[], range, Some(dev)).not_imported(part, e);
    }
}
