// SPDX-License-Identifier: GPL-2.0

//! A region: one acquired range, from `acquire` to `release`.
//!
//! [`Lifecycle`] says who may do what when; this file does it. What there is to undo is undone
//! by dropping it, in the order of the fields.

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
    lifecycle::{
        Close,
        Lifecycle,
        Until, //
    },
    range::Range,
    rdma::{
        Access,
        Mr,
        Original,
        Request,
        UserMr, //
    },
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

/// The MR that was made on a region.
#[derive(Clone, Copy)]
struct MrName {
    lkey: u32,
    id: usize,
}

/// A region.
///
/// # Invariants
///
/// - `acquired` is taken out, and so released, once, after everything in `life` is undone.
/// - `mr` is set before the region is live.
#[pin_data]
pub(crate) struct Region {
    client: Arc<Client>,
    adapter: Arc<Adapter>,
    ticket: u32,
    range: Range,
    access: Access,
    iova: u64,
    #[pin]
    acquired: SpinLock<Option<Acquired>>,
    #[pin]
    mr: SpinLock<Option<MrName>>,
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
        let client = Arc::clone(acquired.client());
        let (owner, adapter) = (client.clone(), adapter.clone());
        let (access, iova) = (req.access, req.iova);
        let region = client.issue(|ticket| {
            Arc::pin_init(
                pin_init!(Self {
                    client: owner,
                    adapter,
                    ticket,
                    range,
                    access,
                    iova,
                    acquired <- new_spinlock!(None, "Region::acquired"),
                    mr <- new_spinlock!(None, "Region::mr"),
                    life <- Lifecycle::new(),
                }),
                GFP_KERNEL,
            )
        })?;

        let mut pages = None;
        let built = region.build(&acquired, req, &mut pages);
        // Whoever ends the region's life releases it: from here on that can be another task.
        *region.acquired.lock() = Some(acquired);
        match (built, pages) {
            (Ok((mr, attachment)), Some(pages)) => {
                region.life.registered(Held {
                    attachment: Some(attachment),
                    pages,
                    _counted: Some(Counted::new(
                        client.stats().clone(),
                        range.pages() as u64,
                        range.len() as u64,
                    )),
                });
                Ok(mr)
            }
            (built, pages) => {
                match pages {
                    Some(pages) => region.undo(region.life.abandon(Held {
                        attachment: None,
                        pages,
                        _counted: None,
                    })),
                    None => region.life.abandon_empty(),
                }
                region.finish();
                Err(built.err().unwrap_or(Refusal::Error(EINVAL)))
            }
        }
    }

    /// Pins the memory and has the adapter's backend make an MR on it. What is pinned is in
    /// `pages` also where this fails.
    fn build(
        self: &Arc<Self>,
        acquired: &Acquired,
        req: &Request<'_>,
        pages: &mut Option<Pages>,
    ) -> Result<(UserMr, Attachment), Refusal> {
        // Unregistering revokes the regions that it finds after it has closed the client, and
        // this one could be found since before this check.
        if self.client.is_leaving() {
            return Err(Refusal::Error(ENODEV));
        }
        let pages =
            pages.insert(acquired.get_pages(self.range, req.access.is_writable(), self.ticket)?);
        // Nothing can fail between making the MR and having it in the adapter's table.
        let entry = RBTreeNodeReservation::new(GFP_KERNEL)?;
        let (mr, attachment) = self.adapter.backend().register(req, self.range, pages)?;
        let name = MrName {
            lkey: mr.as_mr().lkey(),
            id: mr.as_mr().id(),
        };
        *self.mr.lock() = Some(name);
        self.adapter
            .insert(entry.into_node(name.lkey, self.clone()));
        Ok((mr, attachment))
    }

    /// Is this the region of that MR?
    pub(crate) fn is_of(&self, mr: &Mr) -> bool {
        self.mr.lock().is_some_and(|name| name.id == mr.id())
    }

    /// The range that was registered.
    pub(crate) fn range(&self) -> Range {
        self.range
    }

    /// The access flags that were asked for.
    pub(crate) fn access(&self) -> Access {
        self.access
    }

    /// The address by which the device knows the range's start.
    pub(crate) fn iova(&self) -> u64 {
        self.iova
    }

    /// The user deregisters the MR. May sleep.
    pub(crate) fn deregister(self: &Arc<Self>, original: &Original<'_>) -> Result {
        match self.life.close() {
            Close::Live(held) => {
                if let Err(e) = original.call() {
                    self.life.reopen(held);
                    return Err(e);
                }
                self.adapter.forget(self, self.lkey());
                self.undo(self.life.closed(held));
            }
            Close::Revoked => {
                original.call()?;
                self.adapter.forget(self, self.lkey());
            }
            Close::Closed => original.call()?,
        }
        self.finish();
        Ok(())
    }

    /// The client invalidates the region. On return the adapter can no longer touch the memory,
    /// and the pages are put unless the client does that itself. May sleep.
    pub(crate) fn invalidate(&self) {
        self.take_away(Until::Fenced, self.client.unmaps_itself());
    }

    /// The core takes the region away for good. On return the client has it back, except that
    /// `release` may still run in another task: a [`Use`](crate::client::Use) of the client
    /// stands for that. May sleep.
    pub(crate) fn revoke(self: &Arc<Self>) {
        self.take_away(Until::Undone, false);
        self.adapter.forget(self, self.lkey());
        self.finish();
    }

    /// Undoes what a waiting invalidation has not been handed.
    fn undo(&self, held: Option<Held>) {
        if held.is_some() {
            drop(held);
            self.life.ended();
        }
    }

    /// Fences and undoes, where nobody else has.
    fn take_away(&self, until: Until, leave_to_client: bool) {
        let mut told = false;
        while let Some((mut held, fenced)) = self.life.take(until) {
            if !fenced {
                if let Err(e) = held.attachment.as_mut().map_or(Ok(()), |a| a.fence()) {
                    // To let go of the memory now would let the adapter write into what others
                    // get next. Try again until it works or the MR is deregistered.
                    if !told {
                        pr_err!(
                            "client {}: {} does not let go of {} bytes at {:#x} ({:?}); waiting\n",
                            self.client.name(),
                            self.adapter.device().name(),
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
            return;
        }
    }

    /// The local key of the MR; 0 where there is none.
    fn lkey(&self) -> u32 {
        self.mr.lock().map_or(0, |name| name.lkey)
    }

    /// Everything is undone: the client is told by `release`, once.
    fn finish(&self) {
        self.client.retire(self.ticket);
        let acquired = self.acquired.lock().take();
        drop(acquired);
    }
}
