// SPDX-License-Identifier: GPL-2.0

//! Fake clients: one for each shape of client that there is in the field.
//!
//! Callbacks are plain C functions that only get an address or a context; so there is a fixed
//! number of slots, each with functions of its own. Each region that a slot has handed out is a
//! small state machine which checks each callback as it comes: see [`book`].

mod book;
mod callbacks;
mod memory;

pub(crate) use book::{
    Hint,
    Stage, //
};

use crate::{
    peer,
    script::Script,
    sync,
    World, //
};
use book::Book;
use core::{
    mem::size_of,
    ptr, //
};
use kernel::{
    new_mutex, new_spinlock,
    prelude::*,
    sync::{
        atomic::{
            Atomic,
            Full,
            Relaxed, //
        },
        Arc,
        Mutex,
        SpinLock, //
    },
};

/// How a client behaves.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Shape {
    /// Allocates and fills the table with struct pages in `get_pages`, maps in `dma_map`.
    Seed,
    /// Page-less: makes the table in `dma_map`, compares the structure byte for byte in
    /// `dma_unmap` and `put_pages`, frees the table in `release`.
    Gpu,
    /// Has a table of its own, which it assigns in `dma_map` and frees in `put_pages`.
    OwnTable,
}

/// What is wrong with a client's table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Fault {
    None,
    /// The last page is missing.
    Short,
    /// Nothing at all.
    Empty,
    /// The first entry begins inside a page.
    Misaligned,
    /// The last entry ends inside a page.
    Odd,
    /// `dma_map` says that one entry less is mapped than there is.
    MapsLess,
    /// `dma_map` says that nothing is mapped.
    MapsNone,
}

/// How a fake client is made.
#[derive(Clone, Copy)]
pub(crate) struct Setup {
    pub(crate) shape: Shape,
    /// What its memory is made of.
    pub(crate) page: u64,
    /// What `get_page_size` says, where that is not `page`.
    pub(crate) says: Option<u64>,
    /// Bytes that it has.
    pub(crate) len: u64,
    /// Where its memory is, where that is not its own place: the slot whose place it is.
    pub(crate) place: Option<usize>,
    pub(crate) fault: Fault,
    /// Pages are not in the order of their addresses.
    pub(crate) scattered: bool,
    /// Allocates more entries than it fills and maps.
    pub(crate) spare: u32,
    /// Two of its regions may be on the same memory: while one is undone an adapter may still
    /// touch it through the other.
    pub(crate) shared: bool,
    /// It gets an invalidate callback.
    pub(crate) invalidates: bool,
    /// Its callbacks, and its invalidations, take one mutex.
    pub(crate) locked: bool,
    /// PEER_MEM_INVALIDATE_UNMAPS.
    pub(crate) unmaps: bool,
    /// No `release`, no `get_page_size`.
    pub(crate) bare: bool,
    /// What `acquire` answers for its own memory.
    pub(crate) answer: i32,
}

impl Setup {
    /// A client of that shape.
    pub(crate) const fn new(shape: Shape) -> Self {
        let page = match shape {
            Shape::Gpu => 64 << 10,
            _ => 4 << 10,
        };
        Self {
            shape,
            page,
            says: None,
            len: 1 << 20,
            place: None,
            fault: Fault::None,
            scattered: false,
            spare: 0,
            shared: false,
            invalidates: true,
            locked: false,
            unmaps: false,
            bare: false,
            answer: 1,
        }
    }

    /// The seed style.
    pub(crate) const SEED: Self = Self::new(Shape::Seed);
    /// The page-less GPU.
    pub(crate) const GPU: Self = Self::new(Shape::Gpu);
    /// The one with a table of its own.
    pub(crate) const OWN_TABLE: Self = Self::new(Shape::OwnTable);
    /// Aligns by itself to 2 MiB.
    pub(crate) const HUGE: Self = Self {
        page: 2 << 20,
        len: 4 << 20,
        ..Self::SEED
    };
    /// Invalidates under the mutex that its own callbacks take.
    pub(crate) const LOCKED: Self = Self {
        locked: true,
        ..Self::SEED
    };
    /// Without `release` and `get_page_size`.
    pub(crate) const BARE: Self = Self {
        bare: true,
        ..Self::SEED
    };
    /// Unmaps and puts its pages itself.
    pub(crate) const UNMAPS: Self = Self {
        unmaps: true,
        ..Self::SEED
    };
    /// Without invalidation.
    pub(crate) const PERSISTENT: Self = Self {
        invalidates: false,
        ..Self::SEED
    };
}

