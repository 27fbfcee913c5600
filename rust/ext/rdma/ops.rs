// SPDX-License-Identifier: GPL-2.0

//! The operations of a device that are interposed: [`Operations`], and the [`Places`] of the
//! function pointers in the device.

use crate::shared::{
    ext::base::compat::AtomicPtr,
    prelude::raw::*, //
};

/// `ib_device_ops.rereg_user_mr`.
pub(super) type ReregUserMr = Option<
    unsafe extern "C" fn(
        *mut rdma::ib_mr,
        i32,
        u64,
        u64,
        u64,
        i32,
        *mut rdma::ib_pd,
        *mut rdma::ib_udata,
    ) -> *mut rdma::ib_mr,
>;

/// `ib_device_ops.dealloc_ucontext`.
pub(super) type DeallocUcontext = Option<unsafe extern "C" fn(*mut rdma::ib_ucontext)>;

/// The place of one operation of a device, an optional function pointer. Other tasks read the place
/// at any time, and interposers replace the pointer as a whole.
///
/// # Invariants
///
/// The pointer has the bits of a value of type `F`.
pub(super) struct Place<'a, F>(&'a AtomicPtr<()>, PhantomData<F>);

impl<F: Copy> Place<'_, F> {
    /// Returns the place at `field`.
    ///
    /// # Safety
    ///
    /// - `F` must be an optional function pointer.
    /// - `field` must be valid for reads and writes while the result is used. Other code must only
    ///   load the field, or replace the field as a whole.
    unsafe fn new(field: *mut F) -> Self {
        const { assert!(size_of::<F>() == size_of::<*mut ()>()) };
        // SAFETY: By the safety requirements the field is valid and has the representation of a
        // pointer that may be NULL, and every access to the field is a single load or store.
        let place = unsafe { AtomicPtr::from_ptr(field.cast()) };
        // INVARIANT: The field is an `F`.
        Self(place, PhantomData)
    }

    /// Returns the bits of an operation as a pointer.
    fn as_pointer(function: F) -> *mut () {
        // SAFETY: The sizes are equal, and an optional function pointer has the representation of a
        // pointer that may be NULL.
        unsafe { mem::transmute_copy::<F, *mut ()>(&function) }
    }

    fn load(&self) -> F {
        // SAFETY: By the type invariants the pointer is an `F`.
        unsafe { mem::transmute_copy::<*mut (), F>(&self.0.load(Relaxed)) }
    }

    /// Stores the operation with release semantics.
    pub(super) fn install(&self, function: F) {
        // INVARIANT: `function` is an `F`.
        self.0.store(Self::as_pointer(function), Release);
    }

    /// Restores the driver's operation if `hooked` is installed. Returns whether the driver's
    /// operation is in place.
    pub(super) fn restore(&self, hooked: F, driver: F) -> bool {
        let (hooked, driver) = (Self::as_pointer(hooked), Self::as_pointer(driver));
        // An operation that the driver does not have is not interposed.
        // INVARIANT: `driver` is an `F`.
        driver.is_null()
            || match self.0.cmpxchg(hooked, driver, Full) {
                Ok(_) => true,
                Err(current) => current == driver,
            }
    }
}

pub(super) struct Places<'a> {
    pub(super) reg_user_mr: Place<'a, rdma::ext_reg_user_mr_fn>,
    pub(super) rereg_user_mr: Place<'a, ReregUserMr>,
    pub(super) dereg_mr: Place<'a, rdma::ext_dereg_mr_fn>,
    pub(super) dealloc_ucontext: Place<'a, DeallocUcontext>,
}

impl Places<'_> {
    /// Returns the places of a device.
    ///
    /// # Safety
    ///
    /// `dev` must be valid while the result is used, and must be or have been registered.
    pub(super) unsafe fn of(dev: *mut rdma::ib_device) -> Self {
        // SAFETY: By the safety requirements `dev` is valid; only the address is taken.
        let ops = unsafe { &raw mut (*dev).ops };
        // The driver sets the fields before it registers the device. Later ib_core reads the
        // fields, each by a load, and interposers replace the fields.
        // SAFETY: Each field is an optional function pointer, valid as long as `dev`, and is only
        // loaded or replaced.
        unsafe {
            Self {
                reg_user_mr: Place::new(&raw mut (*ops).reg_user_mr),
                rereg_user_mr: Place::new(&raw mut (*ops).rereg_user_mr),
                dereg_mr: Place::new(&raw mut (*ops).dereg_mr),
                dealloc_ucontext: Place::new(&raw mut (*ops).dealloc_ucontext),
            }
        }
    }
}

#[derive(Clone, Copy)]
pub(super) struct Operations {
    pub(super) reg_user_mr: rdma::ext_reg_user_mr_fn,
    pub(super) rereg_user_mr: ReregUserMr,
    pub(super) dereg_mr: rdma::ext_dereg_mr_fn,
    pub(super) dealloc_ucontext: DeallocUcontext,
}

impl Operations {
    /// Returns the current operations of a device.
    ///
    /// # Safety
    ///
    /// `dev` must be a registered device.
    pub(super) unsafe fn of(dev: *mut rdma::ib_device) -> Self {
        // SAFETY: By the safety requirements the device is registered.
        let places = unsafe { Places::of(dev) };
        Self {
            reg_user_mr: places.reg_user_mr.load(),
            rereg_user_mr: places.rereg_user_mr.load(),
            dereg_mr: places.dereg_mr.load(),
            dealloc_ucontext: places.dealloc_ucontext.load(),
        }
    }
}
