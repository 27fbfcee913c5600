// SPDX-License-Identifier: GPL-2.0

//! The driver's operations of a device while they are interposed.
//!
//! Another module may interpose the same operations later: it saves this module's functions and calls
//! them as the driver's. If this module leaves the device first, it must not restore the driver's
//! functions, as that would undo what the other module did. Its own functions then call the driver's,
//! which stay in [`REPLACED`], until the other module has restored them or the device is unregistered.
//! The code of this module must stay as long.

use super::super::super::{
    bindings::rdma,
    device::as_raw, //
};
use core::{
    mem::{
        self,
        size_of, //
    },
    ptr, //
};
use kernel::{
    device,
    prelude::*,
    sync::{
        aref::ARef,
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
    }, //
};

/// Returns an operation as the pointer that it is.
fn as_pointer<F: Copy>(function: &Option<F>) -> *mut () {
    const { assert!(size_of::<Option<F>>() == size_of::<*mut ()>()) };
    // SAFETY: The sizes are equal, and the representation of an optional function pointer is that of
    // a pointer that may be NULL.
    unsafe { mem::transmute_copy::<Option<F>, *mut ()>(function) }
}

/// Returns one operation of a device for atomic access, as other tasks read it at any time.
fn as_atomic<F: Copy>(slot: &mut Option<F>) -> &Atomic<*mut ()> {
    const { assert!(size_of::<Option<F>>() == size_of::<*mut ()>()) };
    // SAFETY: `slot` is a valid exclusive reference to a value with the representation of a pointer.
    // Other tasks only load it, or replace it as a whole.
    unsafe { Atomic::from_ptr(ptr::from_mut(slot).cast::<*mut ()>()) }
}

/// Stores one operation of a device with release semantics.
fn install<F: Copy>(slot: &mut Option<F>, function: &Option<F>) {
    as_atomic(slot).store(as_pointer(function), Release);
}

/// Restores the driver's operation where `ours` is installed. Returns whether it is in its place.
fn restore<F: Copy>(slot: &mut Option<F>, ours: &Option<F>, driver: &Option<F>) -> bool {
    let (ours, driver) = (as_pointer(ours), as_pointer(driver));
    // An operation that the driver does not have is not interposed.
    driver.is_null()
        || match as_atomic(slot).cmpxchg(ours, driver, Full) {
            Ok(_) => true,
            Err(current) => current == driver,
        }
}

/// The driver's operations of a device, and those that are installed in their place.
///
/// # Invariants
///
/// `dev` is valid: `memory` is a reference to its `struct device`.
pub(super) struct Saved {
    dev: *mut rdma::ib_device,
    memory: ARef<device::Device>,
    /// Operations of the driver. Of these and of `ours` only the four that are interposed are set.
    pub(super) driver: rdma::ib_device_ops,
    ours: rdma::ib_device_ops,
    /// The next one in [`REPLACED`].
    next: Atomic<*mut Saved>,
}

// SAFETY: The pointers are not bound to a task, and `memory` keeps the device valid.
unsafe impl Send for Saved {}
// SAFETY: Only `next` changes, which is atomic, and operations of the device, which are too.
unsafe impl Sync for Saved {}

impl Saved {
    /// Saves the operations of a device that `ours` is to replace.
    ///
    /// Returns `EBUSY` if another module still has functions of this one from an earlier time.
    ///
    /// # Safety
    ///
    /// `dev` must be valid and registered.
    pub(super) unsafe fn new(
        dev: *mut rdma::ib_device,
        ours: rdma::ib_device_ops,
    ) -> Result<Arc<Self>> {
        if REPLACED.find(dev).is_some_and(Self::is_reachable) {
            return Err(EBUSY);
        }
        // SAFETY: By this function's safety contract `dev` is valid, so its `struct device` is, whose
        // reference count is not zero.
        let memory: &device::Device =
            unsafe { device::Device::from_raw(&raw mut (*dev).__bindgen_anon_1.dev) };
        // SAFETY: By this function's safety contract `dev` is valid. After registration only
        // interposers write these fields, each as a whole.
        let ops = unsafe { &(*dev).ops };
        let driver = rdma::ib_device_ops {
            reg_user_mr: ops.reg_user_mr,
            rereg_user_mr: ops.rereg_user_mr,
            dereg_mr: ops.dereg_mr,
            dealloc_ucontext: ops.dealloc_ucontext,
            ..pin_init::zeroed()
        };
        // INVARIANT: `memory` is the reference.
        let saved = Self {
            dev,
            memory: memory.into(),
            driver,
            ours,
            next: Atomic::new(ptr::null_mut()),
        };
        Ok(Arc::new(saved, GFP_KERNEL)?)
    }

