// SPDX-License-Identifier: GPL-2.0

//! Data of a device for the interposed functions, and the calls that keep the data alive.
//!
//! [`ClientData`] holds the hooks and the driver's operations. [`Inside`] is a counted call, during
//! which the data stays valid. Used by [`functions`](super::functions).

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
    bindings,
    prelude::*,
    sync::Arc,
    types::Opaque, //
};

/// Client data of a device with interposed operations. Begins with a `struct ext_gates`, so that
/// the functions in C can find the data.
///
/// # Invariants
///
/// `asked` is static, `keys` belongs to `hooks`, and the functions belong to `saved`.
#[repr(C)]
pub(super) struct ClientData<H> {
    /// The device.
    dev: *mut rdma::ib_device,
    /// Used only by the table in C.
    node: Opaque<bindings::hlist_node>,
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
    /// Receives the events of the device, once the handler is registered.
    events: Opaque<rdma::ib_event_handler>,
}

const _: () = assert!(
    offset_of!(ClientData<()>, dev) == offset_of!(rdma::ext_gates, owner)
        && offset_of!(ClientData<()>, node) == offset_of!(rdma::ext_gates, node)
        && offset_of!(ClientData<()>, gates) == offset_of!(rdma::ext_gates, gates)
        && offset_of!(ClientData<()>, asked) == offset_of!(rdma::ext_gates, asked)
        && offset_of!(ClientData<()>, keys) == offset_of!(rdma::ext_gates, keys)
        && offset_of!(ClientData<()>, reg_user_mr) == offset_of!(rdma::ext_gates, reg_user_mr)
        && offset_of!(ClientData<()>, dereg_mr) == offset_of!(rdma::ext_gates, dereg_mr)
);

/// Selects the gate that counts the calls of a verb.
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
        // No later step may fail: only `remove` ends the hooks.
        let hooks = H::add(dev)?;
        // INVARIANT: The key set is part of the hooks. The reference keeps the hooks alive, and the
        // hooks do not move.
        let this = Self {
            dev: dev.as_raw(),
            node: Opaque::zeroed(),
            gates,
            asked: hooks.asked().as_ptr(),
            keys: hooks.keys().as_raw(),
            reg_user_mr: saved.driver.reg_user_mr,
            dereg_mr: saved.driver.dereg_mr,
            hooks,
            saved,
            events: Opaque::zeroed(),
        };
        Ok(KBox::write(data, this))
    }
}

impl<H: Hooks> ClientData<H> {
    /// Receives the events of the device from here on, until [`Self::ignore_events`].
    ///
    /// # Safety
    ///
    /// The device must be registered. The data must not move or be freed until
    /// [`Self::ignore_events`].
    pub(super) unsafe fn receive_events(&self) {
        let handler = self.events.get();
        // SAFETY: No other code uses the handler before the registration.
        unsafe {
            (*handler).device = self.dev;
            (*handler).handler = Some(Self::event);
        }
        // SAFETY: By the safety requirements the device is registered, and the handler stays valid
        // until `ignore_events` has unregistered the handler.
        unsafe { rdma::ib_register_event_handler(handler) };
    }

    /// Reverts [`Self::receive_events`], and waits for a running call of the handler.
    ///
    /// # Safety
    ///
    /// [`Self::receive_events`] must have been called, and the device must be registered.
    pub(super) unsafe fn ignore_events(&self) {
        // SAFETY: By the safety requirements the handler is registered.
        unsafe { rdma::ib_unregister_event_handler(self.events.get()) };
    }

    /// # Safety
    ///
    /// `handler` must be the field of a `ClientData<H>`, and `event` must be valid, as in the calls
    /// of ib_core.
    unsafe extern "C" fn event(handler: *mut rdma::ib_event_handler, event: *mut rdma::ib_event) {
        // SAFETY: By the safety requirements the handler is a field of a `ClientData<H>`, and the
        // data is valid until `ignore_events` has returned. `Opaque` has the layout of the
        // contained type.
        let this = unsafe { &*handler.byte_sub(offset_of!(Self, events)).cast::<Self>() };
        // SAFETY: By the safety requirements the event is valid.
        if unsafe { (*event).event } == rdma::ib_event_type_IB_EVENT_DEVICE_FATAL {
            this.hooks.fatal();
        }
    }
}

impl<H> ClientData<H> {
    /// Returns the gate for `verbs`.
    pub(super) fn gate(&self, verbs: Verbs) -> &Gate {
        &self.gates[verbs as usize]
    }

    /// Makes the data available to the functions in C and to [`Inside::enter`].
    ///
    /// # Safety
    ///
    /// - This function must be called once, and no other data of the device may be published.
    /// - The data must be pinned, and not be freed until an RCU grace period after [`Self::withdraw`]
    ///   and [`Self::remove`].
    pub(super) unsafe fn publish(&self) {
        let gates = ptr::from_ref(self).cast_mut().cast();
        // SAFETY: The data begins with a `struct ext_gates`, and the table writes only the node. By
        // the safety requirements the data is valid as long as the functions find the data.
        unsafe { rdma::ext_gates_add(gates) };
        // SAFETY: As for the previous call.
        unsafe { rdma::ext_gates_publish(gates) };
    }

