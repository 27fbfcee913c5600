// SPDX-License-Identifier: GPL-2.0

//! Standing between the RDMA core and the drivers: registration of user memory.
//!
//! A [`Registration`] is an `ib_client`. For each device that comes it asks [`Hooks::add`], and
//! puts functions of its own in the device's `reg_user_mr`, `rereg_user_mr`, `dereg_mr` and
//! `dealloc_ucontext`; they call the hooks, which call the driver's function where the memory is
//! not theirs.
//!
//! Leaving a device:
//!
//! 1. the driver's `reg_user_mr` and `rereg_user_mr` go back, and calls still inside ours are
//!    waited for: from here no new MR is made by the hooks;
//! 2. [`Hooks::remove`]: the hooks let go of the MRs they have made;
//! 3. the driver's other functions go back, and calls still inside ours are waited for.
//!
//! A caller that has read our function pointer but has not entered the function yet, or that
//! still has its last instructions to execute, is in no count: a Tasks RCU grace period, in
//! which every task passes a voluntary context switch, closes both windows. The second one
//! matters only for our code and the client data, so it is closed once, at the end.

use super::super::bindings::{
    helpers,
    rdma, //
};
use super::super::compat;
use super::{
    device::{
        Device,
        Mr,
        UserMr, //
    },
    request::{
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

/// What to do with user memory registration on one device.
pub trait Hooks: Send + Sync + Sized + 'static {
    /// A device has come. An error leaves it alone.
    fn add(dev: &Device) -> Result<Arc<Self>>;

    /// The device goes, or the interposer: let go of every MR that these hooks have made, so
    /// that the driver's own `dereg_mr` is all it takes to end them. `reg_user_mr` is called no
    /// more, `dereg_mr` still is. May sleep.
    fn remove(&self);

    /// Registers memory, or returns `None`: not ours, call the driver. Context of the process
    /// that registers; may sleep.
    fn reg_user_mr(self: &Arc<Self>, req: &Request<'_>) -> Result<Option<UserMr>>;

    /// Changes `mr`; `req` has what is asked for. A new MR takes the place of the old one, which
    /// is then deregistered. May sleep.
    fn rereg_user_mr<'a>(
        self: &Arc<Self>,
        mr: &Mr,
        change: Change,
        req: &Request<'a>,
    ) -> Result<Rereg<'a>>;

    /// Deregisters: must call `original`, at most once with success. Any process; may sleep.
    fn dereg_mr(&self, mr: &Mr, original: Original<'_>) -> Result;

    /// A user context goes; it is not destroyed before this has returned.
    fn dealloc_ucontext(&self, ucontext: UcontextId);
}

/// How an MR is re-registered.
pub enum Rereg<'a> {
    /// This one takes its place.
    Replace(UserMr),
    /// The driver changes it.
    Original,
    /// The driver registers this anew, and that takes its place: the old one is none of its own.
    Register(Request<'a>),
}

/// The driver's own deregistration of one MR.
pub struct Original<'a> {
    call: &'a dyn Fn() -> i32,
}

impl Original<'_> {
    /// Calls it. The MR is gone where this succeeds.
    pub fn call(&self) -> Result {
        to_result((self.call)())
    }
}

/// Waits until every task that was running has slept or been in user space. May sleep.
fn synchronize_rcu_tasks() {
    // SAFETY: Just a grace period.
    unsafe { helpers::ext_synchronize_rcu_tasks() };
}

/// How many calls are inside a hook.
struct Calls(Atomic<i32>);

impl Calls {
    /// Nobody is.
    const fn new() -> Self {
        Self(Atomic::new(0))
    }

    /// Runs `f` counted.
    fn within<R>(&self, f: impl FnOnce() -> R) -> R {
        self.0.add(1, Relaxed);
        let result = f();
        // Whoever sees the count go down sees what was done.
        self.0.fetch_sub(1, Release);
        result
    }

