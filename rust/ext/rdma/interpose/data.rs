// SPDX-License-Identifier: GPL-2.0

//! What the interposed functions find for a device, and the calls that keep it.

use super::{
    super::{
        super::bindings::{
            helpers,
            rdma, //
        },
        calls::Gate,
        device::Device, //
    },
    saved::Saved,
    Hooks, //
};
use core::{
    mem::offset_of,
    ptr, //
};
use kernel::{
    prelude::*,
    sync::{
        atomic::{
            Acquire,
            Atomic, //
        },
        rcu,
        Arc, //
    },
};

/// Client data of a device with interposed operations. It begins with a `struct ext_gates`, by which
/// the functions in C find it.
///
/// # Invariants
///
/// `asked` is static, `keys` is that of `hooks`, and the functions are those of `saved`.
#[repr(C)]
pub(super) struct ClientData<H> {
    /// The device.
    dev: *mut rdma::ib_device,
    /// By [`Verbs`].
    gates: [Gate; 2],
    asked: *const u32,
    keys: *const helpers::ext_key_set,
    reg_user_mr: rdma::ext_reg_user_mr_fn,
    dereg_mr: rdma::ext_dereg_mr_fn,
    /// Hooks for the device.
    pub(super) hooks: Arc<H>,
    /// Operations of the driver.
    pub(super) saved: Arc<Saved>,
}

const _: () = assert!(
    offset_of!(ClientData<()>, dev) == offset_of!(rdma::ext_gates, owner)
        && offset_of!(ClientData<()>, gates) == offset_of!(rdma::ext_gates, gates)
        && offset_of!(ClientData<()>, asked) == offset_of!(rdma::ext_gates, asked)
        && offset_of!(ClientData<()>, keys) == offset_of!(rdma::ext_gates, keys)
        && offset_of!(ClientData<()>, reg_user_mr) == offset_of!(rdma::ext_gates, reg_user_mr)
        && offset_of!(ClientData<()>, dereg_mr) == offset_of!(rdma::ext_gates, dereg_mr)
);

/// The verbs that a gate counts the calls of.
#[derive(Clone, Copy)]
pub(super) enum Verbs {
    /// `reg_user_mr` and `rereg_user_mr`.
    Registering = 0,
    /// `dereg_mr` and `dealloc_ucontext`.
    Ending = 1,
}

impl<H: Hooks> ClientData<H> {
    /// Creates the data for a device whose operations are `saved`.
    ///
    /// Context: may sleep.
    pub(super) fn new(dev: &Device, saved: Arc<Saved>) -> Result<KBox<Self>> {
        let gates = [Gate::new()?, Gate::new()?];
        let data = KBox::new_uninit(GFP_KERNEL)?;
        // Nothing can fail after this: only `remove` ends the hooks.
        let hooks = H::add(dev)?;
        // INVARIANT: The key set is part of the hooks, which the reference keeps in their place.
        let this = Self {
            dev: dev.as_raw(),
            gates,
            asked: hooks.asked().as_ptr(),
            keys: hooks.keys().as_raw(),
            reg_user_mr: saved.driver.reg_user_mr,
            dereg_mr: saved.driver.dereg_mr,
            hooks,
            saved,
        };
        Ok(KBox::write(data, this))
    }
}

impl<H> ClientData<H> {
    /// Returns the gate for `verbs`.
    pub(super) fn gate(&self, verbs: Verbs) -> &Gate {
        &self.gates[verbs as usize]
    }

    /// Lets the functions in C find the data.
    ///
    /// # Safety
    ///
    /// The data must not be freed until an RCU grace period after [`Self::withdraw`].
    pub(super) unsafe fn publish(&self) {
        // SAFETY: The data begins with a `struct ext_gates`, and by this function's safety contract it is
        // valid as long as the functions find it.
        unsafe { rdma::ext_gates_publish(ptr::from_ref(self).cast_mut().cast()) };
    }

    /// Ends that. Does nothing if another device has the slot.
    pub(super) fn withdraw(&self) {
        // SAFETY: The pointer is only compared, and `dev` read, which are valid.
        unsafe { rdma::ext_gates_withdraw(ptr::from_ref(self).cast_mut().cast()) };
    }
}

/// A call in the hooks of a device. Dropping it ends the call.
///
/// # Invariants
///
/// The gate of `data` for `verbs` counts this call, so `remove` does not free the data.
pub(super) struct Inside<'a, H> {
    pub(super) data: &'a ClientData<H>,
    verbs: Verbs,
}

impl<H> Drop for Inside<'_, H> {
    fn drop(&mut self) {
        self.data.gate(self.verbs).leave();
    }
}

impl<'a, H> Inside<'a, H> {
    /// Enters the hooks of `dev`. Returns `None` if they are being removed or are gone; the operations
    /// of the device are the driver's then. `client` is the interposer of this module.
    ///
    /// # Safety
    ///
    /// `dev` must be registered until the result is dropped. The client data of `client` must be a
    /// `ClientData<H>` or NULL for each device, and freed an RCU grace period after it has been withdrawn
    /// and taken out of the device.
    pub(super) unsafe fn enter(
        dev: *mut rdma::ib_device,
        client: &Atomic<*mut rdma::ib_client>,
        verbs: Verbs,
    ) -> Option<Self> {
        // SAFETY: The function compares the device only.
        let data = unsafe { rdma::ext_gates_enter(dev, verbs as u32) };
        // SAFETY: If it is not NULL, it is a published `ClientData<H>`, as this module has one interposer.
        // The gate counts this call, so `remove` does not free the data.
        match unsafe { data.cast::<ClientData<H>>().as_ref() } {
            // INVARIANT: The gate has just counted this call.
            Some(data) => Some(Self { data, verbs }),
            // SAFETY: The requirements are those of this function.
            None => unsafe { Self::enter_unpublished(dev, client, verbs) },
        }
    }

    /// As [`Self::enter`], for a device whose data is not published.
    ///
    /// # Safety
    ///
    /// As [`Self::enter`].
    #[cold]
    unsafe fn enter_unpublished(
        dev: *mut rdma::ib_device,
        client: &Atomic<*mut rdma::ib_client>,
        verbs: Verbs,
    ) -> Option<Self> {
        let rcu = rcu::read_lock();
        let client = client.load(Acquire);
        if client.is_null() {
            return None;
        }
        // SAFETY: By this function's safety contract the device is registered. The client is valid: its
        // owner clears `CLIENT` and then waits for a Tasks RCU grace period before it is freed, and this
        // task does not sleep here.
        let data = unsafe { helpers::ext_ib_client_data(dev.cast(), client.cast()) };
        // SAFETY: By this function's safety contract it is NULL or a `ClientData<H>`, and RCU protects it.
        let data = unsafe { data.cast::<ClientData<H>>().as_ref() }?;
        let entered = data.gate(verbs).enter(&rcu);
        drop(rcu);
        // INVARIANT: The gate has just counted this call.
        entered.then(|| Self { data, verbs })
    }
}
