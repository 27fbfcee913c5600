// SPDX-License-Identifier: GPL-2.0

//! References to this module.

use kernel::bindings;

/// A reference to this module, which cannot be unloaded while the reference exists.
///
/// The module may be unloaded as soon as the last reference is dropped. A function that drops one
/// must return without sleeping: then the Tasks RCU grace period of the removal waits for the task.
///
/// # Invariants
///
/// This object owns a reference to the module.
pub struct ThisModuleRef(());

impl ThisModuleRef {
    pub fn get() -> Option<Self> {
        // SAFETY: This is the module that contains the code.
        let taken = unsafe { bindings::try_module_get(&raw mut bindings::__this_module) };
        // Not then_some(): without a reference, an object would be created and dropped.
        // INVARIANT: The reference was just taken.
        taken.then(|| Self(()))
    }
}

impl Drop for ThisModuleRef {
    fn drop(&mut self) {
        // SAFETY: By the type invariants this object owns a reference.
        unsafe { bindings::module_put(&raw mut bindings::__this_module) };
    }
}
