// SPDX-License-Identifier: GPL-2.0

//! Files without a name that belong to a character device.

use super::super::bindings::helpers;
use super::{
    AddressSpace,
    Device,
    Node,
    VTable, //
};
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
    /// The address space of the device's mappings.
    pub(super) space: &'a AddressSpace,
    /// `O_RDONLY`, `O_WRONLY` or `O_RDWR`: how it was opened.
    pub(super) access: c_int,
}

impl Opened<'_> {
    /// Makes a file with the operations of `device`. It may be mapped and written to as far as this
    /// file may, and its mappings are found and taken away with those of this file's device. It
    /// keeps the module loaded.
    ///
    /// Context: may sleep.
    pub fn handle<T: Device>(&self, name: &CStr, device: Arc<T>) -> Result<ARef<File>> {
        let space = self.space.clone();
        let mapping = space.as_raw();
        let node = Arc::into_raw(Arc::new(Node { space, device }, GFP_KERNEL)?);
        // SAFETY: The name is a C string, which is copied. The operations live as long as the
        // module, which the file holds, and find in `private_data` the reference they expect.
        let file = from_err_ptr(unsafe {
            helpers::anon_inode_create_getfile(
                name.as_char_ptr(),
                VTable::<T>::build(),
                node.cast_mut().cast(),
                self.access,
                core::ptr::null(),
            )
        })
        // SAFETY: The reference is still ours: there is no file that would release it.
        .inspect_err(|_| drop(unsafe { Arc::from_raw(node) }))?;
        let file = NonNull::new(file).ok_or(ENOMEM)?;
        // SAFETY: Nobody else has the file yet, so it may be set up. The address space lives as long
        // as the node, which the file holds until it is released, when all mappings are gone.
        unsafe { (*file.as_ptr()).f_mapping = mapping };
        // SAFETY: The file and its one reference are ours; nobody calls `fdget_pos` on it. `File`
        // is a transparent wrapper.
        Ok(unsafe { ARef::from_raw(file.cast()) })
    }
}

impl<'a> Opened<'a> {
    /// # Safety
    ///
    /// `file` must be a file of `node`'s device that is open during `'a`.
    pub(super) unsafe fn new<T>(node: &'a Node<T>, file: *mut bindings::file) -> Self {
        Self {
            space: &node.space,
            // SAFETY: By the requirements. The access mode does not change after `open(2)`.
            access: (unsafe { (&raw const (*file).f_flags).read_volatile() } & bindings::O_ACCMODE)
                as c_int,
        }
    }
}
