// SPDX-License-Identifier: GPL-2.0

//! Somebody who has got hold of a file descriptor.

use crate::{
    device::Registered,
    user::DmaBuf, //
};
use core::ptr;
use kernel::{
    bindings,
    error::from_err_ptr,
    ffi::c_int,
    prelude::*,
    sync::atomic::{
        Atomic,
        Relaxed, //
    }, //
};

/// Those of somebody whose memory it is not.
static STRANGER: bindings::dma_buf_attach_ops = bindings::dma_buf_attach_ops {
    allow_peer2peer: true,
    invalidate_mappings: Some(invalidate_mappings),
};

/// Counts how often it is called.
///
/// # Safety
///
/// As `dma_buf_attach_ops.invalidate_mappings`.
unsafe extern "C" fn invalidate_mappings(attachment: *mut bindings::dma_buf_attachment) {
    // SAFETY: What `Leaked::attached_raw` has given.
    let told = unsafe { &*(*attachment).importer_priv.cast::<Atomic<u32>>() };
    told.add(1, Relaxed);
}

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

    /// What a user's descriptor is of.
    pub(crate) fn of(buf: &DmaBuf) -> Result<Self> {
        Self::get(buf.fd())
    }

    /// Attaches to it for a device, does `f`, and lets go of it. Returns how often it was told to
    /// invalidate what it has mapped, which is nothing.
    fn attached_raw(&self, dev: *mut bindings::device, f: impl FnOnce() -> Result) -> Result<u32> {
        let told = Atomic::new(0u32);
        // SAFETY: The dma-buf is counted; the device is one of ours and stays; `told` is there
        // until it is detached.
        let attachment = from_err_ptr(unsafe {
            let told = ptr::from_ref(&told).cast_mut().cast();
            bindings::dma_buf_dynamic_attach(self.0, dev, &STRANGER, told)
        })?;
        let result = f();
        // SAFETY: Just attached.
        unsafe { bindings::dma_buf_detach(self.0, attachment) };
        result.map(|()| told.load(Relaxed))
    }

    /// Imports it for a device, and lets go of it.
    pub(super) fn attach_raw(&self, dev: *mut bindings::device) -> Result {
        self.attached_raw(dev, || Ok(())).map(|_| ())
    }

    /// As `attached_raw`, from outside.
    pub(crate) fn attached(&self, dev: &Registered, f: impl FnOnce() -> Result) -> Result<u32> {
        self.attached_raw(ptr::with_exposed_provenance_mut(dev.dma_device()), f)
    }

    /// As `attach_raw`, from outside.
    pub(crate) fn attach(&self, dev: &Registered) -> Result {
        self.attached(dev, || Ok(())).map(|_| ())
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
