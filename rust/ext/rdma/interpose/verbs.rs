// SPDX-License-Identifier: GPL-2.0

//! The interposed functions, and their installation in a device.
//!
//! `reg_user_mr` and `dereg_mr` of a device are `ext_reg_user_mr()` and `ext_dereg_mr()` in
//! `rust/c/interpose.c`, which call the driver for host memory. For all other memory these
//! functions call the functions of this file.

use super::{
    hook_data::{
        HookData,
        Inside,
        Verbs, //
    },
    orig_ops::{
        OrigOps,
        HOOKED_OPS, //
    },
    AddHooks,
    Driver,
    Original, //
};
use crate::shared::{
    ext::{
        base::{
            compat::{
                self,
                AtomicPtr, //
            },
            pinned::MemoryKind, //
        },
        rdma::{
            ib_device::Device,
            mr::{
                Mr,
                UserMr, //
            },
            ops::Operations,
            request::{
                Change,
                Request,
                UcontextId, //
            }, //
        },
        task::calls::INFLIGHT, //
    },
    prelude::raw::*, //
};

#[repr(C)]
pub(super) struct Client {
    pub(super) ib: rdma::ib_client,
    pub(super) add: AddHooks,
}

/// The registered interposer of this module.
pub(super) static CLIENT: AtomicPtr<Client> = AtomicPtr::new(ptr::null_mut());

/// The Rust functions that the C functions call.
pub(super) static FUNCTIONS: rdma::ext_interposer = rdma::ext_interposer {
    reg_user_mr: Some(reg_user_mr),
    dereg_mr: Some(dereg_mr),
    reg_failed: Some(reg_failed),
};

/// Returns the data that counts a call, for the duration of the call.
///
/// # Safety
///
/// `data` must be NULL, or data from the table that counts the call for `'a`.
unsafe fn counted<'a>(data: *mut rdma::ext_hook_data) -> Option<&'a HookData> {
    // SAFETY: By this function's safety contract the pointer is NULL, or `remove` waits for the call
    // before it frees the data. All data in the table is `HookData`.
    unsafe { data.cast::<HookData>().as_ref() }
}

/// Calls `f` with the hooks of `dev`, or `driver` with the driver's operations if the hooks are gone.
///
/// # Safety
///
/// `dev` must be registered for the duration of the call.
unsafe fn call<R>(
    dev: *mut rdma::ib_device,
    verbs: Verbs,
    f: impl FnOnce(&HookData) -> R,
    driver: impl FnOnce(&Operations) -> R,
) -> R {
    // SAFETY: `remove` closes the counts and waits before it frees the data.
    match unsafe { Inside::enter(dev, verbs) } {
        Some(inside) => f(inside.data),
        // SAFETY: By the safety requirements `dev` stays registered during this call.
        None => unsafe { call_driver(dev, driver) },
    }
}

/// Calls `driver` with the driver's operations, after the hooks are gone.
///
/// # Safety
///
/// `dev` must be registered for the duration of the call.
#[cold]
unsafe fn call_driver<R>(dev: *mut rdma::ib_device, driver: impl FnOnce(&Operations) -> R) -> R {
    // No data of a device counts this call.
    INFLIGHT.within(|| {
        // Before `remove` closed or removed the data, `remove` has restored the operations, or
        // entered the operations in the list. The full barrier orders the reads of this task in
        // the same way.
        Atomic::new(0).fetch_add(1, Full);
        match HOOKED_OPS.find(dev) {
            Some(orig_ops) => driver(&orig_ops.driver),
            // SAFETY: By the safety requirements the device is registered.
            None => driver(&unsafe { Operations::of(dev) }),
        }
    })
}

/// Returns the result of a verb for C.
fn into_ptr(result: Result<Option<UserMr>>) -> *mut rdma::ib_mr {
    match result {
        Ok(mr) => mr.map_or(ptr::null_mut(), |mr| mr.0.as_ptr()),
        Err(e) => e.to_ptr(),
    }
}

/// # Safety
///
/// - It must be called by `ext_reg_user_mr()`, through `reg_user_mr` of the operations of the device
///   of `pd`.
/// - `data` must be NULL, or data of the device that counts this call.
/// - The arguments must be as that operation requires: `pd` is valid, and `dmah` and `udata` are
///   NULL or valid, for the duration of the call.
unsafe extern "C" fn reg_user_mr(
    data: *mut rdma::ext_hook_data,
    pd: *mut rdma::ib_pd,
    start: u64,
    length: u64,
    iova: u64,
    access: i32,
    dmah: *mut rdma::ib_dmah,
    udata: *mut rdma::ib_udata,
    memory: u32,
) -> *mut rdma::ib_mr {
    let driver = |ops: &Operations| match ops.reg_user_mr {
        // SAFETY: The arguments come from this call, which is a call of the same operation.
        Some(driver) => unsafe { driver(pd, start, length, iova, access, dmah, udata) },
        None => compat::eopnotsupp().to_ptr(),
    };
    let hooks = |this: &HookData| {
        // SAFETY: By the safety requirements the pointers are valid or NULL during the call.
        let mut req = unsafe { Request::new(pd, start, length, iova, access, dmah, udata) };
        req.memory = MemoryKind::from_raw(memory);
        let driver = Driver {
            ops: &this.orig_ops.driver,
            rereg: &|| compat::eopnotsupp().to_ptr(),
        };
        into_ptr(this.hooks.reg_user_mr(&req, driver).map(Some))
    };
    // SAFETY: By this function's safety contract the data counts this call.
    match unsafe { counted(data) } {
        Some(this) => hooks(this),
        // SAFETY: By this function's safety contract `pd` is valid, and so is its device.
        None => unsafe { call_driver((*pd).device, driver) },
    }
}

