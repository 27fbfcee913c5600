// SPDX-License-Identifier: GPL-2.0

//! A region: one acquired range, from `acquire` to `release`.
//!
//! The dispatch creates a [`Region`], with an MR or as an exported dma-buf. The hooks find the
//! region by the MR, as a `Registered`; the client and the registry find the region by the ticket,
//! as a `Revocable`. [`Lifecycle`] orders the steps of the tasks, and this module performs the
//! steps. Resources are torn down on drop, in field order.
//!
//! - [`resources`]: the resources of a region, until the teardown;
//! - [`register`]: the MRs on a region; [`export_fd`]: a region that is exported as a dma-buf;
//! - [`revoke`]: the end of a region before the end of the MR.
//!
//! Context: may sleep. The spin locks of a region are leaves, and no lock is held across a callback
//! of the client or an operation of the driver.

mod export_fd;
mod register;
mod resources;
mod revoke;

pub(crate) use self::{
    export_fd::Importers,
    revoke::prepare_all, //
};

use self::{
    register::Mrs,
    resources::{
        Attached,
        Resources, //
    },
};
use crate::{
    backend::{
        Failed,
        RegError, //
    },
    callbacks::{
        Acquired,
        ClientPages,
        Direction, //
    },
    client::Client,
    data::{
        index::Reservation,
        lifecycle::Lifecycle,
        range::VaRange, //
    },
    ext::{
        rdma::Name,
        task::trace::{
            Event,
            Point,
            Timer, //
        }, //
    },
    records::{
        listing::{
            Kind,
            Origin,
            Row, //
        },
        stats::CountedMr, //
    },
    registered, //
};
use kernel::{
    fmt, new_spinlock,
    prelude::*,
    sync::{
        atomic::Atomic,
        Arc,
        SetOnce,
        SpinLock, //
    },
};

/// A range that a client has acquired, and the access of devices to the memory.
///
/// # Invariants
///
/// - `acquired` is taken, and so released, once, after the resources in `life` are torn down.
/// - `mrs` is set before a region with an MR is live, and cleared when the device is removed. Before a
///   revocation it has one entry for each `Attached`, afterwards the dead MRs that the user has not
///   deregistered.
#[pin_data]
pub(crate) struct Region {
    // Dropped in this order: the resources before the acquired range.
    #[pin]
    life: Lifecycle<KBox<Resources>>,
    #[pin]
    acquired: SpinLock<Option<Acquired>>,
    client: Arc<Client>,
    ticket: u32,
    range: VaRange,
    /// The MRs of the device, by local key. `None`, as `mrs`, for a region that is exported as a
    /// dma-buf.
    index: Option<Arc<registered::MrIndex>>,
    origin: Origin,
    kind: Kind,
    /// The name of the device that a dma-buf of the region is for, once known.
    importer: SetOnce<KBox<Name>>,
    #[pin]
    mrs: SpinLock<Option<Mrs>>,
    /// The number of times that drivers have detached since the region was deferred to the drivers.
    detached: Atomic<u32>,
}

impl Region {
    /// Pins acquired memory, and has `make` give a device access to the memory. On success the
    /// region is live. The region is also live if `make` fails and leaves a device with access: the
    /// memory stays pinned until the driver detaches. `kind`, `index`: see the fields. Context: process
    /// context; may sleep.
    fn build<T>(
        acquired: Acquired,
        range: VaRange,
        direction: Direction,
        kind: Kind,
        index: Option<&Arc<registered::MrIndex>>,
        make: impl FnOnce(&Arc<Self>, &mut ClientPages) -> Result<(T, Attached), Failed>,
    ) -> Result<T, RegError> {
        let resources = Resources::new(acquired.pages(range));
        let mut resources = KBox::init(resources, GFP_KERNEL_ACCOUNT)?;
        let region = Self::new(acquired.client(), range, kind, index)?;
        let made = match region.pin(resources.pages(), direction) {
            Ok(()) => make(&region, resources.pages()),
            Err(e) => Err(e.into()),
        };
        // The task that ends the region calls `release`. From here on another task can end the
        // region.
        *region.acquired.lock() = Some(acquired);
        match made {
            Ok((made, attached)) => {
                resources.set_live(attached, region.count());
                region.trace(
                    Timer::since(Point::Register, region.origin.start()),
                    None,
                    Ok(()),
                );
                region.life.registered(resources);
                Ok(made)
            }
            Err(Failed { error, left }) => {
                match left {
                    Some(attachment) => {
                        resources.set_live(Attached { mr: 0, attachment }, region.count());
                        resources.defer_to_dereg(&region);
                        region.life.registered(resources);
                        region.end_if_detached();
                    }
                    None => region.abandon(resources),
                }
                Err(error)
            }
        }
    }

