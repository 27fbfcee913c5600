// SPDX-License-Identifier: GPL-2.0

//! A region: one acquired range, from `acquire` to `release`.
//!
//! The dispatch creates a [`Region`], with an MR or as an exported dma-buf. The hooks find the
//! region by the MR, as a `Registered`; the client and the registry find the region by the ticket,
//! as a `Revocable`. [`Lifecycle`] orders the steps of the tasks, and this module performs the
//! steps. Resources are torn down on drop, in field order.
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
    resources::Resources, //
};
use crate::{
    client::Client,
    data::lifecycle::Lifecycle,
    prelude::*,
    records::listing::{
        Kind,
        Origin,
        Row, //
    },
    registered, //
};

/// A range that a client has acquired, and the access of devices to the memory.
///
/// # Invariants
///
/// - What is left of the resources in `life` after the teardown is taken, and so released, once.
/// - `mrs` is set before a region with an MR is live, and cleared when the device is removed. Before a
///   revocation it has one entry for each `Attached`, afterwards the dead MRs that the user has not
///   deregistered.
#[pin_data]
pub(crate) struct Region {
    #[pin]
    life: Lifecycle<KBox<Resources>>,
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
    /// Tears down resources, unless a revoker has.
    fn tear_down(&self, resources: Option<KBox<Resources>>) {
        if let Some(mut resources) = resources {
            resources.tear_down();
            self.life.torn_down(resources);
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
        drop(self.life.take_left());
    }
}
