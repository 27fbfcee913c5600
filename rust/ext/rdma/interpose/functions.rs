// SPDX-License-Identifier: GPL-2.0

//! The interposed functions, and their installation in a device.

use super::{
    super::{
        super::{
            bindings::{
                helpers,
                rdma, //
            },
            compat, //
        },
        calls::{
            Gate,
            CALLS, //
        },
        device::{
            Device,
            Mr, //
        },
        request::{
            Addresses,
            Change,
            Request,
            UcontextId, //
        }, //
    },
    saved::{
        Saved,
        REPLACED, //
    },
    Driver,
    Hooks,
    Original, //
};
use core::{
    ffi::c_void,
    marker::PhantomData,
    mem::offset_of,
    ptr, //
};
use kernel::{
    bindings,
    prelude::*,
    sync::{
        atomic::{
            Acquire,
            Atomic,
            Full,
            Relaxed, //
        },
        rcu,
        Arc, //
    },
};

/// Client data of a device with interposed operations. It begins with a `struct ext_gates`.
#[repr(C)]
struct ClientData<H> {
    /// The device.
    dev: *mut rdma::ib_device,
    /// By [`Verbs`].
    gates: [Gate; 2],
    /// Hooks for the device.
    hooks: Arc<H>,
    /// Operations of the driver.
    saved: Arc<Saved>,
}

const _: () = assert!(
    offset_of!(ClientData<()>, dev) == offset_of!(helpers::ext_gates, owner)
        && offset_of!(ClientData<()>, gates) == offset_of!(helpers::ext_gates, gates)
);

/// The verbs that a gate counts the calls of.
#[derive(Clone, Copy)]
enum Verbs {
    /// `reg_user_mr` and `rereg_user_mr`.
    Registering = 0,
    /// `dereg_mr` and `dealloc_ucontext`.
    Ending = 1,
}

impl<H> ClientData<H> {
    /// Returns the gate for `verbs`.
    fn gate(&self, verbs: Verbs) -> &Gate {
        &self.gates[verbs as usize]
    }
}

/// A call in the hooks of a device. Dropping it ends the call.
///
/// # Invariants
///
/// The gate of `data` for `verbs` counts this call, so `remove` does not free the data.
struct Inside<'a, H> {
    data: &'a ClientData<H>,
    verbs: Verbs,
}

impl<H> Drop for Inside<'_, H> {
    fn drop(&mut self) {
        self.data.gate(self.verbs).leave();
    }
}

/// The registered interposer of this module, with which the interposed functions find their client
/// data.
pub(super) static CLIENT: Atomic<*mut rdma::ib_client> = Atomic::new(ptr::null_mut());

/// The number of slots of [`CACHE`], as a power of two.
const CACHE_BITS: u32 = 6;

/// Client data by device, beside ib_core's array, in which a look-up takes many times longer. A device
/// whose slot is taken by another one is looked up there.
///
/// RCU protects the data: `remove` takes it out of the slot before it waits for a grace period.
static CACHE: [Atomic<*mut c_void>; 1 << CACHE_BITS] =
    [const { Atomic::new(ptr::null_mut()) }; 1 << CACHE_BITS];

/// Returns the slot of a device.
fn slot(dev: *mut rdma::ib_device) -> &'static Atomic<*mut c_void> {
    let hash = (dev.addr() as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    // CAST: The shift leaves `CACHE_BITS` bits.
    &CACHE[(hash >> (u64::BITS - CACHE_BITS)) as usize]
}

/// C functions of an interposer with hooks `H`.
pub(super) struct Interposer<H>(PhantomData<H>);

impl<H: Hooks> Interposer<H> {
    /// Enters the hooks of `dev`. Returns `None` if they are being removed or are gone; the operations
    /// of the device are the driver's then.
    ///
    /// # Safety
    ///
    /// `dev` must be registered until the result is dropped.
    unsafe fn enter<'a>(dev: *mut rdma::ib_device, verbs: Verbs) -> Option<Inside<'a, H>> {
        // SAFETY: The slots have client data of this interposer, the only one, or NULL. It begins with
        // a `struct ext_gates`. `remove` takes it out of its slot, and then waits for an RCU grace period
        // before it frees it.
        let data =
            unsafe { helpers::ext_gates_enter(slot(dev).as_ptr(), dev.cast(), verbs as u32) };
        // SAFETY: If it is not NULL, the gate counts this call, so `remove` does not free the data.
        match unsafe { data.cast::<ClientData<H>>().as_ref() } {
            // INVARIANT: The gate has just counted this call.
            Some(data) => Some(Inside { data, verbs }),
            // SAFETY: By this function's safety contract `dev` is registered.
            None => unsafe { Self::enter_uncached(dev, verbs) },
        }
    }

