// SPDX-License-Identifier: GPL-2.0

//! A region: one acquired range, from `acquire` to `release`.
//!
//! [`Lifecycle`] decides which task may do what when, this file does it. Teardown happens on drop,
//! in field order.

mod export;

use crate::{
    backend::{
        Attachment,
        Backend,
        Fence,
        Refusal, //
    },
    callbacks::{
        Acquired,
        ClientPages,
        Intent, //
    },
    client::{
        Client,
        Revocable, //
    },
    ext::{
        dma_buf::OnDetach,
        rdma::{
            Access,
            Change,
            Device,
            Mr,
            Original,
            Request,
            UserMr, //
        }, //
    },
    index::{
        Index,
        Slot, //
    },
    lifecycle::{
        Close,
        Lifecycle,
        Taken,
        Until, //
    },
    range::VaRange,
    stats::CountedMr, //
};
use core::{
    mem,
    ptr, //
};
use kernel::{
    new_spinlock,
    prelude::*,
    sync::{
        aref::ARef,
        Arc,
        SpinLock, //
    },
    time::{
        delay::fsleep,
        Delta,
        Instant,
        Monotonic, //
    },
};

/// What a region holds until its teardown. Dropped in field order.
struct Resources {
    /// The adapter's access; `None` if the registration failed before there was one.
    attachment: Option<Attachment>,
    pages: ClientPages,
    _counted: Option<CountedMr>,
}

impl Resources {
    /// Returns the resources of a registration that failed with `pages` pinned.
    fn pinned(pages: ClientPages) -> Self {
        Self {
            attachment: None,
            pages,
            _counted: None,
        }
    }

    /// Fences the adapter. Context: may sleep.
    fn fence(&mut self) -> Result {
        self.attachment.as_mut().map_or(Ok(()), Attachment::fence)
    }

    /// Tears down all but the client's mapping and pages, which the client itself unmaps and puts.
    fn drop_without_callbacks(self) {
        drop(self.attachment);
        self.pages.drop_without_callbacks();
    }
}

/// The MR on a region.
struct MrInfo {
    dev: ARef<Device>,
    /// The regions of the device, by the local key of their MR.
    mrs: Arc<Index<Region>>,
    lkey: u32,
    /// The number of the MR, 0 while the driver deregisters it.
    id: usize,
    access: Access,
    iova: u64,
}

/// A region.
///
/// # Invariants
///
/// - `acquired` is taken, and so released, once, after the resources in `life` are torn down.
/// - `mr` is set before the region is live. Only its `id` changes after that, until `mr` is cleared
///   when the device is removed.
#[pin_data]
pub(crate) struct Region {
    client: Arc<Client>,
    ticket: u32,
    range: VaRange,
    #[pin]
    acquired: SpinLock<Option<Acquired>>,
    /// `None` for a region that is exported as a dma-buf.
    #[pin]
    mr: SpinLock<Option<MrInfo>>,
    #[pin]
    life: Lifecycle<Resources>,
}

/// Why a region is revoked.
#[derive(Clone, Copy)]
enum Cause<'a> {
    /// Its client invalidates it.
    Invalidation,
    /// Its client is unregistered.
    Unregistration,
    /// The device is removed. A region that the driver cannot revoke is deferred to the driver's
    /// deregistration. One whose device does not answer until the deadline is detached.
    Removal(&'a Arc<Region>, Deadline),
}

/// The time that a removed device has to answer.
#[derive(Clone, Copy)]
pub(crate) struct Deadline(Instant<Monotonic>);

impl Deadline {
    /// Seconds that all regions of the device have together.
    const SECONDS: i64 = 10;

    /// Starts the time.
    pub(crate) fn start() -> Self {
        Self(Instant::now())
    }

    /// Returns whether the time is over.
    fn has_passed(self) -> bool {
        self.0.elapsed() >= Delta::from_secs(Self::SECONDS)
    }
}

