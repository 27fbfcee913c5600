// SPDX-License-Identifier: GPL-2.0

//! Directories with text files in sysfs, for statistics, and for switches that root sets. A type that
//! implements [`Files`] describes the files of a [`Directory`].

use crate::shared::{
    ext::base::device::as_raw as device_raw,
    prelude::raw::*, //
};
use core::mem::offset_of;
use kernel::{
    device::Device,
    str::Formatter,
    sync::Completion, //
};

type Show<T> = fn(&T, &mut Formatter<'_>) -> fmt::Result;
type Store<T> = fn(&T, &str) -> Result;

/// One file of a directory: the name and the functions that read and write the text.
#[repr(C)]
pub struct File<T> {
    attr: bindings::attribute,
    show: Show<T>,
    store: Option<Store<T>>,
}

impl<T> File<T> {
    /// Creates the description of a file of mode 0444 whose text `show` writes.
    pub const fn new(name: &'static CStr, show: Show<T>) -> Self {
        Self::with(name, 0o444, show, None)
    }

    /// Creates the description of a file of mode 0644. `store` handles a write, whose text has no
    /// white space at the ends. Both functions may sleep.
    pub const fn writable(name: &'static CStr, show: Show<T>, store: Store<T>) -> Self {
        Self::with(name, 0o644, show, Some(store))
    }

    // With lockdep the attribute has fields that are not named here.
    #[allow(clippy::needless_update)]
    const fn with(name: &'static CStr, mode: u16, show: Show<T>, store: Option<Store<T>>) -> Self {
        Self {
            attr: bindings::attribute {
                name: kernel::str::as_char_ptr_in_const_context(name),
                mode,
                ..pin_init::zeroed()
            },
            show,
            store,
        }
    }
}

/// Parses the text of a switch. Returns `EINVAL` unless `text` is `0` or `1`.
pub fn parse_switch(text: &str) -> Result<bool> {
    match text {
        "0" => Ok(false),
        "1" => Ok(true),
        _ => Err(EINVAL),
    }
}

pub trait Files: Send + Sync + Sized + 'static {
    const FILES: &'static [File<Self>];
}

impl Files for () {
    const FILES: &'static [File<Self>] = &[];
}

#[pin_data]
struct Node<T> {
    #[pin]
    kobj: Opaque<bindings::kobject>,
    #[pin]
    released: Completion,
    data: T,
}

// SAFETY: The kobject is used only through functions that take the needed locks.
unsafe impl<T: Send> Send for Node<T> {}
// SAFETY: As for `Send`; `data` is only shared.
unsafe impl<T: Sync> Sync for Node<T> {}

/// # Safety
///
/// - `kobj` must be embedded in a live `Node<T>`.
/// - `attr` must be the attribute of an entry of `T::FILES`.
/// - `buf` must have `count` bytes for the duration of the call, or be a buffer of one page.
struct Ktype<T>(PhantomData<T>);

// The safety requirements of C callbacks are those of the type.
#[allow(clippy::missing_safety_doc)]
impl<T: Files> Ktype<T> {
    const OPS: bindings::sysfs_ops = bindings::sysfs_ops {
        show: Some(Self::show),
        store: Some(Self::store),
    };
    const KTYPE: bindings::kobj_type = bindings::kobj_type {
        release: Some(Self::release),
        sysfs_ops: &Self::OPS,
        ..pin_init::zeroed()
    };

    /// # Safety
    ///
    /// `kobj` must be embedded in a `Node<T>` that is live during `'a`.
    unsafe fn node<'a>(kobj: *mut bindings::kobject) -> &'a Node<T> {
        // SAFETY: By the safety requirements.
        unsafe { &*kobj.byte_sub(offset_of!(Node<T>, kobj)).cast() }
    }

    unsafe extern "C" fn show(
        kobj: *mut bindings::kobject,
        attr: *mut bindings::attribute,
        buf: *mut c_char,
    ) -> isize {
        // SAFETY: The node lives until kobject_del() has waited for this call. By the safety requirements `attr`
        // is the first field of an entry of `T::FILES`, which is `'static`.
        let (node, file) = unsafe { (Self::node(kobj), &*attr.cast::<File<T>>()) };
        // SAFETY: By the safety requirements `buf` is a buffer of one page.
        let buf = unsafe { core::slice::from_raw_parts_mut(buf.cast::<u8>(), PAGE_SIZE) };

        from_result(|| {
            let mut out = Formatter::new(buf);
            (file.show)(&node.data, &mut out).map_err(|_| EFBIG)?;
            // CAST: At most `PAGE_SIZE`, as below.
            Ok(out.bytes_written() as isize)
        })
    }

    unsafe extern "C" fn store(
        kobj: *mut bindings::kobject,
        attr: *mut bindings::attribute,
        buf: *const c_char,
        count: usize,
    ) -> isize {
        // SAFETY: As in `show`.
        let (node, file) = unsafe { (Self::node(kobj), &*attr.cast::<File<T>>()) };
        // SAFETY: By the safety requirements `buf` has `count` bytes.
        let text = unsafe { core::slice::from_raw_parts(buf.cast::<u8>(), count) };

        from_result(|| {
            let store = file.store.ok_or(EIO)?;
            let text = core::str::from_utf8(text).map_err(|_| EINVAL)?;
            store(&node.data, text.trim()).map(|()| count as isize)
        })
    }

