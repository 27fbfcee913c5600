// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause

//! The functions of `iopm.h`, which are those of the crate `iopm` for programs in C. The manual pages
//! `iopm_alloc_dm(3)`, `iopm_get_device_list(3)` and `iopm_register_dmabuf(3)` describe them.
//!
//! The pointers are those that the header asks for: this is the `# Safety` of all functions, and a reference is a
//! pointer to an object that lives. Memory that a program gets is of malloc(3), so that a lack of memory is an
//! `ENOMEM`.

#![allow(clippy::missing_safety_doc)]
#![warn(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use iopm::{
    ibv_mr, ibv_pd, Access, AllocDmAttr, Context, Device, Dm, DmAttr, DmaBufRange, Error, PciAddress, Result,
};
use libc::{EBADF, EFAULT, EINVAL, ENOMEM};
use std::{
    ffi::{c_char, c_int, c_uint, c_void, CStr},
    mem::{offset_of, MaybeUninit},
    os::fd::{AsRawFd, BorrowedFd, IntoRawFd},
    ptr::{self, NonNull},
};

/// Returns the errno of a result, or 0.
fn status(result: Result<()>) -> c_int {
    result.map_or_else(Error::errno, |()| 0)
}

/// Returns the value, or sets errno and returns `failed`.
fn or_set_errno<T>(result: Result<T>, failed: T) -> T {
    result.unwrap_or_else(|error| {
        // SAFETY: The function returns the address of errno of this thread.
        unsafe { *libc::__errno_location() = error.errno() };
        failed
    })
}

/// Moves a value to memory of malloc(3).
fn new<T>(value: T) -> Result<*mut T> {
    // SAFETY: The function has no requirements.
    let at = unsafe { libc::malloc(size_of::<T>()) }.cast::<T>();
    if at.is_null() {
        return Err(ENOMEM.into());
    }
    // SAFETY: The memory is new, and aligned for every type of this library.
    unsafe { at.write(value) };
    Ok(at)
}

/// Copies `all`, a structure that may get more members, to the `size` bytes of it that the caller knows, of
/// which `least` are those of version 1.0. What the library does not know is 0.
///
/// # Safety
///
/// `size` bytes at `to` are valid for writes. `T` has no padding.
unsafe fn fill<T>(to: *mut T, size: usize, all: &T, least: usize) -> Result<()> {
    if size < least {
        return Err(EINVAL.into());
    }
    // SAFETY: By the safety requirements; `all` is valid for reads of its size.
    unsafe {
        to.cast::<u8>().write_bytes(0, size);
        let all: *const T = all;
        to.cast::<u8>().copy_from_nonoverlapping(all.cast(), size.min(size_of::<T>()));
    }
    Ok(())
}

#[no_mangle]
extern "C" fn iopm_version() -> *const c_char {
    const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), "\0");
    VERSION.as_ptr().cast()
}

// --- devices ---

#[no_mangle]
extern "C" fn iopm_get_device_list(num_devices: Option<&mut MaybeUninit<c_int>>) -> *mut *mut Device {
    let mut number = 0;
    let mut list = || {
        let devices = iopm::devices()?;
        // SAFETY: The function has no requirements.
        let list = unsafe { libc::calloc(devices.len() + 1, size_of::<*mut Device>()) }.cast::<*mut Device>();
        if list.is_null() {
            return Err(ENOMEM.into());
        }
        for (i, device) in devices.iter().enumerate() {
            match new(*device) {
                // SAFETY: The list has one entry more than there are devices.
                Ok(device) => unsafe { *list.add(i) = device },
                Err(error) => {
                    // SAFETY: The list is new, and ends with NULL.
                    unsafe { iopm_free_device_list(list) };
                    return Err(error);
                }
            }
        }
        // CAST: There are fewer devices than that.
        number = devices.len() as c_int;
        Ok(list)
    };
    let list = or_set_errno(list(), ptr::null_mut());
    if let Some(num_devices) = num_devices {
        num_devices.write(number);
    }
    list
}

#[no_mangle]
unsafe extern "C" fn iopm_free_device_list(list: *mut *mut Device) {
    let mut next = list;
    // SAFETY: The list ends with NULL; it and the devices are of malloc(3).
    unsafe {
        while !(*next).is_null() {
            libc::free((*next).cast());
            next = next.add(1);
        }
        libc::free(list.cast());
    }
}

#[no_mangle]
extern "C" fn iopm_get_device_name(device: &Device) -> *const c_char {
    device.c_name().as_ptr()
}

#[no_mangle]
extern "C" fn iopm_get_device_path(device: &Device) -> *const c_char {
    device.c_path().as_ptr()
}

/// `struct iopm_pci_address`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct CAddress {
    domain: u32,
    bdf: u32,
}

impl From<PciAddress> for CAddress {
    fn from(address: PciAddress) -> Self {
        let (domain, bdf) = (address.domain, address.bdf.into());
        Self { domain, bdf }
    }
}

#[no_mangle]
extern "C" fn iopm_get_device_address(device: &Device, address: &mut MaybeUninit<CAddress>) -> c_int {
    address.write(device.address().into());
    0
}

