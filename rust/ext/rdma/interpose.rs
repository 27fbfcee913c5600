// SPDX-License-Identifier: GPL-2.0

//! Interposition of the verbs of RDMA devices that register user memory.
//!
//! A [`Registration`] is an `ib_client`. For each device the registration calls an [`AddHooks`], and
//! then installs the interposed functions as `reg_user_mr`, `rereg_user_mr`, `dereg_mr` and
//! `dealloc_ucontext` of the device. The interposed functions call the [`Hooks`]. The hooks call
//! the driver's function for memory that the driver can register. Used by the peer memory module,
//! once.
//!
//! No unmodified kernel calls a third module when a process registers an address range, and the
//! driver must stay unmodified too. So this module writes `ibdev->ops`, which is unusual for a
//! module that is neither the driver nor ib_core: ib_core has no interface for the purpose.
//!
//! What ib_core guarantees to an `ib_client`:
//!
//! - `add` is called once for each registered device, and `remove` once if `add` succeeded, before the
//!   device is unregistered;
//! - from `add` until `remove` returns the device stays registered, and `remove` gets the client data that
//!   `add` has set.
//!
//! What was only observed, in the sources of the kernels in `scripts/kernels`:
//!
//! - drivers set `ops` before registration and ib_core does not write the four fields later;
//! - ib_core reads a field of `ops` for each call and keeps no copy. ib_core may test a field for
//!   NULL and then read the field again. So this module leaves a NULL field NULL, and makes no
//!   other field NULL;
//! - uverbs does not sleep between the return of `reg_user_mr` and the write of `mr->type`; see
//!   [`FastRegKey::as_fast_reg`](super::FastRegKey::as_fast_reg).
//!
//! Documentation/locking.rst has the steps of the removal from a device. A task that has read a function
//! pointer before the removal may enter the interposed function after it. It then finds no entry, or a dead
//! `percpu_ref`, and calls the driver. The table is this module's: client ids are reused, so after
//! unregistration `ib_get_client_data()` could return another module's data. RCU protects an entry until it
//! has counted the call. Calls without an entry are counted for all devices together, and the removal of the
//! module waits once for all calls to leave its code.
//!
//! A function that another module has replaced meanwhile is not restored. The removal of the module then
//! waits for that module to put our function back; until then it may call us.

mod dispatch_cell;
mod hook_data;
mod orig_ops;
mod verbs;

pub use self::dispatch_cell::{
    Dispatch,
    DispatchCell,
    Wanted, //
};

use self::{
    orig_ops::HOOKED_OPS,
    verbs::{
        Client,
        CLIENT, //
    }, //
};
use super::{
    ib_device::Device,
    key_filter::KeyFilter,
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
};
use crate::shared::{
    ext::{
        base::compat,
        dma_buf,
        task::calls::TextRef, //
    },
    prelude::raw::*, //
};

/// Hooks for the registration of user memory on one device.
pub trait Hooks: Send + Sync {
    /// Handles the removal of the device or of the interposer.
    ///
    /// Disassociates every MR created by these hooks, so that the driver's `dereg_mr` alone can
    /// deregister the MR. `reg_user_mr` is not called any more, but `dereg_mr` may be called.
    /// Context: may sleep.
    fn remove(&self);

    /// Handles the driver's report of a fatal error of the device (`IB_EVENT_DEVICE_FATAL`). The
    /// driver may report more than one error. Context: may sleep; called by a worker.
    fn fatal(&self);

    /// Returns the cell that says when [`Self::reg_user_mr`] is called.
    fn dispatch(&self) -> &'static DispatchCell;

    /// Returns the filter of the keys of the MRs that [`Self::dereg_mr`] is for. The key of an MR that the
    /// hooks have created is in the filter before the hooks return the MR, and until the MR is deregistered.
    fn keys(&self) -> &KeyFilter;

    /// Registers memory, or makes the driver register the memory. Context: context of the process
    /// that registers; may sleep.
    fn reg_user_mr(&self, req: &Request<'_>, driver: Driver<'_>) -> Result<UserMr>;

