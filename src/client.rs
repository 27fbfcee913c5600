// SPDX-License-Identifier: GPL-2.0

//! A registered client: its callbacks, the tasks inside it, and its regions by ticket.

use crate::{
    bindings::peer,
    ext::dma_buf::FenceBudget,
    index::{
        Map,
        Slot, //
    },
    stats::Stats, //
};
use core::{
    mem,
    ops::Deref, //
};
use kernel::{
    new_condvar, new_spinlock,
    prelude::*,
    str::CString,
    sync::{
        atomic::{
            Atomic,
            Relaxed, //
        },
        Arc,
        CondVar,
        SpinLock, //
    },
};

/// The callbacks of a client. By the C ABI they stay callable until the client is unregistered.
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

/// A live region, as its client and the registry end it.
pub(crate) trait Revocable: Send + Sync {
    /// Begins to end the region because its client is unregistered: has the device begin no new
    /// access. Returns whether a wait for the accesses that the device has begun, which serves any
    /// number of regions, must come before [`Self::revoke`]. Context: may sleep.
    fn prepare(&self) -> Result<bool>;

    /// Fences the region because its client invalidates it. On return the adapter cannot access the
    /// memory, and the pages are put unless the client does that itself. Context: may sleep.
    fn invalidate(&self);

    /// Ends the region because its client is unregistered: fences it, tears it down and releases
    /// it. Context: may sleep.
    fn revoke(&self);
}

/// How a client wants its memory handled.
#[derive(Clone, Copy)]
pub(crate) struct Traits {
    /// Its memory must be revocable: it is asked only for devices that can be fenced.
    pub(crate) requires_invalidation: bool,
    /// During its own invalidations it unmaps and puts its pages itself.
    pub(crate) invalidate_unmaps: bool,
    /// The CPU can pin its memory: it is asked before the driver.
    pub(crate) pinnable: bool,
    /// It maps memory for devices that are not those of RDMA adapters.
    pub(crate) maps_for_any_device: bool,
}

/// The tasks inside a client.
struct Gate {
    /// The client is being unregistered and cannot be entered.
    closed: bool,
    /// Number of [`Use`]s.
    uses: usize,
}

/// The last ticket issued, to any client. A ticket is reused only after 2³² others.
static LAST_TICKET: Atomic<u32> = Atomic::new(0);

/// A client. No lock of it is held across a callback or nested in another.
#[pin_data]
pub(crate) struct Client {
    name: CString,
    callbacks: Callbacks,
    traits: Traits,
    stats: Arc<Stats>,
    #[pin]
    gate: SpinLock<Gate>,
    #[pin]
    drained: CondVar,
    /// How long the client's invalidations, or its unregistration, wait for fences of dma-bufs.
    #[pin]
    fences: FenceBudget,
    /// The regions by ticket.
    #[pin]
    regions: Map<dyn Revocable>,
}

impl Client {
    /// Creates a client that is not registered yet.
    pub(crate) fn new(name: CString, callbacks: Callbacks, traits: Traits) -> Result<Arc<Self>> {
        let stats = Arc::new(Stats::new(), GFP_KERNEL)?;
        Arc::pin_init(
            pin_init!(Self {
                name,
                callbacks,
                traits,
                stats,
                gate <- new_spinlock!(Gate { closed: false, uses: 0 }, "Client::gate"),
                drained <- new_condvar!("Client::drained"),
                fences <- FenceBudget::new(),
                regions <- Map::new(),
            }),
            GFP_KERNEL,
        )
    }

    /// Returns the name.
    pub(crate) fn name(&self) -> &str {
        self.name.to_str().unwrap_or("?")
    }

    /// Returns the name as a C string.
    pub(crate) fn c_name(&self) -> &CStr {
        &self.name
    }

    /// Returns the counters.
    pub(crate) fn stats(&self) -> &Arc<Stats> {
        &self.stats
    }

    /// Returns the callbacks. Only a task that knows of a [`Use`] may call them.
    pub(crate) fn callbacks(&self) -> &Callbacks {
        &self.callbacks
    }

    /// Returns how the client wants its memory handled.
    pub(crate) fn traits(&self) -> Traits {
        self.traits
    }

    /// Returns how long its regions wait for fences of dma-bufs, all together.
    pub(crate) fn fences(&self) -> &FenceBudget {
        &self.fences
    }

    /// Enters the client. Returns `None` if it is being unregistered.
    pub(crate) fn enter(self: &Arc<Self>) -> Option<Use> {
        let mut gate = self.gate.lock();
        if gate.closed {
            return None;
        }
        gate.uses += 1;
        drop(gate);
        Some(Use(self.clone()))
    }

    /// Returns whether the client is being unregistered.
    pub(crate) fn is_closed(&self) -> bool {
        self.gate.lock().closed
    }

    /// Closes the client: it cannot be entered any more. Returns whether this call closed it.
    pub(crate) fn close(&self) -> bool {
        !mem::replace(&mut self.gate.lock().closed, true)
    }

    /// Waits until no task is inside the client, which must be closed. Context: may sleep.
    // Not inlined, so that the stack of a task that waits tells what for.
    #[inline(never)]
    pub(crate) fn wait_unused(&self) {
        let mut gate = self.gate.lock();
        while gate.uses > 0 {
            self.drained.wait(&mut gate);
        }
    }

    /// Issues a ticket that no region of the client has, nor one of another client that has got its
    /// ticket less than 2³² tickets ago. 0 is not a ticket: a client may keep its ticket in a pointer.
    pub(crate) fn issue_ticket(&self) -> u32 {
        loop {
            let ticket = LAST_TICKET.fetch_add(1, Relaxed).wrapping_add(1);
            if ticket != 0 && !self.regions.contains(ticket) {
                return ticket;
            }
        }
    }

    /// Enters a region under its ticket.
    pub(crate) fn insert(
        &self,
        slot: Slot<dyn Revocable>,
        ticket: u32,
        region: Arc<dyn Revocable>,
    ) {
        self.regions.insert(slot, ticket, region);
    }

    /// Returns the region that has `ticket`.
    pub(crate) fn region(&self, ticket: u32) -> Option<Arc<dyn Revocable>> {
        self.regions.get(ticket)
    }

    /// Returns the region with the smallest ticket that is not less than `ticket`, and its ticket.
    pub(crate) fn region_from(&self, ticket: u32) -> Option<(u32, Arc<dyn Revocable>)> {
        self.regions.from(ticket)
    }

    /// Returns one of the regions.
    pub(crate) fn any_region(&self) -> Option<Arc<dyn Revocable>> {
        self.regions.first()
    }

    /// Retires a ticket: an invalidation of it does nothing.
    pub(crate) fn retire(&self, ticket: u32) {
        self.regions.remove(ticket);
    }
}

/// A use of a client: while it exists, unregistering the client has not returned and its callbacks
/// may be called.
pub(crate) struct Use(Arc<Client>);

impl Deref for Use {
    type Target = Arc<Client>;

    fn deref(&self) -> &Arc<Client> {
        &self.0
    }
}

impl Drop for Use {
    fn drop(&mut self) {
        let mut gate = self.0.gate.lock();
        gate.uses -= 1;
        let awaited = gate.closed && gate.uses == 0;
        drop(gate);
        if awaited {
            self.0.drained.notify_all();
        }
    }
}
