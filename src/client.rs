// SPDX-License-Identifier: GPL-2.0

//! A registered client: the callbacks, the tasks inside the client, and the regions by ticket.
//!
//! The C ABI creates a [`Client`], the registry keeps the client, and the dispatch asks the client
//! for memory. A task is inside the client while the task has a [`ClientRef`]. Callbacks may be called
//! only while a [`ClientRef`] exists.
//!
//! Context: any, except [`Client::new`], [`Client::wait_unused`] and the methods of [`Revocable`],
//! which may sleep. The locks are leaves.

use crate::{
    bindings::peer,
    data::index::{
        Map,
        Reservation, //
    },
    prelude::*,
    records::stats::Stats, //
};
use core::ops::Deref;

/// The callbacks of a client. By the C ABI the callbacks stay callable until the client is
/// unregistered.
///
/// # Invariants
///
/// `acquire`, `get_pages`, `dma_map`, `dma_unmap` and `put_pages` are not NULL.
pub(crate) struct Callbacks(peer::peer_memory_client);

impl Callbacks {
    /// Validates the client's table. Fails with the name of the first missing mandatory callback.
    pub(crate) fn new(raw: &peer::peer_memory_client) -> core::result::Result<Self, &'static str> {
        let missing = [
            (raw.acquire.is_none(), "acquire"),
            (raw.get_pages.is_none(), "get_pages"),
            (raw.dma_map.is_none(), "dma_map"),
            (raw.dma_unmap.is_none(), "dma_unmap"),
            (raw.put_pages.is_none(), "put_pages"),
        ];
        match missing.iter().find(|m| m.0) {
            Some(&(_, name)) => Err(name),
            // INVARIANT: All five callbacks are present.
            None => Ok(Self(*raw)),
        }
    }
}

impl Deref for Callbacks {
    type Target = peer::peer_memory_client;

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

/// How a client, or the registry, ends a live region.
pub(crate) trait Revocable: Send + Sync {
    /// First step of the revocation at unregistration: stops new accesses of the device. If the
    /// result is `true`, the caller must wait for the accesses that the device has begun, once for
    /// any number of regions, before [`Self::revoke`]. Context: may sleep.
    fn prepare(&self) -> Result<bool>;

    /// Fences the region for an invalidation by the client. On return the adapter cannot access the
    /// memory, and the pages are put, unless the client puts the pages itself or another task has
    /// begun to. Context: may sleep.
    fn invalidate(&self);

    /// Ends the region at the unregistration of the client: fences, tears down and releases the
    /// region. Context: may sleep.
    fn revoke(&self);

    /// Prints the rows of the region for debugfs. Context: any.
    fn print(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result;
}

#[derive(Clone, Copy)]
pub(crate) struct ClientFlags {
    /// The memory must be revocable: the client is asked only for devices that can be fenced.
    pub(crate) requires_invalidation: bool,
    /// During an invalidation the client unmaps and puts the pages itself.
    pub(crate) invalidate_unmaps: bool,
    /// The CPU can pin the memory: the client is asked before the driver.
    pub(crate) pinnable: bool,
    /// The client maps memory for any device, not only for RDMA adapters.
    pub(crate) maps_for_any_device: bool,
}

/// The in-flight count of a client: the tasks inside the client.
struct InFlightCount {
    /// The client is being unregistered and cannot be entered.
    closed: bool,
    count: usize,
}

/// The last ticket issued, to any client. A ticket is reused only after 2³² other tickets. As the
/// kernel's jiffies, the tickets begin shortly before they wrap, so that each test passes the wrap.
static LAST_TICKET: Atomic<u32> = Atomic::new(u32::MAX - 100);

/// A client. The locks of a client are not held across callbacks, and do not nest in other locks.
#[pin_data]
pub(crate) struct Client {
    name: CString,
    callbacks: Callbacks,
    flags: ClientFlags,
    stats: Arc<Stats>,
    #[pin]
    inflight: SpinLock<InFlightCount>,
    #[pin]
    drained: CondVar,
    /// The time that the client's invalidations, or the unregistration, wait for fences of
    /// dma-bufs.
    #[pin]
    fences: FenceBudget,
    #[pin]
    regions: Map<dyn Revocable>,
}

impl Client {
    pub(crate) fn new(
        name: CString,
        callbacks: Callbacks,
        flags: ClientFlags,
    ) -> Result<Arc<Self>> {
        let stats = Arc::new(Stats::new(), GFP_KERNEL)?;
        Arc::pin_init(
            pin_init!(Self {
                name,
                callbacks,
                flags,
                stats,
                inflight <- new_spinlock!(InFlightCount { closed: false, count: 0 }, "Client::inflight"),
                drained <- new_condvar!("Client::drained"),
                fences <- FenceBudget::new(),
                regions <- Map::new(),
            }),
            GFP_KERNEL,
        )
    }