    /// As [`Self::enter`], for a device that is not in the cache or is being removed.
    ///
    /// # Safety
    ///
    /// `dev` must be registered until the result is dropped.
    #[cold]
    unsafe fn enter_uncached<'a>(dev: *mut rdma::ib_device, verbs: Verbs) -> Option<Inside<'a, H>> {
        let rcu = rcu::read_lock();
        // SAFETY: By this function's safety contract `dev` is registered.
        let data = unsafe { Self::find(dev, &rcu) };
        // SAFETY: `install_all` set the data to a `ClientData<H>`. `remove` takes it out of the client
        // data, and then waits for an RCU grace period before it frees it.
        let data = unsafe { data.as_ref() }?;
        let entered = data.gate(verbs).enter(&rcu);
        drop(rcu);
        // INVARIANT: The gate has just counted this call.
        entered.then(|| Inside { data, verbs })
    }

    /// Returns the client data of `dev` from ib_core's array, NULL if it has none.
    ///
    /// # Safety
    ///
    /// `dev` must be registered.
    unsafe fn find(dev: *mut rdma::ib_device, _rcu: &rcu::Guard) -> *mut ClientData<H> {
        let client = CLIENT.load(Acquire);
        if client.is_null() {
            return ptr::null_mut();
        }
        // SAFETY: By this function's safety contract the device is registered. The client is valid: its
        // owner clears `CLIENT` and then waits for a Tasks RCU grace period before it is freed, and this
        // task does not sleep here.
        unsafe { helpers::ext_ib_client_data(dev.cast(), client.cast()) }.cast()
    }

    /// Calls `f` with the hooks of `dev`, or else `driver` with the driver's operations.
    ///
    /// # Safety
    ///
    /// `dev` must be registered for the duration of the call.
    unsafe fn call<R>(
        dev: *mut rdma::ib_device,
        verbs: Verbs,
        f: impl FnOnce(&ClientData<H>) -> R,
        driver: impl FnOnce(&rdma::ib_device_ops) -> R,
    ) -> R {
        // SAFETY: By this function's safety contract `dev` stays registered during this call.
        match unsafe { Self::enter(dev, verbs) } {
            Some(inside) => f(inside.data),
            // SAFETY: By this function's safety contract `dev` stays registered during this call.
            None => unsafe { Self::call_driver(dev, driver) },
        }
    }

    /// Calls `driver` with the driver's operations, as the hooks are gone.
    ///
    /// # Safety
    ///
    /// `dev` must be registered for the duration of the call.
    #[cold]
    unsafe fn call_driver<R>(
        dev: *mut rdma::ib_device,
        driver: impl FnOnce(&rdma::ib_device_ops) -> R,
    ) -> R {
        // No gate counts this call.
        CALLS.within(|| {
            // `remove` has restored the operations, or entered them in the list, before it closed or
            // cleared the data. Order the reads the same way.
            Atomic::new(0).fetch_add(1, Full);
            match REPLACED.find(dev) {
                Some(saved) => driver(&saved.driver),
                // SAFETY: By this function's safety contract the device is registered. Writers store
                // whole fields.
                None => driver(unsafe { &(*dev).ops }),
            }
        })
    }

