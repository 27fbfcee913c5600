// SPDX-License-Identifier: GPL-2.0

//! The functions that clients call and the callback that they get: the inbound half of the
//! C ABI edge. See `include/rdma/ib_peer_mem.h`.

use crate::{
    adapter::Adapter,
    bindings::peer,
    callbacks::Callbacks,
    client::Client,
    ext::rdma::UcontextId,
    hint::Hint,
    registry::{
        self,
        Registry, //
    }, //
};
use core::{
    mem::{
        offset_of,
        size_of, //
    },
    ptr, //
};
use kernel::{
    error::from_result,
    ffi,
    prelude::*,
    str::CString,
    sync::Arc, //
};

/// Checks a client's structure and adds it. The error has been logged.
///
/// # Safety
///
/// As [`ib_register_peer_memory_client`].
unsafe fn register(raw: *const peer::peer_memory_client, invalidates: bool) -> Result<Arc<Client>> {
    // SAFETY: The caller's promise.
    let Some(client) = (unsafe { raw.as_ref() }) else {
        pr_err!("a client registers no structure\n");
        return Err(EINVAL);
    };
    let Ok(name) = CStr::from_bytes_until_nul(&client.name) else {
        pr_err!("a client's name is not terminated\n");
        return Err(EINVAL);
    };
    if name.is_empty() || name.to_bytes().contains(&b'/') || name == c"." || name == c".." {
        pr_err!("a client's name is empty or no name for a folder\n");
        return Err(EINVAL);
    }
    let label = name.to_str().unwrap_or("?");
    let callbacks = Callbacks::new(client).map_err(|missing| {
        pr_err!("client {}: no {} callback\n", label, missing);
        EINVAL
    })?;
    let last = client.version.len() - 1;
    let flags = if client.version[last] != 0 {
        // SAFETY: By the C ABI a client with a non-zero last byte in `version` is the first
        // field of a `peer_memory_client_ex`, which holds at least `ex_size`.
        unsafe { flags(raw.cast()) }
    } else {
        0
    };
    let version = &client.version[..last];
    let end = version.iter().position(|&b| b == 0).unwrap_or(last);
    let version = core::str::from_utf8(&version[..end]).unwrap_or("?");

    let result = (|| {
        let version = CString::try_from_fmt(fmt!("{}", version))?;
        let client = Client::new(
            CString::try_from(name)?,
            callbacks,
            invalidates,
            flags & peer::PEER_MEM_INVALIDATE_UNMAPS != 0,
        )?;
        Registry::get()?.add(client.clone(), version)?;
        Ok(client)
    })();
    match &result {
        Ok(_) => pr_info!("client {} {} registered\n", label, version),
        Err(e) if *e == EEXIST => pr_err!("client {}: the name is taken\n", label),
        Err(e) => pr_err!("client {}: not registered: {:?}\n", label, *e),
    }
    result
}

/// The flags of an extended client, 0 where it is too short to have them.
///
/// # Safety
///
/// `raw` must be valid up to and including `ex_size`, and for as many bytes as that says.
unsafe fn flags(raw: *const peer::peer_memory_client_ex) -> u32 {
    // SAFETY: The caller's promise.
    let size = unsafe { (*raw).ex_size };
    if size < offset_of!(peer::peer_memory_client_ex, flags) + size_of::<u32>() {
        return 0;
    }
    // SAFETY: The caller's promise; `ex_size` covers the field.
    unsafe { (*raw).flags }
}

/// Registers a client.
///
/// # Safety
///
/// `client` must be NULL or point to a structure as `include/rdma/ib_peer_mem.h` says, whose
/// callbacks are as that says and stay callable until the client has been unregistered.
/// `invalidate` must be NULL or valid for a write.
#[no_mangle]
pub(crate) unsafe extern "C" fn ib_register_peer_memory_client(
    client: *const peer::peer_memory_client,
    invalidate: *mut peer::invalidate_peer_memory,
) -> *mut ffi::c_void {
    // The client may be asked as soon as it is in the list, and then invalidate.
    if !invalidate.is_null() {
        // SAFETY: The caller's promise.
        unsafe { invalidate.write(Some(invalidate_region)) };
    }
    // SAFETY: The caller's promise.
    match unsafe { register(client, !invalidate.is_null()) } {
        // The registry owns the client; the handle is its address and is only ever compared.
        Ok(client) => Arc::as_ptr(&client).cast_mut().cast(),
        Err(_) => ptr::null_mut(),
    }
}