// `struct iopm_context` is the file descriptor, as the crate's context.
const _: () = assert!(size_of::<Context>() == size_of::<c_int>());

#[no_mangle]
extern "C" fn iopm_open_device(device: &Device) -> *mut Context {
    or_set_errno(device.open().and_then(new), ptr::null_mut())
}

#[no_mangle]
unsafe extern "C" fn iopm_open_path(path: *const c_char) -> *mut Context {
    if path.is_null() {
        return or_set_errno(Err(EFAULT.into()), ptr::null_mut());
    }
    // SAFETY: The path is a C string.
    let context = Context::open(unsafe { CStr::from_ptr(path) });
    or_set_errno(context.and_then(new), ptr::null_mut())
}

#[no_mangle]
unsafe extern "C" fn iopm_close_device(context: *mut Context) -> c_int {
    // SAFETY: The context is open, and not used afterwards.
    unsafe {
        context.drop_in_place();
        libc::free(context.cast());
    }
    0
}

/// `struct iopm_device_attr_ex`. The compiler of C has padding where this has `pad`: none on i386.
#[repr(C)]
pub struct CDeviceAttr {
    comp_mask: u32,
    pad: [u8; align_of::<u64>() - size_of::<u32>()],
    max_dm_size: u64,
    free_dm_size: u64,
    largest_dm_size: u64,
    dm_page_size: u64,
}

#[no_mangle]
unsafe extern "C" fn _iopm_query_device_ex(
    context: &Context,
    input: Option<&u32>,
    attr: *mut CDeviceAttr,
    size: usize,
) -> c_int {
    // A structure of a mask.
    if input.is_some_and(|mask| *mask != 0) {
        return EINVAL;
    }
    let all = context.query().map(|have| CDeviceAttr {
        comp_mask: 0,
        pad: Default::default(),
        max_dm_size: have.size,
        free_dm_size: have.free,
        largest_dm_size: have.largest,
        dm_page_size: have.page_size,
    });
    // SAFETY: The caller passes the size of the structure.
    status(all.and_then(|all| unsafe { fill(attr, size, &all, size_of::<CDeviceAttr>()) }))
}

/// `struct iopm_nearest`.
#[repr(C)]
#[derive(Default)]
pub struct CNearest {
    comp_mask: u32,
    distance: u32,
    provider_distance: u32,
    provider: CAddress,
}

#[no_mangle]
unsafe extern "C" fn _iopm_query_nearest(
    context: &Context,
    device: *const CAddress,
    nearest: *mut CNearest,
    size: usize,
) -> c_int {
    // SAFETY: The caller passes an address, which may be within `nearest`: no reference is kept.
    let CAddress { domain, bdf } = unsafe { *device };
    let query = || {
        // The kernel says the same of what is no address.
        let bdf = bdf.try_into().map_err(|_| EINVAL)?;
        let have = context.nearest(PciAddress { domain, bdf })?;
        let mut all = CNearest::default();
        if let Some(distance) = have.distance {
            all.comp_mask |= 1 << 0;
            all.distance = distance;
        }
        if let Some((provider, distance)) = have.provider {
            all.comp_mask |= 1 << 1;
            (all.provider, all.provider_distance) = (provider.into(), distance);
        }
        // SAFETY: The caller passes the size of the structure.
        unsafe { fill(nearest, size, &all, size_of::<CNearest>()) }
    };
    status(query())
}

/// `struct iopm_range`.
#[repr(C)]
pub struct CRange {
    comp_mask: u32,
    reserved: u32,
    bar_offset: u64,
    length: u64,
}

#[no_mangle]
unsafe extern "C" fn _iopm_query_range(
    context: &Context,
    addr: *const c_void,
    range: *mut CRange,
    size: usize,
) -> c_int {
    let all = context.range(addr).map(|have| CRange {
        comp_mask: 0,
        reserved: 0,
        bar_offset: have.bar_offset,
        length: have.length,
    });
    // SAFETY: The caller passes the size of the structure.
    status(all.and_then(|all| unsafe { fill(range, size, &all, size_of::<CRange>()) }))
}

// --- device memory ---

/// `struct iopm_alloc_dm_attr`. A program that was built before there were flags has no such member.
#[repr(C)]
pub struct CAllocAttr {
    length: usize,
    log_align: u32,
    comp_mask: u32,
    flags: u32,
}

/// `struct iopm_dm`, and what follows it in the library.
#[repr(C)]
pub struct CDm {
    context: *const Context,
    comp_mask: u32,
    handle: u32,
    dm: Dm,
}

impl CDm {
    fn new(context: *const Context, dm: Dm) -> Result<*mut Self> {
        // CAST: A file descriptor is not negative.
        let handle = dm.as_raw_fd() as u32;
        new(Self { context, comp_mask: 1 << 0, handle, dm })
    }
}

