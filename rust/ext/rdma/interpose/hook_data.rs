// SPDX-License-Identifier: GPL-2.0

//! The data of a device with interposed operations, and the calls that keep the data.
//!
//! [`HookData`] is in a table in C (`rust/c/interpose.c`) from the installation of the functions
//! until the removal of the device. A call looks the data up there under RCU and counts itself.

use super::{
    orig_ops::OrigOps,
    AddHooks,
    Hooks, //
};
use crate::shared::{
    ext::{
        rdma::ib_device::Device,
        task::calls::InFlight, //
    },
    prelude::raw::*, //
};
use core::mem::offset_of;

/// Data of a device with interposed operations. It begins with a `struct ext_hook_data`, by which
/// the functions in C find it.
///
/// # Invariants
///
/// `dispatch` is static, `keys` belongs to `hooks`, and the functions belong to `orig_ops`.
#[repr(C)]
pub(super) struct HookData {
    dev: *mut rdma::ib_device,
    /// Used only by the table in C.
    node: Opaque<bindings::hlist_node>,
    /// By [`Verbs`].
    calls: [InFlight; 2],
    dispatch: *const rdma::ext_dispatch_cell,
    keys: *const u32,
    reg_user_mr: rdma::ext_reg_user_mr_fn,
    dereg_mr: rdma::ext_dereg_mr_fn,
    pub(super) hooks: Arc<dyn Hooks>,
    pub(super) orig_ops: Arc<OrigOps>,
    /// Receives the events of the device, once the handler is registered.
    events: Opaque<rdma::ib_event_handler>,
}

const _: () = assert!(
    offset_of!(HookData, dev) == offset_of!(rdma::ext_hook_data, dev)
        && offset_of!(HookData, node) == offset_of!(rdma::ext_hook_data, node)
        && offset_of!(HookData, calls) == offset_of!(rdma::ext_hook_data, calls)
        && offset_of!(HookData, dispatch) == offset_of!(rdma::ext_hook_data, dispatch)
        && offset_of!(HookData, keys) == offset_of!(rdma::ext_hook_data, keys)
        && offset_of!(HookData, reg_user_mr) == offset_of!(rdma::ext_hook_data, reg_user_mr)
        && offset_of!(HookData, dereg_mr) == offset_of!(rdma::ext_hook_data, dereg_mr)
);

/// Verbs whose calls are counted together.
#[derive(Clone, Copy)]
#[repr(u32)]
pub(super) enum Verbs {
    /// `reg_user_mr` and `rereg_user_mr`.
    Registering = rdma::ext_verbs_EXT_VERBS_REGISTERING,
    /// `dereg_mr` and `dealloc_ucontext`.
    Ending = rdma::ext_verbs_EXT_VERBS_ENDING,
}

impl HookData {
    /// Creates the data for a device whose operations are `orig_ops`, with the hooks from `add`.
    /// Context: may sleep.
    pub(super) fn new(dev: &Device, orig_ops: Arc<OrigOps>, add: AddHooks) -> Result<KBox<Self>> {
        let calls = [InFlight::new()?, InFlight::new()?];
        let data = KBox::new_uninit(GFP_KERNEL)?;
        // No later step may fail: only `remove` ends the hooks.
        let hooks = add(dev)?;
        // INVARIANT: The filter is part of the hooks, which the reference keeps in their place.
        let this = Self {
            dev: dev.as_raw(),
            node: Opaque::zeroed(),
            calls,
            dispatch: hooks.dispatch().as_ptr(),
            keys: hooks.keys().as_ptr(),
            reg_user_mr: orig_ops.driver.reg_user_mr,
            dereg_mr: orig_ops.driver.dereg_mr,
            hooks,
            orig_ops,
            events: Opaque::zeroed(),
        };
        Ok(KBox::write(data, this))
    }

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
    /// `handler` must be that of a `HookData`, and `event` valid, as ib_core passes them.
    unsafe extern "C" fn event(handler: *mut rdma::ib_event_handler, event: *mut rdma::ib_event) {
        // SAFETY: By this function's safety contract the handler is a field of a `HookData`, which
        // is valid until `ignore_events` has returned. `Opaque` has the layout of what is in it.
        let this = unsafe { &*handler.byte_sub(offset_of!(Self, events)).cast::<Self>() };
        // SAFETY: By the safety requirements the event is valid.
        if unsafe { (*event).event } == rdma::ib_event_type_IB_EVENT_DEVICE_FATAL {
            this.hooks.fatal();
        }
    }

    pub(super) fn calls(&self, verbs: Verbs) -> &InFlight {
        &self.calls[verbs as usize]
    }

    /// Adds the data to the table, so that calls find it.
    ///
    /// # Safety
    ///
    /// - This must be called once, and the table must have no data for the device.
    /// - The data must be pinned, and not be freed until an RCU grace period after [`Self::remove`].
    pub(super) unsafe fn publish(&self) {
        // SAFETY: The data begins with a `struct ext_hook_data`, of which the table changes the node
        // alone, and by this function's safety contract the data is valid while it is in the table.
        unsafe { rdma::ext_hook_data_add(ptr::from_ref(self).cast_mut().cast()) };
    }

