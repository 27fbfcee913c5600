// SPDX-License-Identifier: GPL-2.0

//! Folders with read-only text files in sysfs.
//!
//! C headers: [`include/linux/kobject.h`](srctree/include/linux/kobject.h),
//! [`include/linux/sysfs.h`](srctree/include/linux/sysfs.h).
//!
//! Only what a statistics folder needs: no writing, no binary files, no uevents.

use core::{
    marker::PhantomData,
    mem::offset_of,
    ptr, //
};
use kernel::{
    bindings,
    error::{
        from_result,
        to_result, //
    },
    ffi,
    fmt,
    page::PAGE_SIZE,
    prelude::*,
    str::Formatter,
    sync::Completion,
    types::Opaque, //
};

/// One file of a folder: its name and how its text is written.
#[repr(C)]
pub struct File<T> {
    attr: bindings::attribute,
    show: fn(&T, &mut Formatter<'_>) -> fmt::Result,
}

impl<T> File<T> {
    // With lockdep the attribute has more fields than are named.
    #[allow(clippy::needless_update)]
    /// A file that everybody may read.
    pub const fn new(name: &'static CStr, show: fn(&T, &mut Formatter<'_>) -> fmt::Result) -> Self {
        Self {
            attr: bindings::attribute {
                name: kernel::str::as_char_ptr_in_const_context(name),
                mode: 0o444,
                ..pin_init::zeroed()
            },
            show,
        }
    }
}

/// What a folder shows.
pub trait Files: Send + Sync + Sized + 'static {
    /// The files, in any order.
    const FILES: &'static [File<Self>];
}

impl Files for () {
    const FILES: &'static [File<Self>] = &[];
}

/// The C side of a folder.
#[pin_data]
struct Node<T> {
    #[pin]
    kobj: Opaque<bindings::kobject>,
    #[pin]
    released: Completion,
    data: T,
}

// SAFETY: The kobject is only used through functions that lock for themselves.
unsafe impl<T: Send> Send for Node<T> {}
// SAFETY: As above; `data` is only shared.
unsafe impl<T: Sync> Sync for Node<T> {}

/// The kobject type of a folder of `T`.
struct Ktype<T>(PhantomData<T>);

impl<T: Files> Ktype<T> {
    const OPS: bindings::sysfs_ops = bindings::sysfs_ops {
        show: Some(Self::show),
        store: None,
    };
    const KTYPE: bindings::kobj_type = bindings::kobj_type {
        release: Some(Self::release),
        sysfs_ops: &Self::OPS,
        ..pin_init::zeroed()
    };

    /// # Safety
    ///
    /// `kobj` must be that of a live `Node<T>`, `attr` that of an entry of `T::FILES`, `buf` a
    /// buffer of one page.
    unsafe extern "C" fn show(
        kobj: *mut bindings::kobject,
        attr: *mut bindings::attribute,
        buf: *mut ffi::c_char,
    ) -> isize {
        // SAFETY: `kobj` is embedded in a `Node<T>`, which lives at least until kobject_del() has
        // waited for this call.
        let node = unsafe { &*kobj.byte_sub(offset_of!(Node<T>, kobj)).cast::<Node<T>>() };
        // SAFETY: `attr` is the first field of an entry of `T::FILES`, which is `'static`.
        let file = unsafe { &*attr.cast::<File<T>>() };
        // SAFETY: sysfs gives a buffer of one page.
        let buf = unsafe { core::slice::from_raw_parts_mut(buf.cast::<u8>(), PAGE_SIZE) };

        from_result(|| {
            let mut out = Formatter::new(buf);
            (file.show)(&node.data, &mut out).map_err(|_| EFBIG)?;
            Ok(out.bytes_written() as isize)
        })
    }

