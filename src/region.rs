// SPDX-License-Identifier: GPL-2.0

//! A region: one acquired range, from `acquire` to `release`.
//!
//! [`Lifecycle`] says who may do what when; this file does it. What there is to undo is undone
//! by dropping it, in the order of the fields.

mod export;

use crate::{
    adapter::Adapter,
    attach::{
        Attachment,
        Refusal, //
    },
    callbacks::{
        Acquired,
        Pages, //
    },
    client::Client,
    ext::{
        dma_buf::OnDetach,
        rdma::{
            Access,
            Change,
            Mr,
            Original,
            Request,
            UserMr, //
        }, //
    },
    lifecycle::{
        Close,
        Lifecycle,
        Until, //
    },
    range::Range,
    stats::Counted, //
};
use kernel::{
    new_spinlock,
    prelude::*,
    rbtree::RBTreeNodeReservation,
    sync::{
        Arc,
        SpinLock, //
    },
    time::{
        delay::fsleep,
        Delta, //
    },
};

/// What there is to undo of a region. Dropped in this order.
struct Held {
    /// How the adapter gets at the memory; `None` where registering did not get so far.
    attachment: Option<Attachment>,
    pages: Pages,
    _counted: Option<Counted>,
}

impl Held {
    /// Undoes all but `dma_unmap` and `put_pages`: the client does both itself.
    fn leave_to_client(self) {
        drop(self.attachment);
        self.pages.leave_to_client();
    }
}

/// The MR that was made on a region, by which its adapter finds it.
struct Made {
    adapter: Arc<Adapter>,
    lkey: u32,
    id: usize,
    access: Access,
    iova: u64,
}

/// A region.
///
/// # Invariants
///
/// - `acquired` is taken out, and so released, once, after everything in `life` is undone.
/// - `mr` is set before the region is live, and does not change after that.
#[pin_data]
pub(crate) struct Region {
    client: Arc<Client>,
    ticket: u32,
    range: Range,
    #[pin]
    acquired: SpinLock<Option<Acquired>>,
    /// `None` for ever where the region is a dma-buf for others to import.
    #[pin]
    mr: SpinLock<Option<Made>>,
    #[pin]
    life: Lifecycle<Held>,
}

impl Region {
    /// Registers memory that its client has acquired. May sleep.
    pub(crate) fn register(
        acquired: Acquired,
        adapter: &Arc<Adapter>,
        req: &Request<'_>,
        range: Range,
    ) -> Result<UserMr, Refusal> {
        let writable = req.access.is_writable();
        Self::begin(acquired, range, writable, |region, pages| {
            region.make_mr(adapter, req, pages)
        })
    }

    /// Pins memory that its client has acquired and has `make` give it to somebody; the region
    /// is live then. May sleep.
    fn begin<T>(
        acquired: Acquired,
        range: Range,
        writable: bool,
        make: impl FnOnce(&Arc<Self>, &mut Pages) -> Result<(T, Attachment), Refusal>,
    ) -> Result<T, Refusal> {
        let client = Arc::clone(acquired.client());
        let owner = client.clone();
        let region = client.issue(|ticket| {
            Arc::pin_init(
                pin_init!(Self {
                    client: owner,
                    ticket,
                    range,
                    acquired <- new_spinlock!(None, "Region::acquired"),
                    mr <- new_spinlock!(None, "Region::mr"),
                    life <- Lifecycle::new(),
                }),
                GFP_KERNEL_ACCOUNT,
            )
        })?;

        let mut pages = None;
        let made = region
            .pin(&acquired, writable, &mut pages)
            .and_then(|pages| make(&region, pages));
        // Whoever ends the region's life releases it: from here on that can be another task.
        *region.acquired.lock() = Some(acquired);
        match (made, pages) {
            (Ok((made, attachment)), Some(pages)) => {
                region.life.registered(Held {
                    attachment: Some(attachment),
                    pages,
                    _counted: Some(Counted::new(
                        client.stats().clone(),
                        range.pages() as u64,
                        range.len() as u64,
                    )),
                });
                Ok(made)
            }
            (made, pages) => {
                match pages {
                    Some(pages) => region.undo(region.life.abandon(Held {
                        attachment: None,
                        pages,
                        _counted: None,
                    })),
                    None => region.life.abandon_empty(),
                }
                region.finish();
                Err(made.err().unwrap_or(Refusal::Error(EINVAL)))
            }
        }
    }

