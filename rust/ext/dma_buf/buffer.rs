// SPDX-License-Identifier: GPL-2.0

//! A dma-buf of any exporter. [`Buffer`] is a reference to the dma-buf. Used to register a dma-buf
//! of another driver, and to name a part of a dma-buf.

use super::{
    exporter::Buf,
    private_fd, //
};
use crate::shared::{
    ext::base::vma,
    prelude::raw::*, //
};
use kernel::{
    fs::File,
    mm::virt::VmaRef, //
};

/// A reference to a dma-buf of any exporter.
///
/// # Invariants
///
/// The file belongs to a dma-buf.
#[derive(Clone)]
pub struct Buffer(ARef<File>);

impl Buffer {
    pub(super) fn of(buf: &Buf) -> Self {
        // INVARIANT: The file belongs to a dma-buf.
        Self(buf.file().into())
    }

    /// Returns the dma-buf behind a file descriptor of the calling process.
    ///
    /// Returns `EBADF` if `fd` is no open descriptor, and `EINVAL` if the file is not a dma-buf.
    /// Context: process context.
    pub fn from_fd(fd: i32) -> Result<Self> {
        // SAFETY: The function takes any number.
        let buf = from_err_ptr(unsafe { bindings::dma_buf_get(fd) })?;
        // SAFETY: The call returned a dma-buf with a reference, and the reference is one to the
        // file.
        let file = unsafe { (*buf).file };
        // SAFETY: The file is valid as long as the reference.
        let borrowed: ARef<File> = unsafe { File::from_raw_file(file) }.into();
        // SAFETY: Drops the reference of `dma_buf_get()`. `borrowed` has another.
        unsafe { bindings::fput(file) };
        // INVARIANT: The file belongs to a dma-buf.
        Ok(Self(borrowed))
    }

    /// Returns the dma-buf that is mapped by `vma`, or `None` if the file of `vma` is of another kind. A
    /// dma-buf is not found if the exporter has replaced the file of the mapping.
    pub(super) fn behind(vma: &VmaRef) -> Option<Self> {
        if vma::file_system(vma) != vma::DMA_BUF {
            return None;
        }
        // SAFETY: A `VmaRef` is valid and locked at least for reading, so the fields may be read.
        let file = unsafe { (*vma.as_ptr()).vm_file };
        // INVARIANT: All files of this file system, which cannot be mounted, are dma-bufs.
        // SAFETY: The file is valid. The position of the file of a dma-buf is not used by the
        // kernel crate's `File`, so the file may be shared.
        Some(Self(unsafe { File::from_raw_file(file) }.into()))
    }

    fn as_raw(&self) -> *mut bindings::dma_buf {
        // SAFETY: By the type invariants the file belongs to a dma-buf, and the private data of the
        // file is the dma-buf.
        unsafe { (*self.0.as_ptr()).private_data.cast() }
    }

    pub fn size(&self) -> usize {
        // SAFETY: The dma-buf is valid as long as the file. The size does not change.
        unsafe { (*self.as_raw()).size }
    }

    pub fn exporter(&self) -> &str {
        // SAFETY: The dma-buf is valid as long as the file, and pins the module of the exporter.
        let name = unsafe { CStr::from_char_ptr((*self.as_raw()).exp_name) };
        name.to_str().unwrap_or("?")
    }

    /// Returns the number of the dma-buf, which `bufinfo` of debugfs has as its inode.
    pub fn number(&self) -> u64 {
        // SAFETY: The file is valid, and the file of a dma-buf has an inode.
        unsafe { helpers::ext_file_inode_number(self.0.as_ptr()) }
    }

    pub fn is_readable(&self) -> bool {
        self.0.flags() & bindings::O_ACCMODE != bindings::O_WRONLY
    }

    pub fn is_writable(&self) -> bool {
        self.0.flags() & bindings::O_ACCMODE != bindings::O_RDONLY
    }

    pub fn is_of_this_module(&self) -> bool {
        // SAFETY: The dma-buf is valid as long as the file. The field does not change.
        let owner = unsafe { (*self.as_raw()).owner };
        ptr::eq(owner, &raw const bindings::__this_module)
    }

    /// Calls `import` with a private descriptor of the dma-buf, which is valid in the task
    /// that calls `import`.
    ///
    /// `import` may be called again, in a kernel worker, if it has failed with `EBADF`. Context:
    /// may sleep; see [`worker`](crate::shared::ext::task::worker) for locks.
    pub fn import<T: Send>(&self, import: impl Fn(i32) -> Result<T> + Sync) -> Result<T> {
        // SAFETY: By the type invariants the file belongs to a dma-buf. The cookie is NULL.
        unsafe { private_fd::call(&self.0, ptr::null(), import) }
    }
}

impl PartialEq for Buffer {
    fn eq(&self, other: &Self) -> bool {
        ptr::eq(self.0.as_ptr(), other.0.as_ptr())
    }
}