#[no_mangle]
unsafe extern "C" fn iopm_alloc_dm(context: &Context, attr: *const CAllocAttr) -> *mut CDm {
    const MASK_FLAGS: u32 = 1 << 0;
    const ZERO: u32 = 1 << 0;
    let alloc = || {
        // SAFETY: The structure has these members in each version.
        let (length, log_align, mask) = unsafe { ((*attr).length, (*attr).log_align, (*attr).comp_mask) };
        // SAFETY: The mask says that the member is there.
        let flags = if mask & MASK_FLAGS != 0 { unsafe { (*attr).flags } } else { 0 };
        if mask & !MASK_FLAGS != 0 || flags & !ZERO != 0 {
            return Err(EINVAL.into());
        }
        let attr = AllocDmAttr { length, log_align, zero: flags & ZERO != 0 };
        CDm::new(context, context.alloc_dm(&attr)?)
    };
    or_set_errno(alloc(), ptr::null_mut())
}

#[no_mangle]
unsafe extern "C" fn iopm_import_dm(context: *const Context, handle: u32) -> *mut CDm {
    // CAST: The kernel refuses what is no descriptor.
    let dm = Dm::import_raw(handle as c_int);
    or_set_errno(dm.and_then(|dm| CDm::new(context, dm)), ptr::null_mut())
}

#[no_mangle]
unsafe extern "C" fn iopm_unimport_dm(dm: *mut CDm) {
    // SAFETY: The object is not used afterwards.
    unsafe {
        dm.drop_in_place();
        libc::free(dm.cast());
    }
}

#[no_mangle]
unsafe extern "C" fn iopm_free_dm(dm: *mut CDm) -> c_int {
    // SAFETY: The object is the caller's.
    let freed = unsafe { &*dm }.dm.free_dm();
    // SAFETY: The object is not used afterwards.
    status(freed.map(|()| unsafe { iopm_unimport_dm(dm) }))
}

#[no_mangle]
unsafe extern "C" fn iopm_memcpy_to_dm(dm: &CDm, offset: u64, from: *const c_void, length: usize) -> c_int {
    // SAFETY: The caller's bytes are not written meanwhile.
    status(unsafe { dm.dm.write_from(from.cast(), length, offset) })
}

#[no_mangle]
unsafe extern "C" fn iopm_memcpy_from_dm(to: *mut c_void, dm: &CDm, offset: u64, length: usize) -> c_int {
    // SAFETY: The caller's bytes are not accessed meanwhile.
    status(unsafe { dm.dm.read_to(to.cast(), length, offset) })
}

/// `struct iopm_dm_attr`.
#[repr(C)]
pub struct CDmAttr {
    comp_mask: u32,
    bar: u32,
    function: CAddress,
    length: u64,
    size: u64,
    bar_offset: u64,
    mmap_wc: u64,
}

#[no_mangle]
unsafe extern "C" fn _iopm_query_dm(dm: *const CDm, attr: *mut CDmAttr, size: usize) -> c_int {
    let query = || {
        // SAFETY: The object is the caller's, who may have made it for a handle: the library's part is not read.
        let file = unsafe { (&raw const (*dm).handle).read() };
        // CAST: The kernel refuses what is no descriptor.
        let have = DmAttr::of_file(file as c_int)?;
        // Not for a program that was built before there was this member.
        let mmap_wc = have.mmap_wc.filter(|_| size >= size_of::<CDmAttr>());
        let all = CDmAttr {
            comp_mask: mmap_wc.is_some().into(),
            bar: have.bar,
            function: have.function.into(),
            length: have.length,
            size: have.size,
            bar_offset: have.bar_offset,
            mmap_wc: mmap_wc.unwrap_or(0),
        };
        // SAFETY: The caller passes the size of the structure.
        unsafe { fill(attr, size, &all, offset_of!(CDmAttr, mmap_wc)) }
    };
    status(query())
}

#[no_mangle]
extern "C" fn iopm_export_dmabuf(dm: &CDm, offset: u64, length: usize) -> c_int {
    or_set_errno(dm.dm.export_dmabuf(offset, length).map(IntoRawFd::into_raw_fd), -1)
}

#[no_mangle]
unsafe extern "C" fn iopm_reg_dm_mr(
    pd: NonNull<ibv_pd>,
    dm: &CDm,
    offset: u64,
    length: usize,
    access: c_uint,
) -> *mut ibv_mr {
    let access = Access::from_bits_retain(access);
    // SAFETY: The protection domain is the caller's, and outlives the region.
    let mr = unsafe { dm.dm.reg_dm_mr(pd, offset, length, access) };
    or_set_errno(mr.map(|mr| mr.into_raw().as_ptr()), ptr::null_mut())
}

// --- memory of others ---

#[no_mangle]
extern "C" fn iopm_register_dmabuf(addr: *const c_void, length: usize, fd: c_int, offset: u64) -> c_int {
    if fd < 0 {
        return EBADF;
    }
    // SAFETY: The descriptor is not -1. That it is open is not needed: the kernel gets its number alone.
    let fd = unsafe { BorrowedFd::borrow_raw(fd) };
    status(DmaBufRange::register(addr.addr(), length, fd, offset).map(DmaBufRange::leave))
}

#[no_mangle]
extern "C" fn iopm_unregister_dmabuf(addr: *const c_void, length: usize) -> c_int {
    status(DmaBufRange::registered(addr.addr(), length).unregister())
}
