// SPDX-License-Identifier: GPL-2.0

//! Peer memory clients: drivers that offer memory they own to RDMA devices.
//!
//! A client implements [`Client`] and keeps a [`Registration`]. The order of the callbacks, and who
//! owns what in between, are in the types:
//!
//! ```text
//!  acquire   -> Region                 lives until release, which drops it
//!  get_pages -> Memory                 lives until put_pages, which drops it
//!  dma_map                             Memory::map
//!  dma_unmap                           Memory::unmap
//! ```
//!
//! So a table cannot be freed twice, nor be freed while it is mapped. A [`Ticket`] is what a client
//! keeps to take memory back from the adapter.
//!
//! Not supported: memory without struct pages, page sizes other than `PAGE_SIZE`, and clients that
//! put their pages themselves during an invalidation.
//!
//! C header: `include/rdma/ib_peer_mem.h`.

use crate::{
    bindings_peer::{
        self as peer,
        peer_memory_client, //
    },
    dma_table::Table, //
};
use core::{
    marker::PhantomData,
    ptr::NonNull, //
};
use kernel::{
    bindings,
    device,
    error::from_result,
    new_condvar,
    new_mutex,
    prelude::*,
    sync::{
        atomic::{
            Acquire,
            Atomic,
            Full, //
        },
        Arc,
        ArcBorrow,
        CondVar,
        Mutex, //
    },
    types::ForeignOwnable, //
};

/// A driver that owns memory.
///
/// No callback runs with a lock of the peer memory core held; all may sleep.
pub trait Client: Sized + 'static {
    /// Unique name, shorter than 64 bytes, without a `/`.
    const NAME: &'static CStr;

    /// Free text, shorter than 15 bytes.
    const VERSION: &'static CStr;

    /// A range that was claimed.
    type Region: Send + Sync;

    /// Pages of a region that are held for an adapter. Dropped when the adapter has let go of them,
    /// in whatever task.
    type Memory: Memory;

    /// Where the registration of this client is kept: a reference to a static of its own.
    fn slot() -> &'static Slot<Self>;

    /// Claims the range, or leaves it to others with `None`. An error is as good as `None`.
    ///
    /// Context: the process that registers the range.
    fn acquire(range: Range) -> Result<Option<Self::Region>>;

    /// Holds the pages of `range`, for writing by the adapter where `write`. They begin with the
    /// page that `range.addr` lies in.
    ///
    /// The ticket may be used by another task from now on.
    ///
    /// Context: as for `acquire`.
    fn get_pages(
        region: &Self::Region,
        range: Range,
        write: bool,
        ticket: Ticket,
    ) -> Result<Self::Memory>;
}

/// Pages that an adapter may reach through a table.
pub trait Memory: Send + Unpin {
    /// The table. It may become another one when it is mapped.
    fn table(&self) -> &Table;

    /// Maps the table for `dev`, a device that stays bound until it is unmapped; see [`Table::map`].
    fn map(&mut self, dev: &device::Device) -> Result;

    /// Unmaps the table; see [`Table::unmap`].
    fn unmap(&mut self);
}

/// A range of the address space of a process.
#[derive(Clone, Copy)]
pub struct Range {
    /// Address of its first byte.
    pub addr: usize,
    /// How many bytes it has; at least 1. It does not wrap.
    pub size: usize,
}

/// Where the registration of a client is kept while it lasts, as the C callbacks do not say whose
/// they are.
///
/// # Invariants
///
/// Null, or from [`Arc::into_raw`]. The latter while the client is known to the core, so that a
/// callback never sees null.
pub struct Slot<T> {
    /// The [`Link`] of the registration.
    link: Atomic<*mut Link>,
    /// Whose registration it is.
    _t: PhantomData<fn(T)>,
}

impl<T> Slot<T> {
    /// An empty slot.
    #[expect(clippy::new_without_default)]
    pub const fn new() -> Self {
        // INVARIANT: Null, and no client is known.
        Self {
            link: Atomic::new(core::ptr::null_mut()),
            _t: PhantomData,
        }
    }
}

