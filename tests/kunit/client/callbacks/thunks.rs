// SPDX-License-Identifier: GPL-2.0

//! The C functions of the fake clients, which only translate the arguments.

#![expect(
    clippy::missing_safety_doc,
    reason = "the contract of each function is that of its field in `struct peer_memory_client`"
)]

use crate::prelude::*;
use kernel::ffi::{
    c_char,
    c_ulong, //
};

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
    for (set, flag) in [
        (setup.unmaps, peer::PEER_MEM_INVALIDATE_UNMAPS),
        (setup.pinnable, peer::PEER_MEM_MEMORY_PINNABLE),
        (setup.any_device, peer::PEER_MEM_MAPS_FOR_ANY_DEVICE),
    ] {
        if set {
            ex.client.version[15] = 1;
            ex.ex_size = EX_SIZE;
            ex.flags |= flag;
        }
    }
    ex
}

struct Thunks<const N: usize>;

/// Returns the index of the region with the context.
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

    /// Calls `f` with the slot. The testbed exists while clients can be registered.
    fn with<R>(f: impl FnOnce(&Slot) -> R) -> Result<R> {
        Ok(f(Testbed::get()?.slot(N)?))
    }

    unsafe extern "C" fn acquire(
        addr: c_ulong,
        size: usize,
        data: *mut c_void,
        name: *mut c_char,
        context: *mut *mut c_void,
    ) -> c_int {
        from_result(|| {
            Self::with(|slot| {
                // SAFETY: The core passes a C string or NULL.
                let name = (!name.is_null()).then(|| unsafe { CStr::from_char_ptr(name) });
                let first = |name: &CStr| {
                    let bytes = name.to_bytes();
                    core::array::from_fn(|i| bytes.get(i).copied().unwrap_or(0))
                };
                slot.ledger.lock().hint = (data.addr(), name.map(first));
                let (ret, i) = slot.acquire(addr as u64, size as u64);
                if ret > 0 {
                    // SAFETY: The core passes a valid pointer for the context.
                    unsafe { context.write(ptr::without_provenance_mut(N << 8 | i)) };
                }
                ret
            })
        })
    }

    unsafe extern "C" fn get_pages(
        addr: c_ulong,
        size: usize,
        write: c_int,
        force: c_int,
        table: *mut bindings::sg_table,
        context: *mut c_void,
        ticket: u64,
    ) -> c_int {
        from_result(|| {
            Self::with(|slot| {
                let range = (addr as u64, size as u64);
                let flags = (write, force);
                slot.get_pages(index(context), range, flags, table, ticket)
            })??;
            Ok(0)
        })
    }

    unsafe extern "C" fn dma_map(
        table: *mut bindings::sg_table,
        context: *mut c_void,
        dev: *mut bindings::device,
        sync: c_int,
        nmap: *mut c_int,
    ) -> c_int {
        from_result(|| {
            Self::with(|slot| {
                // SAFETY: The core passes a valid pointer for the number.
                let nmap = unsafe { &mut *nmap };
                slot.dma_map(index(context), table, dev, sync, nmap)
            })??;
            Ok(0)
        })
    }

    unsafe extern "C" fn dma_unmap(
        table: *mut bindings::sg_table,
        context: *mut c_void,
        dev: *mut bindings::device,
    ) -> c_int {
        Self::with(|slot| slot.dma_unmap(index(context), table, dev)).unwrap_or(0)
    }

    unsafe extern "C" fn put_pages(table: *mut bindings::sg_table, context: *mut c_void) {
        let _ = Self::with(|slot| slot.put_pages(index(context), table));
    }

    unsafe extern "C" fn get_page_size(context: *mut c_void) -> c_ulong {
        Self::with(|slot| {
            slot.script.pass(Point::PageSize);
            let setup = *slot.setup.lock();
            if setup.fault == Fault::LatePageSize && !slot.is_mapped(index(context)) {
                return 0;
            }
            setup.says.unwrap_or(setup.page) as c_ulong
        })
        .unwrap_or(0)
    }

    unsafe extern "C" fn release(context: *mut c_void) {
        let _ = Self::with(|slot| slot.release(index(context)));
    }
}
