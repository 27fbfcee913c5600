// SPDX-License-Identifier: GPL-2.0

//! `struct dma_buf_attachment`, for exporters.
//!
//! [`Attachment`] wraps the C object in the callbacks of [`exporter`](super::exporter).

use crate::shared::{
    ext::base::compat::AtomicPtr,
    prelude::raw::*, //
};
use kernel::device::Device;

/// Capabilities of an importer, or those that an exporter requires.
#[derive(Clone, Copy)]
pub struct ImporterCaps {
    /// To unmap in `invalidate_mappings` (`dma_buf_attach_revocable()`).
    pub revocable: bool,
    /// To import memory without struct pages (`allow_peer2peer`).
    pub peer2peer: bool,
}

/// The requirement that an importer does not meet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mismatch {
    NotRevocable,
    NotPeer2Peer,
}

impl ImporterCaps {
    /// Returns the first of these requirements that `importer` does not meet.
    pub(super) fn unmet_by(self, importer: Self) -> Option<Mismatch> {
        if self.revocable && !importer.revocable {
            Some(Mismatch::NotRevocable)
        } else if self.peer2peer && !importer.peer2peer {
            Some(Mismatch::NotPeer2Peer)
        } else {
            None
        }
    }
}

/// An attachment of a dma-buf.
///
/// # Invariants
///
/// The C object is valid, the fields for the device and the operations are initialised, and the
/// importer holds the device and the dma-buf.
#[repr(transparent)]
pub(super) struct Attachment(Opaque<bindings::dma_buf_attachment>);

impl Attachment {
    /// Wraps the C object.
    ///
    /// # Safety
    ///
    /// `raw` must be valid during `'a`, the fields for the device and the operations must be
    /// initialised, and the importer must hold the device and the dma-buf.
    pub(super) unsafe fn from_raw<'a>(raw: *mut bindings::dma_buf_attachment) -> &'a Self {
        // INVARIANT: By the safety requirements.
        // SAFETY: By the safety requirements `raw` is valid; the type is transparent.
        unsafe { &*raw.cast() }
    }

    pub(super) fn dma_buf(&self) -> *mut bindings::dma_buf {
        // SAFETY: By the type invariants the object is valid. The field does not change.
        unsafe { (*self.0.get()).dmabuf }
    }

    pub(super) fn device(&self) -> &Device {
        // SAFETY: By the type invariants the device is initialised and held.
        unsafe { Device::from_raw((*self.0.get()).dev) }
    }

    pub(super) fn importer(&self) -> ImporterCaps {
        // SAFETY: By the type invariants the object is initialised.
        unsafe {
            ImporterCaps {
                revocable: helpers::dma_buf_attach_revocable(self.0.get()),
                peer2peer: (*self.0.get()).peer2peer,
            }
        }
    }

    /// Returns the field `priv`, which belongs to the exporter.
    pub(super) fn private(&self) -> &AtomicPtr<c_void> {
        // SAFETY: By the type invariants the object is valid. The field belongs to the exporter;
        // Rust code accesses the field only here, and the C helpers only under the reservation
        // lock.
        unsafe { AtomicPtr::from_ptr(&raw mut (*self.0.get()).priv_) }
    }

    /// Makes the importer invalidate all mappings. Does nothing if the importer has no such
    /// operation. Context: may sleep.
    ///
    /// # Safety
    ///
    /// The caller must hold the reservation lock, and the importer must have a table mapped.
    pub(super) unsafe fn invalidate(&self) {
        // SAFETY: By the type invariants the operations are initialised: NULL or valid. By the safety
        // requirements the lock is held, and an importer that has a table mapped has its attachment.
        unsafe { helpers::ext_dma_buf_invalidate(self.0.get()) };
    }
}