/// Asks the hooks after the driver's `reg_user_mr` has failed with `error`.
///
/// # Safety
///
/// - `data` must be data of the device of `pd` that counts this call.
/// - The arguments must be as [`reg_user_mr`] requires.
unsafe extern "C" fn reg_failed(
    data: *mut rdma::ext_hook_data,
    pd: *mut rdma::ib_pd,
    start: u64,
    length: u64,
    iova: u64,
    access: i32,
    dmah: *mut rdma::ib_dmah,
    udata: *mut rdma::ib_udata,
    error: i32,
) -> *mut rdma::ib_mr {
    // SAFETY: By this function's safety contract the data counts this call.
    let Some(this) = (unsafe { counted(data) }) else {
        return Error::from_errno(error).to_ptr();
    };
    // SAFETY: By the safety requirements the pointers are valid or NULL during the call.
    let req = unsafe { Request::new(pd, start, length, iova, access, dmah, udata) };
    into_ptr(
        this.hooks
            .reg_failed(&req, Error::from_errno(error))
            .map(Some),
    )
}

/// # Safety
///
/// - The call must come through `rereg_user_mr` of the operations of the device of `mr`.
/// - The arguments must be as the operation requires: `mr` and `pd` are valid, and `udata` is
///   NULL or valid, for the duration of the call.
unsafe extern "C" fn rereg_user_mr(
    mr: *mut rdma::ib_mr,
    flags: i32,
    start: u64,
    length: u64,
    iova: u64,
    access: i32,
    pd: *mut rdma::ib_pd,
    udata: *mut rdma::ib_udata,
) -> *mut rdma::ib_mr {
    let driver = |ops: &Operations| match ops.rereg_user_mr {
        // SAFETY: The arguments come from this call, which is a call of the same operation.
        Some(driver) => unsafe { driver(mr, flags, start, length, iova, access, pd, udata) },
        None => compat::eopnotsupp().to_ptr(),
    };
    let hooks = |this: &HookData| {
        // SAFETY: By the safety requirements the pointers are valid or NULL during the call.
        // The operation has no DMA handle.
        let req = unsafe { Request::new(pd, start, length, iova, access, ptr::null_mut(), udata) };
        // SAFETY: By the safety requirements the MR is valid during the call.
        let old = unsafe { Mr::from_raw(mr) };
        let rereg = || driver(&this.orig_ops.driver);
        let driver = Driver {
            ops: &this.orig_ops.driver,
            rereg: &rereg,
        };
        into_ptr(this.hooks.rereg_user_mr(old, Change(flags), &req, driver))
    };
    // SAFETY: By the safety requirements `mr` is valid, so the device of `mr` is valid and
    // registered.
    unsafe { call((*mr).device, Verbs::Registering, hooks, driver) }
}

/// # Safety
///
/// - It must be called by `ext_dereg_mr()`, through `dereg_mr` of the operations of the device of `mr`.
/// - `data` must be NULL, or data of the device that counts this call.
/// - `mr` must be valid until the driver has deregistered it, and `udata` NULL or valid for the
///   duration of the call.
unsafe extern "C" fn dereg_mr(
    data: *mut rdma::ext_hook_data,
    mr: *mut rdma::ib_mr,
    udata: *mut rdma::ib_udata,
) -> i32 {
    let driver = |ops: &Operations| match ops.dereg_mr {
        // SAFETY: The arguments come from this call, which is a call of the same operation.
        Some(driver) => unsafe { driver(mr, udata) },
        None => compat::eopnotsupp().to_errno(),
    };
    let hooks = |this: &HookData| {
        let call = || driver(&this.orig_ops.driver);
        // SAFETY: By the safety requirements the MR is valid until the driver has deregistered
        // the MR, and the driver's call is the last use.
        let mr = unsafe { Mr::from_raw(mr) };
        from_result(|| {
            this.hooks
                .dereg_mr(mr, Original { call: &call })
                .map(|()| 0)
        })
    };
    // SAFETY: By this function's safety contract the data counts this call.
    match unsafe { counted(data) } {
        Some(this) => hooks(this),
        // SAFETY: By this function's safety contract `mr` is valid, and so is its device, which
        // outlives the MR.
        None => unsafe { call_driver((*mr).device, driver) },
    }
}

