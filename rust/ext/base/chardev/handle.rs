// SPDX-License-Identifier: GPL-2.0

//! Anonymous files that belong to a character device.
//!
//! [`Opened`] is the file on which an ioctl was called, and creates further files with
//! [`Opened::handle`].

use super::{
    AddressSpace,
    Device,
    Node,
    VTable, //
};
use crate::shared::bindings::helpers;
use core::ptr::NonNull;
use kernel::{
    bindings,
    error::from_err_ptr,
    fs::File,
    prelude::*,
    sync::{
        aref::ARef,
        Arc, //
    }, //
};

/// An open file of a device.
pub struct Opened<'a> {
    /// Address space of the mappings of the device.
    pub(super) space: &'a AddressSpace,
    /// Access mode of the file: `O_RDONLY`, `O_WRONLY` or `O_RDWR`.
    pub(super) access: c_int,
}

impl Opened<'_> {
    /// Returns whether the file was opened for writing.
    pub fn is_writable(&self) -> bool {
        // CAST: The constants are small, and not negative.
        self.access == bindings::O_WRONLY as c_int || self.access == bindings::O_RDWR as c_int
    }

    /// Creates an anonymous file with the operations of `device`.
    ///
    /// The new file has the access mode of `self`, and keeps the module loaded. The new file shares
    /// the address space of the device, so [`AddressSpace::unmap_all`] also unmaps mappings of the
    /// new file. Context: may sleep.
    pub fn handle<T: Device>(&self, name: &CStr, device: Arc<T>) -> Result<ARef<File>> {
        let space = self.space.clone();
        let mapping = space.as_raw();
        let node = Arc::into_raw(Arc::new(Node { space, device }, GFP_KERNEL_ACCOUNT)?);
        let ops = &VTable::<T>::VTABLE;
        // SAFETY: The operations live as long as the module, and the file keeps the module loaded.
        // The private data is a reference from `Arc::into_raw`, as the operations expect.
        let file = unsafe { anon_file(name, ops, node.cast_mut().cast(), self.access) }
            // SAFETY: `node` came from `Arc::into_raw`. Without a file no other code releases the
            // reference.
            .inspect_err(|_| drop(unsafe { Arc::from_raw(node) }))?;
        // SAFETY: This function has the only reference to the file, so the function may set the
        // file up. The address space lives as long as the node, and the file holds the node until
        // the release of the file, when no mappings are left.
        unsafe { (*file.as_ptr()).f_mapping = mapping };
        // SAFETY: This function has the only reference.
        unsafe { helpers::ext_file_allow_at(file.as_ptr()) };
        Ok(file)
    }
}

/// Creates an anonymous file without a descriptor. Context: may sleep.
///
/// # Safety
///
/// The operations must be valid for the private data, as long as the file exists.
pub(in crate::shared::ext) unsafe fn anon_file(
    name: &CStr,
    ops: *const bindings::file_operations,
    private: *mut c_void,
    flags: c_int,
) -> Result<ARef<File>> {
    let name = name.as_char_ptr();
    // SAFETY: The name is a C string, which the function copies. The rest are the safety
    // requirements.
    let file = from_err_ptr(unsafe {
        helpers::anon_inode_create_getfile(name, ops, private, flags, core::ptr::null())
    })?;
    let file = NonNull::new(file).ok_or(ENOMEM)?;
    // SAFETY: The `ARef` takes over the reference that the call returned. No file descriptor refers
    // to the file, so there is no active `fdget_pos` call. `File` is a transparent wrapper.
    Ok(unsafe { ARef::from_raw(file.cast()) })
}

impl<'a> Opened<'a> {
    /// Wraps an open file.
    ///
    /// # Safety
    ///
    /// `file` must be a file of the device of `node` that is open for the duration of the call.
    pub(super) unsafe fn new<T>(node: &'a Node<T>, file: *mut bindings::file) -> Self {
        Self {
            space: &node.space,
            // SAFETY: By the safety requirements `file` is open, so the pointer is valid. The read
            // is volatile as fcntl(2) may write other bits; the access mode does not change.
            // CAST: `O_ACCMODE` is 3.
            access: (unsafe { (&raw const (*file).f_flags).read_volatile() } & bindings::O_ACCMODE)
                as c_int,
        }
    }
}