    /// Waits until everybody who could have read the hook's address before this call has done
    /// what the hook does. May sleep.
    fn drain(&self) {
        synchronize_rcu_tasks();
        while self.0.load(Acquire) != 0 {
            fsleep(Delta::from_millis(1));
        }
    }
}

type RegUserMr = unsafe extern "C" fn(
    *mut rdma::ib_pd,
    u64,
    u64,
    u64,
    i32,
    *mut rdma::ib_dmah,
    *mut rdma::ib_udata,
) -> *mut rdma::ib_mr;
type ReregUserMr = unsafe extern "C" fn(
    *mut rdma::ib_mr,
    i32,
    u64,
    u64,
    u64,
    i32,
    *mut rdma::ib_pd,
    *mut rdma::ib_udata,
) -> *mut rdma::ib_mr;
type DeallocUcontext = unsafe extern "C" fn(*mut rdma::ib_ucontext);
type DeregMr = unsafe extern "C" fn(*mut rdma::ib_mr, *mut rdma::ib_udata) -> i32;

/// One device with our functions in it: the client data of the device.
struct ClientData<H> {
    hooks: Arc<H>,
    reg_user_mr: RegUserMr,
    rereg_user_mr: Option<ReregUserMr>,
    dereg_mr: DeregMr,
    dealloc_ucontext: Option<DeallocUcontext>,
    /// Inside the first two.
    registering: Calls,
    /// Inside the others.
    ending: Calls,
}

/// The one registered interposer of this module; the functions that are put in devices find
/// their way by it.
static CLIENT: Atomic<*mut rdma::ib_client> = Atomic::new(ptr::null_mut());

/// The C side of an interposer with hooks `H`.
pub(super) struct Interposer<H>(PhantomData<H>);

impl<H: Hooks> Interposer<H> {
    /// The client data of `dev`.
    ///
    /// # Safety
    ///
    /// Only from a function that was called through the operations of `dev`, and only for the
    /// duration of that call.
    unsafe fn client_data<'a>(dev: *mut rdma::ib_device) -> &'a ClientData<H> {
        // SAFETY: Our functions are in a device only between attaching and the end of `remove`,
        // which waits for calls; all that time the client is registered and its data is set.
        let data = unsafe { rdma::ib_get_client_data(dev, CLIENT.load(Relaxed)) };
        // SAFETY: As above; `add` set it to an `ClientData<H>`.
        unsafe { &*data.cast() }
    }

    /// # Safety
    ///
    /// As `ib_device_ops.reg_user_mr`.
    unsafe extern "C" fn reg_user_mr(
        pd: *mut rdma::ib_pd,
        start: u64,
        length: u64,
        iova: u64,
        access: i32,
        dmah: *mut rdma::ib_dmah,
        udata: *mut rdma::ib_udata,
    ) -> *mut rdma::ib_mr {
        // SAFETY: The caller gives a valid PD, and calls through the operations of its device.
        let this = unsafe { Self::client_data((*pd).device) };
        this.registering.within(|| {
            // SAFETY: The arguments are valid for this call.
            let req = unsafe { Request::new(pd, (start, length, iova), access, dmah, udata) };
            match this.hooks.reg_user_mr(&req) {
                Ok(Some(mr)) => mr.0.as_ptr(),
                // SAFETY: The arguments are the caller's, untouched.
                Ok(None) => unsafe {
                    (this.reg_user_mr)(pd, start, length, iova, access, dmah, udata)
                },
                Err(e) => e.to_ptr(),
            }
        })
    }

