// SPDX-License-Identifier: GPL-2.0

//! Peer memory clients: drivers that own memory which RDMA devices can access. Used by clients that
//! are written in Rust; `samples/rust_client` is one.
//!
//! A driver implements [`Client`] and [`Memory`], declares a slot with
//! [`peer_client_slot!`](crate::peer_client_slot), and keeps a [`Registration`]. The types encode the
//! order of the callbacks and the ownership between them:
//!
//! ```text
//!  acquire   -> Client::Region         dropped by release
//!  get_pages -> Client::Memory         dropped by put_pages
//!  dma_map      Memory::map
//!  dma_unmap    Memory::unmap
//! ```
//!
//! So a scatter-gather table is freed once, and never while mapped. A client that revokes its
//! memory keeps the [`Ticket`] of each region, usually in [`Tickets`].
//!
//! For memory without struct pages, the table is empty until [`Memory::map`].
//!
//! Not supported: page sizes other than `PAGE_SIZE`, and clients that put their own pages during an
//! invalidation.
//!
//! C header: `include/rdma/ib_peer_mem.h`.

mod ticket;
mod tickets;
mod vtable;

pub use self::{
    ticket::Ticket,
    tickets::{
        TicketGuard,
        Tickets, //
    }, //
};

use self::{
    ticket::{
        Handle,
        Link, //
    },
    vtable::VTable, //
};
use crate::shared::{
    bindings::peer::{
        self as peer,
        peer_memory_client_ex, //
    },
    ext::base::{
        compat::AtomicPtr,
        sg::{
            Owned,
            Table, //
        }, //
    },
    prelude::*, //
};
use kernel::device;

/// A driver that owns memory. Needs a slot: [`peer_client_slot!`](crate::peer_client_slot).
///
/// The peer memory core calls all functions without a lock, and all functions may sleep.
pub trait Client: Sized + 'static {
    /// Unique name, shorter than 64 bytes, without `/`. Names the statistics in
    /// `/sys/kernel/mm/memory_peers/`.
    const NAME: &'static CStr;

    /// Version as free text, shorter than 15 bytes.
    const VERSION: &'static CStr;

    /// Whether the CPU can pin the memory (RAM with ordinary struct pages). The driver of the RDMA
    /// device would pin pinnable memory itself, so the core asks a pinnable client before the
    /// driver.
    const PINNABLE: bool = false;

    /// Whether [`Memory::map`] works for every kind of device. Otherwise [`Memory::map`] is called
    /// only with the DMA device of an RDMA adapter: other devices cannot import the memory as a
    /// dma-buf.
    const MAPS_FOR_ANY_DEVICE: bool = false;

    /// State that all callbacks share.
    type Data: Send + Sync + 'static;

    type Region: Send + Sync;

    /// Pinned pages of a region. Dropped in any task, when no device accesses the pages any more.
    type Memory: Memory;

    /// Claims `range`. Returns `None` if the range is not memory of this client. An error has the
    /// same effect as `None`. Context: the process that registers the range; may sleep.
    fn acquire(data: &Self::Data, range: VaRange) -> Result<Option<Self::Region>>;

    /// Pins the pages of `range`, starting with the page that contains `range.addr()`. `write` is
    /// whether the MR may be written, as ib_peer_mem says: other cores give `force` other meanings.
    ///
    /// From now on `ticket` may be used in other tasks. `ticket` must not be used in this call; see
    /// [`Ticket::invalidate`]. Context: the process that registers the range; may sleep.
    fn get_pages(
        data: &Self::Data,
        region: &Self::Region,
        range: VaRange,
        write: bool,
        ticket: Ticket,
    ) -> Result<Self::Memory>;
}

/// Pinned pages that a device accesses through a scatter-gather table.
pub trait Memory: Send + Unpin {
    /// Returns the table. [`Memory::map`] and [`Memory::unmap`] may replace it.
    fn table(&self) -> &Table<Owned>;

    /// Maps the table for `dev`, in both directions. `dev` stays bound until [`Memory::unmap`].
    /// Context: may sleep.
    fn map(&mut self, dev: &device::Device) -> Result;

    /// Reverts [`Memory::map`]. Context: may sleep.
    fn unmap(&mut self);
}

/// A range of virtual addresses of the calling process, without the bits that the CPU ignores.
///
/// # Invariants
///
/// `len` is at least 1, and `addr + len` does not overflow.
#[derive(Clone, Copy)]
pub struct VaRange {
    addr: usize,
    len: usize,
}

impl VaRange {
    /// Returns the range of `len` bytes at `addr`, or `None` if the range is empty or overflows.
    fn new(addr: usize, len: usize) -> Option<Self> {
        addr.checked_add(len)?;
        // INVARIANT: Both facts have just been checked.
        (len > 0).then_some(Self { addr, len })
    }

    pub fn addr(self) -> usize {
        self.addr
    }

    /// Returns the length in bytes, at least 1. `addr() + len()` does not overflow.
    pub fn len(self) -> usize {
        self.len
    }
}

/// Storage for the data of a registered client. The C callbacks have no argument that leads to the
/// data, so the data has a static place.
///
/// # Invariants
///
/// `data` is null or a pointer from [`KBox::into_raw`]. `data` is not null while the core knows the
/// client, so callbacks never see null.
pub struct Slot<T: Client> {
    data: AtomicPtr<SlotData<T>>,
}

