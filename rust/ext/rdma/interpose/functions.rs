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
    Hooks,
    Original,
    Rereg, //
};
use core::{
    marker::PhantomData,
    mem::{
        self,
        size_of, //
    },
    ptr, //
};
use kernel::{
    prelude::*,
    sync::{
        atomic::{
            Acquire,
            Atomic,
            Relaxed,
            Release, //
        },
        Arc, //
    },
    time::{
        delay::fsleep,
        Delta, //
    }, //
};

/// Waits for an RCU-tasks grace period.
///
/// Context: may sleep.
fn synchronize_rcu_tasks() {
    // SAFETY: The function only sleeps, which the context of this function allows.
    unsafe { helpers::ext_synchronize_rcu_tasks() };
}

/// Number of calls in interposed functions.
struct CallCount(Atomic<i32>);

impl CallCount {
    /// Creates a count of 0.
    const fn new() -> Self {
        Self(Atomic::new(0))
    }

    /// Counts a call of `f`.
    fn within<R>(&self, f: impl FnOnce() -> R) -> R {
        self.0.add(1, Relaxed);
        let result = f();
        // Pairs with the load in `drain`, which sees the effects of `f` too.
        self.0.fetch_sub(1, Release);
        result
    }

    /// Waits for all calls through a function pointer that was read before this call.
    ///
    /// Context: may sleep.
    fn drain(&self) {
        synchronize_rcu_tasks();
        while self.0.load(Acquire) != 0 {
            fsleep(Delta::from_millis(1));
        }
    }
}

/// Client data of a device with interposed operations.
struct ClientData<H> {
    /// Hooks for the device.
    hooks: Arc<H>,
    /// Operations of the driver.
    driver: rdma::ib_device_ops,
    /// Calls in `reg_user_mr` and `rereg_user_mr`.
    registering: CallCount,
    /// Calls in `dereg_mr` and `dealloc_ucontext`.
    ending: CallCount,
}

/// The registered interposer of this module, with which the interposed functions find their client
/// data.
pub(super) static CLIENT: Atomic<*mut rdma::ib_client> = Atomic::new(ptr::null_mut());

/// C functions of an interposer with hooks `H`.
pub(super) struct Interposer<H>(PhantomData<H>);

impl<H: Hooks> Interposer<H> {
    /// Returns the client data of `dev`.
    ///
    /// # Safety
    ///
    /// - The caller must be a function of this type that was called through the operations of
    ///   `dev`.
    /// - `'a` must end before that call returns.
    unsafe fn client_data<'a>(dev: *mut rdma::ib_device) -> &'a ClientData<H> {
        // SAFETY: A device has these functions only from `install_all` to the end of `remove`,
        // which waits for calls. The client is registered and its data is set during that time.
        let data = unsafe { rdma::ib_get_client_data(dev, CLIENT.load(Relaxed)) };
        // SAFETY: `install_all` set the data to a `ClientData<H>`, which `remove` frees after it
        // has waited for calls.
        unsafe { &*data.cast() }
    }

    /// # Safety
    ///
    /// - It must be called through `reg_user_mr` of the operations of the device of `pd`.
    /// - The arguments must be as that operation requires: `pd` is valid, and `dmah` and `udata`
    ///   are NULL or valid, for the duration of the call.
    unsafe extern "C" fn reg_user_mr(
        pd: *mut rdma::ib_pd,
        start: u64,
        length: u64,
        iova: u64,
        access: i32,
        dmah: *mut rdma::ib_dmah,
        udata: *mut rdma::ib_udata,
    ) -> *mut rdma::ib_mr {
        // SAFETY:
        // - By this function's safety contract `pd` is valid.
        // - This function was called through the operations of its device.
        let this = unsafe { Self::client_data((*pd).device) };
        this.registering.within(|| {
            let range = Addresses {
                start,
                length,
                iova,
            };
            // SAFETY: By this function's safety contract the pointers are valid or NULL during the
            // call.
            let req = unsafe { Request::new(pd, range, access, dmah, udata) };
            match (this.hooks.reg_user_mr(&req), this.driver.reg_user_mr) {
                (Ok(Some(mr)), _) => mr.0.as_ptr(),
                // SAFETY: The arguments are those of this call, which is one of the same operation.
                (Ok(None), Some(driver)) => unsafe {
                    driver(pd, start, length, iova, access, dmah, udata)
                },
                (Ok(None), None) => compat::eopnotsupp().to_ptr(),
                (Err(e), _) => e.to_ptr(),
            }
        })
    }