    unsafe extern "C" fn release(kobj: *mut bindings::kobject) {
        // SAFETY: The owner frees the node only after `released` is complete.
        unsafe { Self::node(kobj) }.released.complete_all();
    }
}

/// A directory in sysfs. Drop removes the directory and the files, and waits for readers. Context:
/// drop may sleep.
///
/// # Invariants
///
/// `node.kobj` is initialised, and this object owns one reference to `node.kobj`.
pub struct Directory<T: Files> {
    node: Pin<KBox<Node<T>>>,
}

impl<T: Files> Directory<T> {
    /// Creates the directory `name` in `parent`. Returns `EEXIST` if the name is taken. Context: may sleep.
    ///
    /// # Safety
    ///
    /// `parent` must be a kobject that stays in sysfs for the duration of the call.
    unsafe fn in_kobject(parent: *mut bindings::kobject, name: &CStr, data: T) -> Result<Self> {
        let node = KBox::pin_init(
            pin_init!(Node {
                kobj: Opaque::zeroed(),
                released <- Completion::new(),
                data,
            }),
            GFP_KERNEL,
        )?;
        // INVARIANT: kobject_init_and_add() initialises the kobject even on failure. The caller
        // must then put the reference, and dropping `dir` puts the reference.
        let dir = Self { node };
        // SAFETY:
        // - The kobject is zeroed and pinned, and its type is `'static`.
        // - By the safety requirements the parent is valid.
        // - "%s" takes one C string, here `name`.
        to_result(unsafe {
            bindings::kobject_init_and_add(
                dir.node.kobj.get(),
                &Ktype::<T>::KTYPE,
                parent,
                c"%s".as_char_ptr(),
                name.as_char_ptr(),
            )
        })?;
        for file in T::FILES {
            // SAFETY: The kobject is in sysfs, and the attribute is `'static`.
            to_result(unsafe {
                bindings::sysfs_create_file_ns(dir.node.kobj.get(), &file.attr, ptr::null())
            })?;
        }
        Ok(dir)
    }

    /// Creates the directory `name` in `parent`. Returns `EEXIST` if the name is taken. Context: may sleep.
    pub fn inside<P: Files>(parent: &Directory<P>, name: &CStr, data: T) -> Result<Self> {
        // SAFETY: `parent` is in sysfs while it is borrowed.
        unsafe { Self::in_kobject(parent.node.kobj.get(), name, data) }
    }

    /// As [`Self::inside`], in the directory of `dev`.
    pub fn in_device(dev: &Device<Bound>, name: &CStr, data: T) -> Result<Self> {
        // SAFETY: `dev` is valid while borrowed, and a bound device is in sysfs.
        unsafe { Self::in_kobject(&raw mut (*device_raw(dev)).kobj, name, data) }
    }

    /// As [`Self::inside`], in `/sys/kernel/mm`. Returns `ENOENT` if that does not exist.
    pub fn in_kernel_mm(name: &CStr, data: T) -> Result<Self> {
        let mm = c"mm".as_char_ptr();
        // SAFETY: The kernel sets `kernel_kobj` at boot, and never changes the pointer nor frees the object.
        let root = unsafe { bindings::kernel_kobj };
        // SAFETY: The object of `kernel_kobj` has the directory as long as it exists, and the name is a C string.
        let kn = unsafe { bindings::kernfs_find_and_get_ns((*root).sd, mm, ptr::null()) };
        if kn.is_null() {
            return Err(ENOENT);
        }
        // The kernel does not export `mm_kobj`. But the kernfs node of a directory in sysfs points
        // to the kobject; the match below checks that the pointer is the kobject of this directory.
        //
        // SAFETY: This function holds a reference to `kn`, so `kn` is valid.
        let mm = unsafe { (*kn).priv_ }.cast::<bindings::kobject>();
        // SAFETY: `priv` of a directory in sysfs is NULL or the kobject. The kernel never removes the kobject of
        // /sys/kernel/mm.
        let dir = match unsafe { mm.as_ref() } {
            // SAFETY: The checks show that `mm` is the kobject of /sys/kernel/mm.
            Some(k) if k.sd == kn && k.parent == root => unsafe {
                Self::in_kobject(mm, name, data)
            },
            _ => Err(ENOENT),
        };
        // SAFETY: This function owns the reference that kernfs_find_and_get_ns() returned.
        unsafe { bindings::kernfs_put(kn) };
        dir
    }
}

impl<T: Files> Drop for Directory<T> {
    fn drop(&mut self) {
        // SAFETY: By the type invariants the kobject is initialised, and this object owns one reference.
        unsafe {
            bindings::kobject_del(self.node.kobj.get());
            bindings::kobject_put(self.node.kobj.get());
        }
        // The memory and this code must outlive the last reference, which another task may hold.
        self.node.released.wait_for_completion();
    }
}
