// SPDX-License-Identifier: GPL-2.0

//! Fake clients, one for each shape that client drivers have.
//!
//! Callbacks are C functions that get only an address or a context, so there is a fixed number of
//! slots, each with its own functions. The ledger of a slot checks each callback against the state
//! of the region: see [`ledger`].

mod callbacks;
mod ledger;
mod memory;
mod setup;

pub(crate) use ledger::*;
pub(crate) use setup::*;

use crate::{
    prelude::*,
    sync, //
};

/// The number of fake clients that can be registered at once.
pub(crate) const SLOTS: usize = 3;

/// The fake client behind one set of C callbacks.
#[pin_data]
pub(crate) struct Slot {
    number: usize,
    /// The physical address of the memory, if it has struct pages.
    memory: u64,
    #[pin]
    pub(crate) script: Script,
    #[pin]
    setup: SpinLock<Setup>,
    #[pin]
    ledger: SpinLock<Ledger>,
    /// The mutex of the [`Setup::LOCKED`] shape.
    #[pin]
    own_lock: Mutex<()>,
    /// The task that invalidates while it holds `own_lock`.
    invalidator: Atomic<usize>,
    /// The invalidate callback, set by the core. 0: none.
    invalidate: Atomic<usize>,
}

/// Returns whether a range overlaps the memory of any slot.
pub(crate) fn owns(range: &core::ops::Range<u64>) -> bool {
    range.start < memory::base(SLOTS) && memory::base(0) < range.end
}

impl Slot {
    pub(crate) fn new(number: usize, memory: u64) -> Result<Arc<Self>> {
        Arc::pin_init(
            pin_init!(Self {
                number,
                memory,
                script <- Script::new(),
                setup <- new_spinlock!(Setup::SEED, "kunit::Slot::setup"),
                ledger <- new_spinlock!(Ledger::new(), "kunit::Slot::ledger"),
                own_lock <- new_mutex!((), "kunit::Slot::own_lock"),
                invalidator: Atomic::new(0),
                invalidate: Atomic::new(0),
            }),
            GFP_KERNEL,
        )
    }

    fn callback(&self) -> peer::invalidate_peer_memory {
        let callback = ptr::with_exposed_provenance::<()>(self.invalidate.load(Relaxed));
        // SAFETY: The value is a function set by the core, or NULL. NULL is `None`.
        unsafe { mem::transmute::<*const (), peer::invalidate_peer_memory>(callback) }
    }

    /// Calls the invalidate callback as this shape does, with any handle and any ticket.
    fn invalidate(&self, handle: usize, ticket: u64) -> Result<i32> {
        let invalidate = self.callback().ok_or(EINVAL)?;
        let handle = ptr::with_exposed_provenance_mut(handle);
        let setup = *self.setup.lock();
        let guard = setup.locked.then(|| self.own_lock.lock());
        let own = setup.locked || setup.unmaps;
        if own {
            self.invalidator.store(callbacks::task(), Relaxed);
        }
        // The promise of the call covers only regions that exist before the call.
        let mut ledger = self.ledger.lock();
        let known = ledger.find(ticket);
        if let Some(i) = known {
            ledger.entries[i].unmaps_itself |= setup.unmaps;
        }
        let known = known.map(|i| (i, ledger.entries[i]));
        drop(ledger);
        // SAFETY: The core accepts any handle and any ticket.
        let ret = unsafe { invalidate(handle, ticket) };
        if let Some((i, entry)) = known {
            let what = "a device can access the memory after an invalidation";
            self.expect_untouchable(i, &entry, what);
        }
        if own {
            self.invalidator.store(0, Relaxed);
        }
        drop(guard);
        let left = self.ledger.lock().find(ticket);
        if let Some(i) = left {
            self.undo_own(i);
        }
        Ok(ret)
    }

    fn invalidate_last(&self, handle: usize) -> Result {
        match self.invalidate(handle, self.ticket()?)? {
            0 => Ok(()),
            _ => Err(EIO),
        }
    }

    fn ticket(&self) -> Result<u64> {
        match self.ledger.lock().last_ticket {
            0 => Err(ENOENT),
            ticket => Ok(ticket),
        }
    }
}

pub(crate) fn address(number: usize) -> u64 {
    memory::base(number)
}

/// Invalidates the last region of the client in slot `number`. The registration of the client has
/// not returned a handle.
pub(crate) fn invalidate_without_handle(number: usize) -> Result {
    Testbed::get()?.slot(number)?.invalidate_last(0)
}

/// A registered fake client. Drop unregisters the client.
pub(crate) struct Client {
    slot: Arc<Slot>,
    raw: Arc<peer::peer_memory_client_ex>,
    handle: Atomic<usize>,
}

impl Client {
    /// Registers a client in slot `number`. Fails with `EINVAL` if the core rejects the client.
    pub(crate) fn new(number: usize, name: &str, setup: Setup) -> Result<Arc<Self>> {
        Self::altered(number, name, setup, |_| ())
    }