    pub(crate) fn name(&self) -> &str {
        self.name.to_str().unwrap_or("?")
    }

    pub(crate) fn c_name(&self) -> &CStr {
        &self.name
    }

    pub(crate) fn stats(&self) -> &Arc<Stats> {
        &self.stats
    }

    /// Returns the callbacks. The caller may call them only while a [`ClientRef`] exists.
    pub(crate) fn callbacks(&self) -> &Callbacks {
        &self.callbacks
    }

    pub(crate) fn flags(&self) -> ClientFlags {
        self.flags
    }

    /// Returns the time that all regions together wait for fences of dma-bufs.
    pub(crate) fn fences(&self) -> &FenceBudget {
        &self.fences
    }

    /// Enters the client. Returns `None` if the client is being unregistered.
    pub(crate) fn get_ref(self: &Arc<Self>) -> Option<ClientRef> {
        let mut inflight = self.inflight.lock();
        if inflight.closed {
            return None;
        }
        inflight.count += 1;
        drop(inflight);
        Some(ClientRef(self.clone()))
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.inflight.lock().closed
    }

    /// Closes the client: no task can enter any more. Returns whether this call closed the client.
    pub(crate) fn close(&self) -> bool {
        !mem::replace(&mut self.inflight.lock().closed, true)
    }

    /// Waits until no task is inside the client, which must be closed. Context: may sleep.
    // Not inlined, so that the stack of a task that waits tells what for.
    #[inline(never)]
    pub(crate) fn wait_unused(&self) {
        let mut inflight = self.inflight.lock();
        while inflight.count > 0 {
            self.drained.wait(&mut inflight);
        }
    }

    /// Issues a ticket that is different from those of the client's regions, and from the tickets
    /// of all clients' regions that are less than 2³² tickets old. A client may keep the ticket in
    /// a pointer, so 0 is not a ticket.
    pub(crate) fn issue_ticket(&self) -> u32 {
        loop {
            let ticket = LAST_TICKET.fetch_add(1, Relaxed).wrapping_add(1);
            if ticket != 0 && !self.regions.contains(ticket) {
                return ticket;
            }
        }
    }

    pub(crate) fn insert(
        &self,
        reservation: Reservation<dyn Revocable>,
        ticket: u32,
        region: Arc<dyn Revocable>,
    ) {
        self.regions.insert(reservation, ticket, region);
    }

    pub(crate) fn region(&self, ticket: u32) -> Option<Arc<dyn Revocable>> {
        self.regions.get(ticket)
    }

    /// Returns the region with the smallest ticket from `ticket` on, and the ticket of the region.
    pub(crate) fn region_from(&self, ticket: u32) -> Option<(u32, Arc<dyn Revocable>)> {
        self.regions.from(ticket)
    }

    /// Retires a ticket: invalidations of the ticket do nothing from here on.
    pub(crate) fn retire(&self, ticket: u32) {
        self.regions.remove(ticket);
    }
}

/// A use of a client. While a use exists, the callbacks may be called, and the unregistration of
/// the client does not return.
pub(crate) struct ClientRef(Arc<Client>);

impl Deref for ClientRef {
    type Target = Arc<Client>;

    fn deref(&self) -> &Arc<Client> {
        &self.0
    }
}

impl Drop for ClientRef {
    fn drop(&mut self) {
        let mut inflight = self.0.inflight.lock();
        inflight.count -= 1;
        let awaited = inflight.closed && inflight.count == 0;
        drop(inflight);
        if awaited {
            self.0.drained.notify_all();
        }
    }
}
