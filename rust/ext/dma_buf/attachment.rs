// SPDX-License-Identifier: GPL-2.0

//! `struct dma_buf_attachment`, as an exporter sees it.

use core::{
    ffi::c_void,
    ptr::NonNull, //
};
use kernel::{
    bindings,
    device::Device,
    sync::atomic::Atomic,
    types::Opaque, //
};

/// Capabilities of an importer.
#[derive(Clone, Copy)]
pub(super) struct ImporterCaps {
    /// It unmaps in `invalidate_mappings`.
    pub(super) revocable: bool,
    /// It imports memory without struct pages.
    pub(super) peer2peer: bool,
}

/// An attachment of a dma-buf.
///
/// # Invariants
///
/// The C object is valid, its device and its operations are initialised, and its importer holds the
/// device and the dma-buf.
#[repr(transparent)]
pub(super) struct Attachment(Opaque<bindings::dma_buf_attachment>);

impl Attachment {
    /// Wraps the C object.
    ///
    /// # Safety
    ///
    /// `raw` must be valid during `'a`, its device and its operations must be initialised, and its
    /// importer must hold the device and the dma-buf.
    pub(super) unsafe fn from_raw<'a>(raw: *mut bindings::dma_buf_attachment) -> &'a Self {
        // INVARIANT: By this function's safety contract.
        // SAFETY: By this function's safety contract `raw` is valid; the type is transparent.
        unsafe { &*raw.cast() }
    }

    /// Returns a pointer to it.
    pub(super) fn as_ptr(&self) -> NonNull<Self> {
        NonNull::from(self)
    }

    /// Returns the dma-buf.
    pub(super) fn dma_buf(&self) -> *mut bindings::dma_buf {
        // SAFETY: By the type invariants the object is valid. The field does not change.
        unsafe { (*self.0.get()).dmabuf }
    }

    /// Returns the device of the importer.
    pub(super) fn device(&self) -> &Device {
        // SAFETY: By the type invariants the device is initialised and held.
        unsafe { Device::from_raw((*self.0.get()).dev) }
    }

    /// Returns the capabilities of the importer.
    pub(super) fn importer(&self) -> ImporterCaps {
        // SAFETY: By the type invariants the object is initialised.
        unsafe {
            ImporterCaps {
                revocable: bindings::dma_buf_attach_revocable(self.0.get()),
                peer2peer: (*self.0.get()).peer2peer,
            }
        }
    }

    /// Returns the exporter's field.
    pub(super) fn private(&self) -> &Atomic<*mut c_void> {
        // SAFETY: By the type invariants the object is valid. The field belongs to the exporter; Rust
        // accesses it only here, and the C helpers only under the reservation lock.
        unsafe { Atomic::from_ptr(&raw mut (*self.0.get()).priv_) }
    }

    /// Has the importer invalidate its mappings. Does nothing for one that cannot.
    ///
    /// Context: may sleep.
    ///
    /// # Safety
    ///
    /// The caller must hold the reservation lock, and the importer must have a table mapped.
    pub(super) unsafe fn invalidate(&self) {
        let raw = self.0.get();
        // SAFETY: By the type invariants the operations are initialised: NULL or valid.
        let ops = unsafe { (*raw).importer_ops.as_ref() };
        if let Some(invalidate) = ops.and_then(|ops| ops.invalidate_mappings) {
            // SAFETY: By this function's safety contract the lock is held, and an importer that has a
            // table mapped has its attachment.
            unsafe { invalidate(raw) };
        }
    }
}