    /// # Safety
    ///
    /// - It must be called through `reg_user_mr` of the operations of the device of `pd`.
    /// - The arguments must be as that operation requires: `pd` is valid, and `dmah` and `udata` are
    ///   NULL or valid, for the duration of the call.
    unsafe extern "C" fn reg_user_mr(
        pd: *mut rdma::ib_pd,
        start: u64,
        length: u64,
        iova: u64,
        access: i32,
        dmah: *mut rdma::ib_dmah,
        udata: *mut rdma::ib_udata,
    ) -> *mut rdma::ib_mr {
        let driver = |ops: &rdma::ib_device_ops| match ops.reg_user_mr {
            // SAFETY: The arguments are those of this call, which is one of the same operation.
            Some(driver) => unsafe { driver(pd, start, length, iova, access, dmah, udata) },
            None => compat::eopnotsupp().to_ptr(),
        };
        let hooks = |this: &ClientData<H>| {
            let range = Addresses {
                start,
                length,
                iova,
            };
            // SAFETY: By this function's safety contract the pointers are valid or NULL during the call.
            let req = unsafe { Request::new(pd, range, access, dmah, udata) };
            let driver = Driver {
                ops: &this.saved.driver,
                rereg: &|| compat::eopnotsupp().to_ptr(),
            };
            match this.hooks.reg_user_mr(&req, driver) {
                Ok(mr) => mr.0.as_ptr(),
                Err(e) => e.to_ptr(),
            }
        };
        // SAFETY: By this function's safety contract `pd` is valid, and so is its device.
        unsafe { Self::call((*pd).device, Verbs::Registering, hooks, driver) }
    }

