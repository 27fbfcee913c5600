// SPDX-License-Identifier: GPL-2.0

//! `struct dma_buf`, `struct dma_buf_attachment` and the operations of an exporter.
//!
//! An exporter implements [`Exporter`]; [`Buf`] is a reference to the dma-buf of an exporter, and
//! [`Attachment`] wraps the C object of an importer in the callbacks.

use crate::shared::{
    ext::base::compat::AtomicPtr,
    prelude::raw::*, //
};
use core::mem::ManuallyDrop;
use kernel::{
    device::Device,
    fs::File, //
};

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

/// The exporter behind a dma-buf: its private data.
pub(super) trait Exporter: Send + Sync + 'static {
    /// Accepts or rejects an attachment. Context: may sleep. The caller holds no lock of the
    /// dma-buf.
    fn attach(&self, attachment: &Attachment) -> Result;

    /// Handles the end of an attachment. Context: may sleep. The caller holds no lock of the
    /// dma-buf.
    fn detach(&self, attachment: &Attachment);

    /// Returns a table of DMA addresses for an importer, which uses and may change the table until
    /// [`Self::unmap`]. Context: may sleep. The caller holds the reservation lock.
    fn map(&self, attachment: &Attachment) -> Result<*mut bindings::sg_table>;

    /// Reverts [`Self::map`]. Context: may sleep. The caller holds the reservation lock.
    ///
    /// # Safety
    ///
    /// `table` must be from [`Self::map`] for the same attachment, and must have no user any more.
    unsafe fn unmap(&self, attachment: &Attachment, table: *mut bindings::sg_table);

    /// Handles the release of the last reference to the dma-buf. The dma-buf is valid during this
    /// call. No other call follows. Context: may sleep. The caller holds no lock of the dma-buf.
    fn release(this: Arc<Self>) {
        drop(this);
    }
}

/// What pins the module that contains the `dma_buf_ops`.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Pins {
    /// The file of the dma-buf.
    File,
    /// The exporter, until [`Exporter::release`].
    Exporter,
}

/// A reference to a dma-buf.
///
/// # Invariants
///
/// The dma-buf is valid, and this object owns one reference to it.
pub(super) struct Buf(NonNull<bindings::dma_buf>);

// SAFETY: A dma-buf is not bound to a task.
unsafe impl Send for Buf {}
// SAFETY: `&self` methods only read fields that do not change.
unsafe impl Sync for Buf {}

impl Buf {
    /// Creates a dma-buf of `size` bytes.
    ///
    /// Returns `ENODEV` if the file would pin the module, but the module is being unloaded.
    /// Context: may sleep.
    pub(super) fn export<E: Exporter>(size: usize, exporter: Arc<E>, pins: Pins) -> Result<Self> {
        let private = exporter.into_foreign();
        let info = bindings::dma_buf_export_info {
            exp_name: c"peer memory".as_char_ptr(),
            owner: match pins {
                // The module that this code is linked into.
                Pins::File => &raw mut bindings::__this_module,
                Pins::Exporter => ptr::null_mut(),
            },
            ops: &VTable::<E>::OPS,
            size,
            // CAST: `O_RDWR` is 2.
            flags: bindings::O_RDWR as c_int,
            resv: ptr::null_mut(),
            priv_: private,
        };
        // SAFETY:
        // - All fields of `info` are initialised.
        // - The operations are `'static`, and the dma-buf or the exporter pins the module that
        //   contains the operations.
        // - The private data is an `Arc<E>`, as the operations expect.
        match from_err_ptr(unsafe { bindings::dma_buf_export(&info) }) {
            // INVARIANT: The call returned the dma-buf with a reference.
            // SAFETY: A return value that is not an error is not NULL.
            Ok(buf) => Ok(Self(unsafe { NonNull::new_unchecked(buf) })),
            Err(e) => {
                // SAFETY: `private` came from `into_foreign`, and no dma-buf was created that uses
                // `private`.
                drop(unsafe { Arc::<E>::from_foreign(private) });
                Err(if e == ENOENT { ENODEV } else { e })
            }
        }
    }

    pub(super) fn as_raw(&self) -> *mut bindings::dma_buf {
        self.0.as_ptr()
    }

    pub(super) fn file(&self) -> &File {
        // SAFETY: By the type invariants the dma-buf is valid, and the file is valid as long as the
        // dma-buf.
        unsafe { File::from_raw_file((*self.as_raw()).file) }
    }

    pub(super) fn is_idle(&self) -> bool {
        // SAFETY: By the type invariants the dma-buf is valid, and the reservation object lives as
        // long as the dma-buf.
        unsafe {
            bindings::dma_resv_test_signaled(
                (*self.as_raw()).resv,
                bindings::dma_resv_usage_DMA_RESV_USAGE_BOOKKEEP,
            )
        }
    }