/// # Safety
///
/// - The call must come through `dealloc_ucontext` of the operations of the device of
///   `ucontext`.
/// - `ucontext` must be valid until the driver has destroyed `ucontext`.
unsafe extern "C" fn dealloc_ucontext(ucontext: *mut rdma::ib_ucontext) {
    let driver = |ops: &Operations| {
        if let Some(driver) = ops.dealloc_ucontext {
            // SAFETY: The argument comes from this call, which is a call of the same operation.
            unsafe { driver(ucontext) };
        }
    };
    let hooks = |this: &HookData| {
        this.hooks.dealloc_ucontext(UcontextId(ucontext.addr()));
        driver(&this.orig_ops.driver);
    };
    // SAFETY: By the safety requirements `ucontext` is valid, so the device of `ucontext` is
    // valid and registered.
    unsafe { call((*ucontext).device, Verbs::Ending, hooks, driver) }
}

/// # Safety
///
/// `raw` must be a device that stays registered for the duration of the call, and the caller
/// must be ib_core, which calls `ib_client.add` of the client in `CLIENT`.
pub(super) unsafe extern "C" fn add(raw: *mut rdma::ib_device) -> i32 {
    // SAFETY: By the safety requirements the device stays registered during the call.
    let dev = unsafe { Device::from_raw(raw) };
    let client = CLIENT.load(Relaxed);
    // SAFETY: By the safety requirements ib_core calls a function of the client, which is valid until
    // it is unregistered.
    let installed = install_all(dev, client, unsafe { (*client).add })
        .inspect_err(|e| pr_warn!("{}: verbs are not interposed: {:?}\n", dev.name(), e));
    from_result(|| installed.map(|()| 0))
}

/// Creates the hooks for `dev` by `add`, and installs the interposed functions.
fn install_all(dev: &Device, client: *mut Client, add: AddHooks) -> Result {
    let raw = dev.as_raw();
    // SAFETY: The device is registered.
    let ops = unsafe { Operations::of(raw) };
    if ops.reg_user_mr.is_none() || ops.dereg_mr.is_none() {
        return Err(compat::eopnotsupp());
    }
    let hooked = Operations {
        reg_user_mr: Some(rdma::ext_reg_user_mr),
        rereg_user_mr: Some(rereg_user_mr),
        dereg_mr: Some(rdma::ext_dereg_mr),
        dealloc_ucontext: Some(dealloc_ucontext),
    };
    // SAFETY: The device is registered.
    let orig_ops = unsafe { OrigOps::new(raw, hooked) }?;
    let data = HookData::new(dev, orig_ops.clone(), add)?;
    let data = KBox::into_raw(data);
    // SAFETY: The client is registered, and ib_core is calling `add` for the device.
    unsafe { rdma::ib_set_client_data(raw, client.cast(), data.cast()) };
    // SAFETY: The data is in a box. Only `remove` frees the data, and ib_core calls `remove`
    // after `add`, once for each device.
    unsafe { (*data).publish() };
    // SAFETY: The device is registered. Only `remove` frees the data, after `ignore_events`.
    unsafe { (*data).receive_events() };
    orig_ops.install();
    Ok(())
}

/// # Safety
///
/// - `raw` must be a device that stays registered for the duration of the call.
/// - `data` must be the client data of `raw`, and the caller must be ib_core, which calls
///   `ib_client.remove` of the client in `CLIENT`.
pub(super) unsafe extern "C" fn remove(raw: *mut rdma::ib_device, data: *mut c_void) {
    if data.is_null() {
        return;
    }
    // SAFETY: `install_all` set the data to a `HookData` from a box, and `remove` is called once
    // for each device.
    let data = unsafe { KBox::from_raw(data.cast::<HookData>()) };
    let replaced = || {
        // SAFETY: By the safety requirements the device is registered.
        let dev = unsafe { Device::from_raw(raw) };
        pr_err!(
            "{}: another module has replaced the operations after this one; unload that module \
             first\n",
            dev.name()
        );
        HOOKED_OPS.add(&data.orig_ops);
    };

    let restored = data.orig_ops.restore_registering();
    if !restored {
        replaced();
    }
    data.calls(Verbs::Registering).close();
    data.hooks.remove();
    // SAFETY: `install_all` has registered the handler, and the device is registered.
    unsafe { data.ignore_events() };
    if !data.orig_ops.restore_ending() && restored {
        replaced();
    }
    data.calls(Verbs::Ending).close();
    // SAFETY: `install_all` has published the data, and `remove` is called once for it.
    unsafe { data.remove() };
    // SAFETY: The function only sleeps, and `ib_client.remove` may sleep.
    unsafe { bindings::synchronize_rcu() };
}
