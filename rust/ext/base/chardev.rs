// SPDX-License-Identifier: GPL-2.0

//! Character devices that are created at run time and whose memory can be mapped.
//!
//! A driver implements [`Device`] for the object behind the node, and keeps a [`Registration`]; see
//! `samples/rust_client/memory.rs`. A device that has only ioctls is a [`control::Control`].
//! Beyond [`kernel::miscdevice`]: the name is set at run time, open files and mappings keep the
//! module loaded, and [`AddressSpace::unmap_all`] unmaps all mappings of a device. Files may stay
//! open after the device is unregistered; operations on open files still reach the object.

pub mod control;

use self::control::Misc;
use super::{
    device::as_raw,
    vma, //
};
use crate::shared::prelude::raw::*;
use kernel::{
    fs::File,
    mm::virt::VmaNew,
    uaccess::{
        UserPtr,
        UserSlice,
        UserSliceReader,
        UserSliceWriter, //
    }, //
};

pub trait Device: Send + Sync + Sized + 'static {
    type Mapping: vma::Mapping;

    /// Returns the operations of the mappings, which must be a static.
    fn vm_ops() -> &'static vma::Ops<Self::Mapping>;

    /// Handles `mmap(2)`: checks and sets up the VMA, and returns the object behind the mapping.
    ///
    /// The VMA is not in the address space yet, so [`AddressSpace::unmap_all`] would miss pages
    /// mapped here. Therefore the function must not map pages; only [`vma::Mapping::fault`] may.
    /// Context: process context; may sleep. The caller holds the `mmap_lock` for writing.
    fn mmap(this: ArcBorrow<'_, Self>, vma: &VmaNew) -> Result<Arc<Self::Mapping>>;

    /// Handles `read(2)` from offset `at` of the file: returns the number of bytes, at most the
    /// length of `to`. The default implementation returns `EINVAL`. Context: process context; may
    /// sleep.
    fn read(this: ArcBorrow<'_, Self>, at: u64, to: UserSliceWriter) -> Result<usize> {
        let _ = (this, at, to);
        Err(EINVAL)
    }

    /// Handles `write(2)` to offset `at` of the file; see [`Device::read`]. Context: process
    /// context; may sleep.
    fn write(this: ArcBorrow<'_, Self>, at: u64, from: UserSliceReader) -> Result<usize> {
        let _ = (this, at, from);
        Err(EINVAL)
    }

    /// Handles `ioctl(2)` on `file`, of 64-bit and of 32-bit processes. Context: process context;
    /// may sleep.
    fn ioctl(this: ArcBorrow<'_, Self>, file: Opened<'_>, cmd: u32, arg: usize) -> Result<isize>;
}

/// An address space that all files of a device share, so that all mappings can be unmapped at once.
#[derive(Clone)]
pub struct AddressSpace(ARef<File>);

impl AddressSpace {
    /// Creates an address space. `name` is the name of the anonymous inode, such as `[driver]`.
    /// Context: may sleep.
    pub fn new(name: &CStr) -> Result<Self> {
        // The kernel may release a file long after the last reference is dropped, so the operations
        // must not be in this module. Any operations work, as the file is never installed.
        let ops = &raw const bindings::generic_ro_fops;
        // SAFETY: The operations are part of the kernel image, and use no private data.
        // CAST: `O_RDWR` is 2.
        unsafe { anon_file(name, ops, ptr::null_mut(), bindings::O_RDWR as c_int) }.map(Self)
    }

    /// Returns the C object, valid as long as `self` or a clone of it.
    fn as_raw(&self) -> *mut bindings::address_space {
        // SAFETY: `self` holds the file. `f_mapping` is set at the creation of the file and does
        // not change.
        unsafe { (*self.0.as_ptr()).f_mapping }
    }

    /// Unmaps all pages of all mappings. Later accesses fault. Context: may sleep.
    pub fn unmap_all(&self) {
        // SAFETY: The address space is valid as long as `self`. Length 0 means up to the end.
        unsafe { bindings::unmap_mapping_range(self.as_raw(), 0, 0, 1) };
    }
}

struct Node<T> {
    space: AddressSpace,
    device: Arc<T>,
}

/// Registration of a character device. Dropping it removes the node and waits for `open(2)`.
///
/// # Invariants
///
/// The name of `misc` is `_name`, and the operations of `misc` are those of `VTable<T>`.
#[pin_data]
pub struct Registration<T: Device> {
    /// The node, which is removed first.
    #[pin]
    misc: Misc,
    node: Arc<Node<T>>,
    /// Name, to which `misc` points.
    _name: CString,
}