    /// Drops the reference. The module may be gone when a delayed release of the dma-buf would run.
    /// So if the reference is the last one, the dma-buf is released before this function returns.
    /// Other code may have a reference, or get a reference as long as the dma-buf is not released:
    /// a BPF iterator takes a reference to each dma-buf of the machine. Context: may sleep. The
    /// caller holds no lock that [`Exporter::release`] takes.
    pub(super) fn put_now(self) {
        let this = ManuallyDrop::new(self);
        // SAFETY: By the type invariants the dma-buf and the file are valid, and this object owned
        // one reference.
        unsafe { bindings::__fput_sync((*this.as_raw()).file) };
    }
}

impl Drop for Buf {
    fn drop(&mut self) {
        // SAFETY: By the type invariants this object owns one reference.
        unsafe { bindings::dma_buf_put(self.as_raw()) };
    }
}

/// Operations of a dma-buf whose private data is an `Arc<E>`.
///
/// There is no CPU access, as a CPU may not be able to map the memory.
///
/// # Safety
///
/// Only dma-buf.c may call the functions, for dma-bufs with these operations and their attachments, as the
/// kernel documents `struct dma_buf_ops`:
///
/// - the device and the operations of an attachment are initialised, and the importer holds the device and
///   the dma-buf;
/// - `detach` and `map_dma_buf` are for an attachment for which `attach` has succeeded, and `unmap_dma_buf`
///   for a table of `map_dma_buf` that has no other user;
/// - the caller of `map_dma_buf` and `unmap_dma_buf` holds the reservation lock;
/// - after `release`, there is no call for the dma-buf.
struct VTable<E>(PhantomData<E>);

// The safety requirements of the callbacks are those of the type.
#[allow(clippy::missing_safety_doc)]
impl<E: Exporter> VTable<E> {
    const OPS: bindings::dma_buf_ops = bindings::dma_buf_ops {
        attach: Some(Self::attach),
        detach: Some(Self::detach),
        map_dma_buf: Some(Self::map_dma_buf),
        unmap_dma_buf: Some(Self::unmap_dma_buf),
        release: Some(Self::release),
        ..pin_init::zeroed()
    };

    /// Returns the exporter of `buf`.
    ///
    /// # Safety
    ///
    /// `buf` must be a dma-buf with these operations that is not released during `'a`.
    unsafe fn exporter<'a>(buf: *mut bindings::dma_buf) -> ArcBorrow<'a, E> {
        // SAFETY: By the safety requirements the private data is an `Arc<E>`, which only `release`
        // drops.
        unsafe { Arc::borrow((*buf).priv_) }
    }

    unsafe extern "C" fn attach(
        buf: *mut bindings::dma_buf,
        attachment: *mut bindings::dma_buf_attachment,
    ) -> c_int {
        // SAFETY: By the safety requirements `buf` is valid during the call.
        let exporter = unsafe { Self::exporter(buf) };
        // SAFETY: By the safety requirements `attachment` is initialised. The importer holds the
        // device and the dma-buf.
        let attachment = unsafe { Attachment::from_raw(attachment) };
        from_result(|| exporter.attach(attachment).map(|()| 0))
    }

    unsafe extern "C" fn detach(
        buf: *mut bindings::dma_buf,
        attachment: *mut bindings::dma_buf_attachment,
    ) {
        // SAFETY: By the safety requirements `attachment` is initialised. The importer holds the
        // device and the dma-buf.
        let attachment = unsafe { Attachment::from_raw(attachment) };
        // SAFETY: By the safety requirements `buf` is valid during the call.
        unsafe { Self::exporter(buf) }.detach(attachment);
    }

    unsafe extern "C" fn map_dma_buf(
        attachment: *mut bindings::dma_buf_attachment,
        _direction: bindings::dma_data_direction,
    ) -> *mut bindings::sg_table {
        // SAFETY: By the safety requirements `attachment` is valid during the call.
        let attachment = unsafe { Attachment::from_raw(attachment) };
        // SAFETY: The attachment holds the dma-buf.
        let exporter = unsafe { Self::exporter(attachment.dma_buf()) };
        exporter.map(attachment).unwrap_or_else(|e| e.to_ptr())
    }

    unsafe extern "C" fn unmap_dma_buf(
        attachment: *mut bindings::dma_buf_attachment,
        table: *mut bindings::sg_table,
        _direction: bindings::dma_data_direction,
    ) {
        // SAFETY: By the safety requirements `attachment` is valid during the call.
        let attachment = unsafe { Attachment::from_raw(attachment) };
        // SAFETY: The attachment holds the dma-buf.
        let exporter = unsafe { Self::exporter(attachment.dma_buf()) };
        // SAFETY: By the safety requirements `table` is from `map_dma_buf`, thus from
        // `Exporter::map`, and has no other user.
        unsafe { exporter.unmap(attachment, table) };
    }

    unsafe extern "C" fn release(buf: *mut bindings::dma_buf) {
        // SAFETY: `Buf::export` stored an `Arc<E>` from `into_foreign`. The dma-buf is being
        // released, so this call may take the `Arc` over.
        let exporter = unsafe { Arc::<E>::from_foreign((*buf).priv_) };
        // The module may be unloaded after this call, so the call must be the last.
        E::release(exporter);
    }
}
