// SPDX-License-Identifier: GPL-2.0

//! User contexts, and hints that a kernel driver sets on a context.

use crate::prelude::*;

/// The file, the context and the DMA handle of a user's call, which are never dereferenced.
pub(crate) const VERB: (usize, usize, usize) = (0x1110, 0x2220, 0x3330);

/// A user context of a PD, without a user and without ib_uverbs.
///
/// # Invariants
///
/// `pd` belongs to the context while this object exists.
pub(crate) struct Context {
    ucontext: KBox<rdma::ib_ucontext>,
    _uobject: KBox<rdma::ib_uobject>,
    pd: Arc<Pd>,
}

impl Context {
    /// Creates a context and makes `pd` belong to it.
    pub(crate) fn around(pd: &Arc<Pd>) -> Result<Self> {
        let mut ucontext: KBox<rdma::ib_ucontext> = KBox::new(pin_init::zeroed(), GFP_KERNEL)?;
        ucontext.device = pd.dev.as_raw();
        let mut uobject: KBox<rdma::ib_uobject> = KBox::new(pin_init::zeroed(), GFP_KERNEL)?;
        uobject.context = &mut *ucontext;
        // SAFETY: The PD is valid, and no MR is being registered on it.
        unsafe { (*pd.raw).uobject = &mut *uobject };
        // INVARIANT: Set above; drop clears the field.
        Ok(Self {
            ucontext,
            _uobject: uobject,
            pd: pd.clone(),
        })
    }

    fn as_raw(&self) -> *mut peer::ib_ucontext {
        ptr::from_ref(&*self.ucontext).cast_mut().cast()
    }

    pub(crate) fn hint(&self, name: Option<&CStr>, data: usize) -> Result {
        let name = name.map_or(ptr::null(), |n| n.as_char_ptr());
        // SAFETY: The context is valid; the name is a C string or NULL.
        to_result(unsafe {
            peer::ib_peer_mem_set_hint(self.as_raw(), name, ptr::without_provenance_mut(data))
        })
    }

    pub(crate) fn clear(&self) {
        // SAFETY: The context is valid.
        unsafe { peer::ib_peer_mem_clear_hint(self.as_raw()) };
    }

    /// Ends the context as ib_core does, and begins another context at the same address.
    pub(crate) fn again(&self) {
        let raw: *mut rdma::ib_ucontext = self.as_raw().cast();
        // SAFETY: The context's device is registered.
        if let Some(dealloc) = unsafe { (*(*raw).device).ops.dealloc_ucontext } {
            // SAFETY: Called as ib_core does.
            unsafe { dealloc(raw) };
        }
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        self.again();
        // SAFETY: The PD is valid; by the type invariants the PD belongs to this context.
        unsafe { (*self.pd.raw).uobject = ptr::null_mut() };
    }
}
