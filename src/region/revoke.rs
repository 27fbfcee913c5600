// SPDX-License-Identifier: GPL-2.0

//! The end of a region before the end of the MR: the client invalidates the region or is
//! unregistered, or the device is removed.
//!
//! [`Region`] implements [`Revocable`] for the client and the registry, and [`OnDetach`] for
//! dma-bufs, whose driver may end a region. A revocation takes the resources out of the lifecycle,
//! fences the devices, and tears down. A failed fence is repeated until the fence succeeds or the
//! region ends in another way.
//!
//! Context: may sleep. An invalidation may come with locks of the client held, see
//! Documentation/locking.rst.

use super::{
    resources::Resources,
    Region, //
};
use crate::{
    backend::Distrust,
    client::{
        Client,
        Revocable, //
    },
    data::lifecycle::{
        Taken,
        Until, //
    },
    ext::rdma::wait_for_software_copies,
    prelude::*,
    records::revocations::{
        self,
        Revocation, //
    },
    registered::Deadline, //
};

/// Why a region is revoked.
#[derive(Clone, Copy)]
enum Cause<'a> {
    Invalidation,
    Unregistration,
    /// The device is removed. A region that the driver cannot revoke is deferred to the driver's
    /// deregistration. If the device does not answer until the deadline, the region is detached.
    Removal(&'a Arc<Region>, &'a Deadline),
}

impl Cause<'_> {
    fn words(&self) -> &'static str {
        match self {
            Self::Invalidation => "the client has invalidated the memory",
            Self::Unregistration => "the client was unregistered",
            Self::Removal(..) => "the device was removed",
        }
    }
}

#[derive(PartialEq, Eq)]
enum Revoked {
    TornDown,
    /// The region ends when the driver deregisters the MR, or the client ends it.
    Deferred,
}

enum Fenced {
    /// The adapter cannot access the memory.
    Yes(KBox<Resources>),
    /// The driver or the client ends the region later.
    Deferred,
    /// The adapter may still access the memory.
    Failed(Error, Option<Distrust>),
}

/// Stops the devices for all regions of a client at the unregistration of the client. One drain
/// then serves all regions, and the waits for importers and for fences of dma-bufs overlap.
/// Context: may sleep.
pub(crate) fn prepare_all(client: &Client) {
    let (mut next, mut stopped) = (Some(0), false);
    while let Some((ticket, region)) = next.and_then(|ticket| client.region_from(ticket)) {
        match region.prepare() {
            Ok(prepared) => stopped |= prepared,
            // If the device does not answer, each further region would cost another timeout.
            Err(_) => break,
        }
        next = ticket.checked_add(1);
    }
    // From here on the fences have all of the time, whatever earlier invalidations have used up.
    client.fences().renew();
    if stopped {
        wait_for_software_copies();
    }
}

impl Region {
    /// Ends the region because the device is removed. A region that cannot be fenced ends later,
    /// when the driver deregisters the MR: ib_core notifies the driver only after this function has
    /// returned. Context: may sleep.
    pub(super) fn disassociate(self: &Arc<Self>, deadline: &Deadline) {
        let revoked = self.revoke_for(Cause::Removal(self, deadline));
        self.forget_mrs();
        self.forget_device();
        if revoked == Revoked::TornDown {
            self.release();
        }
    }

    /// Fences the region and tears the resources down, unless another task has. Repeats a failed
    /// fence every second. Context: may sleep.
    fn revoke_for(&self, cause: Cause<'_>) -> Revoked {
        let until = match cause {
            Cause::Invalidation => Until::Fenced,
            Cause::Unregistration | Cause::Removal(..) => Until::TornDown,
        };
        let timer = Timer::start(Point::Revoke);
        let start = Instant::now();
        let mut failures = 0u32;
        while let Some(taken) = self.life.take(until) {
            let mut resources = match taken {
                Taken::Fenced(resources) => resources,
                Taken::Live(resources) => match self.fence(resources, cause) {
                    Fenced::Yes(resources) => {
                        self.client.stats().count_revocation();
                        self.record_revocation(cause, start);
                        resources
                    }
                    Fenced::Deferred => return Revoked::Deferred,
                    Fenced::Failed(e, distrust) => {
                        // If the pages were put now, the adapter could write into memory in use for
                        // something else.
                        if failures == 0 {
                            self.log_unfenced(e, distrust);
                        }
                        failures = failures.saturating_add(1);
                        fsleep(Delta::from_secs(1));
                        continue;
                    }
                },
            };
            self.life.fenced();
            if matches!(cause, Cause::Invalidation) && self.client.flags().invalidate_unmaps {
                resources.leave_to_client();
            }
            resources.tear_down();
            self.life.revoked(resources);
            self.trace(timer, None, Ok(()));
            break;
        }
        Revoked::TornDown
    }

    /// Adds the region, which is fenced, to the list of revocations.
    fn record_revocation(&self, cause: Cause<'_>, start: Instant<Monotonic>) {
        revocations::record(&Revocation {
            origin: &self.origin,
            client: self.client.name(),
            device: self.device_and_lkeys().0.or(self.importer()).as_deref(),
            bytes: self.range.len() as u64,
            took: start.elapsed(),
            cause: cause.words(),
        });
    }

