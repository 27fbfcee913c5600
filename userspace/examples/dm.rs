// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause

//! `dm_rust BAR [RDMA-DEVICE]`: allocates, copies, imports and registers device memory in Rust.

use iopm::{ibv_pd, Access, AllocDmAttr, Context, Dm, DmaBufRange};
use std::{
    env,
    error::Error,
    ffi::{c_char, c_int, c_void, CStr},
    io,
    os::fd::AsFd,
    ptr::NonNull,
};

/// `EBUSY`: the memory is in use.
const EBUSY: i32 = 16;

// The verbs that a protection domain needs; applications have bindings for them.
#[link(name = "ibverbs")]
extern "C" {
    fn ibv_get_device_list(count: *mut c_int) -> *mut *mut c_void;
    fn ibv_free_device_list(list: *mut *mut c_void);
    fn ibv_get_device_name(device: *mut c_void) -> *const c_char;
    fn ibv_open_device(device: *mut c_void) -> *mut c_void;
    fn ibv_close_device(context: *mut c_void) -> c_int;
    fn ibv_alloc_pd(context: *mut c_void) -> *mut ibv_pd;
    fn ibv_dealloc_pd(pd: *mut ibv_pd) -> c_int;
}

/// Opens the RDMA device `name`.
fn open(name: &str) -> io::Result<NonNull<c_void>> {
    let mut context = None;
    let mut count = 0;
    // SAFETY: `count` is valid for writes.
    let list = unsafe { ibv_get_device_list(&mut count) };
    if list.is_null() {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: The list has `count` devices.
    for &device in unsafe { std::slice::from_raw_parts(list, count as usize) } {
        // SAFETY: `device` is on the list, so its name is a C string.
        if unsafe { CStr::from_ptr(ibv_get_device_name(device)) }.to_bytes() == name.as_bytes() {
            // SAFETY: `device` is on the list, which is not freed yet.
            context = NonNull::new(unsafe { ibv_open_device(device) });
        }
    }
    // SAFETY: `ibv_get_device_list()` returned the list, and nothing uses it afterwards.
    unsafe { ibv_free_device_list(list) };
    context.ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, "no such RDMA device"))
}

/// Copies to device memory, and back through an import.
fn memory(bar: &Context) -> Result<(), Box<dyn Error>> {
    let dm = bar.alloc_dm(&AllocDmAttr { length: 5000, log_align: 16, ..AllocDmAttr::default() })?;
    dm.write_at(b"hello, device", 4093)?;
    // Another process would receive the file through a socket.
    let given = dm.as_fd().try_clone_to_owned()?;
    let import = Dm::import_dm(given.as_fd())?;
    let mut back = [0; 13];
    import.read_at(&mut back, 4093)?;
    println!("read back: {}", String::from_utf8_lossy(&back));
    assert_eq!(&back, b"hello, device");
    // For the import as well.
    dm.free_dm()?;
    Ok(())
}

/// Registers a memory region.
fn region(bar: &Context, pd: NonNull<ibv_pd>) -> Result<(), Box<dyn Error>> {
    let page = bar.query()?.page_size as usize;
    let dm = bar.alloc_dm(&AllocDmAttr { length: 2 * page, ..AllocDmAttr::default() })?;
    let flags = Access::LOCAL_WRITE | Access::REMOTE_WRITE | Access::REMOTE_ATOMIC;
    // SAFETY: `main` frees the protection domain after this function returns, which drops `mr`.
    let mr = unsafe { dm.reg_dm_mr(pd, page as u64, 100, flags | Access::ZERO_BASED) }?;
    println!("a zero-based region of {} bytes", mr.length());

    assert_eq!(dm.free_dm().map_err(|e| e.errno()), Err(EBUSY));
    drop(mr);

    // Addresses for ibv_reg_mr(), where nothing is mapped, until the range is dropped.
    let fd = dm.export_dmabuf(0, 2 * page)?;
    for offset in [0, page as u64] {
        drop(DmaBufRange::register(0x1000_0000, page, fd.as_fd(), offset)?);
    }
    drop(fd);
    dm.free_dm()?;
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut args = env::args().skip(1);
    let bar = Context::open_path(args.next().ok_or("usage: dm_rust BAR [RDMA-DEVICE]")?)?;
    let before = bar.query()?;
    println!("{} of {} bytes are free", before.free, before.size);
    memory(&bar)?;

    let context = open(&args.next().unwrap_or_else(|| "rxe0".into()))?;
    // SAFETY: `open` returned the context of an open device.
    let pd = unsafe { ibv_alloc_pd(context.as_ptr()) };
    let result = region(&bar, NonNull::new(pd).ok_or("no protection domain")?);
    // SAFETY: `region` has dropped every user of the protection domain.
    unsafe { ibv_dealloc_pd(pd) };
    // SAFETY: The protection domain was the only user of the device.
    unsafe { ibv_close_device(context.as_ptr()) };
    result?;
    assert_eq!(bar.query()?, before);
    println!("all of it is free again");
    Ok(())
}
