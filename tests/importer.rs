// SPDX-License-Identifier: GPL-2.0

//! Imports dma-bufs through ib_core's umem, in each way that RDMA drivers in the kernel do.
//!
//! [`Pending::import`] attaches to a dma-buf, [`Pending::activate`] maps it and returns a [`Umem`],
//! dropping that releases it. An [`Importer`] is the device side: it learns which addresses are
//! mapped, and stops the device's accesses when the exporter invalidates them.
//!
//! Both test devices, `tests/kunit` and `tests/adapter`, use this file; each uses a part of it.
//!
//! C header: [`include/rdma/ib_umem.h`](srctree/include/rdma/ib_umem.h).
//!
//! # Locking
//!
//! [`Reservation`] is the reservation lock of the dma-buf. Exporters hold it while they invalidate,
//! so [`Importer::invalidate`] runs with it held, and a lock that an importer takes there is taken
//! within it.

use crate::{
    ext::base::{
        compat::attach_ops,
        sg::Segment, //
    },
    shared::prelude::raw::*, //
};

/// How a device imports dma-bufs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Mode {
    /// Not pinned; the device maps again after an invalidation (mlx5).
    Dynamic,
    /// As [`Self::Dynamic`], without `allow_peer2peer`: only memory with struct pages.
    NoPeer2Peer,
    /// Pinned; an invalidation is final (irdma).
    Revocable,
    /// Pinned; the exporter cannot invalidate (efa, bnxt_re).
    Pinned,
}

impl Mode {
    /// Returns whether the device maps again after an invalidation.
    pub(crate) fn is_dynamic(self) -> bool {
        matches!(self, Self::Dynamic | Self::NoPeer2Peer)
    }

    /// Returns the mode, or [`Self::Dynamic`] if the kernel cannot revoke pinned memory.
    fn or_dynamic(self) -> Self {
        if self == Self::Revocable && rdma::EXT_UMEM_REVOCABLE == 0 {
            Self::Dynamic
        } else {
            self
        }
    }
}

/// What becomes of a mapping once [`Importer::invalidate`] has returned.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Unmap {
    /// It is unmapped before the exporter continues.
    Now,
    /// The importer calls [`Umem::unmap`] later. Only possible for [`Mode::is_dynamic`].
    Later,
}

/// The device side of one imported umem.
pub(crate) trait Importer: Send + Sync {
    /// Lets the device access the addresses. An error fails the import or the mapping.
    ///
    /// Context: process context; may sleep. The reservation is held, except in [`Mode::Pinned`].
    fn mapped(&self, mapped: Mapped<'_>) -> Result;

    /// Stops the device's accesses: on return it makes none, or a fence that was added to `resv`
    /// stands for those that it still makes. In [`Mode::Revocable`] also called on release.
    ///
    /// Context: process context; may sleep. The reservation is held.
    fn invalidate(&self, resv: Resv<'_>) -> Unmap;
}

/// The reservation object of the dma-buf that is being invalidated. Its lock is held.
#[derive(Clone, Copy)]
pub(crate) struct Resv<'a>(Option<NonNull<bindings::dma_resv>>, PhantomData<&'a ()>);

impl Resv<'_> {
    /// Returns the C object; `None` in [`Mode::Revocable`], whose callback does not get it.
    pub(crate) fn as_raw(self) -> Option<NonNull<bindings::dma_resv>> {
        self.0
    }
}

/// A umem of a dma-buf. Dropping it unmaps, detaches and frees it.
///
/// # Invariants
///
/// The pointer is to an `ib_umem_dmabuf` that is owned by this object.
struct Owned(NonNull<rdma::ib_umem_dmabuf>);

// SAFETY: A umem belongs to no task; ib_core releases it from any.
unsafe impl Send for Owned {}
// SAFETY: Shared references give out only the pointer.
unsafe impl Sync for Owned {}

impl Owned {
    fn as_raw(&self) -> *mut rdma::ib_umem_dmabuf {
        self.0.as_ptr()
    }
}