/// The result of a revocation.
#[derive(PartialEq, Eq)]
enum Revoked {
    /// The region is torn down.
    TornDown,
    /// The region ends when the driver deregisters the MR, or the client ends it.
    Deferred,
}

impl Region {
    /// Registers memory that its client has acquired; `mrs` are the regions of the device. Context:
    /// may sleep.
    pub(crate) fn register(
        acquired: Acquired,
        backend: &Backend,
        mrs: &Arc<Index<Region>>,
        req: &Request<'_>,
        range: VaRange,
    ) -> Result<UserMr, Refusal> {
        Self::build(acquired, range, Intent::of(req.access), |region, pages| {
            region.make_mr(backend, mrs, req, pages)
        })
    }

    /// Pins memory that its client has acquired and has `make` attach it to an adapter. On success
    /// the region is live. Context: may sleep.
    fn build<T>(
        acquired: Acquired,
        range: VaRange,
        intent: Intent,
        make: impl FnOnce(&Arc<Self>, &mut ClientPages) -> Result<(T, Attachment), Refusal>,
    ) -> Result<T, Refusal> {
        let region = Self::new(acquired.client(), range)?;
        let pinned = region.pin(&acquired, intent);
        let made = match pinned {
            Ok(mut pages) => match make(&region, &mut pages) {
                Ok((made, attachment)) => Ok((made, region.resources(attachment, pages))),
                Err(refusal) => Err((refusal, Some(pages))),
            },
            Err(e) => Err((Refusal::NotPinned(e), None)),
        };
        // The task that ends the region releases it. From here on that can be another task.
        *region.acquired.lock() = Some(acquired);
        match made {
            Ok((made, resources)) => {
                region.life.registered(resources);
                Ok(made)
            }
            Err((refusal, pages)) => {
                region.abandon(pages);
                Err(refusal)
            }
        }
    }

    /// Creates a region and enters it under a ticket of its client. Context: may sleep.
    fn new(client: &Arc<Client>, range: VaRange) -> Result<Arc<Self>> {
        let slot = Slot::new()?;
        let ticket = client.issue_ticket();
        let region = Arc::pin_init(
            pin_init!(Self {
                client: client.clone(),
                ticket,
                range,
                acquired <- new_spinlock!(None, "Region::acquired"),
                mr <- new_spinlock!(None, "Region::mr"),
                life <- Lifecycle::new(),
            }),
            GFP_KERNEL_ACCOUNT,
        )?;
        client.insert(slot, ticket, region.clone());
        Ok(region)
    }

    /// Pins the memory. Context: may sleep.
    fn pin(&self, acquired: &Acquired, intent: Intent) -> Result<ClientPages> {
        // Unregistering closes the client, then revokes the regions that it finds. It finds this
        // one, or this task sees that the client is closed.
        if self.client.is_closed() {
            return Err(ENODEV);
        }
        acquired.get_pages(self.range, intent, self.ticket)
    }

    /// Has the backend make an MR and enters the region in `mrs`. Context: may sleep.
    fn make_mr(
        self: &Arc<Self>,
        backend: &Backend,
        mrs: &Arc<Index<Region>>,
        req: &Request<'_>,
        pages: &mut ClientPages,
    ) -> Result<(UserMr, Attachment), Refusal> {
        // Nothing can fail between making the MR and entering the region in the index.
        let slot = Slot::new()?;
        let fence = if self.client.traits().requires_invalidation {
            Fence::Required
        } else {
            Fence::Optional
        };
        let (mr, attachment) = backend.register(req, self.range, pages, fence)?;
        let lkey = mr.as_mr().lkey();
        *self.mr.lock() = Some(MrInfo {
            dev: req.pd.device().get(),
            mrs: mrs.clone(),
            lkey,
            id: mr.as_mr().id(),
            access: req.access,
            iova: req.iova,
        });
        // An MR that had the key before is gone from the device, or the driver would not have
        // issued the key again.
        mrs.insert(slot, lkey, self.clone());
        Ok((mr, attachment))
    }

