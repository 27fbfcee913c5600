// SPDX-License-Identifier: GPL-2.0

//! The MRs on a region: registration, re-registration and deregistration.
//!
//! The dispatch calls [`Region::register`], and the hooks call the methods of [`Registered`].
//! [`Mrs`] has the identities of the MRs on a region. A [`NewRegion`] is a region until it is live.
//!
//! Context: registration, re-registration and deregistration may sleep.

use super::{
    resources::{
        Attached,
        Resources, //
    },
    Region, //
};
use crate::{
    backend::{
        Backend,
        Failed,
        RegError, //
    },
    callbacks::Acquired,
    data::{
        index::Reservation,
        lifecycle::{
            Close,
            Lifecycle, //
        }, //
    },
    prelude::*,
    records::{
        listing::{
            Kind,
            Origin, //
        },
        stats::CountedMr, //
    },
    registered::{
        self,
        Arguments,
        Deadline,
        Registered, //
    }, //
};

struct Identity {
    lkey: u32,
    id: usize,
    /// The driver is deregistering the MR. The driver may reuse the key and the number before the
    /// driver's function returns.
    ending: bool,
}

impl Identity {
    fn new(lkey: u32, id: usize) -> Self {
        Self {
            lkey,
            id,
            ending: false,
        }
    }
}

/// The MRs on a region: one, or two from a re-registration until the driver has deregistered the
/// replaced MR.
pub(super) struct Mrs {
    dev: ARef<Device>,
    mrs: [Option<Identity>; 2],
    /// The memory is pinned for writes.
    writable: bool,
    /// The arguments of the last registration.
    access: Access,
    iova: u64,
}

/// A region whose registration is in progress. Dropping the object ends a failed registration: tears
/// down, and calls `release`, which may sleep.
pub(super) struct NewRegion {
    pub(super) region: Arc<Region>,
    /// `None` once the region is live.
    resources: Option<KBox<Resources>>,
}

impl NewRegion {
    /// Creates a region, and enters the region under a new ticket of the client. `kind`, `index`: see
    /// the fields of [`Region`]. Context: may sleep.
    pub(super) fn new(
        acquired: Acquired,
        range: VaRange,
        kind: Kind,
        index: Option<&Arc<registered::MrIndex>>,
    ) -> Result<Self> {
        let client = Arc::clone(acquired.client());
        let resources = Resources::new(acquired)?;
        let reservation = Reservation::new()?;
        let ticket = client.issue_ticket();
        let region = Arc::pin_init(
            pin_init!(Region {
                client,
                ticket,
                range,
                index: index.cloned(),
                origin: Origin::current(),
                kind,
                importer: SetOnce::new(),
                mrs <- new_spinlock!(None, "Region::mrs"),
                life <- Lifecycle::new(),
                detached: Atomic::new(0),
            }),
            GFP_KERNEL_ACCOUNT,
        )?;
        region.client.insert(reservation, ticket, region.clone());
        Ok(Self {
            region,
            resources: Some(resources),
        })
    }

    /// Pins the memory. Fails with `ENODEV` if the client is being unregistered, with
    /// [`RegError::Draining`] if the client is being drained, and with the error of `get_pages`.
    /// Context: process context; may sleep.
    pub(super) fn pin(&mut self, write: bool) -> Result<&mut Acquired, RegError> {
        let region = &*self.region;
        let pages = self.resources.as_mut().ok_or(EINVAL)?.pages();
        // An unregistration closes the client, and then revokes all regions of the client. A drain
        // sets the switch, and then reads the list of regions. The region is in the list by now, and
        // the lock of the list orders accesses: either the other task finds this region, or this task
        // sees the closed client or the switch.
        if region.client.is_closed() {
            return Err(RegError::NotPinned(ENODEV));
        }
        if region.client.stats().is_draining() {
            return Err(RegError::Draining);
        }
        pages
            .pin(write, region.ticket)
            .map_err(RegError::NotPinned)?;
        Ok(pages)
    }

    /// Makes the region live: `attached` has access to the memory. From here on another task can end the
    /// region.
    pub(super) fn publish(mut self, attached: Attached) {
        if let Some(mut resources) = self.finish() {
            let region = &*self.region;
            resources.add(attached);
            let timer = Timer::since(Point::Register, region.origin.start());
            region.trace(timer, None, Ok(()));
            region.life.registered(resources);
        }
    }

    /// Ends a registration that has failed. If a driver has left an import, the region is live, and the
    /// memory stays pinned until the driver detaches. Context: may sleep.
    pub(super) fn fail(mut self, failed: Failed) -> RegError {
        if let Some(left) = failed.left {
            if let Some(mut resources) = self.finish() {
                resources.add_left(left, &self.region);
                self.region.life.registered(resources);
                self.region.end_if_detached();
            }
        }
        failed.error
    }

    /// Returns the resources. The task that ends the region calls `release` from here on.
    fn finish(&mut self) -> Option<KBox<Resources>> {
        let mut resources = self.resources.take()?;
        let region = &*self.region;
        resources.set_counted(CountedMr::new(
            region.client.stats().clone(),
            region.range.pages() as u64,
            region.range.len() as u64,
        ));
        Some(resources)
    }
}

