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
    bindings,
    prelude::*,
    sync::Arc,
    types::Opaque, //
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
    /// That of the table in C, which alone uses it.
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
    /// Receives the events of the device, once it is registered.
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
    /// The device must be registered. The data must stay in its place until [`Self::ignore_events`].
    pub(super) unsafe fn receive_events(&self) {
        let handler = self.events.get();
        // SAFETY: Nothing else uses the handler before it is registered.
        unsafe {
            (*handler).device = self.dev;
            (*handler).handler = Some(Self::event);
        }
        // SAFETY: By this function's safety contract the device is registered, and the handler stays
        // valid until it is unregistered.
        unsafe { rdma::ib_register_event_handler(handler) };
    }

    /// Ends that, and waits for a call of the handler.
    ///
    /// # Safety
    ///
    /// [`Self::receive_events`] must have been called, and the device must be registered.
    pub(super) unsafe fn ignore_events(&self) {
        // SAFETY: By this function's safety contract the handler is registered.
        unsafe { rdma::ib_unregister_event_handler(self.events.get()) };
    }

    /// # Safety
    ///
    /// `handler` must be that of a `ClientData<H>`, and `event` valid, as ib_core passes them.
    unsafe extern "C" fn event(handler: *mut rdma::ib_event_handler, event: *mut rdma::ib_event) {
        // SAFETY: By this function's safety contract the handler is a field of a `ClientData<H>`, which
        // is valid until `ignore_events` has returned. `Opaque` has the layout of what is in it.
        let this = unsafe { &*handler.byte_sub(offset_of!(Self, events)).cast::<Self>() };
        // SAFETY: By this function's safety contract the event is valid.
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

    /// Lets the functions in C and [`Inside::enter`] find the data.
    ///
    /// # Safety
    ///
    /// - This must be called once, and nothing else may be found for the device.
    /// - The data must be pinned, and not be freed until an RCU grace period after [`Self::withdraw`]
    ///   and [`Self::remove`].
    pub(super) unsafe fn publish(&self) {
        let gates = ptr::from_ref(self).cast_mut().cast();
        // SAFETY: The data begins with a `struct ext_gates`, of which the table uses the node alone, and
        // by this function's safety contract it is valid as long as the functions find it.
        unsafe { rdma::ext_gates_add(gates) };
        // SAFETY: As for the call before.
        unsafe { rdma::ext_gates_publish(gates) };
    }

    /// Takes the data from the path of host memory. Does nothing if another device has the slot.
    pub(super) fn withdraw(&self) {
        // SAFETY: The pointer is only compared, and `dev` read, which are valid.
        unsafe { rdma::ext_gates_withdraw(ptr::from_ref(self).cast_mut().cast()) };
    }

    /// Ends [`Self::publish`]: the data is not found any more.
    ///
    /// # Safety
    ///
    /// This must be called once, after [`Self::publish`].
    pub(super) unsafe fn remove(&self) {
        // SAFETY: By this function's safety contract the data is in the table.
        unsafe { rdma::ext_gates_del(ptr::from_ref(self).cast_mut().cast()) };
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
    /// of the device are the driver's then.
    ///
    /// # Safety
    ///
    /// What is published for any device must be a `ClientData<H>`, and `remove` must close its gates,
    /// and wait for the calls that these count, before it frees the data.
    pub(super) unsafe fn enter(dev: *mut rdma::ib_device, verbs: Verbs) -> Option<Self> {
        // SAFETY: The function compares the device only.
        let data = unsafe { rdma::ext_gates_enter(dev, verbs as u32) };
        // SAFETY: By this function's safety contract it is NULL or a `ClientData<H>`. The gate counts
        // this call, so `remove` does not free the data.
        let data = unsafe { data.cast::<ClientData<H>>().as_ref() }?;
        // INVARIANT: The gate has just counted this call.
        Some(Self { data, verbs })
    }
}

#[cfg(ext_tests)]
#[kunit_tests(ext_interpose_data)]
mod tests {
    use super::*;

    /// Creates what the functions in C find for the device at `address`, which has no keys.
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

    /// Returns whether a call enters the hooks of that device.
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

    /// More devices than slots: some have none. Each is found all the same, without a look at ib_core's
    /// client data, also while it is being removed.
    #[test]
    fn a_device_without_a_slot_is_found() -> Result {
        let mut all = KVec::new();
        for n in 1..=1100 {
            all.push(gates(n << 12)?, GFP_KERNEL)?;
        }
        let raw = |gates: &KBox<rdma::ext_gates>| ptr::from_ref(&**gates).cast_mut();
        let before = all.iter().any(|gates| is_found(gates));
        for gates in all.iter() {
            // SAFETY: The object is initialised. It is taken out below before it is freed.
            unsafe { rdma::ext_gates_add(raw(gates)) };
            // SAFETY: As for the call before.
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
                // SAFETY: It was initialised, and no call is counted any more.
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
