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
//! Memory without struct pages has an empty table until it is mapped.
//!
//! Not supported: page sizes other than `PAGE_SIZE`, and clients that put their pages themselves
//! during an invalidation.
//!
//! C header: `include/rdma/ib_peer_mem.h`.

mod ticket;
mod vtable;

pub use self::ticket::Ticket;

use self::{
    ticket::{
        Handle,
        Link, //
    },
    vtable::VTable, //
};
use super::{
    bindings::peer::{
        self as peer, //
        peer_memory_client,
    },
    ext::dma_table::Table, //
};
use core::{
    marker::PhantomData,
    ptr::NonNull, //
};
use kernel::{
    device,
    prelude::*,
    sync::{
        atomic::{
            Atomic,
            Full, //
        },
        Arc, //
    }, //
};

/// A driver that owns memory. It has to have a slot as well: [`peer_client_slot!`](crate::peer_client_slot).
///
/// No callback runs with a lock of the peer memory core held; all may sleep.
pub trait Client: Sized + 'static {
    /// Unique name, shorter than 64 bytes, without a `/`.
    const NAME: &'static CStr;

    /// Free text, shorter than 15 bytes.
    const VERSION: &'static CStr;

    /// What all callbacks share.
    type Data: Send + Sync + 'static;

    /// A range that was claimed.
    type Region: Send + Sync;

    /// Pages of a region that are held for an adapter. Dropped when the adapter has let go of them,
    /// in whatever task.
    type Memory: Memory;

    /// Claims the range, or leaves it to others with `None`. An error is as good as `None`.
    ///
    /// Context: the process that registers the range.
    fn acquire(data: &Self::Data, range: Range) -> Result<Option<Self::Region>>;

    /// Holds the pages of `range`, for writing by the adapter where `write`. They begin with the
    /// page that `range.addr` lies in.
    ///
    /// The ticket may be used by another task from now on.
    ///
    /// Context: as for `acquire`.
    fn get_pages(
        data: &Self::Data,
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
/// Null, or from [`KBox::into_raw`]. The latter while the client is known to the core, so that a
/// callback never sees null.
pub struct Slot<T: Client> {
    /// What the callbacks need.
    kept: Atomic<*mut SlotData<T>>,
}

impl<T: Client> Slot<T> {
    /// An empty slot.
    pub const fn new() -> Self {
        // INVARIANT: Null, and no client is known.
        Self {
            kept: Atomic::new(core::ptr::null_mut()),
        }
    }
}

/// A client with a slot; see [`peer_client_slot!`](crate::peer_client_slot).
///
/// # Safety
///
/// `slot` must return the same slot whenever it is called.
#[diagnostic::on_unimplemented(note = "give the client a slot: `peer_client_slot!({Self});`")]
pub unsafe trait Slotted: Client {
    /// Where the registration of this client is kept.
    fn slot() -> &'static Slot<Self>;
}

/// Gives a [`Client`] the one slot that it has: `peer_client_slot!(MyClient);`.
#[macro_export]
macro_rules! peer_client_slot {
    ($client:ty) => {
        // SAFETY: It is always the same static.
        unsafe impl $crate::peer_client::Slotted for $client {
            fn slot() -> &'static $crate::peer_client::Slot<Self> {
                static SLOT: $crate::peer_client::Slot<$client> = $crate::peer_client::Slot::new();
                &SLOT
            }
        }
    };
}

/// What the callbacks of a client need.
struct SlotData<T: Client> {
    /// For new tickets.
    link: Arc<Link>,
    /// The client's own.
    data: T::Data,
}

/// The registration of a client. When it is dropped the adapters have let go of all regions, and no
/// callback runs any more.
///
/// To be dropped with no lock held that a callback takes.
///
/// # Invariants
///
/// The client `raw` is registered under `handle`; what is in the slot of `T` is this object's.
#[must_use = "a registration that is not kept ends at once"]
pub struct Registration<T: Slotted> {
    /// What the core knows the client by.
    handle: Handle,
    /// What the tickets share.
    link: Arc<Link>,
    /// What the core reads until the client has been unregistered.
    _raw: KBox<peer_memory_client>,
    /// The client.
    _t: PhantomData<fn(T)>,
}

impl<T: Slotted> Registration<T> {
    /// Registers `T`, as a client that requires invalidation: it is asked about memory only for
    /// devices that can be made to stop. Its callbacks are given `data`.
    ///
    /// `EBUSY` where `T` is registered already; `EINVAL` where the core does not want it, and it
    /// has said why in the log.
    ///
    /// Context: may sleep.
    pub fn new(data: T::Data) -> Result<Self> {
        let raw = KBox::new(VTable::<T>::build(), GFP_KERNEL)?;
        let link = Link::new()?;
        let kept = SlotData {
            link: link.clone(),
            data,
        };
        let kept = KBox::into_raw(KBox::new(kept, GFP_KERNEL)?);
        let slot = &T::slot().kept;
        // INVARIANT: What `KBox::into_raw` returned.
        if slot.cmpxchg(core::ptr::null_mut(), kept, Full).is_err() {
            // SAFETY: It was not stored, so it is still ours.
            drop(unsafe { KBox::from_raw(kept) });
            return Err(EBUSY);
        }

        let mut invalidate: peer::invalidate_peer_memory = None;
        // SAFETY: `raw` lives until the client has been unregistered, by the type invariants of the
        // object below; its callbacks are safe to call for as long as it is registered.
        let handle = unsafe { peer::ib_register_peer_memory_client(&*raw, &mut invalidate) };
        let handle = NonNull::new(handle).map(Handle);
        link.registered(handle, invalidate);

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
        let kept = T::slot().kept.xchg(core::ptr::null_mut(), Full);
        // SAFETY: By the type invariant of the slot, and as the caller has filled it.
        drop(unsafe { KBox::from_raw(kept) });
    }
}

impl<T: Slotted> Drop for Registration<T> {
    fn drop(&mut self) {
        self.link.leave();
        // SAFETY: By the type invariants the client is registered. No ticket uses the handle any
        // more, as the link has been left.
        unsafe { peer::ib_unregister_peer_memory_client(self.handle.0.as_ptr()) };
        // SAFETY: By the type invariants the slot is ours; the core has promised that no callback
        // runs any more.
        unsafe { Self::clear_slot() };
    }
}
