// SPDX-License-Identifier: GPL-2.0

//! `struct dma_buf` and the operations of an exporter.

use super::super::sg::Segment;
use super::{
    tables::Tables,
    ImporterCaps, //
};
use core::{
    marker::PhantomData,
    ptr::{
        self,
        NonNull, //
    }, //
};
use kernel::{
    bindings,
    device::Device,
    error::{
        from_err_ptr,
        from_result, //
    },
    ffi::c_int,
    fs::File,
    prelude::*,
    sync::{
        aref::ARef,
        Arc,
        ArcBorrow, //
    },
    types::ForeignOwnable, //
};

/// The exporter behind a dma-buf: its private data.
pub(super) trait Exporter: Send + Sync + 'static {
    /// Accepts or rejects an attachment of `dev`.
    ///
    /// Context: may sleep. The caller holds no lock of the dma-buf.
    fn attach(&self, dev: &Device, importer: ImporterCaps) -> Result;

    /// Handles the end of an attachment.
    ///
    /// Context: may sleep. The caller holds no lock of the dma-buf.
    fn detach(&self, importer: ImporterCaps);

    /// Calls `f` with the DMA addresses for an importer.
    ///
    /// Context: may sleep. The caller holds the reservation lock.
    fn with_segments<R>(&self, f: impl FnOnce(&[Segment]) -> Result<R>) -> Result<R>;

    /// Returns the count of the importers' tables, which must be the same at each call.
    fn tables(&self) -> &Tables;

    /// Handles the release of the last reference to the dma-buf, which is valid during this call.
    ///
    /// Context: may sleep. The caller holds no lock of the dma-buf.
    fn release(&self) {}
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
    /// Creates a dma-buf of `size` bytes, whose file keeps this module loaded.
    ///
    /// Returns `ENODEV` if the module is being unloaded.
    ///
    /// Context: may sleep.
    pub(super) fn export<E: Exporter>(size: usize, exporter: Arc<E>) -> Result<Self> {
        let private = exporter.into_foreign();
        let info = bindings::dma_buf_export_info {
            exp_name: c"peer memory".as_char_ptr(),
            // The module that this code is linked into.
            owner: &raw mut bindings::__this_module,
            ops: &VTable::<E>::OPS,
            size,
            // CAST: `O_RDWR` is 2.
            flags: bindings::O_RDWR as c_int,
            resv: ptr::null_mut(),
            priv_: private,
        };
        // SAFETY:
        // - All fields of `info` are initialised.
        // - The operations are `'static`, and the dma-buf holds the module that contains them.
        // - The private data is an `Arc<E>`, as the operations expect.
        match from_err_ptr(unsafe { bindings::dma_buf_export(&info) }) {
            // INVARIANT: The call returned the dma-buf with a reference.
            // SAFETY: A return value that is not an error is not NULL.
            Ok(buf) => Ok(Self(unsafe { NonNull::new_unchecked(buf) })),
            Err(e) => {
                // SAFETY: `private` came from `into_foreign`, and no dma-buf was created that uses
                // it.
                drop(unsafe { Arc::<E>::from_foreign(private) });
                Err(if e == ENOENT { ENODEV } else { e })
            }
        }
    }

    /// Returns the C object.
    pub(super) fn as_raw(&self) -> *mut bindings::dma_buf {
        self.0.as_ptr()
    }

    /// Returns its file, for a file descriptor.
    pub(super) fn file(&self) -> ARef<File> {
        // SAFETY: By the type invariants the dma-buf is valid, and so is its file.
        unsafe { File::from_raw_file((*self.as_raw()).file) }.into()
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
struct VTable<E>(PhantomData<E>);

impl<E: Exporter> VTable<E> {
    /// C structure.
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
        // SAFETY: By this function's safety contract the private data is an `Arc<E>`, which only
        // `release` drops.
        unsafe { Arc::borrow((*buf).priv_) }
    }

    /// # Safety
    ///
    /// - `buf` must be a dma-buf with these operations, valid for the duration of the call.
    /// - `attachment` must be an attachment of it whose device and operations are initialised.
    unsafe extern "C" fn attach(
        buf: *mut bindings::dma_buf,
        attachment: *mut bindings::dma_buf_attachment,
    ) -> c_int {
        // SAFETY: By this function's safety contract `buf` is valid during the call.
        let exporter = unsafe { Self::exporter(buf) };
        // SAFETY: By this function's safety contract `attachment` is initialised.
        let importer = unsafe { ImporterCaps::of(attachment) };
        // SAFETY: By this function's safety contract the device is initialised. The importer holds
        // a reference to it during the call.
        let dev = unsafe { Device::from_raw((*attachment).dev) };
        from_result(|| exporter.attach(dev, importer).map(|()| 0))
    }

    /// # Safety
    ///
    /// - `buf` must be a dma-buf with these operations, valid for the duration of the call.
    /// - `attach` must have succeeded for `attachment`.
    unsafe extern "C" fn detach(
        buf: *mut bindings::dma_buf,
        attachment: *mut bindings::dma_buf_attachment,
    ) {
        // SAFETY: By this function's safety contract `attachment` is initialised.
        let importer = unsafe { ImporterCaps::of(attachment) };
        // SAFETY: By this function's safety contract `buf` is valid during the call.
        unsafe { Self::exporter(buf) }.detach(importer);
    }

    /// # Safety
    ///
    /// - `attach` must have succeeded for `attachment`, of a dma-buf with these operations.
    /// - The caller must hold the reservation lock.
    unsafe extern "C" fn map_dma_buf(
        attachment: *mut bindings::dma_buf_attachment,
        _direction: bindings::dma_data_direction,
    ) -> *mut bindings::sg_table {
        // SAFETY: By this function's safety contract `attachment` is valid. It holds the dma-buf,
        // which has these operations.
        let exporter = unsafe { Self::exporter((*attachment).dmabuf) };
        match exporter.with_segments(|segments| {
            // SAFETY: By this function's safety contract the caller holds the reservation lock, and
            // `attachment` is one of the exporter's dma-buf.
            unsafe { exporter.tables().map(attachment, segments) }
        }) {
            Ok(table) => table,
            Err(e) => e.to_ptr(),
        }
    }

    /// # Safety
    ///
    /// - `table` must be from `map_dma_buf` for `attachment`, and must have no other user.
    /// - The caller must hold the reservation lock.
    unsafe extern "C" fn unmap_dma_buf(
        attachment: *mut bindings::dma_buf_attachment,
        table: *mut bindings::sg_table,
        _direction: bindings::dma_data_direction,
    ) {
        // SAFETY: By this function's safety contract `attachment` is valid. It holds the dma-buf,
        // which has these operations.
        let exporter = unsafe { Self::exporter((*attachment).dmabuf) };
        // SAFETY: By this function's safety contract `table` is from `map_dma_buf` and unused, and
        // the caller holds the reservation lock.
        unsafe { exporter.tables().unmap(attachment, table) };
    }

    /// # Safety
    ///
    /// `buf` must be a dma-buf with these operations that is being released.
    unsafe extern "C" fn release(buf: *mut bindings::dma_buf) {
        // SAFETY: `Buf::export` stored an `Arc<E>` from `into_foreign`. The dma-buf is being
        // released, so this call may take it over.
        let exporter = unsafe { Arc::<E>::from_foreign((*buf).priv_) };
        exporter.release();
    }
}
