// SPDX-License-Identifier: GPL-2.0

//! The driver's operations of a device while they are interposed.
//!
//! [`OrigOps`] holds the operations of one device.
//!
//! Another module may interpose the same operations later: the other module saves this module's
//! functions and calls our functions as if they were the driver's. If this module leaves the device
//! first, restoring the driver's functions would undo the work of the other module. So this module
//! leaves the operations alone. The interposed functions then call the driver's functions, kept in
//! [`HOOKED_OPS`], until the other module has restored our functions or the device is unregistered.
//! The code of this module must stay until then.

use crate::shared::{
    ext::{
        base::{
            compat::AtomicPtr,
            device::as_raw, //
        },
        rdma::ops::{
            Operations,
            Places, //
        }, //
    },
    prelude::raw::*, //
};

/// The driver's operations of a device, and the operations installed in place of the driver's.
///
/// # Invariants
///
/// `dev` is valid: `memory` is a reference to its `struct device`.
pub(super) struct OrigOps {
    dev: *mut rdma::ib_device,
    memory: ARef<device::Device>,
    pub(super) driver: Operations,
    hooked: Operations,
    next: AtomicPtr<OrigOps>,
}

// SAFETY: The pointers are not bound to a task, and `memory` keeps the device valid.
unsafe impl Send for OrigOps {}
// SAFETY: Only `next` and the operations of the device change. All of these are accessed
// atomically.
unsafe impl Sync for OrigOps {}

impl OrigOps {
    /// Saves the operations of a device before `hooked` replaces the operations.
    ///
    /// Returns `EBUSY` if another module still has functions of this module from an earlier
    /// registration.
    ///
    /// # Safety
    ///
    /// `dev` must be valid and registered.
    pub(super) unsafe fn new(dev: *mut rdma::ib_device, hooked: Operations) -> Result<Arc<Self>> {
        if HOOKED_OPS.find(dev).is_some_and(Self::is_reachable) {
            return Err(EBUSY);
        }
        // SAFETY: By the safety requirements `dev` is valid and registered. So the `struct device`
        // in `dev` is valid, and the reference count is not zero.
        let memory: &device::Device =
            unsafe { device::Device::from_raw(&raw mut (*dev).__bindgen_anon_1.dev) };
        // SAFETY: By the safety requirements `dev` is registered.
        let driver = unsafe { Operations::of(dev) };
        // INVARIANT: `memory` is the reference.
        let orig_ops = Self {
            dev,
            memory: memory.into(),
            driver,
            hooked,
            next: AtomicPtr::new(ptr::null_mut()),
        };
        Ok(Arc::new(orig_ops, GFP_KERNEL)?)
    }

    /// Returns the places of the operations. Any number of tasks may use them at once.
    fn places(&self) -> Places<'_> {
        // SAFETY: By the type invariants `dev` is valid. `dev` was registered when `OrigOps::new`
        // was called.
        unsafe { Places::of(self.dev) }
    }

    /// Installs the functions. The interposed `dereg_mr` must see every MR of the hooks, so
    /// `dereg_mr` is installed before `reg_user_mr`.
    pub(super) fn install(&self) {
        let (places, hooked, driver) = (self.places(), &self.hooked, &self.driver);
        places.dereg_mr.install(hooked.dereg_mr);
        if driver.dealloc_ucontext.is_some() {
            places.dealloc_ucontext.install(hooked.dealloc_ucontext);
        }
        if driver.rereg_user_mr.is_some() {
            places.rereg_user_mr.install(hooked.rereg_user_mr);
        }
        places.reg_user_mr.install(hooked.reg_user_mr);
    }

    /// Restores the driver's functions that make MRs. Returns whether these functions are in place.
    pub(super) fn restore_registering(&self) -> bool {
        let (places, hooked, driver) = (self.places(), &self.hooked, &self.driver);
        places
            .reg_user_mr
            .restore(hooked.reg_user_mr, driver.reg_user_mr)
            & places
                .rereg_user_mr
                .restore(hooked.rereg_user_mr, driver.rereg_user_mr)
    }

    /// Restores the driver's other functions. Returns whether these functions are in place.
    pub(super) fn restore_ending(&self) -> bool {
        let (places, hooked, driver) = (self.places(), &self.hooked, &self.driver);
        places.dereg_mr.restore(hooked.dereg_mr, driver.dereg_mr)
            & places
                .dealloc_ucontext
                .restore(hooked.dealloc_ucontext, driver.dealloc_ucontext)
    }

    /// Returns whether a call through the device can still reach this module's functions.
    fn is_reachable(&self) -> bool {
        // SAFETY: By the type invariants the `struct device` is valid.
        let registered = unsafe { (*as_raw(&self.memory)).kobj.state_in_sysfs() } != 0;
        // uverbs has ended all users before ib_core unregisters the device.
        registered && !(self.restore_registering() & self.restore_ending())
    }
}

/// Devices that this module has left although another module has replaced the functions of this
/// module.
pub(super) static HOOKED_OPS: HookedOps = HookedOps(AtomicPtr::new(ptr::null_mut()));

/// A list of devices. Entries are added, and the list is cleared as a whole.
///
/// # Invariants
///
/// The list consists of references from `Arc::into_raw`.
pub(super) struct HookedOps(AtomicPtr<OrigOps>);

impl HookedOps {
    fn iter(&self) -> impl Iterator<Item = &OrigOps> {
        let mut next = self.0.load(Acquire);
        core::iter::from_fn(move || {
            // SAFETY: By the type invariants the pointer is NULL or valid until `clear`. The caller
            // of `clear` ensures that no task uses the list.
            let entry = unsafe { next.as_ref() }?;
            next = entry.next.load(Acquire);
            Some(entry)
        })
    }

    pub(super) fn find(&self, dev: *mut rdma::ib_device) -> Option<&OrigOps> {
        self.iter().find(|entry| ptr::eq(entry.dev, dev))
    }

    /// Adds a device, once: the driver's operations of a device do not change.
    pub(super) fn add(&self, orig_ops: &Arc<OrigOps>) {
        if self.find(orig_ops.dev).is_some() {
            return;
        }
        // INVARIANT: The list takes over the reference from `Arc::into_raw`.
        let new = Arc::into_raw(orig_ops.clone()).cast_mut();
        let mut head = self.0.load(Relaxed);
        loop {
            orig_ops.next.store(head, Relaxed);
            match self.0.cmpxchg(head, new, Full) {
                Ok(_) => return,
                Err(current) => head = current,
            }
        }
    }

    /// Waits until no function of this module is reachable through a device of the list.
    ///
    /// Stay loaded as long as the other interposer may call us: only it can end the wait. Context:
    /// may sleep.
    pub(super) fn wait(&self) {
        let mut logged = false;
        while self.iter().any(OrigOps::is_reachable) {
            if !logged {
                pr_err!(
                    "waiting until the other module restores the operations of the RDMA devices; \
                     unload it\n"
                );
                logged = true;
            }
            fsleep(Delta::from_millis(100));
        }
    }

    /// Empties the list.
    ///
    /// # Safety
    ///
    /// No task may use the list or an entry of the list, now or later.
    pub(super) unsafe fn clear(&self) {
        let mut next = self.0.xchg(ptr::null_mut(), Full);
        while !next.is_null() {
            // SAFETY: By the type invariants the pointer is from `Arc::into_raw`, and by the safety
            // requirements no task uses the entry.
            let entry = unsafe { Arc::from_raw(next) };
            next = entry.next.load(Relaxed);
        }
    }
}