    /// Hides the data from the path of host memory. Does nothing if the slot belongs to another
    /// device.
    pub(super) fn withdraw(&self) {
        // SAFETY: The function only reads `dev`, which is valid, and compares the pointer.
        unsafe { rdma::ext_gates_withdraw(ptr::from_ref(self).cast_mut().cast()) };
    }

    /// After [`Self::withdraw`], removes the data from the table of all devices: no function finds
    /// the data any more.
    ///
    /// # Safety
    ///
    /// This function must be called once, after [`Self::publish`].
    pub(super) unsafe fn remove(&self) {
        // SAFETY: By the safety requirements the data is in the table.
        unsafe { rdma::ext_gates_del(ptr::from_ref(self).cast_mut().cast()) };
    }
}

/// A call in the hooks of a device. Dropping the object ends the call.
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
    /// Enters the hooks of `dev`. Returns `None` if the hooks are being removed or are gone; the
    /// caller then calls the driver's operations.
    ///
    /// # Safety
    ///
    /// All published data must be a `ClientData<H>`. Before `remove` frees the data, `remove` must
    /// close the gates and wait for the counted calls.
    pub(super) unsafe fn enter(dev: *mut rdma::ib_device, verbs: Verbs) -> Option<Self> {
        // SAFETY: The function compares the device only.
        let data = unsafe { rdma::ext_gates_enter(dev, verbs as u32) };
        // SAFETY: By the safety requirements the result is NULL or a `ClientData<H>`. The gate
        // counts this call, so `remove` does not free the data.
        let data = unsafe { data.cast::<ClientData<H>>().as_ref() }?;
        // INVARIANT: The gate has just counted this call.
        Some(Self { data, verbs })
    }
}

#[cfg(ext_tests)]
#[kunit_tests(ext_interpose_data)]
mod tests {
    use super::*;

    /// Creates the object that the functions in C find for the device at `address`, without keys.
    fn gates(address: usize) -> Result<KBox<rdma::ext_gates>> {
        let mut gates: KBox<rdma::ext_gates> = KBox::new(pin_init::zeroed(), GFP_KERNEL)?;
        gates.owner = ptr::without_provenance(address);
        for gate in &mut gates.gates {
            // SAFETY: The object is zeroed, and not initialised yet.
            if !unsafe { helpers::ext_calls_init(ptr::from_mut(gate).cast()) } {
                return Err(ENOMEM);
            }
        }
        Ok(gates)
    }

    /// Returns whether a call enters the hooks of the device of `gates`.
    fn is_found(gates: &rdma::ext_gates) -> bool {
        // SAFETY: The function compares the device only.
        let found = unsafe { rdma::ext_gates_enter(gates.owner, Verbs::Ending as u32) };
        if !found.is_null() {
            let gate = ptr::from_ref(&gates.gates[Verbs::Ending as usize]);
            // SAFETY: The gate is initialised, and has just counted a call.
            unsafe { helpers::ext_calls_leave(gate.cast_mut().cast()) };
        }
        ptr::eq(found, gates)
    }

    /// There are more devices than slots, so some devices have no slot. All devices are found
    /// nevertheless, also during removal, without a look at the client data of ib_core.
    #[test]
    fn a_device_without_a_slot_is_found() -> Result {
        let mut all = KVec::new();
        for n in 1..=1100 {
            all.push(gates(n << 12)?, GFP_KERNEL)?;
        }
        let raw = |gates: &KBox<rdma::ext_gates>| ptr::from_ref(&**gates).cast_mut();
        let before = all.iter().any(|gates| is_found(gates));
        for gates in all.iter() {
            // SAFETY: The object is initialised, and is removed below before the memory is freed.
            unsafe { rdma::ext_gates_add(raw(gates)) };
            // SAFETY: As for the previous call.
            unsafe { rdma::ext_gates_publish(raw(gates)) };
        }
        let published = all.iter().filter(|gates| is_found(gates)).count();
        for gates in all.iter() {
            // SAFETY: The object is valid.
            unsafe { rdma::ext_gates_withdraw(raw(gates)) };
        }
        let withdrawn = all.iter().filter(|gates| is_found(gates)).count();
        for gates in all.iter() {
            // SAFETY: The object is in the table.
            unsafe { rdma::ext_gates_del(raw(gates)) };
        }
        let removed = all.iter().any(|gates| is_found(gates));
        // SAFETY: The function only sleeps.
        unsafe { kernel::bindings::synchronize_rcu() };
        for mut gates in all {
            for gate in &mut gates.gates {
                // SAFETY: The gate was initialised, and no call is counted any more.
                unsafe { helpers::ext_calls_destroy(ptr::from_mut(gate).cast()) };
            }
        }
        assert_eq!(
            (before, published, withdrawn, removed),
            (false, 1100, 1100, false)
        );
        Ok(())
    }
}
