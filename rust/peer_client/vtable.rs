// SPDX-License-Identifier: GPL-2.0

//! The callbacks of a client, as C calls them.

use super::super::bindings::peer::peer_memory_client;
use super::{
    Client,
    Memory,
    Range,
    SlotData,
    Slotted,
    Ticket, //
};
use core::marker::PhantomData;
use kernel::{
    bindings,
    device,
    error::from_result,
    new_mutex,
    prelude::*,
    sync::{
        atomic::Acquire,
        Mutex, //
    },
    types::ForeignOwnable, //
};

/// What the core knows a region by, between `acquire` and `release`.
#[pin_data]
struct RegionCtx<T: Client> {
    /// What the client made of it.
    region: T::Region,
    /// What `get_pages` returned, until `put_pages`. Never held across a call.
    #[pin]
    memory: Mutex<Option<T::Memory>>,
}

/// The callbacks of a client.
pub(super) struct VTable<T: Slotted>(PhantomData<T>);

impl<T: Slotted> VTable<T> {
    /// # Safety
    ///
    /// To be used in a callback, for as long as it runs.
    unsafe fn kept<'a>() -> &'a SlotData<T> {
        // SAFETY: By the type invariant of the slot, which is the one that was filled, as there is
        // but one, and is not emptied while a callback runs.
        unsafe { &*T::slot().kept.load(Acquire).cast_const() }
    }

    /// # Safety
    ///
    /// `context` must be a `client_context` that `acquire` has stored, not released during `'a`.
    unsafe fn holder<'a>(context: *mut c_void) -> &'a RegionCtx<T> {
        // SAFETY: By the requirements, `acquire` got it from `into_foreign`.
        unsafe { <Pin<KBox<RegionCtx<T>>> as ForeignOwnable>::borrow(context) }.get_ref()
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
        // SAFETY: This is a callback.
        let kept = unsafe { Self::kept() };
        from_result(|| {
            let Some(region) = T::acquire(&kept.data, Range { addr, size })? else {
                return Ok(0);
            };
            let holder = KBox::pin_init(
                pin_init!(RegionCtx::<T> {
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
        // SAFETY: This is a callback.
        let kept = unsafe { Self::kept() };
        from_result(|| {
            if size == 0 || addr.checked_add(size).is_none() {
                return Err(EINVAL);
            }
            let ticket = Ticket::new(kept.link.clone(), core_context);
            let range = Range { addr, size };
            let memory = T::get_pages(&kept.data, &holder.region, range, force != 0, ticket)?;
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
        drop(unsafe { <Pin<KBox<RegionCtx<T>>> as ForeignOwnable>::from_foreign(context) });
    }

    /// The C structure.
    pub(super) fn build() -> peer_memory_client {
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