impl<T: Client> Slot<T> {
    pub const fn new() -> Self {
        // INVARIANT: The pointer is null, and no client is registered with a new slot.
        Self {
            data: AtomicPtr::new(core::ptr::null_mut()),
        }
    }
}

/// A client that has a slot; see [`peer_client_slot!`](crate::peer_client_slot).
///
/// # Safety
///
/// `slot` must return the same slot on every call.
#[diagnostic::on_unimplemented(note = "declare a slot: `peer_client_slot!({Self});`")]
pub unsafe trait Slotted: Client {
    fn slot() -> &'static Slot<Self>;
}

/// Declares the slot of a [`Client`], once per client: `peer_client_slot!(MyClient);`.
#[macro_export]
macro_rules! peer_client_slot {
    ($client:ty) => {
        // SAFETY: `slot` always returns the same static.
        unsafe impl $crate::peer_client::Slotted for $client {
            fn slot() -> &'static $crate::peer_client::Slot<Self> {
                static SLOT: $crate::peer_client::Slot<$client> = $crate::peer_client::Slot::new();
                &SLOT
            }
        }
    };
}

struct SlotData<T: Client> {
    /// Shared with the tickets of all regions.
    link: Arc<Link>,
    data: T::Data,
}

/// Registration of a client.
///
/// Drop unregisters the client: drop revokes all regions and waits until no callback runs. So the
/// registration must be dropped without a lock that a callback takes.
///
/// # Invariants
///
/// The client is registered under `handle` with the structure `_raw`, and this object owns the data
/// in the slot of `T`.
#[must_use = "the client is unregistered when the registration is dropped"]
pub struct Registration<T: Slotted> {
    /// The core's name of the client.
    handle: Handle,
    link: Arc<Link>,
    /// Read by the core until the client is unregistered.
    _raw: KBox<peer_memory_client_ex>,
    _t: PhantomData<fn(T)>,
}

impl<T: Slotted> Registration<T> {
    /// Registers `T` as a client that requires invalidation: the core asks the client only on
    /// behalf of devices whose access can be revoked. Callbacks receive `data`.
    ///
    /// Returns `EBUSY` if `T` is registered already, and `EINVAL` if the core rejects the client. The
    /// core logs the reason. Context: may sleep.
    pub fn new(data: T::Data) -> Result<Self> {
        // The modules of some vendors export the functions of the API as well, and say by `force` the
        // opposite of what `get_pages` has as `write`. With this symbol, which only ib_peer_mem has, the
        // kernel does not load the client beside another core.
        core::hint::black_box(peer::ib_peer_mem_clear_hint as *const ());
        let raw = KBox::new(VTable::<T>::build(), GFP_KERNEL)?;
        let link = Link::new()?;
        let data = SlotData {
            link: link.clone(),
            data,
        };
        let data = KBox::into_raw(KBox::new(data, GFP_KERNEL)?);
        let slot = &T::slot().data;
        // INVARIANT: `data` is a pointer from `KBox::into_raw`.
        if slot.cmpxchg(core::ptr::null_mut(), data, Full).is_err() {
            // SAFETY: `data` is from `KBox::into_raw` above and was not stored, so no other code
            // has the pointer.
            drop(unsafe { KBox::from_raw(data) });
            return Err(EBUSY);
        }

        let mut invalidate: peer::invalidate_peer_memory = None;
        // SAFETY:
        // - `raw` is a complete client structure. On success `raw` moves into the object below, and
        //   the object unregisters the client before dropping `raw`;
        // - the callbacks need a filled slot, and the slot is emptied only after the client is
        //   unregistered;
        // - the first field of `raw` is the structure that the function expects, and the version
        //   marks `raw` as extended.
        let handle = unsafe {
            let client = (&raw const *raw).cast::<peer::peer_memory_client>();
            peer::ib_register_peer_memory_client(client, &mut invalidate)
        };
        let handle = NonNull::new(handle).map(Handle);
        link.registered(handle, invalidate);

        let Some(handle) = handle else {
            // SAFETY: This call filled the slot. The core rejected the client, so no callback runs.
            unsafe { Self::clear_slot() };
            return Err(EINVAL);
        };
        // INVARIANT: The client is registered, and this call filled the slot.
        Ok(Self {
            handle,
            link,
            _raw: raw,
            _t: PhantomData,
        })
    }

    /// Empties the slot and drops its data.
    ///
    /// # Safety
    ///
    /// - The slot must be filled, and the caller must own its data.
    /// - No callback of `T` may run during or after the call.
    unsafe fn clear_slot() {
        let data = T::slot().data.xchg(core::ptr::null_mut(), Full);
        // SAFETY:
        // - By the type invariant of the slot, `data` is from `KBox::into_raw`: `data` is not null,
        //   as the slot is filled by the safety requirements;
        // - by the safety requirements no callback uses the data any more.
        drop(unsafe { KBox::from_raw(data) });
    }
}

impl<T: Slotted> Drop for Registration<T> {
    fn drop(&mut self) {
        // First, so that a task that invalidates a ticket meanwhile waits for the revocation.
        //
        // SAFETY: By the type invariant the client is registered under this handle. ib_peer_mem only compares
        // handles, so a ticket may still use it.
        unsafe { peer::ib_unregister_peer_memory_client(self.handle.0.as_ptr()) };
        self.link.close();
        // SAFETY:
        // - By the type invariant this object owns the data in the slot;
        // - the core runs no callback of an unregistered client.
        unsafe { Self::clear_slot() };
    }
}