impl Drop for Owned {
    fn drop(&mut self) {
        // SAFETY:
        // - By the type invariants the umem is valid and owned by this object.
        // - `Held` does not outlive it in any type of this file, so this task does not hold the
        //   reservation.
        unsafe { rdma::ib_umem_release(self.as_raw().cast()) };
    }
}

/// The reservation lock of a umem's dma-buf.
///
/// # Invariants
///
/// The umem is valid and this task holds its reservation lock, on behalf of this object.
struct Held(NonNull<rdma::ib_umem_dmabuf>);

impl Drop for Held {
    fn drop(&mut self) {
        // SAFETY: By the type invariants the umem is valid and this task holds the lock.
        unsafe { rdma::ib_umem_dmabuf_revoke_unlock(self.0.as_ptr()) };
    }
}

/// The reservation lock of the dma-buf of a [`Umem`]. Dropping it unlocks.
pub(crate) struct Reservation<'a, I: Importer> {
    umem: &'a Umem<I>,
    _held: Held,
}

impl<I: Importer> Reservation<'_, I> {
    /// Maps a dynamic umem, if it is not mapped, and lets the importer access it.
    ///
    /// Context: process context; may sleep.
    pub(crate) fn map(&self) -> Result {
        let umem = self.umem;
        // SAFETY: The umem is valid and its reservation held.
        to_result(unsafe { rdma::ib_umem_dmabuf_map_pages(umem.as_raw()) })?;
        // SAFETY: Just mapped; the reservation is held.
        umem.importer.mapped(unsafe { umem.mapped() })
    }

    /// Unmaps a dynamic umem after [`Unmap::Later`].
    ///
    /// Context: process context; may sleep.
    pub(crate) fn unmap(&self) {
        // SAFETY: The umem is valid and its reservation held.
        unsafe { rdma::ib_umem_dmabuf_unmap_pages(self.umem.as_raw()) };
    }
}

/// A umem that is attached, and pinned unless its mode is dynamic. No device accesses it.
///
/// In [`Mode::Revocable`] this holds the reservation.
pub(crate) struct Pending<I> {
    // Dropped in this order: ib_umem_release() takes the reservation.
    held: Option<Held>,
    umem: Owned,
    mode: Mode,
    importer: PhantomData<Arc<I>>,
}

/// The part of a dma-buf to import.
#[derive(Clone, Copy)]
pub(crate) struct Part {
    pub(crate) offset: u64,
    pub(crate) length: u64,
}

impl<I: Importer> Pending<I> {
    /// Attaches `dev` to the dma-buf `fd` of the calling task, to map `part` of it.
    ///
    /// Context: process context; may sleep. Takes the reservation.
    ///
    /// # Safety
    ///
    /// `dev` must be registered with ib_core until the result, and any [`Umem`] made from it, is dropped.
    pub(crate) unsafe fn import(
        dev: *mut rdma::ib_device,
        mode: Mode,
        fd: c_int,
        part: Part,
        access: c_int,
    ) -> Result<Self> {
        let (offset, len) = (part.offset.try_into()?, part.length.try_into()?);
        let mode = mode.or_dynamic();
        // SAFETY: For all of these:
        // - by this function's safety contract the device is registered;
        // - ib_core checks the range, the descriptor and the access flags;
        // - the operations are `'static`.
        let raw = from_err_ptr(unsafe {
            match mode {
                Mode::Dynamic | Mode::NoPeer2Peer => {
                    let ops = match mode {
                        Mode::Dynamic => &AttachOps::<I>::DYNAMIC,
                        _ => &AttachOps::<I>::NO_PEER2PEER,
                    };
                    rdma::ib_umem_dmabuf_get(dev, offset, len, fd, access, ops)
                }
                Mode::Revocable => {
                    rdma::ib_umem_dmabuf_get_pinned_revocable_and_lock(dev, offset, len, fd, access)
                }
                Mode::Pinned => rdma::ib_umem_dmabuf_get_pinned(dev, offset, len, fd, access),
            }
        })?;
        let raw = NonNull::new(raw).ok_or(EINVAL)?;
        Ok(Self {
            // INVARIANT: ib_umem_dmabuf_get_pinned_revocable_and_lock() returns with the lock held.
            held: (mode == Mode::Revocable).then(|| Held(raw)),
            // INVARIANT: The umem is new, and nothing else refers to it.
            umem: Owned(raw),
            mode,
            importer: PhantomData,
        })
    }