/// What tickets and the registration share.
#[pin_data]
struct Link {
    /// How far the registration has got. Never held across a call.
    #[pin]
    state: Mutex<State>,
    /// Woken when `state` has changed.
    #[pin]
    changed: CondVar,
}

/// How far a registration has got.
enum State {
    /// The core already calls, and has not returned the handle yet.
    Registering,
    /// Registered: the handle, the invalidate function, how many tasks are inside it.
    Live(Handle, peer::invalidate_peer_memory, usize),
    /// To be unregistered, or never registered.
    Gone,
}

/// What the core knows a client by.
#[derive(Clone, Copy)]
struct Handle(NonNull<c_void>);

// SAFETY: The core takes a handle from any task.
unsafe impl Send for Handle {}
// SAFETY: As above; a shared reference is good for no more than a copy.
unsafe impl Sync for Handle {}

/// The right to take one region back from the adapter.
#[derive(Clone)]
pub struct Ticket {
    /// The registration of the region's client.
    link: Arc<Link>,
    /// What the core calls the region.
    core_context: u64,
}

impl Ticket {
    /// Makes the adapter let go of the region. When this returns it has, and the region's
    /// [`Memory`] has been dropped, in this task or another. Does nothing for a region that is
    /// gone, and where the client has been unregistered.
    ///
    /// A registration of the region that is under way is waited for.
    ///
    /// Context: may sleep; with no lock held that dropping the [`Memory`] takes, and not from a
    /// callback.
    pub fn invalidate(&self) {
        let mut state = self.link.state.lock();
        let (handle, invalidate) = loop {
            match &mut *state {
                State::Registering => self.link.changed.wait(&mut state),
                State::Live(handle, invalidate, users) => {
                    *users += 1;
                    break (*handle, *invalidate);
                }
                State::Gone => return,
            }
        };
        drop(state);

        if let Some(invalidate) = invalidate {
            // SAFETY: The client is registered, and stays so while `users` counts this task.
            unsafe { invalidate(handle.0.as_ptr(), self.core_context) };
        }

        if let State::Live(_, _, users) = &mut *self.link.state.lock() {
            *users -= 1;
        }
        self.link.changed.notify_all();
    }
}

/// The registration of a client. When it is dropped the adapters have let go of all regions, and no
/// callback runs any more.
///
/// To be dropped with no lock held that a callback takes.
///
/// # Invariants
///
/// The client `raw` is registered under `handle`; the slot of `T` holds `link`.
pub struct Registration<T: Client> {
    /// What the core knows the client by.
    handle: Handle,
    /// What the tickets share.
    link: Arc<Link>,
    /// What the core reads until the client has been unregistered.
    _raw: KBox<peer_memory_client>,
    /// The client.
    _t: PhantomData<fn(T)>,
}

impl<T: Client> Registration<T> {
    /// Registers `T`, as a client that requires invalidation: it is asked about memory only for
    /// devices that can be made to stop.
    ///
    /// `EBUSY` where `T` is registered already; `EINVAL` where the core does not want it, and it
    /// has said why in the log.
    ///
    /// Context: may sleep.
    pub fn new() -> Result<Self> {
        let raw = KBox::new(VTable::<T>::build(), GFP_KERNEL)?;
        let link = Arc::pin_init(
            pin_init!(Link {
                state <- new_mutex!(State::Registering),
                changed <- new_condvar!(),
            }),
            GFP_KERNEL,
        )?;
        let kept = Arc::into_raw(link.clone()).cast_mut();
        let slot = &T::slot().link;
        // INVARIANT: What `Arc::into_raw` returned.
        if slot.cmpxchg(core::ptr::null_mut(), kept, Full).is_err() {
            // SAFETY: It was not stored, so it is still ours.
            drop(unsafe { Arc::from_raw(kept.cast_const()) });
            return Err(EBUSY);
        }

        let mut invalidate: peer::invalidate_peer_memory = None;
        // SAFETY: `raw` lives until the client has been unregistered, by the type invariants of the
        // object below; its callbacks are safe to call for as long as it is registered.
        let handle = unsafe { peer::ib_register_peer_memory_client(&*raw, &mut invalidate) };
        let handle = NonNull::new(handle).map(Handle);

        *link.state.lock() = match handle {
            Some(handle) => State::Live(handle, invalidate, 0),
            None => State::Gone,
        };
        link.changed.notify_all();

        let Some(handle) = handle else {
            // SAFETY: The core does not know the client, so no callback runs.
            unsafe { Self::clear_slot() };
            return Err(EINVAL);
        };
        // INVARIANT: It is registered, and the slot was filled above.
        Ok(Self {
            handle,
            link,
            _raw: raw,
            _t: PhantomData,
        })
    }