/// How many fake clients there can be at once.
pub(crate) const SLOTS: usize = 3;

/// One fake client's own side.
#[pin_data]
pub(crate) struct Slot {
    number: usize,
    #[pin]
    pub(crate) script: Script,
    #[pin]
    setup: SpinLock<Setup>,
    #[pin]
    book: SpinLock<Book>,
    /// The mutex of the [`Setup::LOCKED`] shape.
    #[pin]
    own_lock: Mutex<()>,
    /// The task that invalidates while it holds `own_lock`.
    invalidator: Atomic<usize>,
}

impl Slot {
    /// Slot `number`.
    pub(crate) fn new(number: usize) -> Result<Pin<KBox<Self>>> {
        KBox::pin_init(
            pin_init!(Self {
                number,
                script <- Script::new(),
                setup <- new_spinlock!(Setup::SEED, "kunit::Slot::setup"),
                book <- new_spinlock!(Book::new(), "kunit::Slot::book"),
                own_lock <- new_mutex!((), "kunit::Slot::own_lock"),
                invalidator: Atomic::new(0),
            }),
            GFP_KERNEL,
        )
    }
}

/// A registered fake client. Dropping it unregisters it.
pub(crate) struct Client {
    world: Arc<World>,
    number: usize,
    raw: KBox<peer::peer_memory_client_ex>,
    handle: Atomic<usize>,
    invalidate: peer::invalidate_peer_memory,
}

impl Client {
    /// Registers a client in slot `number`. `EINVAL` where the core refuses it.
    pub(crate) fn new(number: usize, name: &str, setup: Setup) -> Result<Arc<Self>> {
        Self::altered(number, name, setup, |_| ())
    }

    /// As [`Self::new`], with changes to the structure before it is registered.
    pub(crate) fn altered(
        number: usize,
        name: &str,
        setup: Setup,
        change: impl FnOnce(&mut peer::peer_memory_client_ex),
    ) -> Result<Arc<Self>> {
        if sync::is_stuck() {
            pr_err!("a task is stuck: no more tests\n");
            return Err(EBUSY);
        }
        let world = World::get()?;
        let slot = world.slot(number)?;
        slot.script.reset();
        *slot.setup.lock() = setup;
        *slot.book.lock() = Book::new();

        let mut raw = KBox::new(callbacks::structure(number, &setup), GFP_KERNEL)?;
        for (to, from) in raw.client.name.iter_mut().zip(name.bytes()) {
            *to = from;
        }
        change(&mut raw);
        let mut invalidate: peer::invalidate_peer_memory = None;
        let invalidate_ptr = if setup.invalidates {
            &raw mut invalidate
        } else {
            ptr::null_mut()
        };
        // SAFETY: The structure is as the header says and lives as long as the registration.
        let handle = unsafe { peer::ib_register_peer_memory_client(&raw.client, invalidate_ptr) };
        if handle.is_null() {
            return Err(EINVAL);
        }
        let client = Self {
            world,
            number,
            raw,
            handle: Atomic::new(handle.expose_provenance()),
            invalidate,
        };
        Ok(Arc::new(client, GFP_KERNEL)?)
    }

    /// Our own side.
    pub(crate) fn slot(&self) -> Result<&Slot> {
        self.world.slot(self.number)
    }

    /// Its plans.
    pub(crate) fn script(&self) -> Result<&Script> {
        Ok(&self.slot()?.script)
    }

    /// Its name.
    pub(crate) fn name(&self) -> &CStr {
        CStr::from_bytes_until_nul(&self.raw.client.name).unwrap_or(c"?")
    }

    /// The address of byte `offset` of its memory in the process.
    pub(crate) fn at(&self, offset: u64) -> u64 {
        memory::base(self.number) + offset
    }