    /// Maps the umem and lets `importer` access it.
    ///
    /// Context: process context; may sleep. Takes the reservation.
    pub(crate) fn activate(self, importer: Arc<I>) -> Result<Umem<I>> {
        let Self {
            held, umem, mode, ..
        } = self;
        let private = Arc::as_ptr(&importer).cast_mut().cast::<c_void>();
        // INVARIANT: `private` of a new umem is NULL.
        let umem = Umem {
            umem,
            mode,
            importer,
        };
        match mode {
            Mode::Dynamic | Mode::NoPeer2Peer => {
                let reservation = umem.lock();
                // INVARIANT: It is the importer.
                // SAFETY: The umem is valid; the reservation, which guards the field, is held.
                unsafe { (*umem.as_raw()).private = private };
                reservation.map()?;
            }
            Mode::Revocable => {
                let _held = held;
                // INVARIANT: It is the importer.
                // SAFETY:
                // - The umem is valid and its reservation is held.
                // - `umem` keeps the importer until it has released the umem.
                unsafe {
                    rdma::ib_umem_dmabuf_set_revoke_locked(
                        umem.as_raw(),
                        Some(revoke::<I>),
                        private,
                    )
                };
                // SAFETY: The umem was mapped by the import; the reservation is held.
                umem.importer.mapped(unsafe { umem.mapped() })?;
            }
            // SAFETY: The umem was mapped by the import and stays mapped until its release.
            Mode::Pinned => umem.importer.mapped(unsafe { umem.mapped() })?,
        }
        Ok(umem)
    }
}

/// A umem that a device uses. Dropping it releases it; the device must have stopped using it.
///
/// # Invariants
///
/// `private` of the umem is NULL or `importer`.
pub(crate) struct Umem<I: Importer> {
    // Dropped in this order: the release of a revocable umem calls the importer.
    umem: Owned,
    mode: Mode,
    importer: Arc<I>,
}

impl<I: Importer> Umem<I> {
    /// Returns the C object. Its first field is the `ib_umem`.
    pub(crate) fn as_raw(&self) -> *mut rdma::ib_umem_dmabuf {
        self.umem.as_raw()
    }

    pub(crate) fn mode(&self) -> Mode {
        self.mode
    }

    pub(crate) fn importer(&self) -> &Arc<I> {
        &self.importer
    }

    /// Takes the reservation.
    ///
    /// Context: process context; may sleep.
    pub(crate) fn lock(&self) -> Reservation<'_, I> {
        // SAFETY: By the type invariants of `Owned` the umem is valid.
        unsafe { rdma::ib_umem_dmabuf_revoke_lock(self.as_raw()) };
        Reservation {
            // INVARIANT: The umem outlives `'_`, and its reservation was just locked.
            _held: Held(self.umem.0),
            umem: self,
        }
    }

    /// Returns the addresses of the umem.
    ///
    /// # Safety
    ///
    /// The umem must be mapped and stay so while the result is in use.
    pub(crate) unsafe fn mapped(&self) -> Mapped<'_> {
        // SAFETY:
        // - The umem is valid while `self` is; an `ib_umem_dmabuf` begins with its `ib_umem`.
        // - By this function's safety contract it is mapped and stays so.
        unsafe { Mapped::new(self.umem.0.cast()) }
    }
}

impl<I: Importer> Drop for Umem<I> {
    fn drop(&mut self) {
        if self.mode.is_dynamic() {
            let _reservation = self.lock();
            // INVARIANT: NULL is allowed.
            // SAFETY: The umem is valid; the reservation, which guards the field, is held.
            unsafe { (*self.as_raw()).private = ptr::null_mut() };
        }
    }
}