    /// Like [`Self::new`], but calls `change` for the structure before the registration.
    pub(crate) fn altered(
        number: usize,
        name: &str,
        setup: Setup,
        change: impl FnOnce(&mut peer::peer_memory_client_ex),
    ) -> Result<Arc<Self>> {
        if sync::is_stuck() {
            diagnostic!("not run: a task of an earlier test is stuck");
            return Err(EBUSY);
        }
        let slot = Testbed::get()?.slot(number)?.clone();
        slot.script.reset();
        *slot.setup.lock() = setup;
        *slot.ledger.lock() = Ledger::new();

        let mut raw = callbacks::structure(number, &setup);
        for (to, from) in raw.client.name.iter_mut().zip(name.bytes()) {
            *to = from;
        }
        change(&mut raw);
        let raw = Arc::new(raw, GFP_KERNEL)?;
        slot.invalidate.store(0, Relaxed);
        let invalidate_ptr = if setup.invalidates {
            slot.invalidate.as_ptr().cast()
        } else {
            ptr::null_mut()
        };
        // SAFETY:
        // - The structure is initialised as the header requires, or is rejected.
        // - `Client` keeps the structure until the client is unregistered.
        let handle = unsafe { peer::ib_register_peer_memory_client(&raw.client, invalidate_ptr) };
        if handle.is_null() {
            return Err(EINVAL);
        }
        let client = Self {
            slot,
            raw,
            handle: Atomic::new(handle.expose_provenance()),
        };
        Ok(Arc::new(client, GFP_KERNEL)?)
    }

    pub(crate) fn script(&self) -> &Script {
        &self.slot.script
    }

    pub(crate) fn name(&self) -> &CStr {
        CStr::from_bytes_until_nul(&self.raw.client.name).unwrap_or(c"?")
    }

    pub(crate) fn at(&self, offset: u64) -> u64 {
        memory::base(self.slot.number) + offset
    }

    /// Returns the DMA address of byte `offset` of the memory, without an IOMMU.
    pub(crate) fn device_address(&self, offset: u64) -> u64 {
        let setup = *self.slot.setup.lock();
        self.slot.device_address(&setup, offset)
    }

    /// Calls the invalidate callback as this shape does, for any ticket.
    pub(crate) fn invalidate(&self, ticket: u64) -> Result<i32> {
        self.slot.invalidate(self.handle.load(Relaxed), ticket)
    }

    pub(crate) fn invalidate_last(&self) -> Result {
        self.slot.invalidate_last(self.handle.load(Relaxed))
    }

    pub(crate) fn ticket(&self) -> Result<u64> {
        self.slot.ticket()
    }

    pub(crate) fn stage(&self) -> Stage {
        let ledger = self.slot.ledger.lock();
        ledger.entries[ledger.last].stage
    }

    /// Returns `write` and `force` of the last `get_pages`, and `dmasync` of the last `dma_map`.
    pub(crate) fn flags(&self) -> (i32, i32, i32) {
        self.slot.ledger.lock().flags
    }

    pub(crate) fn hint(&self) -> Hint {
        self.slot.ledger.lock().hint
    }

    pub(crate) fn dma_device(&self) -> usize {
        self.slot.ledger.lock().dma_device
    }

    /// Makes the client stop unmapping pages itself, like a client without
    /// `PEER_MEM_INVALIDATE_UNMAPS`.
    pub(crate) fn clear_unmaps(&self) {
        self.slot.setup.lock().unmaps = false;
    }

    /// Returns the function that unregisters the client, once.
    fn end(&self) -> Option<impl FnOnce() + Send + 'static> {
        let handle = self.handle.xchg(0, Full);
        if handle == 0 || sync::is_stuck() {
            return None;
        }
        let (slot, raw) = (self.slot.clone(), self.raw.clone());
        Some(move || {
            let handle = ptr::with_exposed_provenance_mut(handle);
            // SAFETY: The handle is from ib_register_peer_memory_client(), and used once.
            unsafe { peer::ib_unregister_peer_memory_client(handle) };
            slot.ledger.lock().unregistered = true;
            drop(raw);
        })
    }

    /// Unregisters the client, once.
    pub(crate) fn unregister(&self) {
        if let Some(end) = self.end() {
            end();
        }
    }

    /// Checks that all calls so far were valid, and prints the first invalid call.
    pub(crate) fn check(&self) -> Result {
        ledger::check(&self.slot.ledger)
    }

    /// Unregisters the client and checks that all calls were valid and no region is left.
    pub(crate) fn finish(&self) -> Result {
        self.unregister();
        ledger::check(&self.slot.ledger)
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        // A test has failed. A region that does not end must not hang the test.
        let ended = self
            .end()
            .map(|end| -> Result { sync::Task::spawn(end)?.join() });
        if ended.is_some_and(|ended| ended.is_err()) {
            diagnostic!("a client could not be unregistered");
        }
    }
}

/// The size that an extended client states.
pub(crate) const EX_SIZE: usize = size_of::<peer::peer_memory_client_ex>();
