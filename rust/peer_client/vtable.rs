// SPDX-License-Identifier: GPL-2.0

//! The C callbacks of a client.
//!
//! `VTable` turns an implementation of [`Client`] into the C structure that the core expects. Used
//! by [`Registration`](super::Registration).

use super::{
    Client,
    Memory,
    SlotData,
    Slotted,
    Ticket,
    VaRange, //
};
use crate::shared::{
    bindings::peer::{
        peer_memory_client,
        peer_memory_client_ex,
        PEER_MEM_MAPS_FOR_ANY_DEVICE,
        PEER_MEM_MEMORY_PINNABLE, //
    },
    ext::base::pinned::untagged,
    prelude::*, //
};
use kernel::{
    bindings,
    device, //
};

/// The `client_context` of a region, from `acquire` to `release`.
struct RegionCtx<T: Client> {
    region: T::Region,
    /// The pinned pages, from `get_pages` to `put_pages`. Without pages, the errno of the callbacks
    /// that need pages. The value is not moved: the core has a copy of the table, and the list of
    /// the table may be inside the value.
    memory: Result<T::Memory>,
}

/// Returns the range that the core has passed to a callback.
fn range(addr: c_ulong, size: usize) -> Option<VaRange> {
    // CAST: Both types have the size of an address.
    VaRange::new(untagged(addr as u64) as usize, size)
}

/// The C callbacks of the client `T`.
///
/// # Safety
///
/// The callbacks must be called as `include/rdma/ib_peer_mem.h` describes: only while the client is
/// registered, and for one region in order. That is:
///
/// - in `acquire`, `context` is valid for a write; otherwise it is as [`Self::region`] requires;
/// - `sg` and `nmap` are valid for a write;
/// - `dev` is null, or a device that stays bound until `dma_unmap`.
pub(super) struct VTable<T: Slotted>(PhantomData<T>);

// The safety requirements of C callbacks are those of the type.
#[allow(clippy::missing_safety_doc)]
impl<T: Slotted> VTable<T> {
    /// Returns the data of the registered client.
    ///
    /// # Safety
    ///
    /// Must be called in a callback, and the result must not be used after the callback returns.
    unsafe fn slot_data<'a>() -> &'a SlotData<T> {
        // SAFETY: The core calls back only while the client is registered, and by the type
        // invariant of the slot the pointer is valid while the client is registered. There is only
        // one slot of `T`.
        unsafe { &*T::slot().data.load(Acquire).cast_const() }
    }

    /// Returns the region of a `client_context`.
    ///
    /// # Safety
    ///
    /// - `context` must be a `client_context` that `acquire` stored, and must not be released during
    ///   `'a`.
    /// - Must be called once in a callback, and no other callback of this region may run during `'a`.
    unsafe fn region<'a>(context: *mut c_void) -> &'a mut RegionCtx<T> {
        // SAFETY: By the safety requirements:
        // - `acquire` stored `context`, a pointer from `into_foreign`, and `release`, which calls
        //   `from_foreign`, does not run during `'a`;
        // - there is no other reference to the region, as only callbacks borrow it.
        unsafe { <KBox<RegionCtx<T>> as ForeignOwnable>::borrow_mut(context) }
    }

    /// Returns the pinned pages of a region, or the error of the callbacks that need pages.
    ///
    /// # Safety
    ///
    /// As for [`Self::region`].
    unsafe fn memory<'a>(context: *mut c_void) -> Result<&'a mut T::Memory> {
        // SAFETY: The safety requirements are those of this function.
        unsafe { Self::region(context) }
            .memory
            .as_mut()
            .map_err(|e| *e)
    }

    unsafe extern "C" fn acquire(
        addr: c_ulong,
        size: usize,
        _private_data: *mut c_void,
        _name: *mut c_char,
        context: *mut *mut c_void,
    ) -> c_int {
        let Some(range) = range(addr, size) else {
            return 0;
        };
        // SAFETY: The function is a callback, and the reference does not leave the function.
        let data = unsafe { Self::slot_data() };
        from_result(|| {
            let Some(region) = T::acquire(&data.data, range)? else {
                return Ok(0);
            };
            let region = KBox::init(
                init!(RegionCtx::<T> {
                    region,
                    memory: Err(EINVAL),
                }),
                GFP_KERNEL_ACCOUNT,
            )?;
            // SAFETY: By the safety requirements `context` is valid for a write.
            unsafe { *context = region.into_foreign() };
            Ok(1)
        })
    }

