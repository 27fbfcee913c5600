// SPDX-License-Identifier: GPL-2.0

//! Interposes the verbs of RDMA devices that register user memory.
//!
//! A [`Registration`] is an `ib_client`. For each device it calls [`Hooks::add`], and then installs
//! its functions as `reg_user_mr`, `rereg_user_mr`, `dereg_mr` and `dealloc_ucontext` of the device.
//! These call the hooks, which fall through to the driver's function for all other memory.
//!
//! Writing `ibdev->ops` from a module that is neither the driver nor ib_core is unusual, and ib_core
//! has no interface for it. It is done because no unmodified kernel calls a third module when a
//! process registers an address range, and because the driver must stay unmodified too.
//!
//! What ib_core guarantees to an `ib_client`:
//!
//! - `add` is called once for each registered device, and `remove` once if `add` succeeded, before the
//!   device is unregistered;
//! - from `add` until `remove` returns the device stays registered, and its client data stays as set.
//!
//! What was only observed, in the sources of 7.2 and 7.3:
//!
//! - drivers set `ops` before registration and ib_core does not write these four fields later;
//! - ib_core reads a field of `ops` for each call and keeps no copy. It may test a field for NULL and
//!   then read it again, so a NULL field stays NULL here, and others never become NULL;
//! - uverbs does not sleep between the return of `reg_user_mr` and its write of `mr->type`; see
//!   [`FastRegKey::as_fast_reg`](super::FastRegKey::as_fast_reg).
//!
//! Removal from a device:
//!
//! 1. restore the driver's `reg_user_mr` and `rereg_user_mr`, and wait for calls that are still in the
//!    interposed functions: the hooks create no MR from here on;
//! 2. call [`Hooks::remove`], which disassociates the MRs that the hooks have created;
//! 3. restore the driver's other functions, and wait for calls that are still in the interposed ones.
//!
//! No count covers a caller that has read the function pointer but has not entered the function, or
//! that still has the last instructions of the function to execute. An RCU-tasks grace period, in
//! which every task passes a voluntary context switch, closes both windows. The second one matters
//! only for the module's code and the client data, so it is closed once, at the end.
//!
//! # Examples
//!
//! ```
//! use crate::ext::rdma::{
//!     Change, Device, Hooks, Mr, Original, Registration, Request, Rereg, UcontextId, UserMr,
//! };
//! use kernel::sync::Arc;
//!
//! /// Logs registrations and lets the driver perform them.
//! struct Trace;
//!
//! impl Hooks for Trace {
//!     fn add(dev: &Device) -> Result<Arc<Self>> {
//!         pr_info!("tracing {}\n", dev.name());
//!         Ok(Arc::new(Self, GFP_KERNEL)?)
//!     }
//!
//!     fn remove(&self) {}
//!
//!     fn reg_user_mr(self: &Arc<Self>, req: &Request<'_>) -> Result<Option<UserMr>> {
//!         pr_info!("{} bytes at {:#x}\n", req.length, req.start);
//!         Ok(None)
//!     }
//!
//!     fn rereg_user_mr<'a>(
//!         self: &Arc<Self>,
//!         _mr: &Mr,
//!         _change: Change,
//!         _req: &Request<'a>,
//!     ) -> Result<Rereg<'a>> {
//!         Ok(Rereg::Original)
//!     }
//!
//!     fn dereg_mr(&self, _mr: &Mr, original: Original<'_>) -> Result {
//!         original.call()
//!     }
//!
//!     fn dealloc_ucontext(&self, _ucontext: UcontextId) {}
//! }
//!
//! let registration = KBox::pin_init(Registration::<Trace>::new(c"trace"), GFP_KERNEL)?;
//! // Restores the operations of all devices.
//! drop(registration);
//! # Ok::<(), Error>(())
//! ```

use super::super::{
    bindings::{
        helpers,
        rdma, //
    },
    compat, //
};
use super::{
    device::{
        Device,
        Mr,
        UserMr, //
    },
    request::{
        Addresses,
        Change,
        Request,
        UcontextId, //
    },
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
    error::to_result,
    prelude::*,
    sync::{
        atomic::{
            Acquire,
            Atomic,
            Full,
            Relaxed,
            Release, //
        },
        Arc, //
    },
    time::{
        delay::fsleep,
        Delta, //
    },
    types::Opaque, //
};