    /// Pins the memory. What is pinned is left in `pages`.
    fn pin<'a>(
        &self,
        acquired: &Acquired,
        writable: bool,
        pages: &'a mut Option<Pages>,
    ) -> Result<&'a mut Pages, Refusal> {
        // Unregistering revokes the regions that it finds after it has closed the client, and
        // this one could be found since before this check.
        if self.client.is_leaving() {
            return Err(Refusal::Error(ENODEV));
        }
        Ok(pages.insert(acquired.get_pages(self.range, writable, self.ticket)?))
    }

    /// Has the adapter's backend make an MR.
    fn make_mr(
        self: &Arc<Self>,
        adapter: &Arc<Adapter>,
        req: &Request<'_>,
        pages: &mut Pages,
    ) -> Result<(UserMr, Attachment), Refusal> {
        // Nothing can fail between making the MR and having it in the adapter's table.
        let entry = RBTreeNodeReservation::new(GFP_KERNEL_ACCOUNT)?;
        let must_fence = self.client.requires_invalidation();
        let (mr, attachment) = adapter
            .backend()
            .register(req, self.range, pages, must_fence)?;
        let lkey = mr.as_mr().lkey();
        *self.mr.lock() = Some(Made {
            adapter: adapter.clone(),
            lkey,
            id: mr.as_mr().id(),
            access: req.access,
            iova: req.iova,
        });
        adapter.insert(entry.into_node(lkey, self.clone()));
        Ok((mr, attachment))
    }

    /// Is this the region of that MR?
    pub(crate) fn is_of(&self, mr: &Mr) -> bool {
        self.mr
            .lock()
            .as_ref()
            .is_some_and(|made| made.id == mr.id())
    }

    /// Completes a request to change the MR: what is not to be changed is as it was.
    pub(crate) fn complete(&self, req: &mut Request<'_>, change: Change) {
        if let Some(made) = &*self.mr.lock() {
            if !change.access() {
                req.access = made.access;
            }
            if !change.range() {
                req.start = self.range.addr() as u64;
                req.length = self.range.len() as u64;
                req.iova = made.iova;
            }
        }
    }

    /// The user deregisters the MR. May sleep.
    pub(crate) fn deregister(self: &Arc<Self>, original: &Original<'_>) -> Result {
        match self.life.close() {
            Close::Live(held) => {
                if let Err(e) = original.call() {
                    self.life.reopen(held);
                    return Err(e);
                }
                self.forget();
                self.undo(self.life.closed(held));
            }
            Close::Revoked => {
                original.call()?;
                self.forget();
            }
            Close::Closed => original.call()?,
        }
        self.finish();
        Ok(())
    }

    /// The client invalidates the region. On return the adapter can no longer touch the memory,
    /// and the pages are put unless the client does that itself. May sleep.
    pub(crate) fn invalidate(&self) {
        self.take_away(Until::Fenced, self.client.unmaps_itself(), None);
    }

    /// The core takes the region away for good. On return the client has it back, except that
    /// `release` may still run in another task: a [`Use`](crate::client::Use) of the client
    /// stands for that. May sleep.
    pub(crate) fn revoke(self: &Arc<Self>) {
        self.take_away(Until::Undone, false, None);
        self.forget();
        self.finish();
    }

    /// The adapter goes. As [`Self::revoke`], but what cannot be fenced is left to the driver,
    /// which deregisters the MR when it is told of the device's end, if not before: waiting for
    /// that here would keep it from being told. May sleep.
    pub(crate) fn part(self: &Arc<Self>) {
        let ended = self.take_away(Until::Undone, false, Some(self));
        self.forget();
        if ended {
            self.finish();
        }
    }

    /// Undoes what a waiting invalidation has not been handed.
    fn undo(&self, held: Option<Held>) {
        if held.is_some() {
            drop(held);
            self.life.ended();
        }
    }

    /// Fences and undoes, where nobody else has. With `leave_to_driver` what cannot be fenced
    /// stays, and ends when the driver lets go of it; `false` then.
    fn take_away(
        &self,
        until: Until,
        leave_to_client: bool,
        leave_to_driver: Option<&Arc<Self>>,
    ) -> bool {
        let mut told = false;
        while let Some((mut held, fenced)) = self.life.take(until) {
            if !fenced {
                if let (Some(this), Some(attachment)) = (leave_to_driver, &held.attachment) {
                    if !attachment.can_fence() {
                        attachment.leave_to_driver(this.clone());
                        self.life.unfenced(held);
                        return false;
                    }
                }
                if let Err(e) = held.attachment.as_mut().map_or(Ok(()), |a| a.fence()) {
                    // To let go of the memory now would let the adapter write into what others
                    // get next. Try again until it works or the MR is deregistered.
                    if !told {
                        pr_err!(
                            "client {}: {} does not let go of {} bytes at {:#x} ({:?}); waiting \
                             for that, or for the MR to be deregistered\n",
                            self.client.name(),
                            self.user()
                                .as_deref()
                                .map_or("an importer", |a| a.device().name()),
                            self.range.len(),
                            self.range.addr(),
                            e
                        );
                        told = true;
                    }
                    self.life.unfenced(held);
                    fsleep(Delta::from_secs(1));
                    continue;
                }
            }
            self.life.fenced();
            if leave_to_client {
                held.leave_to_client();
            } else {
                drop(held);
            }
            self.life.revoked();
            break;
        }
        true
    }

    /// The adapter that has an MR on it, if it is for one.
    fn user(&self) -> Option<Arc<Adapter>> {
        self.mr.lock().as_ref().map(|made| made.adapter.clone())
    }

    /// The adapter does not find it any more.
    fn forget(self: &Arc<Self>) {
        let made = self
            .mr
            .lock()
            .as_ref()
            .map(|made| (made.adapter.clone(), made.lkey));
        if let Some((adapter, lkey)) = made {
            adapter.forget(self, lkey);
        }
    }

    /// Everything is undone: the client is told by `release`, once.
    fn finish(&self) {
        self.client.retire(self.ticket);
        let acquired = self.acquired.lock().take();
        drop(acquired);
    }
}

impl OnDetach for Region {
    /// The driver has let go of a region that was left to it.
    fn detached(&self) {
        if let Some(held) = self.life.close_left() {
            self.undo(self.life.closed(held));
            self.finish();
        }
    }
}