    /// Returns the resources of a live region.
    fn resources(&self, attachment: Attachment, pages: ClientPages) -> Resources {
        Resources {
            attachment: Some(attachment),
            pages,
            _counted: Some(CountedMr::new(
                self.client.stats().clone(),
                self.range.pages() as u64,
                self.range.len() as u64,
            )),
        }
    }

    /// Ends a failed registration. Context: may sleep.
    fn abandon(&self, pages: Option<ClientPages>) {
        match pages {
            Some(pages) => self.tear_down(self.life.abandon(Resources::pinned(pages))),
            None => self.life.abandon_empty(),
        }
        self.release();
    }

    /// Returns whether `mr` is the MR on this region.
    pub(crate) fn is_of(&self, mr: &Mr) -> bool {
        self.mr
            .lock()
            .as_ref()
            .is_some_and(|info| info.id == mr.id())
    }

    /// Fills in the arguments that a re-registration does not change.
    pub(crate) fn fill_unchanged(&self, req: &mut Request<'_>, change: Change) {
        if let Some(info) = &*self.mr.lock() {
            if !change.access() {
                req.access = info.access;
            }
            if !change.range() {
                req.start = self.range.addr() as u64;
                req.length = self.range.len() as u64;
                req.iova = info.iova;
            }
        }
    }

    /// Deregisters the MR for its user. Context: may sleep.
    pub(crate) fn deregister(&self, original: &Original<'_>) -> Result {
        match self.life.close() {
            Close::Live(resources) => {
                if let Err(e) = self.call_hidden(original) {
                    self.life.reopen(resources);
                    return Err(e);
                }
                self.tear_down(self.life.closed(resources));
            }
            Close::Revoked => self.call_hidden(original)?,
            // Another task tears down, and releases.
            Close::Closed => return original.call(),
        }
        self.release();
        Ok(())
    }

    /// Calls the driver while no MR is known to be on the region: the driver may reuse the address and
    /// the key of the MR before it returns. Removes the region from the index if the MR is gone.
    fn call_hidden(&self, original: &Original<'_>) -> Result {
        let id = self.set_mr_id(0);
        let result = original.call();
        match &result {
            Ok(()) => self.remove_mr(),
            Err(_) => drop(self.set_mr_id(id)),
        }
        result
    }

    /// Sets the number of the MR on the region, 0 for none, and returns the old one.
    fn set_mr_id(&self, id: usize) -> usize {
        match &mut *self.mr.lock() {
            Some(info) => mem::replace(&mut info.id, id),
            None => 0,
        }
    }

    /// Ends the region because its device is removed. A region that cannot be fenced ends when the
    /// driver deregisters the MR: waiting for that here would keep ib_core from notifying the
    /// driver. Context: may sleep.
    pub(crate) fn disassociate(self: &Arc<Self>, deadline: Deadline) {
        let revoked = self.revoke_for(Cause::Removal(self, deadline));
        self.remove_mr();
        // A reference to the device would hold up its removal.
        let info = self.mr.lock().take();
        drop(info);
        if revoked == Revoked::TornDown {
            self.release();
        }
    }

    /// Tears down resources that were not handed to a revoker.
    fn tear_down(&self, resources: Option<Resources>) {
        if resources.is_some() {
            drop(resources);
            self.life.torn_down();
        }
    }