    /// Where byte `offset` of its memory is, as a device that does not translate sees it.
    pub(crate) fn device_address(&self, offset: u64) -> Result<u64> {
        let slot = self.slot()?;
        let setup = *slot.setup.lock();
        Ok(memory::device_address(
            &self.world,
            self.number,
            &setup,
            offset,
        ))
    }

    /// Calls the invalidate callback as this shape does, for any ticket.
    pub(crate) fn invalidate(&self, ticket: u64) -> Result<i32> {
        let invalidate = self.invalidate.ok_or(EINVAL)?;
        let handle = ptr::with_exposed_provenance_mut(self.handle.load(Relaxed));
        let slot = self.slot()?;
        let setup = *slot.setup.lock();
        let guard = setup.locked.then(|| slot.own_lock.lock());
        if setup.locked || setup.unmaps {
            slot.invalidator.store(callbacks::task(), Relaxed);
        }
        if setup.unmaps {
            slot.give_up(ticket);
        }
        // A ticket that is only given out during the call is none that the call is about.
        let known = slot.knows(ticket);
        // SAFETY: Any handle and any ticket may be given.
        let ret = unsafe { invalidate(handle, ticket) };
        if known {
            slot.after_invalidate(ticket);
        }
        if setup.locked || setup.unmaps {
            slot.invalidator.store(0, Relaxed);
        }
        drop(guard);
        if setup.unmaps {
            slot.unmap_itself(ticket);
        }
        Ok(ret)
    }

    /// Invalidates the one region that there is.
    pub(crate) fn invalidate_it(&self) -> Result {
        let ticket = self.ticket()?;
        if self.invalidate(ticket)? != 0 {
            return Err(EIO);
        }
        Ok(())
    }

    /// The ticket that `get_pages` got last.
    pub(crate) fn ticket(&self) -> Result<u64> {
        match self.slot()?.book.lock().last_ticket {
            0 => Err(ENOENT),
            ticket => Ok(ticket),
        }
    }

    /// What the last region is in the middle of, as far as the client knows.
    pub(crate) fn stage(&self) -> Result<Stage> {
        Ok(self.slot()?.book.lock().last_stage())
    }

    /// The arguments of the last `get_pages`: write, force; and dmasync of the last `dma_map`.
    pub(crate) fn flags(&self) -> Result<(i32, i32, i32)> {
        Ok(self.slot()?.book.lock().flags)
    }

    /// From now on there may be hints.
    pub(crate) fn expect_hints(&self) -> Result {
        self.slot()?.book.lock().hinted = true;
        Ok(())
    }

    /// The hint that the last `acquire` got.
    pub(crate) fn hint(&self) -> Result<Hint> {
        Ok(self.slot()?.book.lock().hint)
    }

    /// The device that the last `dma_map` got.
    pub(crate) fn dma_device(&self) -> Result<usize> {
        Ok(self.slot()?.book.lock().dma_device)
    }

    /// From now on it does not unmap itself.
    pub(crate) fn plain(&self) {
        if let Ok(slot) = self.slot() {
            slot.setup.lock().unmaps = false;
        }
    }

    /// Unregisters it, once. May sleep.
    pub(crate) fn unregister(&self) {
        let handle = self.handle.xchg(0, Full);
        if handle == 0 || sync::is_stuck() {
            return;
        }
        // SAFETY: The handle is from registering.
        unsafe { peer::ib_unregister_peer_memory_client(ptr::with_exposed_provenance_mut(handle)) };
        if let Ok(slot) = self.slot() {
            slot.book.lock().unregistered = true;
        }
    }

    /// Does what the callbacks have been called for so far make sense? Prints what does not.
    pub(crate) fn is_in_order(&self) -> Result {
        self.slot()?.book.lock().verdict(false)
    }

    /// Unregisters it; from then on nothing may be left, and all must have made sense.
    pub(crate) fn finish(&self) -> Result {
        self.unregister();
        self.slot()?.book.lock().verdict(true)
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        self.unregister();
    }
}

/// The size that an extended client says it has.
pub(crate) const EX_SIZE: usize = size_of::<peer::peer_memory_client_ex>();
