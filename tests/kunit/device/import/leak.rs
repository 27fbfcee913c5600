// SPDX-License-Identifier: GPL-2.0

//! A reference to a dma-buf that is kept beyond the import, and attachments through the reference.

use crate::{
    ext::base::compat::{
        attach_ops,
        faux_device, //
    },
    prelude::*, //
};
use kernel::faux;

/// The attachment operations of an importer for which the dma-buf is not meant.
static FOREIGN: bindings::dma_buf_attach_ops = attach_ops(true, invalidate_mappings);

/// Counts the calls of this function.
///
/// # Safety
///
/// [`Leaked::attached_raw`] must have made `attachment`.
unsafe extern "C" fn invalidate_mappings(attachment: *mut bindings::dma_buf_attachment) {
    // SAFETY: `Leaked::attached_raw` sets `importer_priv` to a counter that outlives the
    // attachment.
    let calls = unsafe { &*(*attachment).importer_priv.cast::<Atomic<u32>>() };
    calls.add(1, Relaxed);
}

/// A counted reference to a dma-buf.
///
/// # Invariants
///
/// The pointer is a dma-buf, and this object owns a reference to the dma-buf.
pub(crate) struct Leaked(*mut bindings::dma_buf);

// SAFETY: A dma-buf may be used from any thread.
unsafe impl Send for Leaked {}

impl Leaked {
    /// Takes a reference to the dma-buf of a descriptor of the calling task.
    pub(super) fn get(fd: c_int) -> Result<Self> {
        // INVARIANT: dma_buf_get() takes a reference.
        // SAFETY: The function accepts any number.
        from_err_ptr(unsafe { bindings::dma_buf_get(fd) }).map(Self)
    }

    /// Takes a reference to the dma-buf of a user's descriptor.
    pub(crate) fn of(buf: &DmaBuf) -> Result<Self> {
        Self::get(buf.fd())
    }

    /// Attaches the dma-buf to a device while `f` runs, without a mapping, with the operations of an
    /// importer, or as an importer that pins. Returns the number of invalidations of the attachment.
    fn attached_raw(
        &self,
        dev: *mut bindings::device,
        ops: *const bindings::dma_buf_attach_ops,
        f: impl FnOnce() -> Result,
    ) -> Result<u32> {
        let calls = Atomic::new(0u32);
        // SAFETY:
        // - By the type invariants the dma-buf is valid.
        // - The device belongs to a registered fake that outlives the call.
        // - The operations are NULL or static, and `calls` outlives the attachment.
        let attachment = from_err_ptr(unsafe {
            let calls = ptr::from_ref(&calls).cast_mut().cast();
            bindings::dma_buf_dynamic_attach(self.0, dev, ops, calls)
        })?;
        let result = f();
        // SAFETY: The attachment was just made, and is detached once.
        unsafe { bindings::dma_buf_detach(self.0, attachment) };
        result.map(|()| calls.load(Relaxed))
    }

    /// Attaches the dma-buf to the DMA device and detaches the device.
    pub(super) fn attach_raw(&self, dev: *mut bindings::device) -> Result {
        self.attached_raw(dev, &FOREIGN, || Ok(())).map(drop)
    }

    /// Attaches the dma-buf to a device while `f` runs. Returns the number of invalidations.
    pub(crate) fn attached(&self, dev: &Registered, f: impl FnOnce() -> Result) -> Result<u32> {
        let dev = ptr::with_exposed_provenance_mut(dev.dma_device());
        self.attached_raw(dev, &FOREIGN, f)
    }

    /// Attaches the dma-buf to a device as an importer that pins, and detaches the device.
    pub(crate) fn attach_pinning(&self, dev: &Registered) -> Result {
        let dev = ptr::with_exposed_provenance_mut(dev.dma_device());
        self.attached_raw(dev, ptr::null(), || Ok(())).map(drop)
    }

    /// Attaches the dma-buf to a device and detaches the device.
    pub(crate) fn attach(&self, dev: &Registered) -> Result {
        self.attached(dev, || Ok(())).map(drop)
    }

    /// Attaches the dma-buf, as a revocable importer of peer-to-peer memory, to a device that is
    /// neither on a bus nor the DMA device of an RDMA device. Then detaches the device.
    pub(crate) fn attach_foreign(&self) -> Result {
        let dev = faux::Registration::new(c"peer_mem_kunit_foreign", None)?;
        let dev = ptr::from_ref(faux_device(&dev)).cast_mut();
        // A `Device` is a transparent wrapper of the C object.
        self.attach_raw(dev.cast())
    }

    /// Adds a fence, as a process that has the descriptor can.
    pub(crate) fn add_fence(&self) -> Result<Fence> {
        // SAFETY: By the type invariants the dma-buf is valid, so the reservation object is valid.
        let fence = unsafe {
            let resv = (*self.0).resv;
            shared::ext_dma_resv_lock(resv);
            let fence = helpers::kt_fence_add(resv);
            shared::ext_dma_resv_unlock(resv);
            fence
        };
        // INVARIANT: The helper returns a fence with a reference for the caller, or NULL.
        NonNull::new(fence).map(Fence).ok_or(ENOMEM)
    }
}

impl Drop for Leaked {
    fn drop(&mut self) {
        // SAFETY: By the type invariants this object has a reference.
        unsafe { bindings::dma_buf_put(self.0) };
    }
}

/// A fence. Drop signals the fence.
///
/// # Invariants
///
/// The pointer is a fence, and this object owns a reference to the fence.
pub(crate) struct Fence(NonNull<bindings::dma_fence>);

// SAFETY: A fence may be used from any thread.
unsafe impl Send for Fence {}

impl Drop for Fence {
    fn drop(&mut self) {
        // SAFETY: By the type invariants this object owns a reference. The helper puts the
        // reference.
        unsafe { helpers::kt_fence_signal(self.0.as_ptr()) };
    }
}

/// Returns whether the descriptor `fd` of the calling task is a dma-buf.
pub(crate) fn is_dma_buf(fd: i32) -> bool {
    Leaked::get(fd).is_ok()
}
