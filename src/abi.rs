// SPDX-License-Identifier: GPL-2.0

//! The inbound half of the C ABI edge: the functions that clients call, and the invalidate callback
//! that clients get.
//!
//! `include/rdma/ib_peer_mem.h` has the prototypes and the contract: context, locks and errors. The
//! functions create a [`Client`] from a client's structure, and pass clients on to the
//! [`registry`], invalidations to the regions, and hints to the adapter of the user context.

use crate::{
    adapter::Adapter,
    adapters,
    bindings::peer,
    client::{
        Callbacks,
        Client,
        ClientFlags, //
    },
    data::hint::Hint,
    prelude::*,
    registry, //
};
use core::mem::offset_of;
use kernel::ffi;

/// Validates a client's structure and registers the client. Logs the cause of an error.
///
/// # Safety
///
/// `raw` must be NULL or satisfy the safety requirements of [`ib_register_peer_memory_client`].
unsafe fn register(raw: *const peer::peer_memory_client, invalidates: bool) -> Result<Arc<Client>> {
    // SAFETY: By the safety requirements of `register`, `raw` is NULL or points to a structure that
    // stays valid until the client is unregistered.
    let Some(client) = (unsafe { raw.as_ref() }) else {
        pr_err!("a client passes NULL instead of a struct peer_memory_client; fix the client\n");
        return Err(EINVAL);
    };
    let Ok(name) = CStr::from_bytes_until_nul(&client.name) else {
        pr_err!("a client's name is not terminated; fix the client\n");
        return Err(EINVAL);
    };
    let label = name.to_str().unwrap_or("?");
    if name.is_empty() || name.to_bytes().contains(&b'/') || name == c"." || name == c".." {
        pr_err!(
            "client '{}': the name is empty or not valid for a directory in sysfs; fix the client\n",
            label
        );
        return Err(EINVAL);
    }
    let callbacks = Callbacks::new(client).map_err(|missing| {
        pr_err!(
            "client {}: the mandatory callback {} is NULL; fix the client\n",
            label,
            missing
        );
        EINVAL
    })?;
    let last = client.version.len() - 1;
    let flags = if client.version[last] != 0 {
        // SAFETY: By the C ABI a client with a non-zero last byte in `version` is the first field
        // of a `peer_memory_client_ex` that is valid up to and including `ex_size`, and for
        // `ex_size` bytes.
        unsafe { flags(raw.cast()) }
    } else {
        0
    };
    let flags = ClientFlags {
        requires_invalidation: invalidates,
        invalidate_unmaps: flags & peer::PEER_MEM_INVALIDATE_UNMAPS != 0,
        pinnable: flags & peer::PEER_MEM_MEMORY_PINNABLE != 0,
        maps_for_any_device: flags & peer::PEER_MEM_MAPS_FOR_ANY_DEVICE != 0,
    };
    let version = &client.version[..last];
    let end = version.iter().position(|&b| b == 0).unwrap_or(last);
    let version = core::str::from_utf8(&version[..end]).unwrap_or("?");

    let result = (|| {
        let version = CString::try_from_fmt(fmt!("{}", version))?;
        let client = Client::new(CString::try_from(name)?, callbacks, flags)?;
        registry::add(client.clone(), version)?;
        Ok(client)
    })();
    match &result {
        Ok(_) => pr_info!("client {} {} registered\n", label, version),
        Err(e) if *e == EEXIST => pr_err!(
            "client {}: not registered: the name is taken; unregister the other client first\n",
            label
        ),
        Err(e) => pr_err!("client {}: not registered: {:?}\n", label, *e),
    }
    result
}

/// Returns the flags of an extended client, or 0 if the structure is too short to have flags.
///
/// # Safety
///
/// `raw` must be valid up to and including the field `ex_size`, and for `ex_size` bytes.
unsafe fn flags(raw: *const peer::peer_memory_client_ex) -> u32 {
    // SAFETY: By the safety requirements of `flags`, the field `ex_size` is valid.
    let size = unsafe { (*raw).ex_size };
    if size < offset_of!(peer::peer_memory_client_ex, flags) + size_of::<u32>() {
        return 0;
    }
    // SAFETY: By the safety requirements of `flags`, `ex_size` bytes are valid, and include the
    // field `flags`.
    unsafe { (*raw).flags }
}