    /// Returns the operations of the device.
    #[expect(clippy::mut_from_ref, reason = "the fields are accessed as atomics")]
    fn ops(&self) -> &mut rdma::ib_device_ops {
        // SAFETY: By the type invariants `dev` is valid. Its four fields are accessed as atomics, and
        // ib_core calls `add` and `remove`, the users of this, one at a time for each device.
        unsafe { &mut (*self.dev).ops }
    }

    /// Installs the functions. `dereg_mr` comes before `reg_user_mr`, so that it deregisters every MR of
    /// the hooks.
    pub(super) fn install(&self) {
        let (ops, ours, driver) = (self.ops(), &self.ours, &self.driver);
        install(&mut ops.dereg_mr, &ours.dereg_mr);
        if driver.dealloc_ucontext.is_some() {
            install(&mut ops.dealloc_ucontext, &ours.dealloc_ucontext);
        }
        if driver.rereg_user_mr.is_some() {
            install(&mut ops.rereg_user_mr, &ours.rereg_user_mr);
        }
        install(&mut ops.reg_user_mr, &ours.reg_user_mr);
    }

    /// Restores the driver's functions that make MRs. Returns whether they are in their place.
    pub(super) fn restore_registering(&self) -> bool {
        let (ops, ours, driver) = (self.ops(), &self.ours, &self.driver);
        restore(&mut ops.reg_user_mr, &ours.reg_user_mr, &driver.reg_user_mr)
            & restore(
                &mut ops.rereg_user_mr,
                &ours.rereg_user_mr,
                &driver.rereg_user_mr,
            )
    }

    /// Restores the driver's other functions. Returns whether they are in their place.
    pub(super) fn restore_ending(&self) -> bool {
        let (ops, ours, driver) = (self.ops(), &self.ours, &self.driver);
        restore(&mut ops.dereg_mr, &ours.dereg_mr, &driver.dereg_mr)
            & restore(
                &mut ops.dealloc_ucontext,
                &ours.dealloc_ucontext,
                &driver.dealloc_ucontext,
            )
    }

    /// Returns whether a call through the device can still reach this module's functions.
    fn is_reachable(&self) -> bool {
        // SAFETY: By the type invariants the `struct device` is valid.
        let registered = unsafe { (*as_raw(&self.memory)).kobj.state_in_sysfs() } != 0;
        // uverbs has ended all users before ib_core unregisters the device.
        registered && !(self.restore_registering() & self.restore_ending())
    }
}

/// Devices that this module has left although another module has replaced its functions.
pub(super) static REPLACED: Replaced = Replaced(Atomic::new(ptr::null_mut()));

/// A list to which devices are added until it is cleared as a whole.
///
/// # Invariants
///
/// The list consists of references from `Arc::into_raw`.
pub(super) struct Replaced(Atomic<*mut Saved>);

impl Replaced {
    /// Returns the entries.
    fn iter(&self) -> impl Iterator<Item = &Saved> {
        let mut next = self.0.load(Acquire);
        core::iter::from_fn(move || {
            // SAFETY: By the type invariants it is NULL or valid, until `clear`, whose caller ensures
            // that no task is here.
            let entry = unsafe { next.as_ref() }?;
            next = entry.next.load(Acquire);
            Some(entry)
        })
    }

    /// Returns the entry of a device.
    pub(super) fn find(&self, dev: *mut rdma::ib_device) -> Option<&Saved> {
        self.iter().find(|entry| ptr::eq(entry.dev, dev))
    }

    /// Adds a device, once: the driver's operations of a device do not change.
    pub(super) fn add(&self, saved: &Arc<Saved>) {
        if self.find(saved.dev).is_some() {
            return;
        }
        // INVARIANT: The reference becomes the list's.
        let new = Arc::into_raw(saved.clone()).cast_mut();
        let mut head = self.0.load(Relaxed);
        loop {
            saved.next.store(head, Relaxed);
            match self.0.cmpxchg(head, new, Full) {
                Ok(_) => return,
                Err(current) => head = current,
            }
        }
    }

    /// Waits until no function of this module is reachable through one of the devices.
    ///
    /// Only the other module ends this wait: the code of this one must stay until then.
    ///
    /// Context: may sleep.
    pub(super) fn wait(&self) {
        let mut logged = false;
        while self.iter().any(Saved::is_reachable) {
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
    /// No task may use the list or an entry of it, now or later.
    pub(super) unsafe fn clear(&self) {
        let mut next = self.0.xchg(ptr::null_mut(), Full);
        while !next.is_null() {
            // SAFETY: By the type invariants it is from `Arc::into_raw`, and by this function's safety
            // contract unused.
            let entry = unsafe { Arc::from_raw(next) };
            next = entry.next.load(Relaxed);
        }
    }
}
