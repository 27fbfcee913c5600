// SPDX-License-Identifier: GPL-2.0

//! A registered client: who it is, who uses it, and its regions by ticket.

use crate::{
    callbacks::Callbacks,
    region::Region,
    stats::Stats, //
};
use core::ops::Deref;
use kernel::{
    new_condvar, new_spinlock,
    prelude::*,
    rbtree::{
        RBTree,
        RBTreeNode, //
    },
    str::CString,
    sync::{
        Arc,
        CondVar,
        SpinLock, //
    },
};

/// Who is inside the client.
struct Gate {
    /// The client is being unregistered: nobody comes in.
    leaving: bool,
    /// How many [`Use`]s there are.
    uses: usize,
}

/// The regions that the client can name.
struct Tickets {
    /// The last ticket given out. A ticket comes again after 2³² others.
    last: u32,
    regions: RBTree<u32, Arc<Region>>,
}

impl Tickets {
    /// The next ticket that no region has. 0 is none, as a client may keep one in a pointer.
    fn next(&mut self) -> u32 {
        loop {
            self.last = self.last.wrapping_add(1);
            if self.last != 0 && self.regions.get(&self.last).is_none() {
                return self.last;
            }
        }
    }
}

/// A client.
///
/// Neither lock is held across a callback or nested in the other.
#[pin_data]
pub(crate) struct Client {
    name: CString,
    callbacks: Callbacks,
    /// It is only asked about memory for devices that can be fenced.
    invalidates: bool,
    /// During its own invalidations it unmaps and puts its pages itself.
    unmaps_itself: bool,
    stats: Arc<Stats>,
    #[pin]
    gate: SpinLock<Gate>,
    #[pin]
    drained: CondVar,
    #[pin]
    tickets: SpinLock<Tickets>,
}

impl Client {
    /// Makes a client that nobody knows yet.
    pub(crate) fn new(
        name: CString,
        callbacks: Callbacks,
        invalidates: bool,
        unmaps_itself: bool,
    ) -> Result<Arc<Self>> {
        let stats = Arc::new(Stats::new(), GFP_KERNEL)?;
        Arc::pin_init(
            pin_init!(Self {
                name,
                callbacks,
                invalidates,
                unmaps_itself,
                stats,
                gate <- new_spinlock!(Gate { leaving: false, uses: 0 }, "Client::gate"),
                drained <- new_condvar!("Client::drained"),
                tickets <- new_spinlock!(
                    Tickets { last: 0, regions: RBTree::new() },
                    "Client::tickets"
                ),
            }),
            GFP_KERNEL,
        )
    }

    /// Its name.
    pub(crate) fn name(&self) -> &str {
        self.name.to_str().unwrap_or("?")
    }

    /// Its name as a C string.
    pub(crate) fn c_name(&self) -> &CStr {
        &self.name
    }

    /// Its callbacks; call them only through a [`Use`].
    pub(crate) fn callbacks(&self) -> &Callbacks {
        &self.callbacks
    }

    /// Its counters.
    pub(crate) fn stats(&self) -> &Arc<Stats> {
        &self.stats
    }

    /// Must memory of this client be taken away from a device when the client says so?
    pub(crate) fn requires_invalidation(&self) -> bool {
        self.invalidates
    }

    /// Does it unmap and put its pages itself when it invalidates?
    pub(crate) fn unmaps_itself(&self) -> bool {
        self.unmaps_itself
    }

    /// Begins to use the client; `None` where it is being unregistered.
    pub(crate) fn enter(self: &Arc<Self>) -> Option<Use> {
        let mut gate = self.gate.lock();
        if gate.leaving {
            return None;
        }
        gate.uses += 1;
        drop(gate);
        Some(Use(self.clone()))
    }

    /// Is the client being unregistered?
    pub(crate) fn is_leaving(&self) -> bool {
        self.gate.lock().leaving
    }

    /// Lets nobody in any more. `false` where that has been done before.
    pub(crate) fn close(&self) -> bool {
        !core::mem::replace(&mut self.gate.lock().leaving, true)
    }

    /// Waits until nobody uses the client. May sleep.
    pub(crate) fn wait_unused(&self) {
        let mut gate = self.gate.lock();
        while gate.uses > 0 {
            self.drained.wait(&mut gate);
        }
    }

    /// Takes a ticket for a region that is made with it. May sleep.
    pub(crate) fn issue(
        &self,
        make: impl FnOnce(u32) -> Result<Arc<Region>>,
    ) -> Result<Arc<Region>> {
        let ticket = self.tickets.lock().next();
        let region = make(ticket)?;
        let node = RBTreeNode::new(ticket, region.clone(), GFP_KERNEL_ACCOUNT)?;
        // Tickets are given out one after the other, so nobody else got this one meanwhile.
        let old = self.tickets.lock().regions.insert(node);
        drop(old);
        Ok(region)
    }

    /// The region with that ticket.
    pub(crate) fn region(&self, ticket: u32) -> Option<Arc<Region>> {
        self.tickets.lock().regions.get(&ticket).cloned()
    }

    /// Any region.
    pub(crate) fn any_region(&self) -> Option<Arc<Region>> {
        self.tickets.lock().regions.values().next().cloned()
    }

    /// Takes a ticket back.
    pub(crate) fn retire(&self, ticket: u32) {
        let node = self.tickets.lock().regions.remove_node(&ticket);
        drop(node);
    }
}

/// A use of a client: it has not been unregistered while this exists.
pub(crate) struct Use(Arc<Client>);

impl Clone for Use {
    fn clone(&self) -> Self {
        self.0.gate.lock().uses += 1;
        Self(self.0.clone())
    }
}

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
        let last = gate.uses == 0;
        drop(gate);
        if last {
            self.0.drained.notify_all();
        }
    }
}
