// SPDX-License-Identifier: GPL-2.0

//! Reads a client's counters as user space does: the text of the files in sysfs.
//!
//! The kernfs node of a file leads to the directory's kobject and to `show` of its type, without a
//! mounted sysfs.

use crate::prelude::*;

#[macro_use]
#[path = "../../src/records/stats/list.rs"]
mod list;

/// The files of the counters in the list.
macro_rules! files {
    ($($name:ident => $file:literal,)*) => {
        &[$($file),*]
    };
}

pub(crate) const ALL: &[&CStr] = counters!(files);

/// A counted reference to a kernfs node.
struct Node(*mut bindings::kernfs_node);

impl Node {
    /// Returns the child `name` of a node.
    ///
    /// # Safety
    ///
    /// The node must exist.
    unsafe fn find(parent: *mut bindings::kernfs_node, name: &CStr) -> Result<Self> {
        // SAFETY: By the safety requirements. The result is NULL if there is no such child.
        let kn =
            unsafe { bindings::kernfs_find_and_get_ns(parent, name.as_char_ptr(), ptr::null()) };
        if kn.is_null() {
            Err(ENOENT)
        } else {
            Ok(Self(kn))
        }
    }

    fn child(&self, name: &CStr) -> Result<Self> {
        // SAFETY: This object holds a reference to the node.
        unsafe { Self::find(self.0, name) }
    }

    fn peers() -> Result<Self> {
        // SAFETY: `kernel_kobj` and the node of `kernel_kobj` exist from boot on.
        unsafe { Self::find((*bindings::kernel_kobj).sd, c"mm") }?.child(c"memory_peers")
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        // SAFETY: This object owns the reference.
        unsafe { bindings::kernfs_put(self.0) };
    }
}

/// Returns whether the client has a directory.
pub(crate) fn exists(client: &CStr) -> bool {
    Node::peers().and_then(|n| n.child(client)).is_ok()
}

fn with_text<R>(client: &CStr, file: &CStr, f: impl FnOnce(&str) -> Result<R>) -> Result<R> {
    let dir = Node::peers()?.child(client)?;
    let node = dir.child(file)?;
    // SAFETY: The client is registered, so the directory and the kobject exist.
    let kobj = unsafe { (*dir.0).priv_ }.cast::<bindings::kobject>();
    // SAFETY: The `priv` of a sysfs file is the attribute.
    let attr = unsafe { (*node.0).priv_ }.cast::<bindings::attribute>();
    // SAFETY: A directory of sysfs has a type with operations.
    let show = unsafe { (*(*(*kobj).ktype).sysfs_ops).show }.ok_or(EIO)?;
    let mut page = KBox::new([0u8; PAGE_SIZE], GFP_KERNEL)?;
    // SAFETY: Called as sysfs does, with a buffer of one page.
    let n = unsafe { show(kobj, attr, page.as_mut_ptr().cast()) };
    let n = usize::try_from(n).map_err(|_| EIO)?;
    f(core::str::from_utf8(&page[..n]).map_err(|_| EIO)?)
}

pub(crate) fn get(client: &CStr, file: &CStr) -> Result<u64> {
    with_text(client, file, |text| {
        text.trim_end().parse().map_err(|_| EIO)
    })
}

pub(crate) fn reads(client: &CStr, file: &CStr, want: &str) -> Result<bool> {
    with_text(client, file, |text| Ok(text == want))
}

/// Returns the MRs, pages and bytes that the counters count as registered now.
pub(crate) fn in_use(client: &CStr) -> Result<(u64, u64, u64)> {
    let less = |more: &CStr, less: &CStr| -> Result<u64> {
        Ok(get(client, more)?.wrapping_sub(get(client, less)?))
    };
    Ok((
        less(c"num_alloc_mrs", c"num_dealloc_mrs")?,
        less(c"num_reg_pages", c"num_dereg_pages")?,
        less(c"num_reg_bytes", c"num_dereg_bytes")?,
    ))
}