    /// # Safety
    ///
    /// As `ib_device_ops.rereg_user_mr`.
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
        // SAFETY: The caller gives a valid MR, and calls through the operations of its device.
        let this = unsafe { Self::client_data((*mr).device) };
        this.registering.within(|| {
            // SAFETY: The arguments are valid for this call; there is no DMA handle with them.
            let req =
                unsafe { Request::new(pd, (start, length, iova), access, ptr::null_mut(), udata) };
            // SAFETY: The MR is valid for this call.
            let old = unsafe { Mr::from_raw(mr) };
            match (
                this.hooks.rereg_user_mr(old, Change(flags), &req),
                this.rereg_user_mr,
            ) {
                (Ok(Rereg::Replace(new)), _) => new.0.as_ptr(),
                // SAFETY: The arguments are the caller's, untouched.
                (Ok(Rereg::Original), Some(original)) => unsafe {
                    original(mr, flags, start, length, iova, access, pd, udata)
                },
                (Ok(Rereg::Original), None) => compat::eopnotsupp().to_ptr(),
                // SAFETY: The arguments are of one user's request; there is no DMA handle.
                (Ok(Rereg::Register(req)), _) => unsafe {
                    (this.reg_user_mr)(
                        req.pd.as_raw(),
                        req.start,
                        req.length,
                        req.iova,
                        req.access.0 as i32,
                        ptr::null_mut(),
                        udata,
                    )
                },
                (Err(e), _) => e.to_ptr(),
            }
        })
    }

    /// # Safety
    ///
    /// As `ib_device_ops.dereg_mr`.
    unsafe extern "C" fn dereg_mr(mr: *mut rdma::ib_mr, udata: *mut rdma::ib_udata) -> i32 {
        // SAFETY: The caller gives a valid MR, and calls through the operations of its device.
        let this = unsafe { Self::client_data((*mr).device) };
        this.ending.within(|| {
            // SAFETY: The arguments are the caller's, untouched.
            let call = || unsafe { (this.dereg_mr)(mr, udata) };
            // SAFETY: The MR is valid until `original` has been called with success.
            let mr = unsafe { Mr::from_raw(mr) };
            match this.hooks.dereg_mr(mr, Original { call: &call }) {
                Ok(()) => 0,
                Err(e) => e.to_errno(),
            }
        })
    }

    /// # Safety
    ///
    /// As `ib_device_ops.dealloc_ucontext`.
    unsafe extern "C" fn dealloc_ucontext(ucontext: *mut rdma::ib_ucontext) {
        // SAFETY: The caller gives a valid context, and calls through the operations of its
        // device.
        let this = unsafe { Self::client_data((*ucontext).device) };
        this.ending.within(|| {
            this.hooks.dealloc_ucontext(UcontextId(ucontext.addr()));
            if let Some(original) = this.dealloc_ucontext {
                // SAFETY: The argument is the caller's, untouched.
                unsafe { original(ucontext) };
            }
        });
    }

    /// # Safety
    ///
    /// As `ib_client.add`.
    unsafe extern "C" fn add(raw: *mut rdma::ib_device) -> i32 {
        // SAFETY: ib_core calls this for a registered device.
        let dev = unsafe { Device::from_raw(raw) };
        match Self::attach(dev) {
            Ok(()) => 0,
            Err(e) => {
                pr_warn!("{}: not attached: {:?}\n", dev.name(), e);
                e.to_errno()
            }
        }
    }

    /// Asks the hooks and puts our functions in.
    fn attach(dev: &Device) -> Result {
        let raw = dev.as_raw();
        // SAFETY: The device is registered. Only this client writes the three fields.
        let ops = unsafe { &mut (*raw).ops };
        let (Some(reg), Some(dereg)) = (ops.reg_user_mr, ops.dereg_mr) else {
            return Err(compat::eopnotsupp());
        };
        let data = KBox::new(
            ClientData {
                hooks: H::add(dev)?,
                reg_user_mr: reg,
                rereg_user_mr: ops.rereg_user_mr,
                dereg_mr: dereg,
                dealloc_ucontext: ops.dealloc_ucontext,
                registering: Calls::new(),
                ending: Calls::new(),
            },
            GFP_KERNEL,
        )?;
        // SAFETY: The client is registered, and we are in its `add`.
        unsafe { rdma::ib_set_client_data(raw, CLIENT.load(Relaxed), KBox::into_raw(data).cast()) };
        // An MR that we make must find our dereg_mr: that one first.
        Self::install(&mut ops.dereg_mr, Some(Self::dereg_mr as DeregMr));
        if ops.dealloc_ucontext.is_some() {
            let ours = Self::dealloc_ucontext as DeallocUcontext;
            Self::install(&mut ops.dealloc_ucontext, Some(ours));
        }
        if ops.rereg_user_mr.is_some() {
            Self::install(
                &mut ops.rereg_user_mr,
                Some(Self::rereg_user_mr as ReregUserMr),
            );
        }
        Self::install(&mut ops.reg_user_mr, Some(Self::reg_user_mr as RegUserMr));
        Ok(())
    }

    /// Writes one operation of a device in one piece, after all writes before: others read it at
    /// any time.
    fn install<F: Copy>(slot: &mut Option<F>, function: Option<F>) {
        const { assert!(size_of::<Option<F>>() == size_of::<*mut ()>()) };
        // SAFETY: An optional function pointer is a pointer that may be NULL.
        let value = unsafe { mem::transmute_copy::<Option<F>, *mut ()>(&function) };
        // SAFETY: `slot` is valid and is of that size.
        unsafe { Atomic::from_ptr(ptr::from_mut(slot).cast::<*mut ()>()) }.store(value, Release);
    }

    /// # Safety
    ///
    /// As `ib_client.remove`.
    unsafe extern "C" fn remove(raw: *mut rdma::ib_device, data: *mut core::ffi::c_void) {
        if data.is_null() {
            return;
        }
        // SAFETY: `add` has set it, and nobody else takes it.
        let data = unsafe { KBox::from_raw(data.cast::<ClientData<H>>()) };
        // SAFETY: The device is still registered.
        let ops = unsafe { &mut (*raw).ops };

        Self::install(&mut ops.reg_user_mr, Some(data.reg_user_mr));
        Self::install(&mut ops.rereg_user_mr, data.rereg_user_mr);
        data.registering.drain();
        data.hooks.remove();
        Self::install(&mut ops.dereg_mr, Some(data.dereg_mr));
        Self::install(&mut ops.dealloc_ucontext, data.dealloc_ucontext);
        data.ending.drain();
        synchronize_rcu_tasks();
        // SAFETY: The client is registered, and we are in its `remove`.
        unsafe { rdma::ib_set_client_data(raw, CLIENT.load(Relaxed), ptr::null_mut()) };
    }
}