    /// Fences the region and tears it down, unless another task has. Context: may sleep.
    fn revoke_for(&self, cause: Cause<'_>) -> Revoked {
        let until = match cause {
            Cause::Invalidation => Until::Fenced,
            Cause::Unregistration | Cause::Removal(..) => Until::TornDown,
        };
        let mut failures = 0u32;
        while let Some(taken) = self.life.take(until) {
            let resources = match taken {
                Taken::Fenced(resources) => resources,
                Taken::Live(resources) => match self.fence(resources, cause) {
                    Fenced::Yes(resources) => resources,
                    Fenced::Deferred => return Revoked::Deferred,
                    Fenced::Failed(e) => {
                        // Putting the pages now would let the adapter write into memory that is
                        // then used for something else.
                        if failures == 0 {
                            self.log_unfenced(e);
                        }
                        failures = failures.saturating_add(1);
                        fsleep(Delta::from_secs(1));
                        continue;
                    }
                },
            };
            self.life.fenced();
            match cause {
                Cause::Invalidation if self.client.traits().invalidate_unmaps => {
                    resources.drop_without_callbacks()
                }
                _ => drop(resources),
            }
            self.life.revoked();
            break;
        }
        Revoked::TornDown
    }

    /// Fences live resources, or defers them to the driver. If neither is possible the region is
    /// live again. Context: may sleep.
    fn fence(&self, mut resources: Resources, cause: Cause<'_>) -> Fenced {
        if let (Cause::Removal(this, _), Some(attachment)) = (cause, &resources.attachment) {
            if !attachment.can_fence() {
                attachment.defer_to_dereg(this.clone());
                self.life.unfenced(resources);
                return Fenced::Deferred;
            }
        }
        match resources.fence() {
            Ok(()) => Fenced::Yes(resources),
            Err(e) if matches!(cause, Cause::Removal(_, deadline) if deadline.has_passed()) => {
                self.log_detached(e);
                drop(resources.attachment.take());
                self.life.unfenced(resources);
                Fenced::Deferred
            }
            Err(e) => {
                self.life.unfenced(resources);
                Fenced::Failed(e)
            }
        }
    }

    /// Logs that the pages stay pinned although the device is removed.
    fn log_detached(&self, e: Error) {
        let dev = self.mr.lock().as_ref().map(|info| info.dev.name());
        pr_err!(
            "client {}: {} is removed and does not answer ({:?}); {} bytes stay pinned until the \
             client invalidates them or unregisters\n",
            self.client.name(),
            dev.as_ref().map_or("the device", |name| name),
            e,
            self.range.len(),
        );
    }

    /// Logs that the adapter cannot be fenced.
    fn log_unfenced(&self, e: Error) {
        let dev = self.mr.lock().as_ref().map(|info| info.dev.name());
        pr_err!(
            "client {}: {} does not revoke {} bytes ({:?}); retrying until it does or the MR is \
             deregistered\n",
            self.client.name(),
            dev.as_ref().map_or("an importer", |name| name),
            self.range.len(),
            e
        );
    }

    /// Removes the region from the index of its device.
    fn remove_mr(&self) {
        let entry = self
            .mr
            .lock()
            .as_ref()
            .map(|info| (info.mrs.clone(), info.lkey));
        if let Some((mrs, lkey)) = entry {
            mrs.remove_if(lkey, |found| ptr::eq(found, self));
        }
    }

    /// Retires the ticket and calls `release`, once.
    fn release(&self) {
        self.client.retire(self.ticket);
        let acquired = self.acquired.lock().take();
        drop(acquired);
    }
}

/// The result of [`Region::fence`].
enum Fenced {
    /// The adapter cannot access the memory.
    Yes(Resources),
    /// The driver or the client ends the region later.
    Deferred,
    /// The adapter may still access the memory.
    Failed(Error),
}

impl Revocable for Region {
    fn invalidate(&self) {
        self.revoke_for(Cause::Invalidation);
    }

    fn revoke(&self) {
        self.revoke_for(Cause::Unregistration);
        self.remove_mr();
        self.release();
    }
}

impl OnDetach for Region {
    /// Ends a region that was deferred to the driver.
    fn detached(&self) {
        if let Some(resources) = self.life.close_deferred() {
            self.tear_down(self.life.closed(resources));
            self.release();
        }
    }
}