    /// Empties the slot.
    ///
    /// # Safety
    ///
    /// The caller must have filled the slot, and no callback of `T` may run.
    unsafe fn clear_slot() {
        let kept = T::slot().link.xchg(core::ptr::null_mut(), Full);
        // SAFETY: By the type invariant of the slot, and as the caller has filled it.
        drop(unsafe { Arc::from_raw(kept.cast_const()) });
    }
}

impl<T: Client> Drop for Registration<T> {
    fn drop(&mut self) {
        let mut state = self.link.state.lock();
        while matches!(*state, State::Live(_, _, users) if users > 0) {
            self.link.changed.wait(&mut state);
        }
        *state = State::Gone;
        drop(state);

        // SAFETY: By the type invariants the client is registered. No ticket uses the handle any
        // more, as the state is `Gone`.
        unsafe { peer::ib_unregister_peer_memory_client(self.handle.0.as_ptr()) };
        // SAFETY: By the type invariants the slot is ours; the core has promised that no callback
        // runs any more.
        unsafe { Self::clear_slot() };
    }
}

/// What the core knows a region by, between `acquire` and `release`.
#[pin_data]
struct Holder<T: Client> {
    /// What the client made of it.
    region: T::Region,
    /// What `get_pages` returned, until `put_pages`. Never held across a call.
    #[pin]
    memory: Mutex<Option<T::Memory>>,
}

/// The callbacks of a client.
struct VTable<T: Client>(PhantomData<T>);

impl<T: Client> VTable<T> {
    /// # Safety
    ///
    /// `context` must be a `client_context` that `acquire` has stored, not released during `'a`.
    unsafe fn holder<'a>(context: *mut c_void) -> &'a Holder<T> {
        // SAFETY: By the requirements, `acquire` got it from `into_foreign`.
        unsafe { <Pin<KBox<Holder<T>>> as ForeignOwnable>::borrow(context) }.get_ref()
    }

    /// # Safety
    ///
    /// To be called by the core while the client is registered; `context` must be valid for a
    /// write.
    unsafe extern "C" fn acquire(
        addr: c_ulong,
        size: usize,
        _private_data: *mut c_void,
        _name: *mut c_char,
        context: *mut *mut c_void,
    ) -> c_int {
        if size == 0 || addr.checked_add(size).is_none() {
            return 0;
        }
        from_result(|| {
            let Some(region) = T::acquire(Range { addr, size })? else {
                return Ok(0);
            };
            let holder = KBox::pin_init(
                pin_init!(Holder::<T> {
                    region,
                    memory <- new_mutex!(None),
                }),
                GFP_KERNEL,
            )?;
            // SAFETY: By the requirements.
            unsafe { *context = holder.into_foreign() };
            Ok(1)
        })
    }

    /// # Safety
    ///
    /// To be called by the core while the client is registered; `context` must be from `acquire`,
    /// `sg` valid for a write.
    unsafe extern "C" fn get_pages(
        addr: c_ulong,
        size: usize,
        _write: c_int,
        force: c_int,
        sg: *mut bindings::sg_table,
        context: *mut c_void,
        core_context: u64,
    ) -> c_int {
        // SAFETY: By the requirements.
        let holder = unsafe { Self::holder(context) };
        let link = T::slot().link.load(Acquire).cast_const();
        // SAFETY: By the type invariant of the slot, which is not emptied while a callback runs.
        let link: Arc<Link> = unsafe { ArcBorrow::from_raw(link) }.into();
        from_result(|| {
            if size == 0 || addr.checked_add(size).is_none() {
                return Err(EINVAL);
            }
            let ticket = Ticket { link, core_context };
            let memory = T::get_pages(&holder.region, Range { addr, size }, force != 0, ticket)?;
            // SAFETY: By the requirements. The copy is for the core to read; ours is what owns.
            unsafe { *sg = *memory.table().as_raw() };
            let old = holder.memory.lock().replace(memory);
            drop(old);
            Ok(0)
        })
    }