/// The addresses of a umem that is mapped.
///
/// # Invariants
///
/// For `'a` the umem is valid and mapped for its device.
#[derive(Clone, Copy)]
pub(crate) struct Mapped<'a>(NonNull<rdma::ib_umem>, PhantomData<&'a ()>);

impl<'a> Mapped<'a> {
    /// Wraps a umem of host memory or of a dma-buf.
    ///
    /// # Safety
    ///
    /// For `'a` the umem must be valid, be mapped and stay so.
    pub(crate) unsafe fn new(umem: NonNull<rdma::ib_umem>) -> Self {
        // INVARIANT: By this function's safety contract.
        Self(umem, PhantomData)
    }

    pub(crate) fn as_raw(self) -> *mut rdma::ib_umem {
        self.0.as_ptr()
    }

    /// Returns the mapped addresses, entry by entry, from the start of the first page on.
    pub(crate) fn segments(self) -> impl Iterator<Item = Segment> + 'a {
        // SAFETY: By the type invariants the umem is valid and its table does not change.
        let (mut sg, mut left) = unsafe {
            let sgt = &(*self.as_raw()).sgt_append.sgt;
            (sgt.sgl, sgt.nents)
        };
        core::iter::from_fn(move || {
            if left == 0 || sg.is_null() {
                return None;
            }
            left -= 1;
            // SAFETY: By the type invariants the first `nents` entries of the list are mapped.
            let segment = unsafe {
                Segment {
                    addr: bindings::sg_dma_address(sg),
                    len: bindings::sg_dma_len(sg).into(),
                }
            };
            if left > 0 {
                // SAFETY: The list has an entry after this one.
                sg = unsafe { bindings::sg_next(sg) };
            }
            Some(segment)
        })
    }
}

/// The attachment operations of devices that map again after an invalidation.
struct AttachOps<I>(PhantomData<I>);

impl<I: Importer> AttachOps<I> {
    const DYNAMIC: bindings::dma_buf_attach_ops = attach_ops(true, Self::invalidate_mappings);

    const NO_PEER2PEER: bindings::dma_buf_attach_ops = attach_ops(false, Self::invalidate_mappings);

    /// # Safety
    ///
    /// - `attach` must be a valid attachment that [`Pending::import`] has made for an `I`.
    /// - Its reservation must be held.
    unsafe extern "C" fn invalidate_mappings(attach: *mut bindings::dma_buf_attachment) {
        // SAFETY: By this function's safety contract the attachment is valid. ib_core sets its
        // importer to the umem.
        let (umem, buf) = unsafe {
            (
                (*attach).importer_priv.cast::<rdma::ib_umem_dmabuf>(),
                (*attach).dmabuf,
            )
        };
        // SAFETY: The umem outlives its attachment. The reservation, which is held, guards both
        // fields once the umem is complete; before that they are NULL.
        let (private, sgt) = unsafe { ((*umem).private, (*umem).sgt) };
        if private.is_null() || sgt.is_null() {
            return;
        }
        // SAFETY: By the type invariants of `Umem` this is its importer, which it keeps until it
        // has set the field to NULL with the reservation held.
        let importer = unsafe { &*private.cast::<I>() };
        // SAFETY: The dma-buf outlives its attachments.
        let resv = NonNull::new(unsafe { (*buf).resv });
        if importer.invalidate(Resv(resv, PhantomData)) == Unmap::Now {
            // SAFETY: The umem is valid and its reservation held.
            unsafe { rdma::ib_umem_dmabuf_unmap_pages(umem) };
        }
    }
}

/// Called once at most, before a revocable umem is unmapped for good.
///
/// # Safety
///
/// `private` must be the `I` that was given to `ib_umem_dmabuf_set_revoke_locked()`.
unsafe extern "C" fn revoke<I: Importer>(private: *mut c_void) {
    // SAFETY: By this function's safety contract; `Umem` keeps it until the umem is released.
    // ib_core unmaps, so the result does not matter.
    unsafe { &*private.cast::<I>() }.invalidate(Resv(None, PhantomData));
}