/// Registers a client.
///
/// # Safety
///
/// - `client` must be NULL or point to a structure as described in `include/rdma/ib_peer_mem.h`.
///   The structure must stay valid, and the callbacks must follow the header and stay callable,
///   until the client is unregistered.
/// - `invalidate` must be NULL or valid for a write.
#[no_mangle]
pub(crate) unsafe extern "C" fn ib_register_peer_memory_client(
    client: *const peer::peer_memory_client,
    invalidate: *mut peer::invalidate_peer_memory,
) -> *mut ffi::c_void {
    // A client in the list can be asked and can then invalidate, so set the callback first.
    if !invalidate.is_null() {
        // SAFETY: By the safety requirements of this function, `invalidate` is valid for a write.
        unsafe { invalidate.write(Some(invalidate_region)) };
    }
    // SAFETY: `client` satisfies the safety requirements of this very function.
    match unsafe { register(client, !invalidate.is_null()) } {
        // The registry owns the client. The handle is the address of the client, and is only
        // compared.
        Ok(client) => Arc::as_ptr(&client).cast_mut().cast(),
        Err(_) => ptr::null_mut(),
    }
}

/// Unregisters a client.
///
/// # Safety
///
/// None: the handle is compared, not dereferenced. An unknown handle is logged.
#[no_mangle]
pub(crate) unsafe extern "C" fn ib_unregister_peer_memory_client(handle: *mut ffi::c_void) {
    let Some(client) = registry::find(handle.addr()) else {
        pr_err!("unregister: the handle is not that of a registered client; fix the client\n");
        return;
    };
    let Some(module) = registry::end(&client) else {
        pr_err!(
            "client {}: unregistered twice; fix the client\n",
            client.name()
        );
        return;
    };
    pr_info!("client {} unregistered\n", client.name());
    drop(client);
    // The last step: the module may be unloaded once this function has returned.
    drop(module);
}

/// Invalidates the region with the ticket `ticket`, for a client that does not know its handle yet:
/// a client can be asked before the registration has returned the handle. Tickets are unique among
/// clients, so no other region has the ticket. If two regions have the ticket, after 2³² tickets,
/// both are invalidated.
#[cold]
fn invalidate_without_handle(ticket: u32) {
    let Some(clients) = registry::clients() else {
        return;
    };
    for client in clients.iter() {
        if let Some(region) = client.region(ticket) {
            client.stats().count_invalidation();
            region.invalidate();
        }
    }
}

/// The invalidate callback. The handle is compared, not dereferenced, and an unknown ticket is ignored.
extern "C" fn invalidate_region(handle: *mut ffi::c_void, ticket: u64) -> ffi::c_int {
    // CAST: Tickets have 32 bits. A client built with the older type of the argument sets no other
    // bits.
    let ticket = ticket as u32;
    match registry::find(handle.addr()) {
        Some(client) => {
            client.stats().count_invalidation();
            if let Some(region) = client.region(ticket) {
                region.invalidate();
            }
        }
        None => invalidate_without_handle(ticket),
    }
    0
}

/// Returns the adapter of a user context's device.
///
/// # Safety
///
/// `context` must be a valid user context for the duration of the call.
unsafe fn adapter_of(context: *mut peer::ib_ucontext) -> Result<(UcontextId, Arc<Adapter>)> {
    // SAFETY: By the safety requirements of `adapter_of`, the context is valid during the call, and
    // `dev` is not used after the call.
    let (id, dev) = unsafe { UcontextId::from_raw(context.cast()) };
    Ok((id, adapters::by_device(dev)?))
}

/// Sets the hint of a user context.
///
/// # Safety
///
/// - `context` must be a valid user context for the duration of the call.
/// - `name` must be NULL or a C string.
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
            // SAFETY: By the safety requirements of this function, `name` is a C string.
            let name = unsafe { CStr::from_char_ptr(name) };
            if name.to_bytes_with_nul().len() > peer::IB_PEER_MEMORY_NAME_MAX as usize {
                return Err(EINVAL);
            }
            Some(CString::try_from(name)?)
        };
        // SAFETY: By the safety requirements of this function, the context is valid during the
        // call.
        let (id, adapter) = unsafe { adapter_of(context) }?;
        adapter.hints.set(
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
/// `context` must be a valid user context for the duration of the call.
#[no_mangle]
pub(crate) unsafe extern "C" fn ib_peer_mem_clear_hint(context: *mut peer::ib_ucontext) {
    // SAFETY: By the safety requirements of this function, the context is valid during the call.
    if let Ok((id, adapter)) = unsafe { adapter_of(context) } {
        adapter.hints.clear(id);
    }
}

/// Fails to compile if a function differs from its prototype in the header.
macro_rules! check_prototypes {
    ($($name:ident),* $(,)?) => {
        const _: () = {
            $(if true { peer::$name } else { $name };)*
        };
    };
}

check_prototypes!(
    ib_register_peer_memory_client,
    ib_unregister_peer_memory_client,
    ib_peer_mem_set_hint,
    ib_peer_mem_clear_hint,
);
