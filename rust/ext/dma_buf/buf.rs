// SPDX-License-Identifier: GPL-2.0

//! A dma-buf of ours, as the C code has it.

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

/// What is behind a dma-buf: its private data.
pub(super) trait Exporter: Send + Sync + 'static {
    /// Somebody wants to import for `dev`. No lock of the dma-buf is held; may sleep.
    fn attach(&self, dev: &Device, importer: ImporterCaps) -> Result;

    /// An importer has gone. As above.
    fn detach(&self, importer: ImporterCaps);

    /// Calls `f` with what an importer is to be given. The reservation lock is held.
    fn with_segments<R>(&self, f: impl FnOnce(&[Segment]) -> Result<R>) -> Result<R>;

    /// Where the tables that importers have are counted; always the same.
    fn tables(&self) -> &Tables;

    /// The last reference to the dma-buf is gone; it is valid during this call. May sleep.
    fn release(&self) {}
}

/// A reference to a dma-buf.
///
/// # Invariants
///
/// It is valid, and the reference is this object's.
pub(super) struct Buf(NonNull<bindings::dma_buf>);

// SAFETY: A dma-buf may be used from any thread.
unsafe impl Send for Buf {}
// SAFETY: As above.
unsafe impl Sync for Buf {}

impl Buf {
    /// Makes a dma-buf of `size` bytes. The file holds this module. `ENODEV` where the module is
    /// being unloaded. May sleep.
    pub(super) fn export<E: Exporter>(size: usize, exporter: Arc<E>) -> Result<Self> {
        let private = exporter.into_foreign();
        let info = bindings::dma_buf_export_info {
            exp_name: c"peer memory".as_char_ptr(),
            // The module that this is part of.
            owner: &raw mut bindings::__this_module,
            ops: &VTable::<E>::OPS,
            size,
            flags: bindings::O_RDWR as c_int,
            resv: ptr::null_mut(),
            priv_: private,
        };
        // SAFETY: The description is complete; the operations are `'static`, and the dma-buf
        // holds the module that they are in. They expect what is in the private data.
        match from_err_ptr(unsafe { bindings::dma_buf_export(&info) }) {
            // INVARIANT: Just made.
            // SAFETY: What is returned and is no error is not NULL.
            Ok(buf) => Ok(Self(unsafe { NonNull::new_unchecked(buf) })),
            Err(e) => {
                // SAFETY: No dma-buf has it.
                drop(unsafe { Arc::<E>::from_foreign(private) });
                Err(if e == ENOENT { ENODEV } else { e })
            }
        }
    }

    pub(super) fn as_raw(&self) -> *mut bindings::dma_buf {
        self.0.as_ptr()
    }

    /// Its file, for a file descriptor.
    pub(super) fn file(&self) -> ARef<File> {
        // SAFETY: By the type invariants the dma-buf, and so its file, is valid.
        unsafe { File::from_raw_file((*self.as_raw()).file) }.into()
    }
}

impl Drop for Buf {
    fn drop(&mut self) {
        // SAFETY: By the type invariants the reference is ours.
        unsafe { bindings::dma_buf_put(self.as_raw()) };
    }
}

/// The operations of a dma-buf whose private data is an `Arc<E>`. No CPU access: the memory may
/// be nothing that a CPU can map.
struct VTable<E>(PhantomData<E>);

impl<E: Exporter> VTable<E> {
    const OPS: bindings::dma_buf_ops = bindings::dma_buf_ops {
        attach: Some(Self::attach),
        detach: Some(Self::detach),
        map_dma_buf: Some(Self::map_dma_buf),
        unmap_dma_buf: Some(Self::unmap_dma_buf),
        release: Some(Self::release),
        ..pin_init::zeroed()
    };

    /// # Safety
    ///
    /// `buf` must be a dma-buf with these operations, for the lifetime `'a`.
    unsafe fn exporter<'a>(buf: *mut bindings::dma_buf) -> ArcBorrow<'a, E> {
        // SAFETY: The caller's promise; the private data is an `Arc` that `release` gives up.
        unsafe { Arc::borrow((*buf).priv_) }
    }

    /// # Safety
    ///
    /// As `dma_buf_ops.attach`.
    unsafe extern "C" fn attach(
        buf: *mut bindings::dma_buf,
        attachment: *mut bindings::dma_buf_attachment,
    ) -> c_int {
        // SAFETY: One of ours.
        let exporter = unsafe { Self::exporter(buf) };
        // SAFETY: It is being made.
        let importer = unsafe { ImporterCaps::of(attachment) };
        // SAFETY: The importer has a reference to its device.
        let dev = unsafe { Device::from_raw((*attachment).dev) };
        from_result(|| exporter.attach(dev, importer).map(|()| 0))
    }

    /// # Safety
    ///
    /// As `dma_buf_ops.detach`.
    unsafe extern "C" fn detach(
        buf: *mut bindings::dma_buf,
        attachment: *mut bindings::dma_buf_attachment,
    ) {
        // SAFETY: It has been made.
        let importer = unsafe { ImporterCaps::of(attachment) };
        // SAFETY: One of ours; the importer still has a reference.
        unsafe { Self::exporter(buf) }.detach(importer);
    }

    /// # Safety
    ///
    /// As `dma_buf_ops.map_dma_buf`.
    unsafe extern "C" fn map_dma_buf(
        attachment: *mut bindings::dma_buf_attachment,
        _direction: bindings::dma_data_direction,
    ) -> *mut bindings::sg_table {
        // SAFETY: One of ours.
        let exporter = unsafe { Self::exporter((*attachment).dmabuf) };
        match exporter.with_segments(|segments| {
            // SAFETY: As above; whoever maps holds the reservation lock.
            unsafe { exporter.tables().lend(attachment, segments) }
        }) {
            Ok(table) => table,
            Err(e) => e.to_ptr(),
        }
    }

    /// # Safety
    ///
    /// As `dma_buf_ops.unmap_dma_buf`.
    unsafe extern "C" fn unmap_dma_buf(
        attachment: *mut bindings::dma_buf_attachment,
        table: *mut bindings::sg_table,
        _direction: bindings::dma_data_direction,
    ) {
        // SAFETY: One of ours.
        let exporter = unsafe { Self::exporter((*attachment).dmabuf) };
        // SAFETY: It is from `map_dma_buf`, and the importer, which holds the reservation lock,
        // does not use it any more.
        unsafe { exporter.tables().take_back(attachment, table) };
    }

    /// # Safety
    ///
    /// As `dma_buf_ops.release`.
    unsafe extern "C" fn release(buf: *mut bindings::dma_buf) {
        // SAFETY: `Buf::export` has put it there, and this is the end of the dma-buf.
        let exporter = unsafe { Arc::<E>::from_foreign((*buf).priv_) };
        exporter.release();
    }
}
