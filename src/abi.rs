// SPDX-License-Identifier: GPL-2.0

//! The two functions that clients call and the callback that they get: the inbound half of the
//! C ABI edge. See `include/rdma/ib_peer_mem.h`.

use crate::{
    bindings::peer,
    callbacks::Callbacks,
    client::Client,
    registry::{
        self,
        Registry, //
    },
};
use core::{
    mem::{
        offset_of,
        size_of, //
    },
    ptr, //
};
use kernel::{
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
            CString::try_from_fmt(fmt!("{}", label))?,
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
};