    /// # Safety
    ///
    /// `kobj` must be that of a `Node<T>`.
    unsafe extern "C" fn release(kobj: *mut bindings::kobject) {
        // SAFETY: `kobj` is embedded in a `Node<T>`; its owner frees it only after this.
        let node = unsafe { &*kobj.byte_sub(offset_of!(Node<T>, kobj)).cast::<Node<T>>() };
        node.released.complete_all();
    }
}

/// A folder in sysfs. Dropping it removes it with its files and waits for readers: may sleep.
///
/// # Invariants
///
/// `node.kobj` is initialised, and one reference to it is owned by this object.
pub struct Folder<T: Files> {
    node: Pin<KBox<Node<T>>>,
}

impl<T: Files> Folder<T> {
    /// Makes the folder `name` in `parent`, which must be a live kobject for the duration of
    /// the call.
    fn in_kobject(parent: *mut bindings::kobject, name: &CStr, data: T) -> Result<Self> {
        let node = KBox::pin_init(
            pin_init!(Node {
                kobj: Opaque::zeroed(),
                released <- Completion::new(),
                data,
            }),
            GFP_KERNEL,
        )?;
        // INVARIANT: kobject_init_and_add() initialises the kobject even where it fails, and the
        // reference is then still to be put, which dropping `folder` does.
        let folder = Self { node };
        // SAFETY: The kobject is zeroed and pinned, the type is `'static`, the parent is valid,
        // and "%s" takes one string.
        to_result(unsafe {
            bindings::kobject_init_and_add(
                folder.node.kobj.get(),
                &Ktype::<T>::KTYPE,
                parent,
                c"%s".as_char_ptr(),
                name.as_char_ptr(),
            )
        })?;
        for file in T::FILES {
            // SAFETY: The kobject is in sysfs; the attribute is `'static`.
            to_result(unsafe {
                bindings::sysfs_create_file_ns(folder.node.kobj.get(), &file.attr, ptr::null())
            })?;
        }
        Ok(folder)
    }

    /// Makes the folder `name` inside `parent`. May sleep. `EEXIST` where the name is taken.
    pub fn inside<P: Files>(parent: &Folder<P>, name: &CStr, data: T) -> Result<Self> {
        Self::in_kobject(parent.node.kobj.get(), name, data)
    }

    /// Makes the folder `/sys/kernel/mm/<name>`. May sleep.
    pub fn in_kernel_mm(name: &CStr, data: T) -> Result<Self> {
        // SAFETY: `kernel_kobj` is set at boot and never freed.
        let root = unsafe { bindings::kernel_kobj };
        // SAFETY: As above; its sysfs node exists.
        let kn = unsafe {
            bindings::kernfs_find_and_get_ns((*root).sd, c"mm".as_char_ptr(), ptr::null())
        };
        if kn.is_null() {
            return Err(ENOENT);
        }
        // mm_kobj itself is not exported. The node of a folder in sysfs points to its kobject;
        // check that this one does before believing it.
        //
        // SAFETY: `kn` is a valid node that we hold a reference to.
        let mm = unsafe { (*kn).priv_ }.cast::<bindings::kobject>();
        // SAFETY: As above; a folder's `priv` is null or its kobject, and that of /sys/kernel/mm
        // is made at boot and never removed.
        let folder = match unsafe { mm.as_ref() } {
            Some(k) if k.sd == kn && k.parent == root => Self::in_kobject(mm, name, data),
            _ => Err(ENOENT),
        };
        // SAFETY: The reference is from kernfs_find_and_get_ns().
        unsafe { bindings::kernfs_put(kn) };
        folder
    }
}

impl<T: Files> Drop for Folder<T> {
    fn drop(&mut self) {
        // SAFETY: By the type invariants the kobject is initialised. kobject_del() removes the
        // files and waits for readers.
        unsafe { bindings::kobject_del(self.node.kobj.get()) };
        // SAFETY: By the type invariants the reference is ours.
        unsafe { bindings::kobject_put(self.node.kobj.get()) };
        // Somebody else may hold the last reference; the memory and this code must outlive it.
        self.node.released.wait_for_completion();
    }
}