    /// # Safety
    ///
    /// - It must be called through `rereg_user_mr` of the operations of the device of `mr`.
    /// - The arguments must be as that operation requires: `mr` and `pd` are valid, and `udata` is NULL
    ///   or valid, for the duration of the call.
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
        let driver = |ops: &rdma::ib_device_ops| match ops.rereg_user_mr {
            // SAFETY: The arguments are those of this call, which is one of the same operation.
            Some(driver) => unsafe { driver(mr, flags, start, length, iova, access, pd, udata) },
            None => compat::eopnotsupp().to_ptr(),
        };
        let hooks = |this: &ClientData<H>| {
            let range = Addresses {
                start,
                length,
                iova,
            };
            // SAFETY: By this function's safety contract the pointers are valid or NULL during the call.
            // The operation has no DMA handle.
            let req = unsafe { Request::new(pd, range, access, ptr::null_mut(), udata) };
            // SAFETY: By this function's safety contract the MR is valid during the call.
            let old = unsafe { Mr::from_raw(mr) };
            let rereg = || driver(&this.saved.driver);
            let driver = Driver {
                ops: &this.saved.driver,
                rereg: &rereg,
            };
            match this.hooks.rereg_user_mr(old, Change(flags), &req, driver) {
                Ok(Some(new)) => new.0.as_ptr(),
                Ok(None) => ptr::null_mut(),
                Err(e) => e.to_ptr(),
            }
        };
        // SAFETY: By this function's safety contract `mr` is valid, and so is its device.
        unsafe { Self::call((*mr).device, Verbs::Registering, hooks, driver) }
    }

    /// # Safety
    ///
    /// - It must be called through `dereg_mr` of the operations of the device of `mr`.
    /// - `mr` must be valid until the driver has deregistered it, and `udata` NULL or valid for the
    ///   duration of the call.
    unsafe extern "C" fn dereg_mr(mr: *mut rdma::ib_mr, udata: *mut rdma::ib_udata) -> i32 {
        let driver = |ops: &rdma::ib_device_ops| match ops.dereg_mr {
            // SAFETY: The arguments are those of this call, which is one of the same operation.
            Some(driver) => unsafe { driver(mr, udata) },
            None => compat::eopnotsupp().to_errno(),
        };
        let hooks = |this: &ClientData<H>| {
            let call = || driver(&this.saved.driver);
            // SAFETY: By this function's safety contract the MR is valid until the driver has deregistered
            // it, which is the last use.
            let mr = unsafe { Mr::from_raw(mr) };
            match this.hooks.dereg_mr(mr, Original { call: &call }) {
                Ok(()) => 0,
                Err(e) => e.to_errno(),
            }
        };
        // SAFETY: By this function's safety contract `mr` is valid, and so is its device, which outlives
        // the MR.
        unsafe { Self::call((*mr).device, Verbs::Ending, hooks, driver) }
    }

    /// # Safety
    ///
    /// - It must be called through `dealloc_ucontext` of the operations of the device of `ucontext`.
    /// - `ucontext` must be valid until the driver has destroyed it.
    unsafe extern "C" fn dealloc_ucontext(ucontext: *mut rdma::ib_ucontext) {
        let driver = |ops: &rdma::ib_device_ops| {
            if let Some(driver) = ops.dealloc_ucontext {
                // SAFETY: The argument is that of this call, which is one of the same operation.
                unsafe { driver(ucontext) };
            }
        };
        let hooks = |this: &ClientData<H>| {
            this.hooks.dealloc_ucontext(UcontextId(ucontext.addr()));
            driver(&this.saved.driver);
        };
        // SAFETY: By this function's safety contract `ucontext` is valid, and so is its device.
        unsafe { Self::call((*ucontext).device, Verbs::Ending, hooks, driver) }
    }

    /// # Safety
    ///
    /// `raw` must be a device that stays registered for the duration of the call, and the call must be
    /// one of `ib_client.add` of the client in `CLIENT`.
    pub(super) unsafe extern "C" fn add(raw: *mut rdma::ib_device) -> i32 {
        // SAFETY: By this function's safety contract the device stays registered during the call.
        let dev = unsafe { Device::from_raw(raw) };
        match Self::install_all(dev) {
            Ok(()) => 0,
            Err(e) => {
                pr_warn!("{}: verbs are not interposed: {:?}\n", dev.name(), e);
                e.to_errno()
            }
        }
    }

    /// Creates the hooks for `dev` and installs the interposed functions.
    fn install_all(dev: &Device) -> Result {
        let raw = dev.as_raw();
        // SAFETY: The device is registered. Interposers write whole fields.
        let ops = unsafe { &(*raw).ops };
        if ops.reg_user_mr.is_none() || ops.dereg_mr.is_none() {
            return Err(compat::eopnotsupp());
        }
        let ours = rdma::ib_device_ops {
            reg_user_mr: Some(Self::reg_user_mr),
            rereg_user_mr: Some(Self::rereg_user_mr),
            dereg_mr: Some(Self::dereg_mr),
            dealloc_ucontext: Some(Self::dealloc_ucontext),
            ..pin_init::zeroed()
        };
        // SAFETY: The device is registered.
        let saved = unsafe { Saved::new(raw, ours) }?;
        let gates = [Gate::new()?, Gate::new()?];
        let data = KBox::<ClientData<H>>::new_uninit(GFP_KERNEL)?;
        // Nothing can fail after this: only `remove` ends the hooks.
        let hooks = H::add(dev)?;
        let data = KBox::write(
            data,
            ClientData {
                dev: raw,
                gates,
                hooks,
                saved: saved.clone(),
            },
        );
        let data = KBox::into_raw(data).cast();
        // SAFETY: The client is registered, and the device is in its `add`.
        unsafe { rdma::ib_set_client_data(raw, CLIENT.load(Relaxed), data) };
        // Fails if another device has the slot.
        let _ = slot(raw).cmpxchg(ptr::null_mut(), data, Full);
        saved.install();
        Ok(())
    }

    /// # Safety
    ///
    /// - `raw` must be a device that stays registered for the duration of the call.
    /// - `data` must be its client data, and the call must be one of `ib_client.remove` of the client in
    ///   `CLIENT`.
    pub(super) unsafe extern "C" fn remove(raw: *mut rdma::ib_device, data: *mut c_void) {
        if data.is_null() {
            return;
        }
        // SAFETY: `install_all` set the data to a `ClientData<H>` from a box, and `remove` is called once
        // for each device.
        let data = unsafe { KBox::from_raw(data.cast::<ClientData<H>>()) };
        let replaced = || {
            // SAFETY: By this function's safety contract the device is registered.
            let dev = unsafe { Device::from_raw(raw) };
            pr_err!(
                "{}: another module has replaced the operations after this one; unload that module \
                 first\n",
                dev.name()
            );
            REPLACED.add(&data.saved);
        };

        let restored = data.saved.restore_registering();
        if !restored {
            replaced();
        }
        data.gate(Verbs::Registering).close();
        data.hooks.remove();
        if !data.saved.restore_ending() && restored {
            replaced();
        }
        data.gate(Verbs::Ending).close();
        // Fails if the device was not in the cache.
        let _ = slot(raw).cmpxchg(
            ptr::from_ref(&*data).cast_mut().cast(),
            ptr::null_mut(),
            Full,
        );
        // SAFETY: The client is registered, and the device is in its `remove`.
        unsafe { rdma::ib_set_client_data(raw, CLIENT.load(Relaxed), ptr::null_mut()) };
        // SAFETY: The function only sleeps, which the context of `ib_client.remove` allows.
        unsafe { bindings::synchronize_rcu() };
    }
}