/// Hooks for the registration of user memory on one device.
pub trait Hooks: Send + Sync + Sized + 'static {
    /// Creates the hooks for a new device. After an error its operations are not interposed.
    ///
    /// Context: may sleep.
    fn add(dev: &Device) -> Result<Arc<Self>>;

    /// Handles the removal of the device or of the interposer.
    ///
    /// Disassociates every MR that these hooks have created, so that the driver's `dereg_mr` alone
    /// can deregister it. `reg_user_mr` is not called any more, but `dereg_mr` still is.
    ///
    /// Context: may sleep.
    fn remove(&self);

    /// Registers memory, or returns `None` to fall through to the driver.
    ///
    /// Context: context of the process that registers; may sleep.
    fn reg_user_mr(self: &Arc<Self>, req: &Request<'_>) -> Result<Option<UserMr>>;

    /// Re-registers `mr` with the arguments in `req`.
    ///
    /// If a new MR replaces the old one, the caller deregisters the old one.
    ///
    /// Context: may sleep.
    fn rereg_user_mr<'a>(
        self: &Arc<Self>,
        mr: &Mr,
        change: Change,
        req: &Request<'a>,
    ) -> Result<Rereg<'a>>;

    /// Deregisters `mr`. It must call `original`, and not again after that has succeeded.
    ///
    /// Context: context of any process; may sleep.
    fn dereg_mr(&self, mr: &Mr, original: Original<'_>) -> Result;

    /// Handles the end of a user context, which is destroyed after this returns.
    ///
    /// Context: may sleep.
    fn dealloc_ucontext(&self, ucontext: UcontextId);
}

/// How an MR is re-registered.
pub enum Rereg<'a> {
    /// The new MR replaces it.
    Replace(UserMr),
    /// The driver's `rereg_user_mr` changes it.
    Original,
    /// The driver's `reg_user_mr` registers a new MR, which replaces it. The driver must not change the
    /// old one, which the hooks have created.
    Register(Request<'a>),
}

/// The driver's deregistration of one MR.
pub struct Original<'a> {
    /// Calls the driver's function with the arguments of the call.
    call: &'a dyn Fn() -> i32,
}

impl Original<'_> {
    /// Calls the driver. The MR is deregistered if this succeeds.
    pub fn call(&self) -> Result {
        to_result((self.call)())
    }
}

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
static CLIENT: Atomic<*mut rdma::ib_client> = Atomic::new(ptr::null_mut());

/// C functions of an interposer with hooks `H`.
pub(super) struct Interposer<H>(PhantomData<H>);

