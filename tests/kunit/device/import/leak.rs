// SPDX-License-Identifier: GPL-2.0

//! Somebody who has got hold of a file descriptor.

use crate::device::Registered;
use core::ptr;
use kernel::{
    bindings,
    error::from_err_ptr,
    ffi::c_int,
    prelude::*, //
};

/// Those of somebody whose memory it is not.
static STRANGER: bindings::dma_buf_attach_ops = bindings::dma_buf_attach_ops {
    allow_peer2peer: true,
    invalidate_mappings: Some(nothing_to_invalidate),
};

/// # Safety
///
/// As `dma_buf_attach_ops.invalidate_mappings`.
unsafe extern "C" fn nothing_to_invalidate(_attachment: *mut bindings::dma_buf_attachment) {}

/// A dma-buf that somebody has kept.
pub(crate) struct Leaked(*mut bindings::dma_buf);

// SAFETY: A dma-buf may be used from any thread.
unsafe impl Send for Leaked {}

impl Leaked {
    /// What is under a descriptor.
    pub(super) fn get(fd: c_int) -> Result<Self> {
        // SAFETY: Any number may be given.
        from_err_ptr(unsafe { bindings::dma_buf_get(fd) }).map(Self)
    }

    /// Imports it for a device, and lets go of it.
    pub(super) fn attach_raw(&self, dev: *mut bindings::device) -> Result {
        // SAFETY: The dma-buf is counted; the device is one of ours and stays.
        let attachment = from_err_ptr(unsafe {
            bindings::dma_buf_dynamic_attach(self.0, dev, &STRANGER, ptr::null_mut())
        })?;
        // SAFETY: Just attached.
        unsafe { bindings::dma_buf_detach(self.0, attachment) };
        Ok(())
    }

    /// As above, from outside.
    pub(crate) fn attach(&self, dev: &Registered) -> Result {
        self.attach_raw(ptr::with_exposed_provenance_mut(dev.dma_device()))
    }
}

impl Drop for Leaked {
    fn drop(&mut self) {
        // SAFETY: The reference is ours.
        unsafe { bindings::dma_buf_put(self.0) };
    }
}

/// Is there a dma-buf under that descriptor of the calling task?
pub(crate) fn is_dma_buf(fd: i32) -> bool {
    Leaked::get(fd).is_ok()
}