    /// Reverts [`Self::publish`].
    ///
    /// # Safety
    ///
    /// This function must be called once, after [`Self::publish`].
    pub(super) unsafe fn remove(&self) {
        // SAFETY: By this function's safety contract the data is in the table.
        unsafe { rdma::ext_hook_data_del(ptr::from_ref(self).cast_mut().cast()) };
    }
}

/// A call in the hooks of a device. Dropping the object ends the call.
///
/// # Invariants
///
/// `data` counts this call of `verbs`, so `remove` does not free the data.
pub(super) struct Inside<'a> {
    pub(super) data: &'a HookData,
    verbs: Verbs,
}

impl Drop for Inside<'_> {
    fn drop(&mut self) {
        let data = ptr::from_ref(self.data).cast_mut().cast();
        // SAFETY: By the type invariants the data counts this call.
        unsafe { rdma::ext_hook_data_put(data, self.verbs as u32) };
    }
}

impl<'a> Inside<'a> {
    /// Enters the hooks of `dev`. Returns `None` if the hooks are being removed or are gone; the
    /// operations of the device are the driver's then.
    ///
    /// # Safety
    ///
    /// All data in the table must be `HookData`, and `remove` must wait for the calls that the data
    /// counts before it frees the data.
    pub(super) unsafe fn enter(dev: *mut rdma::ib_device, verbs: Verbs) -> Option<Self> {
        // SAFETY: The function compares the device only.
        let data = unsafe { rdma::ext_hook_data_get(dev, verbs as u32) };
        // SAFETY: By this function's safety contract the pointer is NULL or a `HookData`, which counts
        // this call, so `remove` does not free the data.
        let data = unsafe { data.cast::<HookData>().as_ref() }?;
        // INVARIANT: The data has just counted this call.
        Some(Self { data, verbs })
    }
}

#[cfg(ext_tests)]
#[kunit_tests(ext_interpose_data)]
mod tests {
    use super::*;

    /// The data of the device at an address, as the functions in C know the data.
    struct Raw {
        data: KBox<rdma::ext_hook_data>,
        calls: [InFlight; 2],
    }

    impl Raw {
        fn new(address: usize) -> Result<Self> {
            let mut data: KBox<rdma::ext_hook_data> = KBox::new(pin_init::zeroed(), GFP_KERNEL)?;
            let calls = [InFlight::new()?, InFlight::new()?];
            data.dev = ptr::without_provenance(address);
            data.calls = [calls[0].as_raw(), calls[1].as_raw()];
            Ok(Self { data, calls })
        }

        fn as_raw(&self) -> *mut rdma::ext_hook_data {
            ptr::from_ref(&*self.data).cast_mut()
        }

        /// Returns whether a call finds the data.
        fn is_found(&self) -> bool {
            // SAFETY: The function compares the device only.
            let found = unsafe { rdma::ext_hook_data_get(self.data.dev, Verbs::Ending as u32) };
            // SAFETY: The pointer is NULL, or the data has just counted a call.
            unsafe { rdma::ext_hook_data_put(found, Verbs::Ending as u32) };
            ptr::eq(found, &*self.data)
        }
    }

    #[test]
    fn no_call_enters_after_close() -> Result {
        let raw = Raw::new(1 << 12)?;
        // SAFETY: The object is initialised. It is taken out below before it is freed.
        unsafe { rdma::ext_hook_data_add(raw.as_raw()) };
        let entered = raw.is_found();
        raw.calls[Verbs::Ending as usize].close();
        let late = raw.is_found();
        // SAFETY: The object is in the table.
        unsafe { rdma::ext_hook_data_del(raw.as_raw()) };
        // SAFETY: The function only sleeps.
        unsafe { bindings::synchronize_rcu() };
        assert!(entered && !late);
        Ok(())
    }

    /// More devices than lists in the table.
    #[test]
    fn each_of_many_devices_is_found() -> Result {
        let mut all = KVec::new();
        for n in 1..=1100 {
            all.push(Raw::new(n << 12)?, GFP_KERNEL)?;
        }
        let found = || all.iter().filter(|raw| raw.is_found()).count();
        let before = found();
        for raw in all.iter() {
            // SAFETY: The object is initialised. It is taken out below before it is freed.
            unsafe { rdma::ext_hook_data_add(raw.as_raw()) };
        }
        let published = found();
        for raw in all.iter() {
            // SAFETY: The object is in the table.
            unsafe { rdma::ext_hook_data_del(raw.as_raw()) };
        }
        let removed = found();
        // SAFETY: The function only sleeps.
        unsafe { bindings::synchronize_rcu() };
        assert_eq!((before, published, removed), (0, 1100, 0));
        Ok(())
    }
}