impl Drop for NewRegion {
    fn drop(&mut self) {
        let Some(mut resources) = self.resources.take() else {
            return;
        };
        let region = &*self.region;
        if resources.pages().is_pinned() {
            region.tear_down(region.life.abandon(resources));
        } else {
            region.life.abandon_empty(resources);
        }
        region.release();
    }
}

impl Region {
    /// Registers acquired memory: pins the memory, has the backend attach the device, publishes the MR.
    /// `index`: the MRs of the device, which the new MR is added to. Context: process context; may
    /// sleep.
    pub(crate) fn register(
        acquired: Acquired,
        backend: &Backend,
        index: &Arc<registered::MrIndex>,
        req: &Request<'_>,
        range: VaRange,
    ) -> Result<UserMr, RegError> {
        // Allocate first: once the MR exists, nothing may fail before the entry in the index.
        let reservation = Reservation::new()?;
        let mut new = NewRegion::new(acquired, range, Kind::Mr, Some(index))?;
        let fenced = new.region.client.flags().requires_invalidation;
        let pages = new.pin(req.access.is_writable())?;
        let (mr, attachment) = match backend.register(req, range, pages, fenced) {
            Ok(made) => made,
            Err(failed) => {
                new.region.log_left(req, &failed);
                return Err(new.fail(failed));
            }
        };
        let (lkey, id) = (mr.as_mr().lkey(), mr.as_mr().id());
        *new.region.mrs.lock() = Some(Mrs {
            dev: req.pd.device().get(),
            mrs: [Some(Identity::new(lkey, id)), None],
            writable: req.access.is_writable(),
            access: req.access,
            iova: req.iova,
        });
        // A former MR with the key is gone from the device, or the driver would not have issued the
        // key again.
        index.insert(reservation, lkey, new.region.clone());
        new.publish(Attached { mr: id, attachment });
        Ok(mr)
    }

    fn log_left(&self, req: &Request<'_>, failed: &Failed) {
        if let (RegError::Error(e), Some(_)) = (&failed.error, &failed.left) {
            pr_warn_limited!(
                "client {}: {} failed to register {} bytes ({:?}) and keeps them mapped; they stay \
                 pinned until its driver unmaps them: remove the device, then have the client \
                 invalidate them or unregister\n",
                self.client.name(),
                req.pd.device().name(),
                self.range.len(),
                e
            );
        }
    }

    /// Makes another MR on the memory of a live region, and enters the region in the index under the
    /// key of the MR. Fails with `EBUSY` if there are two accesses already. Context: may sleep.
    fn attach_again(
        self: &Arc<Self>,
        resources: &mut Resources,
        backend: &Backend,
        req: &Request<'_>,
    ) -> Result<UserMr, RegError> {
        // Allocate first: once the MR exists, nothing may fail before the entry in the index.
        let reservation = Reservation::new()?;
        if !resources.has_room() {
            return Err(EBUSY.into());
        }
        let fenced = self.client.flags().requires_invalidation;
        let pages = resources.pages();
        let (mr, attachment) = match backend.register(req, self.range, pages, fenced) {
            Ok(made) => made,
            Err(failed) => {
                self.log_left(req, &failed);
                if let Some(left) = failed.left {
                    resources.add_left(left, self);
                }
                return Err(failed.error);
            }
        };
        let (lkey, id) = (mr.as_mr().lkey(), mr.as_mr().id());
        let mut has_device = false;
        if let Some(mrs) = &mut *self.mrs.lock() {
            (mrs.access, mrs.iova) = (req.access, req.iova);
            if let Some(free) = mrs.mrs.iter_mut().find(|mr| mr.is_none()) {
                *free = Some(Identity::new(lkey, id));
            }
            has_device = true;
        }
        if let (Some(index), true) = (&self.index, has_device) {
            index.insert(reservation, lkey, self.clone());
        }
        resources.add(Attached { mr: id, attachment });
        Ok(mr)
    }

    /// Runs `f` on the entry of the MR with the number `id`. Returns `None` if no MR on this region
    /// has the number.
    fn with_mr<T>(&self, id: usize, f: impl FnOnce(&mut Option<Identity>) -> T) -> Option<T> {
        let mrs = &mut *self.mrs.lock();
        let mut places = mrs.as_mut()?.mrs.iter_mut();
        let place = places.find(|mr| mr.as_ref().is_some_and(|mr| mr.id == id))?;
        Some(f(place))
    }

    pub(super) fn has_mrs(&self) -> bool {
        let mrs = self.mrs.lock();
        mrs.iter().flat_map(|mrs| &mrs.mrs).any(Option::is_some)
    }

    /// Calls the driver's `dereg_mr`. On success removes the MR from the region, else undoes
    /// [`Self::begin_dereg`]. Context: may sleep.
    fn call_driver(&self, id: usize, original: &Original<'_>) -> Result {
        let result = original.call();
        match &result {
            Ok(()) => self.withdraw(self.with_mr(id, Option::take).flatten()),
            Err(_) => {
                self.with_mr(id, |mr| mr.as_mut().map(|mr| mr.ending = false));
            }
        }
        result
    }