impl<T: Device> Registration<T> {
    /// Registers a device below `parent`.
    ///
    /// In `name`, `!` stands for the `/` of the path in `/dev`. `mode` is the mode of the node,
    /// which udev may change. All files of the device share `space`. Context: may sleep.
    pub fn new<'a>(
        parent: &'a device::Device,
        name: CString,
        mode: u16,
        space: AddressSpace,
        device: Arc<T>,
    ) -> impl PinInit<Self, Error> + use<'a, T> {
        let raw_name = name.as_char_ptr();
        let raw_parent = as_raw(parent);
        try_pin_init!(Self {
            node: Arc::new(Node { space, device }, GFP_KERNEL)?,
            _name: name,
            // INVARIANT: The name and the operations are those of this object.
            //
            // SAFETY:
            // - The name lives in the same object, the operations as long as the module.
            // - `node`, which `open` uses, is initialised before `misc`.
            // - `parent` is valid as long as `'a`.
            misc <- unsafe { Misc::new(raw_name, &VTable::<T>::VTABLE, raw_parent, mode) },
        })
    }

    pub fn device(&self) -> &Arc<T> {
        &self.node.device
    }
}

/// # Safety
///
/// - In `open`, `file` must be a file of a `Registration<T>` that is being opened, through `misc_open()`, and
///   `inode` its inode. In the others `file` must be as [`Self::node`] requires, for the duration of the call.
/// - `vma` must be a VMA of `file` that is being set up.
/// - `pos` must be valid for reads and writes.
struct VTable<T: Device>(PhantomData<T>);

// The safety requirements of C callbacks are those of the type.
#[allow(clippy::missing_safety_doc)]
impl<T: Device> VTable<T> {
    unsafe extern "C" fn open(inode: *mut bindings::inode, file: *mut bindings::file) -> c_int {
        // SAFETY: By the safety requirements both belong to a file that is being opened.
        let ret = unsafe { bindings::generic_file_open(inode, file) };
        if ret != 0 {
            return ret;
        }
        // SAFETY: By the safety requirements `file` is valid, and `misc_open()` has stored the
        // `struct miscdevice` in `private_data`.
        let misc: *mut Misc = unsafe { (*file).private_data }.cast();
        // SAFETY:
        // - `Misc` is a transparent wrapper of `struct miscdevice`, and by the safety requirements
        //   `misc` is the field of a `Registration<T>`, in which `node` is initialised first.
        // - The registration is valid: `misc_deregister()` takes a lock that `misc_open()` holds.
        let node = unsafe { &(*container_of!(misc, Registration<T>, misc)).node }.clone();
        // SAFETY: A file that is being opened has no other user. The address space lives as long as the
        // node, which the file holds until its release, when no mappings are left.
        unsafe {
            (*file).f_mapping = node.space.as_raw();
            (*file).private_data = Arc::into_raw(node).cast_mut().cast();
        }
        0
    }

    /// # Safety
    ///
    /// - `Self::open` must have succeeded for `file`, or [`Opened::handle`] must have created it
    ///   for a `T`.
    /// - `file` must not be released during `'a`.
    unsafe fn node<'a>(file: *mut bindings::file) -> &'a Node<T> {
        // SAFETY: Both functions store a reference to a `Node<T>`, and by the safety requirements
        // the file holds the reference during `'a`.
        unsafe { &*(*file).private_data.cast_const().cast::<Node<T>>() }
    }

    unsafe extern "C" fn release(_: *mut bindings::inode, file: *mut bindings::file) -> c_int {
        // SAFETY: By the safety requirements `private_data` is a reference from `Arc::into_raw`, which the file
        // that is being released gives up.
        drop(unsafe { Arc::from_raw((*file).private_data.cast_const().cast::<Node<T>>()) });
        0
    }

    unsafe extern "C" fn mmap(
        file: *mut bindings::file,
        vma: *mut bindings::vm_area_struct,
    ) -> c_int {
        // SAFETY: By the safety requirements `file` is valid for `node` during the call.
        let device = unsafe { Self::node(file) }.device.as_arc_borrow();
        // SAFETY: `vma` is being set up, under the `mmap_lock`.
        let vma = unsafe { VmaNew::from_raw(vma) };
        from_result(|| {
            T::vm_ops().attach(vma, T::mmap(device, vma)?);
            Ok(0)
        })
    }