    /// Fences live resources, or defers the region to the driver. Unless the result is
    /// [`Fenced::Yes`], the region is live again. Context: may sleep.
    fn fence(&self, mut resources: KBox<Resources>, cause: Cause<'_>) -> Fenced {
        let timer = Timer::start(Point::Fence);
        let result = match cause {
            Cause::Removal(this, _) if !resources.can_fence() => {
                resources.defer_to_dereg(this);
                self.life.unfenced(resources);
                self.end_if_detached();
                return Fenced::Deferred;
            }
            // The device was drained after the stop.
            Cause::Removal(..) if resources.is_stopped() => Ok(()),
            Cause::Unregistration if resources.is_prepared() => Ok(()),
            // Each further work request would cost another timeout.
            Cause::Removal(_, deadline) if deadline.is_unanswered() => Err(ETIMEDOUT),
            Cause::Removal(_, deadline) => resources.fence(deadline.fences()),
            _ => resources.fence(self.client.fences()),
        };
        self.trace(timer, None, result);
        let e = match result {
            Ok(()) => return Fenced::Yes(resources),
            Err(e) => e,
        };
        self.client.stats().count_failed_fence();
        let distrust = resources.distrust();
        let fenced = match cause {
            // No later attempt succeeds if the device is not trusted.
            Cause::Removal(this, deadline) if distrust.is_some() || deadline.is_over_after(e) => {
                self.log_detached(e, distrust);
                resources.defer_unanswered(this);
                Fenced::Deferred
            }
            _ => Fenced::Failed(e, distrust),
        };
        self.life.unfenced(resources);
        if matches!(fenced, Fenced::Deferred) {
            self.end_if_detached();
        }
        fenced
    }

    /// Returns the name of the device, for the log.
    fn name_for_log(&self, distrust: Option<Distrust>) -> Option<Name> {
        // An export belongs to no device.
        self.device_and_lkeys().0.or(distrust.map(|d| d.device))
    }

    /// Logs that the pages stay pinned although the device is removed.
    fn log_detached(&self, e: Error, distrust: Option<Distrust>) {
        pr_warn_limited!(
            "client {}: {} is removed, and may still access {} bytes ({:?}: {}); they stay pinned only \
             until its driver deregisters the MR, or the client invalidates them or unregisters: reset \
             the device\n",
            self.client.name(),
            self.name_for_log(distrust).as_deref().unwrap_or("the device"),
            self.range.len(),
            e,
            distrust.map_or("it does not answer", Distrust::cause),
        );
    }

    fn log_unfenced(&self, e: Error, distrust: Option<Distrust>) {
        pr_err_limited!(
            "client {}: {} does not revoke {} bytes ({:?}: {}); retrying: end the process that has the \
             MR, or remove the device\n",
            self.client.name(),
            self.name_for_log(distrust).as_deref().unwrap_or("an importer"),
            self.range.len(),
            e,
            distrust.map_or("the fence has failed", Distrust::cause),
        );
    }

    /// Logs that pages are put although a device with a fatal error may still access the pages: the
    /// driver has seemed to deregister the MR.
    pub(super) fn log_fatal(&self, resources: &Resources) {
        let distrust = resources.distrust();
        let Some(fatal) = distrust.filter(|distrust| distrust.is_fatal) else {
            return;
        };
        pr_warn_limited!(
            "client {}: {} may still access {} bytes ({}), which are unpinned now, as the MR is \
             deregistered: reset the device\n",
            self.client.name(),
            &*self.name_for_log(distrust).unwrap_or(fatal.device),
            self.range.len(),
            fatal.cause(),
        );
    }
}

impl Revocable for Region {
    fn prepare(&self) -> Result<bool> {
        let prepared = self.life.with_live(|resources| resources.prepare());
        prepared.unwrap_or(Ok(false))
    }

    fn invalidate(&self) {
        let timer = Timer::start(Point::Invalidate);
        self.revoke_for(Cause::Invalidation);
        self.trace(timer, None, Ok(()));
    }

    fn revoke(&self) {
        self.revoke_for(Cause::Unregistration);
        self.forget_mrs();
        self.release();
    }

    fn print(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Self::print(self, f)
    }
}

impl Region {
    /// Ends a region that was deferred to the driver, if the driver has deregistered all MRs on the
    /// region. Does nothing if another task has the resources: the other task calls this function
    /// once the region is live again. Context: may sleep.
    pub(super) fn end_if_detached(&self) {
        loop {
            // Read before the state: if a driver detaches later, and finds the region closing, the
            // second read below gives another number.
            let detached = self.detached.load(Relaxed);
            if detached == 0 {
                return;
            }
            let Some(resources) = self.life.close_deferred() else {
                // After a revocation only `release` is left, for the last task that knows an MR.
                if self.life.is_revoked() && !self.has_mrs() {
                    self.release();
                }
                return;
            };
            if !resources.is_attached() {
                self.log_fatal(&resources);
                self.tear_down(self.life.closed(resources));
                self.release();
                return;
            }
            self.life.reopen(resources);
            if self.detached.load(Relaxed) == detached {
                return;
            }
        }
    }

    /// Notes that a driver has detached, for [`Self::end_if_detached`].
    pub(super) fn note_detached(&self) {
        // The lock of the state orders the addition before the read by a task that has the
        // resources.
        self.detached.fetch_add(1, Full);
    }
}

impl OnDetach for Region {
    fn detached(&self) {
        self.note_detached();
        self.end_if_detached();
    }
}