    /// Registers memory, or returns an error. Called if the driver came first, see [`Dispatch`], and
    /// has failed with `error`. The driver was called inside [`bypass`](super::bypass()). Context:
    /// context of the process that registers; may sleep.
    fn reg_failed(&self, req: &Request<'_>, error: Error) -> Result<UserMr>;

    /// Re-registers `mr` with the arguments in `req`, or makes the driver re-register `mr`. Returns
    /// the new MR that replaces `mr`, or `None` if `mr` was changed in place. The caller
    /// deregisters a replaced MR. Context: may sleep.
    fn rereg_user_mr(
        &self,
        mr: &Mr,
        change: Change,
        req: &Request<'_>,
        driver: Driver<'_>,
    ) -> Result<Option<UserMr>>;

    /// Deregisters `mr`. Must call `original`, and must not call `original` again after a success.
    /// Called for the MRs of [`Self::keys`], and maybe for other MRs. Context: context of any
    /// process; may sleep.
    fn dereg_mr(&self, mr: &Mr, original: Original<'_>) -> Result;

    /// Handles the end of a user context. The context is destroyed after this function returns.
    /// Context: may sleep.
    fn dealloc_ucontext(&self, ucontext: UcontextId);
}

/// The driver's functions that create MRs, for one call.
pub struct Driver<'a> {
    ops: &'a Operations,
    /// Calls the driver's `rereg_user_mr` with the arguments of the call.
    rereg: &'a dyn Fn() -> *mut rdma::ib_mr,
}

impl Driver<'_> {
    /// Makes the driver register memory. `req` must be for the device of the call. Context: context
    /// of the process that registers; may sleep.
    pub fn reg_user_mr(&self, req: &Request<'_>) -> Result<UserMr> {
        let reg = self.ops.reg_user_mr.ok_or_else(compat::eopnotsupp)?;
        let (dmah, udata) = req.driver_args();
        // SAFETY:
        // - By the type invariants of `Request` the PD, `dmah` and `udata` are arguments of a call
        //   of the same operation.
        // - A `Request` exists only inside the hooks of the device of the PD, and `ops` are the
        //   operations of the driver of the same device.
        // CAST: The C argument is an `int` that holds flags.
        let mr = unsafe {
            reg(
                req.pd.as_raw(),
                req.start,
                req.length,
                req.iova,
                req.access.0 as i32,
                dmah,
                udata,
            )
        };
        UserMr::from_ptr(mr)
    }

    /// Makes the driver re-register the MR with the arguments of the call. Returns the new MR, or
    /// `None` if the driver changed the old one. Context: may sleep.
    pub fn rereg_user_mr(&self) -> Result<Option<UserMr>> {
        let new = (self.rereg)();
        if new.is_null() {
            Ok(None)
        } else {
            UserMr::from_ptr(new).map(Some)
        }
    }
}

/// The driver's deregistration of one MR.
pub struct Original<'a> {
    /// Calls the driver's function with the arguments of the call.
    call: &'a dyn Fn() -> i32,
}

impl Original<'_> {
    /// Calls the driver. On success the MR is deregistered. Context: may sleep.
    pub fn call(&self) -> Result {
        to_result((self.call)())
    }
}

/// Creates the hooks for a new device. After an error the operations of the device are not
/// interposed. Context: may sleep.
pub type AddHooks = fn(dev: &Device) -> Result<Arc<dyn Hooks>>;

/// Registration of an interposer. Drop restores the operations of all devices, and waits for a
/// module that has replaced operations after this module. Context: drop may sleep.
///
/// # Invariants
///
/// `client` is registered with ib_core, and `CLIENT` points to `client`.
#[pin_data(PinnedDrop)]
pub struct Registration {
    #[pin]
    client: Opaque<Client>,
    /// `None` after the operations have been restored.
    text: Option<TextRef>,
}

// SAFETY: Any task may unregister a client.
unsafe impl Send for Registration {}
// SAFETY: A shared reference gives access to nothing.
unsafe impl Sync for Registration {}

impl Registration {
    /// Interposes the operations of all current and future devices, each with hooks from `add`.
    ///
    /// Returns `EBUSY` if this module has an interposer already. Context: may sleep.
    pub fn new(name: &'static CStr, text: TextRef, add: AddHooks) -> impl PinInit<Self, Error> {
        try_pin_init!(Self {
            client <- Opaque::try_ffi_init(move |slot: *mut Client| {
                if CLIENT.cmpxchg(ptr::null_mut(), slot, Full).is_err() {
                    return Err(EBUSY);
                }
                let mut ib = rdma::ib_client {
                    name: name.as_char_ptr(),
                    add: Some(verbs::add),
                    remove: Some(verbs::remove),
                    ..pin_init::zeroed()
                };
                // SAFETY: The functions are static. No call is in `ext_reg_user_mr()` or
                // `ext_dereg_mr()`: no device is interposed, and an earlier interposer has waited
                // for all calls.
                unsafe { rdma::ext_interposer_set(&verbs::FUNCTIONS) };
                // User memory can also be registered on devices without kernel verbs.
                ib.set_no_kverbs_req(1);
                // SAFETY: `slot` is valid for writes during the initialisation.
                unsafe { slot.write(Client { ib, add }) };
                // SAFETY: The client is initialised and pinned. Drop unregisters the client before
                // the memory is freed.
                to_result(unsafe { rdma::ib_register_client(slot.cast()) })
                    .inspect_err(|_| CLIENT.store(ptr::null_mut(), Relaxed))
            }),
            text: Some(text),
        })
    }
}

#[pinned_drop]
impl PinnedDrop for Registration {
    fn drop(self: Pin<&mut Self>) {
        // SAFETY: By the type invariants the client is registered. The call runs `remove` for each device.
        unsafe { rdma::ib_unregister_client(self.client.get().cast()) };
        HOOKED_OPS.wait();
        // The operations of all devices are the drivers' own again, so this wait delays no RDMA
        // device.
        dma_buf::wait_released();
        // A count that was closed is released in an RCU callback, with a function of this module.
        // SAFETY: The function only sleeps.
        unsafe { bindings::rcu_barrier() };
        if let Some(text) = self.project().text.take() {
            text.drain();
        }
        // SAFETY: No function pointer leads to the interposed functions, and no call is inside the
        // functions.
        unsafe { HOOKED_OPS.clear() };
        // From here on another interposer may be registered.
        CLIENT.store(ptr::null_mut(), Release);
    }
}