    /// # Safety
    ///
    /// As for `get_pages`, which must have succeeded; `dev` must be a device that stays bound until
    /// `dma_unmap`, `nmap` valid for a write.
    unsafe extern "C" fn dma_map(
        sg: *mut bindings::sg_table,
        context: *mut c_void,
        dev: *mut bindings::device,
        _dmasync: c_int,
        nmap: *mut c_int,
    ) -> c_int {
        // SAFETY: By the requirements.
        let holder = unsafe { Self::holder(context) };
        if dev.is_null() {
            return EINVAL.to_errno();
        }
        // SAFETY: By the requirements.
        let dev = unsafe { device::Device::from_raw(dev) };
        let Some(mut memory) = holder.memory.lock().take() else {
            return EINVAL.to_errno();
        };
        let ret = from_result(|| {
            memory.map(dev)?;
            let nents = memory.table().nents().ok_or(EINVAL)?;
            // SAFETY: By the requirements.
            unsafe { *nmap = nents.try_into()? };
            Ok(0)
        });
        // SAFETY: As in `get_pages`.
        unsafe { *sg = *memory.table().as_raw() };
        *holder.memory.lock() = Some(memory);
        ret
    }

    /// # Safety
    ///
    /// As for `get_pages`, which must have succeeded.
    unsafe extern "C" fn dma_unmap(
        sg: *mut bindings::sg_table,
        context: *mut c_void,
        _dev: *mut bindings::device,
    ) -> c_int {
        // SAFETY: By the requirements.
        let holder = unsafe { Self::holder(context) };
        let Some(mut memory) = holder.memory.lock().take() else {
            return EINVAL.to_errno();
        };
        memory.unmap();
        // SAFETY: As in `get_pages`.
        unsafe { *sg = *memory.table().as_raw() };
        *holder.memory.lock() = Some(memory);
        0
    }

    /// # Safety
    ///
    /// As for `get_pages`, which must have succeeded.
    unsafe extern "C" fn put_pages(sg: *mut bindings::sg_table, context: *mut c_void) {
        // SAFETY: By the requirements.
        let holder = unsafe { Self::holder(context) };
        let memory = holder.memory.lock().take();
        drop(memory);
        // SAFETY: By the requirements. Nothing is left of what the copy pointed to.
        unsafe { *sg = bindings::sg_table::default() };
    }

    /// # Safety
    ///
    /// `context` must be from `acquire`, and is not used any more.
    unsafe extern "C" fn release(context: *mut c_void) {
        // SAFETY: By the requirements, `acquire` got it from `into_foreign`.
        drop(unsafe { <Pin<KBox<Holder<T>>> as ForeignOwnable>::from_foreign(context) });
    }

    /// The C structure.
    fn build() -> peer_memory_client {
        peer_memory_client {
            name: const { text(T::NAME) },
            // The last byte is 0: there is no extension behind the structure.
            version: const { text(T::VERSION) },
            acquire: Some(Self::acquire),
            get_pages: Some(Self::get_pages),
            dma_map: Some(Self::dma_map),
            dma_unmap: Some(Self::dma_unmap),
            put_pages: Some(Self::put_pages),
            get_page_size: None,
            release: Some(Self::release),
        }
    }
}

/// A string in an array that it has to fit into, with a 0 behind it.
const fn text<const N: usize>(s: &CStr) -> [c_char; N] {
    let bytes = s.to_bytes();
    assert!(bytes.len() < N);
    let mut array = [0; N];
    let mut i = 0;
    while i < bytes.len() {
        array[i] = bytes[i];
        i += 1;
    }
    array
}