    /// # Safety
    ///
    /// - It must be called through `rereg_user_mr` of the operations of the device of `mr`.
    /// - The arguments must be as that operation requires: `mr` and `pd` are valid, and `udata` is
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
        // SAFETY:
        // - By this function's safety contract `mr` is valid.
        // - This function was called through the operations of its device.
        let this = unsafe { Self::client_data((*mr).device) };
        this.registering.within(|| {
            let range = Addresses {
                start,
                length,
                iova,
            };
            // SAFETY: By this function's safety contract the pointers are valid or NULL during the
            // call. The operation has no DMA handle.
            let req = unsafe { Request::new(pd, range, access, ptr::null_mut(), udata) };
            // SAFETY: By this function's safety contract the MR is valid during the call.
            let old = unsafe { Mr::from_raw(mr) };
            match (
                this.hooks.rereg_user_mr(old, Change(flags), &req),
                this.driver.rereg_user_mr,
            ) {
                (Ok(Rereg::Replace(new)), _) => new.0.as_ptr(),
                // SAFETY: The arguments are those of this call, which is one of the same operation.
                (Ok(Rereg::Original), Some(driver)) => unsafe {
                    driver(mr, flags, start, length, iova, access, pd, udata)
                },
                (Ok(Rereg::Original), None) => compat::eopnotsupp().to_ptr(),
                (Ok(Rereg::Register(req)), _) => match this.driver.reg_user_mr {
                    // SAFETY: The PD is valid, `udata` is that of this call, and there is no DMA
                    // handle.
                    // CAST: The C argument is an `int` that holds flags.
                    Some(driver) => unsafe {
                        driver(
                            req.pd.as_raw(),
                            req.start,
                            req.length,
                            req.iova,
                            req.access.0 as i32,
                            ptr::null_mut(),
                            udata,
                        )
                    },
                    None => compat::eopnotsupp().to_ptr(),
                },
                (Err(e), _) => e.to_ptr(),
            }
        })
    }

    /// # Safety
    ///
    /// - It must be called through `dereg_mr` of the operations of the device of `mr`.
    /// - `mr` must be valid until the driver has deregistered it, and `udata` NULL or valid for the
    ///   duration of the call.
    unsafe extern "C" fn dereg_mr(mr: *mut rdma::ib_mr, udata: *mut rdma::ib_udata) -> i32 {
        // SAFETY:
        // - By this function's safety contract `mr` is valid.
        // - This function was called through the operations of its device.
        let this = unsafe { Self::client_data((*mr).device) };
        this.ending.within(|| {
            let call = || match this.driver.dereg_mr {
                // SAFETY: The arguments are those of this call, which is one of the same operation.
                Some(driver) => unsafe { driver(mr, udata) },
                None => compat::eopnotsupp().to_errno(),
            };
            // SAFETY: By this function's safety contract the MR is valid until the driver has
            // deregistered it, which is the last use.
            let mr = unsafe { Mr::from_raw(mr) };
            match this.hooks.dereg_mr(mr, Original { call: &call }) {
                Ok(()) => 0,
                Err(e) => e.to_errno(),
            }
        })
    }

    /// # Safety
    ///
    /// - It must be called through `dealloc_ucontext` of the operations of the device of
    ///   `ucontext`.
    /// - `ucontext` must be valid until the driver has destroyed it.
    unsafe extern "C" fn dealloc_ucontext(ucontext: *mut rdma::ib_ucontext) {
        // SAFETY:
        // - By this function's safety contract `ucontext` is valid.
        // - This function was called through the operations of its device.
        let this = unsafe { Self::client_data((*ucontext).device) };
        this.ending.within(|| {
            this.hooks.dealloc_ucontext(UcontextId(ucontext.addr()));
            if let Some(driver) = this.driver.dealloc_ucontext {
                // SAFETY: The argument is that of this call, which is one of the same operation.
                unsafe { driver(ucontext) };
            }
        });
    }

    /// # Safety
    ///
    /// `raw` must be a device that stays registered for the duration of the call, and the call must
    /// be one of `ib_client.add` of the client in `CLIENT`.
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
        // SAFETY: The device is registered. After registration only this client writes the four
        // fields, and ib_core calls `add` and `remove` one at a time for each device.
        let ops = unsafe { &mut (*raw).ops };
        if ops.reg_user_mr.is_none() || ops.dereg_mr.is_none() {
            return Err(compat::eopnotsupp());
        }
        let data = KBox::new(
            ClientData {
                hooks: H::add(dev)?,
                driver: rdma::ib_device_ops {
                    reg_user_mr: ops.reg_user_mr,
                    rereg_user_mr: ops.rereg_user_mr,
                    dereg_mr: ops.dereg_mr,
                    dealloc_ucontext: ops.dealloc_ucontext,
                    ..pin_init::zeroed()
                },
                registering: CallCount::new(),
                ending: CallCount::new(),
            },
            GFP_KERNEL,
        )?;
        // SAFETY: The client is registered, and the device is in its `add`.
        unsafe { rdma::ib_set_client_data(raw, CLIENT.load(Relaxed), KBox::into_raw(data).cast()) };
        // Install `dereg_mr` before `reg_user_mr`, so that every MR of the hooks is deregistered by
        // it.
        Self::install(&mut ops.dereg_mr, Some(Self::dereg_mr));
        if ops.dealloc_ucontext.is_some() {
            Self::install(&mut ops.dealloc_ucontext, Some(Self::dealloc_ucontext));
        }
        if ops.rereg_user_mr.is_some() {
            Self::install(&mut ops.rereg_user_mr, Some(Self::rereg_user_mr));
        }
        Self::install(&mut ops.reg_user_mr, Some(Self::reg_user_mr));
        Ok(())
    }

    /// Stores one operation of a device with release semantics, as other tasks read it at any time.
    fn install<F: Copy>(slot: &mut Option<F>, function: Option<F>) {
        const { assert!(size_of::<Option<F>>() == size_of::<*mut ()>()) };
        // SAFETY: The sizes are equal, and the representation of an optional function pointer is
        // that of a pointer that may be NULL.
        let value = unsafe { mem::transmute_copy::<Option<F>, *mut ()>(&function) };
        // SAFETY: `slot` is a valid exclusive reference to a value of that representation. Other
        // tasks only load it.
        unsafe { Atomic::from_ptr(ptr::from_mut(slot).cast::<*mut ()>()) }.store(value, Release);
    }

    /// # Safety
    ///
    /// - `raw` must be a device that stays registered for the duration of the call.
    /// - `data` must be its client data, and the call must be one of `ib_client.remove` of the
    ///   client in `CLIENT`.
    pub(super) unsafe extern "C" fn remove(
        raw: *mut rdma::ib_device,
        data: *mut core::ffi::c_void,
    ) {
        if data.is_null() {
            return;
        }
        // SAFETY: `install_all` set the data to a `ClientData<H>` from a box, and `remove` is
        // called once for each device.
        let data = unsafe { KBox::from_raw(data.cast::<ClientData<H>>()) };
        // SAFETY: By this function's safety contract the device is registered. After registration
        // only this client writes the four fields.
        let ops = unsafe { &mut (*raw).ops };

        Self::install(&mut ops.reg_user_mr, data.driver.reg_user_mr);
        Self::install(&mut ops.rereg_user_mr, data.driver.rereg_user_mr);
        data.registering.drain();
        data.hooks.remove();
        Self::install(&mut ops.dereg_mr, data.driver.dereg_mr);
        Self::install(&mut ops.dealloc_ucontext, data.driver.dealloc_ucontext);
        data.ending.drain();
        synchronize_rcu_tasks();
        // SAFETY: The client is registered, and the device is in its `remove`.
        unsafe { rdma::ib_set_client_data(raw, CLIENT.load(Relaxed), ptr::null_mut()) };
    }
}
