// SPDX-License-Identifier: GPL-2.0

//! A region: one acquired range, from `acquire` to `release`.
//!
//! [`Lifecycle`] orders the steps of the tasks, and this module performs them. Teardown happens on
//! drop, in field order.
//!
//! - [`resources`]: the resources of a region, until its teardown;
//! - [`mr`]: the MRs on a region; [`mod@export`]: a region that is exported as a dma-buf;
//! - [`revoke`]: the end of a region before that of its MR.

mod export;
mod mr;
mod resources;
mod revoke;

pub(crate) use self::{
    export::Importers,
    revoke::prepare_all, //
};

use self::{
    mr::Mrs,
    resources::{
        Attached,
        Resources, //
    },
};
use crate::{
    backend::{
        Failed,
        Refusal, //
    },
    callbacks::{
        Acquired,
        ClientPages,
        Intent, //
    },
    client::Client,
    index::Slot,
    lifecycle::Lifecycle,
    range::VaRange,
    registered,
    stats::CountedMr, //
};
use kernel::{
    new_spinlock,
    prelude::*,
    sync::{
        atomic::Atomic,
        Arc,
        SpinLock, //
    },
};

/// A region.
///
/// # Invariants
///
/// - `acquired` is taken, and so released, once, after the resources in `life` are torn down.
/// - `mrs` is set before the region is live, and cleared when the device is removed. It has the MRs
///   whose accesses are in the resources, and after a revocation those that the user still has.
#[pin_data]
pub(crate) struct Region {
    // The fields drop in this order: the resources before what the client has acquired.
    #[pin]
    life: Lifecycle<KBox<Resources>>,
    #[pin]
    acquired: SpinLock<Option<Acquired>>,
    client: Arc<Client>,
    ticket: u32,
    range: VaRange,
    /// The MRs of the device, by their local key. `None` for a region that is exported as
    /// a dma-buf, as is `mrs`.
    index: Option<Arc<registered::MrIndex>>,
    #[pin]
    mrs: SpinLock<Option<Mrs>>,
    /// How many times drivers have detached from the region since it was deferred to them.
    detached: Atomic<u32>,
}

impl Region {
    /// Pins memory that its client has acquired and has `make` give an adapter access to it. On
    /// success the region is live, and after a failure that leaves the adapter with access: the
    /// memory stays pinned until the driver detaches. Context: may sleep.
    fn build<T>(
        acquired: Acquired,
        range: VaRange,
        intent: Intent,
        index: Option<&Arc<registered::MrIndex>>,
        make: impl FnOnce(&Arc<Self>, &mut ClientPages) -> Result<(T, Attached), Failed>,
    ) -> Result<T, Refusal> {
        let resources = Resources::new(acquired.pages(range));
        let mut resources = KBox::init(resources, GFP_KERNEL_ACCOUNT)?;
        let region = Self::new(acquired.client(), range, index)?;
        let made = match region.pin(resources.pages(), intent) {
            Ok(()) => make(&region, resources.pages()),
            Err(e) => Err(Refusal::NotPinned(e).into()),
        };
        // The task that ends the region releases it. From here on that can be another task.
        *region.acquired.lock() = Some(acquired);
        match made {
            Ok((made, attached)) => {
                resources.set_live(attached, region.count());
                region.life.registered(resources);
                Ok(made)
            }
            Err(Failed { refusal, left }) => {
                match left {
                    Some(attachment) => {
                        resources.set_live(Attached { mr: 0, attachment }, region.count());
                        resources.defer_to_dereg(&region);
                        region.life.registered(resources);
                        region.end_if_detached();
                    }
                    None => region.abandon(resources),
                }
                Err(refusal)
            }
        }
    }

    /// Creates a region and enters it under a ticket of its client. Context: may sleep.
    fn new(
        client: &Arc<Client>,
        range: VaRange,
        index: Option<&Arc<registered::MrIndex>>,
    ) -> Result<Arc<Self>> {
        let slot = Slot::new()?;
        let ticket = client.issue_ticket();
        let region = Arc::pin_init(
            pin_init!(Self {
                client: client.clone(),
                ticket,
                range,
                index: index.cloned(),
                acquired <- new_spinlock!(None, "Region::acquired"),
                mrs <- new_spinlock!(None, "Region::mrs"),
                life <- Lifecycle::new(),
                detached: Atomic::new(0),
            }),
            GFP_KERNEL_ACCOUNT,
        )?;
        client.insert(slot, ticket, region.clone());
        Ok(region)
    }

    /// Pins the memory. Context: may sleep.
    fn pin(&self, pages: &mut ClientPages, intent: Intent) -> Result {
        // Unregistering closes the client, then revokes the regions that it finds. It finds this
        // one, or this task sees that the client is closed.
        if self.client.is_closed() {
            return Err(ENODEV);
        }
        pages.pin(intent, self.ticket)
    }

    /// Counts the MR.
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

    /// Tears down resources that were not handed to a revoker.
    fn tear_down(&self, resources: Option<KBox<Resources>>) {
        if resources.is_some() {
            drop(resources);
            self.life.torn_down();
        }
    }

    /// Retires the ticket and calls `release`, once.
    fn release(&self) {
        self.client.retire(self.ticket);
        let acquired = self.acquired.lock().take();
        drop(acquired);
    }
}