    /// See [`Registered::deregister`]. Context: may sleep.
    fn deregister_mr(&self, mr: &Mr, original: &Original<'_>) -> Result {
        let id = mr.id();
        match self.life.close() {
            Close::Live(mut resources) => {
                if let Err(e) = self.call_driver(id, original) {
                    self.life.reopen(resources);
                    return Err(e);
                }
                if let Some(replaced) = resources.take_replaced(id) {
                    self.life.reopen(resources);
                    drop(replaced);
                    self.end_if_detached();
                    return Ok(());
                }
                self.log_fatal(&resources);
                self.tear_down(self.life.closed(resources));
            }
            Close::Revoked => {
                self.call_driver(id, original)?;
                if self.has_mrs() {
                    return Ok(());
                }
            }
            // Another task tears down, and releases.
            Close::Closed => return original.call(),
        }
        self.release();
        Ok(())
    }

    /// Removes the region from the index under the key of `gone`, an MR that was on the region.
    fn withdraw(&self, gone: Option<Identity>) {
        if let (Some(index), Some(mr)) = (&self.index, gone) {
            index.remove_if(mr.lkey, |found| ptr::addr_eq(found, self));
        }
    }

    /// Removes all MRs from the region: from here on only the driver deregisters the MRs.
    pub(super) fn forget_mrs(&self) {
        let mut gone = [None, None];
        if let Some(mrs) = &mut *self.mrs.lock() {
            gone = mem::take(&mut mrs.mrs);
        }
        gone.into_iter().for_each(|mr| self.withdraw(mr));
    }

    /// Drops the reference to the device: the removal of the device waits for all references.
    pub(super) fn forget_device(&self) {
        let mrs = self.mrs.lock().take();
        drop(mrs);
    }

    /// Returns the name of the device, if the region has one, and the local keys of the MRs.
    pub(super) fn device_and_lkeys(&self) -> (Option<Name>, [Option<u32>; 2]) {
        let mrs = self.mrs.lock();
        match &*mrs {
            Some(mrs) => (
                Some(mrs.dev.name()),
                mrs.mrs.each_ref().map(|mr| mr.as_ref().map(|mr| mr.lkey)),
            ),
            None => (None, [None, None]),
        }
    }
}

impl Registered for Region {
    fn is_of(&self, mr: &Mr) -> bool {
        self.with_mr(mr.id(), |mr| mr.as_ref().is_some_and(|mr| !mr.ending)) == Some(true)
    }

    fn begin_dereg(&self, mr: &Mr) -> bool {
        let was_on_it = self.with_mr(mr.id(), |mr| {
            let mr = mr.as_mut();
            mr.is_some_and(|mr| !mem::replace(&mut mr.ending, true))
        });
        was_on_it == Some(true)
    }

    fn deregister(&self, mr: &Mr, original: &Original<'_>) -> Result {
        let timer = Timer::start(Point::Deregister);
        let lkey = mr.lkey();
        let result = self.deregister_mr(mr, original);
        self.trace(timer, Some(lkey), result);
        result
    }

    fn arguments(&self) -> Option<Arguments> {
        self.mrs.lock().as_ref().map(|mrs| Arguments {
            range: self.range,
            access: mrs.access,
            iova: mrs.iova,
        })
    }

    /// The memory stays the same whatever is at the address now, so the client is not asked. Fails
    /// with `EBUSY` if the driver has not yet deregistered an MR that was replaced before.
    fn replace_mr(self: Arc<Self>, backend: &Backend, req: &Request<'_>) -> Result<UserMr> {
        let is_writable = self.mrs.lock().as_ref().map(|mrs| mrs.writable);
        if is_writable == Some(false) && req.access.is_writable() {
            return Err(EACCES);
        }
        let timer = Timer::start(Point::Register);
        let Close::Live(mut resources) = self.life.close() else {
            return Err(ENODEV);
        };
        let replaced = self.attach_again(&mut resources, backend, req);
        self.life.reopen(resources);
        self.end_if_detached();
        if let Ok(mr) = &replaced {
            self.trace(timer, Some(mr.as_mr().lkey()), Ok(()));
        }
        replaced.map_err(|error| match error {
            RegError::Error(e) | RegError::NotPinned(e) => e,
            RegError::Draining => EBUSY,
            RegError::Skip(cause) | RegError::Rejected(cause) => {
                pr_warn_limited!(
                    "client {}: {}: cannot re-register: {}\n",
                    self.client.name(),
                    req.pd.device().name(),
                    cause
                );
                eopnotsupp()
            }
        })
    }

    fn stop(&self) -> Result<bool> {
        let stopped = self.life.with_live(|resources| resources.stop());
        stopped.unwrap_or(Ok(())).map(|()| true)
    }

    fn disassociate(self: Arc<Self>, deadline: &Deadline) {
        Self::disassociate(&self, deadline);
    }
}
