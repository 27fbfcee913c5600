// SPDX-License-Identifier: GPL-2.0

//! Character devices that come and go, with memory to map.
//!
//! As [`kernel::miscdevice`], and in addition: the name is made at run time, open files and mappings
//! keep the module loaded, and all mappings of a device can be taken away at once. Files may stay
//! open after the device is gone; their operations then still reach the object behind it.
//!
//! C header: [`include/linux/miscdevice.h`](srctree/include/linux/miscdevice.h).

mod handle;

pub use self::handle::Opened;

use super::{
    bindings::helpers,
    vma, //
};
use core::marker::PhantomData;
use kernel::{
    bindings,
    container_of,
    device,
    error::{
        from_err_ptr,
        to_result, //
    },
    fs::File,
    mm::virt::VmaNew,
    prelude::*,
    str::CString,
    sync::{
        aref::ARef,
        Arc,
        ArcBorrow, //
    },
    types::Opaque, //
};

/// What is behind a character device.
pub trait Device: Send + Sync + Sized + 'static {
    /// What is behind a mapping of it.
    type Mapping: vma::Mapping;

    /// The operations of its mappings: a reference to a static.
    fn vm_ops() -> &'static vma::Ops<Self::Mapping>;

    /// `mmap(2)`: checks and sets up the VMA, and returns what is to be behind it.
    ///
    /// No page may be mapped here, only by [`vma::Mapping::fault`]: what is mapped before the VMA
    /// is in the address space escapes [`AddressSpace::unmap_all`].
    ///
    /// Context: may sleep; the `mmap_lock` is held for writing.
    fn mmap(this: ArcBorrow<'_, Self>, vma: &VmaNew) -> Result<Arc<Self::Mapping>>;

    /// `ioctl(2)` on `file`, of 64-bit and 32-bit processes alike.
    ///
    /// Context: process context; may sleep.
    fn ioctl(this: ArcBorrow<'_, Self>, file: Opened<'_>, cmd: u32, arg: usize) -> Result<isize>;
}

/// An address space that all files of a device share, so that all mappings can be found.
#[derive(Clone)]
pub struct AddressSpace(ARef<File>);

impl AddressSpace {
    /// Makes one.
    ///
    /// Context: may sleep.
    pub fn new() -> Result<Self> {
        // The last reference of a file may be put away long after it was dropped, so its operations
        // must not be this module's. Nobody opens this file, any operations will do.
        //
        // SAFETY: The name is a C string, and the operations are the kernel's own.
        let file = from_err_ptr(unsafe {
            helpers::anon_inode_create_getfile(
                c"chardev".as_char_ptr(),
                &raw const bindings::generic_ro_fops,
                core::ptr::null_mut(),
                bindings::O_RDWR as c_int,
                core::ptr::null(),
            )
        })?;
        let file = core::ptr::NonNull::new(file).ok_or(ENOMEM)?;
        // SAFETY: The file and its one reference are ours; nobody calls `fdget_pos` on it. `File`
        // is a transparent wrapper.
        Ok(Self(unsafe { ARef::from_raw(file.cast()) }))
    }

    /// The C object; valid as long as `self` or a clone of it.
    fn as_raw(&self) -> *mut bindings::address_space {
        // SAFETY: A file's `f_mapping` is set when it is made, and never changes for this one.
        unsafe { (*self.0.as_ptr()).f_mapping }
    }

    /// Removes all pages from all mappings. Accesses fault from then on.
    ///
    /// Context: may sleep.
    pub fn unmap_all(&self) {
        // SAFETY: The address space is valid. Length 0 is to the end.
        unsafe { bindings::unmap_mapping_range(self.as_raw(), 0, 0, 1) };
    }
}

/// What open files hold.
struct Node<T> {
    /// The address space of all mappings.
    space: AddressSpace,
    /// The object behind the device.
    device: Arc<T>,
}

/// The registration of a character device. When it is dropped the device node is gone, and no file
/// is opened any more.
///
/// # Invariants
///
/// `misc` is registered with `misc_register()`, and is the `misc` of this object.
#[pin_data(PinnedDrop)]
pub struct Registration<T: Device> {
    /// The C structure.
    #[pin]
    misc: Opaque<bindings::miscdevice>,
    /// What files get that are opened.
    node: Arc<Node<T>>,
    /// What `misc` points at for its name.
    _name: CString,
}

// SAFETY: A misc device may be deregistered from any thread, and the rest may be sent.
unsafe impl<T: Device> Send for Registration<T> {}
// SAFETY: There is nothing to do with a shared reference.
unsafe impl<T: Device> Sync for Registration<T> {}