    /// Creates a region, and enters the region under a new ticket of the client. Context: may
    /// sleep.
    fn new(
        client: &Arc<Client>,
        range: VaRange,
        kind: Kind,
        index: Option<&Arc<registered::MrIndex>>,
    ) -> Result<Arc<Self>> {
        let reservation = Reservation::new()?;
        let ticket = client.issue_ticket();
        let region = Arc::pin_init(
            pin_init!(Self {
                client: client.clone(),
                ticket,
                range,
                index: index.cloned(),
                origin: Origin::current(),
                kind,
                importer: SetOnce::new(),
                acquired <- new_spinlock!(None, "Region::acquired"),
                mrs <- new_spinlock!(None, "Region::mrs"),
                life <- Lifecycle::new(),
                detached: Atomic::new(0),
            }),
            GFP_KERNEL_ACCOUNT,
        )?;
        client.insert(reservation, ticket, region.clone());
        Ok(region)
    }

    /// Pins the memory. Fails with `ENODEV` if the client is being unregistered, with
    /// [`RegError::Draining`] if the client is being drained, and with the error of `get_pages`.
    /// Context: process context; may sleep.
    fn pin(&self, pages: &mut ClientPages, direction: Direction) -> Result<(), RegError> {
        // An unregistration closes the client, and then revokes all regions of the client. So
        // either the unregistration finds this region, or this task sees the closed client.
        if self.client.is_closed() {
            return Err(RegError::NotPinned(ENODEV));
        }
        // The region is in the list of regions by now, and the lock of the list orders accesses. So
        // a task that sets the switch, and then reads the list, either finds this region, or this
        // task sees the switch.
        if self.client.drain().is_on() {
            return Err(RegError::Draining);
        }
        pages
            .pin(direction, self.ticket)
            .map_err(RegError::NotPinned)
    }

    /// Counts the MR in the client's counters.
    fn count(&self) -> CountedMr {
        CountedMr::new(
            self.client.stats().clone(),
            self.range.pages() as u64,
            self.range.len() as u64,
        )
    }

    /// Ends a failed registration. Context: may sleep.
    fn abandon(&self, mut resources: KBox<Resources>) {
        if resources.pages().is_pinned() {
            self.tear_down(self.life.abandon(resources));
        } else {
            self.life.abandon_empty();
            drop(resources);
        }
        self.release();
    }

    /// Tears down resources, unless a revoker has.
    fn tear_down(&self, resources: Option<KBox<Resources>>) {
        if resources.is_some() {
            drop(resources);
            self.life.torn_down();
        }
    }

    /// Keeps the name of the device that a dma-buf of the region is for. Most regions have none, so the
    /// name is not in the region. Without memory the lists do not name the device. Context: may
    /// sleep.
    fn set_importer(&self, name: Name) {
        if self.importer.as_ref().is_some() {
            return;
        }
        if let Ok(name) = KBox::new(name, GFP_KERNEL_ACCOUNT) {
            self.importer.populate(name);
        }
    }

    /// Returns the name that [`Self::set_importer`] has kept.
    fn importer(&self) -> Option<Name> {
        self.importer.as_ref().map(|name| **name)
    }

    /// Records an event that `timer` has measured, of the MR with the key `lkey` or of any MR.
    fn trace(&self, timer: Timer, lkey: Option<u32>, result: Result) {
        if !timer.is_on() {
            return;
        }
        let (device, lkeys) = self.device_and_lkeys();
        let device = device.or(self.importer());
        timer.end(&Event {
            client: Some(self.client.name()),
            device: device.as_deref(),
            lkey: lkey.or(lkeys[0]).or(lkeys[1]).unwrap_or(0),
            addr: self.range.addr() as u64,
            length: self.range.len() as u64,
            pid: self.origin.pid(),
            result,
            cause: "",
        });
    }

    /// See [`Revocable::print`](crate::client::Revocable::print).
    fn print(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(state) = self.life.word() else {
            return Ok(());
        };
        let (device, lkeys) = self.device_and_lkeys();
        let print = |lkey| {
            let row = Row {
                origin: &self.origin,
                kind: self.kind,
                owner: self.client.name(),
                device: device.or(self.importer()),
                lkey,
                range: self.range,
                state,
            };
            row.print(f)
        };
        match lkeys {
            [None, None] => [None].into_iter().try_for_each(print),
            lkeys => lkeys.into_iter().flatten().map(Some).try_for_each(print),
        }
    }

    /// Retires the ticket, and calls `release` unless another task has. Context: may sleep.
    fn release(&self) {
        self.client.retire(self.ticket);
        let acquired = self.acquired.lock().take();
        drop(acquired);
    }
}
