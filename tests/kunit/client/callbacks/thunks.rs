// SPDX-License-Identifier: GPL-2.0

//! The callbacks of the fake clients, as C calls them.
//!
//! All `# Safety` sections: as the callback of that name in `struct peer_memory_client`.

use crate::{
    client::{
        book::Hint,
        Setup,
        Slot, //
        EX_SIZE,
    },
    peer,
    script::Point,
    World, //
};
use core::ptr;
use kernel::{
    bindings,
    error::from_result,
    ffi::{
        c_char,
        c_int,
        c_ulong,
        c_void, //
    },
    prelude::*,
    sync::Arc, //
};

/// The structure of the client in slot `number`.
pub(crate) fn structure(number: usize, setup: &Setup) -> peer::peer_memory_client_ex {
    let mut ex = match number {
        0 => Thunks::<0>::structure(),
        1 => Thunks::<1>::structure(),
        _ => Thunks::<2>::structure(),
    };
    ex.client.version[0] = b'1';
    if setup.bare {
        ex.client.release = None;
        ex.client.get_page_size = None;
    }
    if setup.unmaps {
        ex.client.version[15] = 1;
        ex.ex_size = EX_SIZE;
        ex.flags = peer::PEER_MEM_INVALIDATE_UNMAPS;
    }
    ex
}

/// The C functions of one slot.
struct Thunks<const N: usize>;

/// The region that a context stands for.
fn index(context: *mut c_void) -> usize {
    (context.addr() & 0xff).wrapping_sub(1)
}

impl<const N: usize> Thunks<N> {
    fn structure() -> peer::peer_memory_client_ex {
        let mut ex: peer::peer_memory_client_ex = pin_init::zeroed();
        ex.client.acquire = Some(Self::acquire);
        ex.client.get_pages = Some(Self::get_pages);
        ex.client.dma_map = Some(Self::dma_map);
        ex.client.dma_unmap = Some(Self::dma_unmap);
        ex.client.put_pages = Some(Self::put_pages);
        ex.client.get_page_size = Some(Self::get_page_size);
        ex.client.release = Some(Self::release);
        ex
    }

    /// Calls `f` with the slot; the world is there for as long as a client can be registered.
    fn with<R>(f: impl FnOnce(&Slot, &Arc<World>) -> R) -> Result<R> {
        let world = World::get()?;
        Ok(f(world.slot(N)?, &world))
    }

    /// # Safety
    ///
    /// See the module.
    unsafe extern "C" fn acquire(
        addr: c_ulong,
        size: usize,
        data: *mut c_void,
        name: *mut c_char,
        context: *mut *mut c_void,
    ) -> c_int {
        from_result(|| {
            Self::with(|slot, _| {
                // SAFETY: The core gives a C string or NULL.
                let name = (!name.is_null()).then(|| unsafe { CStr::from_char_ptr(name) });
                let hint = Hint {
                    data: data.addr(),
                    name: name.map(|n| {
                        let bytes = n.to_bytes();
                        core::array::from_fn(|i| bytes.get(i).copied().unwrap_or(0))
                    }),
                };
                let mut book = slot.book.lock();
                let fine = book.hinted || hint == Hint::default();
                book.hint = hint;
                book.expect(fine, "hints that nobody has set");
                drop(book);
                let (ret, i) = slot.acquire(addr as u64, size as u64);
                if ret == 1 {
                    // SAFETY: The core gives a place for the context.
                    unsafe { context.write(ptr::without_provenance_mut(N << 8 | i)) };
                }
                ret
            })
        })
    }

    /// # Safety
    ///
    /// See the module.
    unsafe extern "C" fn get_pages(
        _addr: c_ulong,
        _size: usize,
        write: c_int,
        force: c_int,
        table: *mut bindings::sg_table,
        context: *mut c_void,
        ticket: u64,
    ) -> c_int {
        from_result(|| {
            Self::with(|slot, world| {
                slot.get_pages(index(context), (write, force), table, ticket, world)
            })??;
            Ok(0)
        })
    }

    /// # Safety
    ///
    /// See the module.
    unsafe extern "C" fn dma_map(
        table: *mut bindings::sg_table,
        context: *mut c_void,
        dev: *mut bindings::device,
        sync: c_int,
        nmap: *mut c_int,
    ) -> c_int {
        from_result(|| {
            Self::with(|slot, world| {
                // SAFETY: The core gives a place for the number.
                let nmap = unsafe { &mut *nmap };
                slot.dma_map(index(context), table, dev, sync, nmap, world)
            })??;
            Ok(0)
        })
    }

    /// # Safety
    ///
    /// See the module.
    unsafe extern "C" fn dma_unmap(
        table: *mut bindings::sg_table,
        context: *mut c_void,
        dev: *mut bindings::device,
    ) -> c_int {
        Self::with(|slot, world| slot.dma_unmap(index(context), table, dev, world)).unwrap_or(0)
    }

    /// # Safety
    ///
    /// See the module.
    unsafe extern "C" fn put_pages(table: *mut bindings::sg_table, context: *mut c_void) {
        let _ = Self::with(|slot, world| slot.put_pages(index(context), table, world));
    }

    /// # Safety
    ///
    /// See the module.
    unsafe extern "C" fn get_page_size(_context: *mut c_void) -> c_ulong {
        Self::with(|slot, _| {
            slot.script.pass(Point::PageSize);
            let setup = *slot.setup.lock();
            setup.says.unwrap_or(setup.page) as c_ulong
        })
        .unwrap_or(0)
    }

    /// # Safety
    ///
    /// See the module.
    unsafe extern "C" fn release(context: *mut c_void) {
        let _ = Self::with(|slot, _| slot.release(index(context)));
    }
}