/// Unregisters a client.
///
/// # Safety
///
/// None in fact: a handle that is not that of a registered client is logged and left alone.
#[no_mangle]
pub(crate) unsafe extern "C" fn ib_unregister_peer_memory_client(handle: *mut ffi::c_void) {
    let (Some(client), Ok(registry)) = (registry::find(handle.addr()), Registry::get()) else {
        pr_err!("unregistering a client that is not registered\n");
        return;
    };
    if registry.end(&client) {
        pr_info!("client {} unregistered\n", client.name());
    } else {
        pr_err!("client {} is unregistered twice\n", client.name());
    }
}

/// The invalidate callback.
///
/// # Safety
///
/// None in fact: a handle or ticket that is not a live one is left alone.
unsafe extern "C" fn invalidate_region(handle: *mut ffi::c_void, ticket: u64) -> ffi::c_int {
    if let Some(client) = registry::find(handle.addr()) {
        client.stats().invalidated();
        // Only the low half is ever given out, and all that a client with the older type of the
        // argument sets.
        if let Some(region) = client.region(ticket as u32) {
            region.invalidate();
        }
    }
    0
}

/// The adapter of a user context's device.
///
/// # Safety
///
/// `context` must be a valid user context for the duration of the call.
unsafe fn adapter_of(context: *mut peer::ib_ucontext) -> Result<(UcontextId, Arc<Adapter>)> {
    // SAFETY: The caller's promise.
    let (id, dev) = unsafe { UcontextId::from_raw(context.cast()) };
    Ok((id, Registry::get()?.adapter(dev)?))
}

/// Sets the hint of a user context.
///
/// # Safety
///
/// As `include/rdma/ib_peer_mem.h` says: `context` must be a valid user context for the duration
/// of the call, `name` NULL or a C string.
#[no_mangle]
pub(crate) unsafe extern "C" fn ib_peer_mem_set_hint(
    context: *mut peer::ib_ucontext,
    name: *const ffi::c_char,
    private_data: *mut ffi::c_void,
) -> ffi::c_int {
    from_result(|| {
        let name = if name.is_null() {
            None
        } else {
            // SAFETY: The caller's promise.
            let name = unsafe { CStr::from_char_ptr(name) };
            if name.to_bytes_with_nul().len() > peer::IB_PEER_MEMORY_NAME_MAX as usize {
                return Err(EINVAL);
            }
            Some(CString::try_from(name)?)
        };
        // SAFETY: The caller's promise.
        let (id, adapter) = unsafe { adapter_of(context) }?;
        adapter.hints().set(
            id,
            Hint {
                name,
                private_data: private_data.addr(),
            },
        )?;
        Ok(0)
    })
}

/// Clears the hint of a user context.
///
/// # Safety
///
/// As [`ib_peer_mem_set_hint`].
#[no_mangle]
pub(crate) unsafe extern "C" fn ib_peer_mem_clear_hint(context: *mut peer::ib_ucontext) {
    // SAFETY: The caller's promise.
    if let Ok((id, adapter)) = unsafe { adapter_of(context) } {
        adapter.hints().clear(id);
    }
}

// The functions and the header's prototypes must agree: a difference does not compile.
const _: () = {
    if true {
        peer::ib_register_peer_memory_client
    } else {
        ib_register_peer_memory_client
    };
    if true {
        peer::ib_unregister_peer_memory_client
    } else {
        ib_unregister_peer_memory_client
    };
    if true {
        peer::ib_peer_mem_set_hint
    } else {
        ib_peer_mem_set_hint
    };
    if true {
        peer::ib_peer_mem_clear_hint
    } else {
        ib_peer_mem_clear_hint
    };
};