    unsafe extern "C" fn ioctl(file: *mut bindings::file, cmd: c_uint, arg: c_ulong) -> c_long {
        // SAFETY: By the safety requirements `file` is valid for `node` during the call.
        let node = unsafe { Self::node(file) };
        // SAFETY: `file` is an open file of the device.
        let opened = unsafe { Opened::new(node, file) };
        from_result(|| T::ioctl(node.device.as_arc_borrow(), opened, cmd, arg))
    }

    /// Calls `f` to read or write at the file position, and moves the position by the result.
    unsafe fn transfer(
        file: *mut bindings::file,
        pos: *mut bindings::loff_t,
        f: impl FnOnce(ArcBorrow<'_, T>, u64) -> Result<usize>,
    ) -> isize {
        // SAFETY: By the safety requirements `file` is valid for `node` during the call.
        let device = unsafe { Self::node(file) }.device.as_arc_borrow();
        from_result(|| {
            // SAFETY: By the safety requirements `pos` may be read.
            let at = unsafe { *pos };
            let n = isize::try_from(f(device, at.try_into().map_err(|_| EINVAL)?)?)?;
            // SAFETY: By the safety requirements `pos` may be written.
            // CAST: `loff_t` has 64 bits.
            unsafe { *pos = at.saturating_add(n as bindings::loff_t) };
            Ok(n)
        })
    }

    unsafe extern "C" fn read(
        file: *mut bindings::file,
        to: *mut c_char,
        len: usize,
        pos: *mut bindings::loff_t,
    ) -> isize {
        let to = UserSlice::new(UserPtr::from_addr(to.addr()), len).writer();
        // SAFETY: `transfer` has the same safety requirements.
        unsafe { Self::transfer(file, pos, |device, at| T::read(device, at, to)) }
    }

    unsafe extern "C" fn write(
        file: *mut bindings::file,
        from: *const c_char,
        len: usize,
        pos: *mut bindings::loff_t,
    ) -> isize {
        let from = UserSlice::new(UserPtr::from_addr(from.addr()), len).reader();
        // SAFETY: `transfer` has the same safety requirements.
        unsafe { Self::transfer(file, pos, |device, at| T::write(device, at, from)) }
    }

    const VTABLE: bindings::file_operations = bindings::file_operations {
        // Keeps the module loaded while a file is open.
        owner: &raw mut bindings::__this_module,
        open: Some(Self::open),
        release: Some(Self::release),
        read: Some(Self::read),
        write: Some(Self::write),
        mmap: Some(Self::mmap),
        unlocked_ioctl: Some(Self::ioctl),
        compat_ioctl: bindings::compat_ptr_ioctl,
        ..pin_init::zeroed()
    };
}

pub struct Opened<'a> {
    space: &'a AddressSpace,
    /// Access mode of the file: `O_RDONLY`, `O_WRONLY` or `O_RDWR`.
    access: c_int,
}

impl Opened<'_> {
    pub fn is_writable(&self) -> bool {
        // CAST: The constants are small, and not negative.
        self.access == bindings::O_WRONLY as c_int || self.access == bindings::O_RDWR as c_int
    }

    /// Creates an anonymous file with the operations of `device`, the access mode of `self` and the address
    /// space of the device. The file keeps the module loaded. Context: may sleep.
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
        // SAFETY: This function has the only reference to the file. The address space lives as long as the
        // node, which the file holds until its release, when no mappings are left.
        unsafe {
            (*file.as_ptr()).f_mapping = mapping;
            helpers::ext_file_allow_at(file.as_ptr());
        }
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
        helpers::anon_inode_create_getfile(name, ops, private, flags, ptr::null())
    })?;
    let file = NonNull::new(file).ok_or(ENOMEM)?;
    // SAFETY: The `ARef` takes over the reference that the call returned. No file descriptor refers
    // to the file, so there is no active `fdget_pos` call. `File` is a transparent wrapper.
    Ok(unsafe { ARef::from_raw(file.cast()) })
}

impl<'a> Opened<'a> {
    /// # Safety
    ///
    /// `file` must be a file of the device of `node` that is open for the duration of the call.
    unsafe fn new<T>(node: &'a Node<T>, file: *mut bindings::file) -> Self {
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