impl<H: Hooks> Interposer<H> {
    /// Returns the client data of `dev`.
    ///
    /// # Safety
    ///
    /// - The caller must be a function of this type that was called through the operations of `dev`.
    /// - `'a` must end before that call returns.
    unsafe fn client_data<'a>(dev: *mut rdma::ib_device) -> &'a ClientData<H> {
        // SAFETY: A device has these functions only from `install_all` to the end of `remove`, which
        // waits for calls. The client is registered and its data is set during that time.
        let data = unsafe { rdma::ib_get_client_data(dev, CLIENT.load(Relaxed)) };
        // SAFETY: `install_all` set the data to a `ClientData<H>`, which `remove` frees after it has waited
        // for calls.
        unsafe { &*data.cast() }
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
            // SAFETY: By this function's safety contract the pointers are valid or NULL during the call.
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
            // SAFETY: By this function's safety contract the pointers are valid or NULL during the call.
            // The operation has no DMA handle.
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
            // SAFETY: By this function's safety contract the MR is valid until the driver has deregistered
            // it, which is the last use.
            let mr = unsafe { Mr::from_raw(mr) };
            match this.hooks.dereg_mr(mr, Original { call: &call }) {
                Ok(()) => 0,
                Err(e) => e.to_errno(),
            }
        })
    }

    /// # Safety
    ///
    /// - It must be called through `dealloc_ucontext` of the operations of the device of `ucontext`.
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
    /// `raw` must be a device that stays registered for the duration of the call, and the call must be
    /// one of `ib_client.add` of the client in `CLIENT`.
    unsafe extern "C" fn add(raw: *mut rdma::ib_device) -> i32 {
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
        // SAFETY: The device is registered. After registration only this client writes the four fields,
        // and ib_core calls `add` and `remove` one at a time for each device.
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
        // Install `dereg_mr` before `reg_user_mr`, so that every MR of the hooks is deregistered by it.
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
        // SAFETY: The sizes are equal, and the representation of an optional function pointer is that of
        // a pointer that may be NULL.
        let value = unsafe { mem::transmute_copy::<Option<F>, *mut ()>(&function) };
        // SAFETY: `slot` is a valid exclusive reference to a value of that representation. Other tasks
        // only load it.
        unsafe { Atomic::from_ptr(ptr::from_mut(slot).cast::<*mut ()>()) }.store(value, Release);
    }

    /// # Safety
    ///
    /// - `raw` must be a device that stays registered for the duration of the call.
    /// - `data` must be its client data, and the call must be one of `ib_client.remove` of the client in
    ///   `CLIENT`.
    unsafe extern "C" fn remove(raw: *mut rdma::ib_device, data: *mut core::ffi::c_void) {
        if data.is_null() {
            return;
        }
        // SAFETY: `install_all` set the data to a `ClientData<H>` from a box, and `remove` is called once
        // for each device.
        let data = unsafe { KBox::from_raw(data.cast::<ClientData<H>>()) };
        // SAFETY: By this function's safety contract the device is registered. After registration only
        // this client writes the four fields.
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

/// Registration of an interposer. Dropping it restores the operations of all devices, which may sleep.
///
/// # Invariants
///
/// `client` is registered with ib_core, and `CLIENT` points to it.
#[pin_data(PinnedDrop)]
pub struct Registration<H: Hooks> {
    #[pin]
    client: Opaque<rdma::ib_client>,
    _hooks: PhantomData<H>,
}

// SAFETY: Any task may unregister a client.
unsafe impl<H: Hooks> Send for Registration<H> {}
// SAFETY: A shared reference gives access to nothing.
unsafe impl<H: Hooks> Sync for Registration<H> {}

impl<H: Hooks> Registration<H> {
    /// Interposes the operations of all current and future devices.
    ///
    /// Returns `EBUSY` if this module has an interposer already.
    ///
    /// Context: may sleep.
    pub fn new(name: &'static CStr) -> impl PinInit<Self, Error> {
        try_pin_init!(Self {
            client <- Opaque::try_ffi_init(move |slot: *mut rdma::ib_client| {
                if CLIENT.cmpxchg(ptr::null_mut(), slot, Full).is_err() {
                    return Err(EBUSY);
                }
                let mut client = rdma::ib_client {
                    name: name.as_char_ptr(),
                    add: Some(Interposer::<H>::add),
                    remove: Some(Interposer::<H>::remove),
                    ..pin_init::zeroed()
                };
                // User memory can also be registered on devices without kernel verbs.
                client.set_no_kverbs_req(1);
                // SAFETY: `slot` is valid for writes during the initialisation.
                unsafe { slot.write(client) };
                // SAFETY: The client is initialised and pinned. It is unregistered before it is dropped.
                to_result(unsafe { rdma::ib_register_client(slot) })
                    .inspect_err(|_| CLIENT.store(ptr::null_mut(), Relaxed))
            }),
            _hooks: PhantomData,
        })
    }
}

#[pinned_drop]
impl<H: Hooks> PinnedDrop for Registration<H> {
    fn drop(self: Pin<&mut Self>) {
        // SAFETY: By the type invariants the client is registered. The call runs `remove` for each device.
        unsafe { rdma::ib_unregister_client(self.client.get()) };
        CLIENT.store(ptr::null_mut(), Relaxed);
    }
}
