// SPDX-License-Identifier: GPL-2.0

//! The MRs on a region: registration, re-registration and deregistration.
//!
//! The dispatch calls [`Region::register`], and the hooks call the methods of [`Registered`].
//! [`Mrs`] has the identities of the MRs on a region.
//!
//! Context: registration, re-registration and deregistration may sleep.

use super::{
    resources::Attached,
    Region, //
};
use crate::{
    backend::{
        Attachment,
        Backend,
        Failed,
        Fence,
        RegError, //
    },
    callbacks::{
        Acquired,
        ClientPages,
        Direction, //
    },
    data::{
        index::Reservation,
        lifecycle::Close,
        range::VaRange, //
    },
    ext::{
        base::compat::eopnotsupp,
        rdma::{
            Access,
            Device,
            Mr,
            Name,
            Original,
            Request,
            UserMr, //
        },
        task::trace::{
            Point,
            Timer, //
        }, //
    },
    pr_warn_limited,
    records::listing::Kind,
    registered::{
        self,
        Arguments,
        Deadline,
        Registered, //
    }, //
};
use core::{
    mem,
    ptr, //
};
use kernel::{
    prelude::*,
    sync::{
        aref::ARef,
        Arc, //
    },
};

/// The identity of an MR.
struct Identity {
    lkey: u32,
    id: usize,
    /// The driver is deregistering the MR. The driver may reuse the key and the number before the
    /// driver's function returns.
    ending: bool,
}

/// The MRs on a region: one, or two from a re-registration until the driver has deregistered the
/// replaced MR.
pub(super) struct Mrs {
    dev: ARef<Device>,
    mrs: [Option<Identity>; 2],
    /// The access that the memory is pinned for.
    direction: Direction,
    /// The arguments of the last registration.
    access: Access,
    iova: u64,
}

impl Region {
    /// Registers acquired memory. `index`: the MRs of the device, which the new MR is added to.
    /// Context: process context; may sleep.
    pub(crate) fn register(
        acquired: Acquired,
        backend: &Backend,
        index: &Arc<registered::MrIndex>,
        req: &Request<'_>,
        range: VaRange,
    ) -> Result<UserMr, RegError> {
        let direction = Direction::of(req.access);
        Self::build(
            acquired,
            range,
            direction,
            Kind::Mr,
            Some(index),
            |region, pages| {
                // Allocate first: once the MR exists, nothing may fail before the entry in the index.
                let reservation = Reservation::new()?;
                let (mr, attachment) = region.make_mr(backend, req, pages)?;
                *region.mrs.lock() = Some(Mrs {
                    dev: req.pd.device().get(),
                    mrs: [None, None],
                    direction,
                    access: req.access,
                    iova: req.iova,
                });
                let attached = region.add_mr(reservation, &mr, attachment, req);
                Ok((mr, attached))
            },
        )
    }

    /// Has the backend make an MR on the pinned memory. Logs an import that the driver has left
    /// mapped. Context: may sleep.
    fn make_mr(
        &self,
        backend: &Backend,
        req: &Request<'_>,
        pages: &mut ClientPages,
    ) -> Result<(UserMr, Attachment), Failed> {
        let fence = if self.client.flags().requires_invalidation {
            Fence::Required
        } else {
            Fence::Optional
        };
        let made = backend.register(req, self.range, pages, fence);
        if let Err(Failed {
            error: RegError::Error(e),
            left: Some(_),
        }) = &made
        {
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
        made
    }

    /// Enters the region in the index under the key of a new MR. Returns the access through the MR.
    fn add_mr(
        self: &Arc<Self>,
        reservation: Reservation<dyn Registered>,
        mr: &UserMr,
        attachment: Attachment,
        req: &Request<'_>,
    ) -> Attached {
        let (lkey, id) = (mr.as_mr().lkey(), mr.as_mr().id());
        let mut has_device = false;
        if let Some(mrs) = &mut *self.mrs.lock() {
            (mrs.access, mrs.iova) = (req.access, req.iova);
            if let Some(free) = mrs.mrs.iter_mut().find(|mr| mr.is_none()) {
                *free = Some(Identity {
                    lkey,
                    id,
                    ending: false,
                });
            }
            has_device = true;
        }
        // A former MR with the key is gone from the device, or the driver would not have issued the
        // key again.
        if let (Some(index), true) = (&self.index, has_device) {
            index.insert(reservation, lkey, self.clone());
        }
        Attached { mr: id, attachment }
    }

    /// Runs `f` on the entry of the MR with the number `id`. Returns `None` if no MR on this region
    /// has the number.
    fn with_mr<T>(&self, id: usize, f: impl FnOnce(&mut Option<Identity>) -> T) -> Option<T> {
        let mrs = &mut *self.mrs.lock();
        let mut places = mrs.as_mut()?.mrs.iter_mut();
        let place = places.find(|mr| mr.as_ref().is_some_and(|mr| mr.id == id))?;
        Some(f(place))
    }

    /// Returns whether the user still has an MR on the region.
    pub(super) fn has_mrs(&self) -> bool {
        let mrs = self.mrs.lock();
        mrs.iter().flat_map(|mrs| &mrs.mrs).any(Option::is_some)
    }

    /// Calls the driver's `dereg_mr`. On success removes the MR from the region. Context: may
    /// sleep.
    fn call_driver(&self, id: usize, original: &Original<'_>) -> Result {
        let result = original.call();
        match &result {
            Ok(()) => self.withdraw(self.with_mr(id, Option::take).flatten()),
            Err(_) => self.cancel_dereg(id),
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

    /// Undoes [`Self::begin_dereg`].
    fn cancel_dereg(&self, id: usize) {
        self.with_mr(id, |mr| {
            if let Some(mr) = mr {
                mr.ending = false;
            }
        });
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

    /// Returns the name of the device, if the region has one.
    pub(super) fn device_name(&self) -> Option<Name> {
        self.mrs.lock().as_ref().map(|mrs| mrs.dev.name())
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
        let pinned_for = self.mrs.lock().as_ref().map(|mrs| mrs.direction);
        if pinned_for == Some(Direction::Read) && Direction::of(req.access) == Direction::Write {
            return Err(EACCES);
        }
        // Allocate first: once the MR exists, nothing may fail before the entry in the index.
        let reservation = Reservation::new()?;
        let timer = Timer::start(Point::Register);
        let replaced = self.life.with_live(|resources| {
            resources.add(&self, |pages| {
                let (mr, attachment) = self.make_mr(backend, req, pages)?;
                let attached = self.add_mr(reservation, &mr, attachment, req);
                Ok((mr, attached))
            })
        });
        self.end_if_detached();
        if let Some(Ok(mr)) = &replaced {
            self.trace(timer, Some(mr.as_mr().lkey()), Ok(()));
        }
        replaced.ok_or(ENODEV)?.map_err(|error| match error {
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
        Self::stop(self).map(|()| true)
    }

    fn disassociate(self: Arc<Self>, deadline: &Deadline) {
        Self::disassociate(&self, deadline);
    }
}
