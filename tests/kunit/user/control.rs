// SPDX-License-Identifier: GPL-2.0

//! Exports of dma-bufs through `/dev/ib_peer_mem`.

use crate::{
    prelude::*,
    shared::uapi, //
};

/// An open file of `/dev/ib_peer_mem`.
///
/// # Invariants
///
/// The file is open and owned by this object.
pub(crate) struct Control(*mut bindings::file);

// SAFETY: A file may be used from any thread.
unsafe impl Send for Control {}
// SAFETY: A file may be used from several threads.
unsafe impl Sync for Control {}

impl Control {
    /// Opens the file. Must be called from the process that loads the module: kernel threads may
    /// have no root directory.
    pub(crate) fn open() -> Result<Self> {
        let path = c"/dev/ib_peer_mem".as_char_ptr();
        // INVARIANT: Just opened.
        // SAFETY: The path is a C string.
        let file = unsafe { bindings::filp_open(path, bindings::O_RDWR as c_int, 0) };
        from_err_ptr(file).map(Self)
    }
}

impl Drop for Control {
    fn drop(&mut self) {
        // SAFETY: By the type invariants the file is open, and the file has no user after the call.
        unsafe { bindings::filp_close(self.0, ptr::null_mut()) };
    }
}

/// The address of a page of user memory of the test's task. KUnit unmaps the page after the test.
pub(crate) struct Page(usize);

impl Page {
    /// Maps a page. Not for use while allocations are made to fail.
    pub(crate) fn new() -> Result<Self> {
        // SAFETY: The function has no requirements.
        match unsafe { helpers::kt_user_pages(1) } {
            0 => Err(ENOMEM),
            at => Ok(Self(at)),
        }
    }
}

/// A file descriptor of an exported dma-buf. Drop closes the descriptor.
pub(crate) struct DmaBuf(i32);

impl DmaBuf {
    /// Exports `length` bytes at `addr`. Must be called from the test's task.
    pub(crate) fn export(addr: u64, length: u64) -> Result<Self> {
        Self::export_by(&Page::new()?, addr, length)
    }

    /// Like [`Self::export`], with the arguments in `page`.
    pub(crate) fn export_by(page: &Page, addr: u64, length: u64) -> Result<Self> {
        let arg = uapi::ib_peer_mem_export {
            version: uapi::IB_PEER_MEM_EXPORT_VERSION,
            addr,
            length,
            ..pin_init::zeroed()
        };
        uapi::write(page.0, &arg)?;
        let (testbed, request) = (Testbed::get()?, uapi::IB_PEER_MEM_IOC_EXPORT);
        let file = testbed.control().0;
        // SAFETY: By the type invariants of `Control` the file is open.
        let ioctl = unsafe { (*(*file).f_op).unlocked_ioctl }.ok_or(EINVAL)?;
        // SAFETY: Called as by ioctl(2).
        let ret = unsafe { ioctl(file, request, page.0) };
        // CAST: An error number fits an int.
        to_result(ret as i32)?;
        let arg: uapi::ib_peer_mem_export = uapi::read(page.0)?;
        Ok(Self(arg.fd))
    }

    pub(crate) fn fd(&self) -> i32 {
        self.0
    }
}

impl Drop for DmaBuf {
    fn drop(&mut self) {
        // SAFETY: This object owns the descriptor.
        unsafe { helpers::kt_close(self.0) };
    }
}