/// A registered interposer. Dropping it leaves every device: may sleep.
///
/// # Invariants
///
/// `client` is registered with the RDMA core and `CLIENT` points to it.
#[pin_data(PinnedDrop)]
pub struct Registration<H: Hooks> {
    #[pin]
    client: Opaque<rdma::ib_client>,
    _hooks: PhantomData<H>,
}

// SAFETY: The client may be unregistered from any thread.
unsafe impl<H: Hooks> Send for Registration<H> {}
// SAFETY: There is nothing to do with a shared reference.
unsafe impl<H: Hooks> Sync for Registration<H> {}

impl<H: Hooks> Registration<H> {
    /// Attaches to every device there is and will be. May sleep.
    ///
    /// `EBUSY` where this module has an interposer already.
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
                // Memory can also be registered on devices that have no verbs for the kernel.
                client.set_no_kverbs_req(1);
                // SAFETY: `slot` is ours to write.
                unsafe { slot.write(client) };
                // SAFETY: The client is pinned; it is unregistered before it goes.
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
        // SAFETY: By the type invariants the client is registered. `remove` is called for each
        // device, and waits for callers.
        unsafe { rdma::ib_unregister_client(self.client.get()) };
        CLIENT.store(ptr::null_mut(), Relaxed);
    }
}