impl<T: Device> Registration<T> {
    /// Registers a device below `parent`. In `name`, `!` stands for the `/` of its path in `/dev`;
    /// `mode` is the node's mode, unless udev knows better. Files that are opened share `space`.
    ///
    /// Context: may sleep.
    pub fn new<'a>(
        parent: &'a device::Device,
        name: CString,
        mode: u16,
        space: AddressSpace,
        device: Arc<T>,
    ) -> impl PinInit<Self, Error> + use<'a, T> {
        let raw_name = name.as_char_ptr();
        let raw_parent = core::ptr::from_ref(parent).cast_mut().cast();
        try_pin_init!(Self {
            node: Arc::new(Node { space, device }, GFP_KERNEL)?,
            _name: name,
            // INVARIANT: On success it is registered; the object is pinned, so it stays in it.
            misc <- Opaque::try_ffi_init(move |slot: *mut bindings::miscdevice| {
                // SAFETY: The slot may be written to.
                unsafe {
                    slot.write(bindings::miscdevice {
                        minor: bindings::MISC_DYNAMIC_MINOR as c_int,
                        name: raw_name,
                        fops: VTable::<T>::build(),
                        parent: raw_parent,
                        mode,
                        ..pin_init::zeroed()
                    })
                };
                // SAFETY: The slot has just been filled in; the name lives in the same object, the
                // operations as long as the module. `node`, which `open` uses, has been initialised
                // before. `parent` is valid during the call, which takes a reference.
                to_result(unsafe { bindings::misc_register(slot) })
            }),
        })
    }

    /// The object behind the device.
    pub fn device(&self) -> &Arc<T> {
        &self.node.device
    }
}

#[pinned_drop]
impl<T: Device> PinnedDrop for Registration<T> {
    fn drop(self: Pin<&mut Self>) {
        // SAFETY: By the type invariant it is registered.
        unsafe { bindings::misc_deregister(self.misc.get()) };
    }
}

/// The file operations of a [`Registration`].
struct VTable<T: Device>(PhantomData<T>);

impl<T: Device> VTable<T> {
    /// # Safety
    ///
    /// `file` must be a file of a `Registration<T>` that is being opened, `inode` its inode.
    unsafe extern "C" fn open(inode: *mut bindings::inode, file: *mut bindings::file) -> c_int {
        // SAFETY: By the requirements.
        let ret = unsafe { bindings::generic_file_open(inode, file) };
        if ret != 0 {
            return ret;
        }
        // SAFETY: `misc_open()` leaves the `struct miscdevice` in `private_data`.
        let misc: *mut bindings::miscdevice = unsafe { (*file).private_data }.cast();
        let misc = misc.cast::<Opaque<bindings::miscdevice>>();
        // SAFETY: By the requirements that is the `misc` of a `Registration<T>`, which cannot be
        // dropped now: `misc_open()` holds the lock that `misc_deregister()` takes. `node` is
        // initialised before `misc` is registered.
        let node = unsafe { &(*container_of!(misc, Registration<T>, misc)).node }.clone();
        // SAFETY: A file that is being opened may be set up. The address space lives as long as
        // the node, which the file holds until it is released, when all mappings are gone.
        unsafe { (*file).f_mapping = node.space.as_raw() };
        // SAFETY: As above. The other operations know what is in there now.
        unsafe { (*file).private_data = Arc::into_raw(node).cast_mut().cast() };
        0
    }

    /// # Safety
    ///
    /// `file` must be a file that `open` has succeeded for, or that [`Opened::handle`] has made, and
    /// that is not released during `'a`.
    unsafe fn node<'a>(file: *mut bindings::file) -> &'a Node<T> {
        // SAFETY: They have put it there, and by the requirements the file holds it during `'a`.
        unsafe { &*(*file).private_data.cast_const().cast::<Node<T>>() }
    }

    /// # Safety
    ///
    /// `file` must be a file as for [`Self::node`], being released.
    unsafe extern "C" fn release(_: *mut bindings::inode, file: *mut bindings::file) -> c_int {
        // SAFETY: By the requirements it is there, and nobody uses the file after this.
        drop(unsafe { Arc::from_raw((*file).private_data.cast_const().cast::<Node<T>>()) });
        0
    }

    /// # Safety
    ///
    /// `file` must be a file as for [`Self::node`], `vma` a VMA of it in the making.
    unsafe extern "C" fn mmap(
        file: *mut bindings::file,
        vma: *mut bindings::vm_area_struct,
    ) -> c_int {
        // SAFETY: By the requirements; the file is not released during its operation.
        let device = unsafe { Self::node(file) }.device.as_arc_borrow();
        // SAFETY: By the requirements.
        let vma = unsafe { VmaNew::from_raw(vma) };
        match T::mmap(device, vma) {
            Ok(mapping) => {
                T::vm_ops().attach(vma, mapping);
                0
            }
            Err(e) => e.to_errno(),
        }
    }

    /// # Safety
    ///
    /// `file` must be a file as for [`Self::node`].
    unsafe extern "C" fn ioctl(file: *mut bindings::file, cmd: c_uint, arg: c_ulong) -> c_long {
        // SAFETY: By the requirements; the file is not released during its operation.
        let node = unsafe { Self::node(file) };
        // SAFETY: As above.
        let opened = unsafe { Opened::new(node, file) };
        match T::ioctl(node.device.as_arc_borrow(), opened, cmd, arg) {
            Ok(value) => value,
            Err(e) => e.to_errno() as c_long,
        }
    }

    /// The C structure.
    const VTABLE: bindings::file_operations = bindings::file_operations {
        // What keeps the module loaded while a file is open.
        owner: &raw mut bindings::__this_module,
        open: Some(Self::open),
        release: Some(Self::release),
        mmap: Some(Self::mmap),
        unlocked_ioctl: Some(Self::ioctl),
        compat_ioctl: bindings::compat_ptr_ioctl,
        ..pin_init::zeroed()
    };

    /// The table.
    const fn build() -> &'static bindings::file_operations {
        &Self::VTABLE
    }
}