    unsafe extern "C" fn get_pages(
        addr: c_ulong,
        size: usize,
        _write: c_int,
        force: c_int,
        sg: *mut bindings::sg_table,
        context: *mut c_void,
        core_context: u64,
    ) -> c_int {
        // SAFETY: By the safety requirements; this is the only call in this callback.
        let region = unsafe { Self::region(context) };
        // SAFETY: The function is a callback, and the reference does not leave the function.
        let data = unsafe { Self::slot_data() };
        from_result(|| {
            let range = range(addr, size).ok_or(EINVAL)?;
            let ticket = Ticket::new(data.link.clone(), core_context);
            region.memory = T::get_pages(&data.data, &region.region, range, force != 0, ticket);
            let memory = region.memory.as_ref().map_err(|e| *e)?;
            // SAFETY: By the safety requirements `sg` is valid for a write. The core only reads the
            // copy; `memory`, which is not moved, owns the table.
            unsafe { *sg = memory.table().as_raw() };
            Ok(0)
        })
    }

    unsafe extern "C" fn dma_map(
        sg: *mut bindings::sg_table,
        context: *mut c_void,
        dev: *mut bindings::device,
        _dmasync: c_int,
        nmap: *mut c_int,
    ) -> c_int {
        if dev.is_null() {
            return EINVAL.to_errno();
        }
        // SAFETY: By the safety requirements `dev` is a device that is valid during the call. `dev`
        // is not null, as just checked.
        let dev = unsafe { device::Device::from_raw(dev) };
        // SAFETY: By the safety requirements; this is the only call in this callback.
        let memory = match unsafe { Self::memory(context) } {
            Ok(memory) => memory,
            Err(e) => return e.to_errno(),
        };
        let ret = from_result(|| {
            memory.map(dev)?;
            let nents = memory.table().nents().ok_or(EINVAL)?;
            // SAFETY: By the safety requirements `nmap` is valid for a write.
            unsafe { *nmap = nents.try_into()? };
            Ok(0)
        });
        // SAFETY: As in `get_pages`.
        unsafe { *sg = memory.table().as_raw() };
        ret
    }

    unsafe extern "C" fn dma_unmap(
        sg: *mut bindings::sg_table,
        context: *mut c_void,
        _dev: *mut bindings::device,
    ) -> c_int {
        from_result(|| {
            // SAFETY: By the safety requirements; this is the only call in this callback.
            let memory = unsafe { Self::memory(context) }?;
            memory.unmap();
            // SAFETY: As in `get_pages`.
            unsafe { *sg = memory.table().as_raw() };
            Ok(0)
        })
    }

    unsafe extern "C" fn put_pages(sg: *mut bindings::sg_table, context: *mut c_void) {
        // SAFETY: By the safety requirements; this is the only call in this callback.
        let region = unsafe { Self::region(context) };
        region.memory = Err(EINVAL);
        // SAFETY: By the safety requirements `sg` is valid for a write. The table behind the copy
        // is freed, so the copy is cleared.
        unsafe { *sg = bindings::sg_table::default() };
    }

    unsafe extern "C" fn release(context: *mut c_void) {
        // SAFETY: By the safety requirements `acquire` stored `context`, a pointer from
        // `into_foreign`, and this is the only release, after the last use.
        drop(unsafe { <KBox<RegionCtx<T>> as ForeignOwnable>::from_foreign(context) });
    }

    pub(super) fn build() -> peer_memory_client_ex {
        peer_memory_client_ex {
            client: peer_memory_client {
                name: const { text(T::NAME) },
                version: const { extended(text(T::VERSION)) },
                acquire: Some(Self::acquire),
                get_pages: Some(Self::get_pages),
                dma_map: Some(Self::dma_map),
                dma_unmap: Some(Self::dma_unmap),
                put_pages: Some(Self::put_pages),
                get_page_size: None,
                release: Some(Self::release),
            },
            ex_size: size_of::<peer_memory_client_ex>(),
            flags: flag(T::PINNABLE, PEER_MEM_MEMORY_PINNABLE)
                | flag(T::MAPS_FOR_ANY_DEVICE, PEER_MEM_MAPS_FOR_ANY_DEVICE),
        }
    }
}

const fn flag(set: bool, bit: u32) -> u32 {
    if set {
        bit
    } else {
        0
    }
}

/// Sets the mark of an extended structure in a version. Fails to compile if the text is too long.
const fn extended<const N: usize>(mut version: [c_char; N]) -> [c_char; N] {
    assert!(version[N - 2] == 0);
    version[N - 1] = 1;
    version
}

/// Copies a string into an array, zero padded. Fails to compile if no terminating 0 fits.
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
