// SPDX-License-Identifier: GPL-2.0

//! `dm_rust BAR [RDMA-DEVICE]`: device memory in Rust, from allocation to memory region.

use iopm::{access, AllocDmAttr, Context, Dm, IbvPd};
use std::{
    env,
    error::Error,
    ffi::{c_char, c_int, c_void, CStr},
    io,
    os::fd::AsFd,
    ptr::NonNull,
};

/// `EBUSY`.
const EBUSY: i32 = 16;

// What an application has bindings for: enough of the verbs for a protection domain.
#[link(name = "ibverbs")]
extern "C" {
    fn ibv_get_device_list(count: *mut c_int) -> *mut *mut c_void;
    fn ibv_free_device_list(list: *mut *mut c_void);
    fn ibv_get_device_name(device: *mut c_void) -> *const c_char;
    fn ibv_open_device(device: *mut c_void) -> *mut c_void;
    fn ibv_close_device(context: *mut c_void) -> c_int;
    fn ibv_alloc_pd(context: *mut c_void) -> *mut IbvPd;
    fn ibv_dealloc_pd(pd: *mut IbvPd) -> c_int;
}

/// Opens the RDMA device `name`.
fn open(name: &str) -> io::Result<NonNull<c_void>> {
    let mut context = None;
    let mut count = 0;
    // SAFETY: The count may be written to.
    let list = unsafe { ibv_get_device_list(&mut count) };
    if list.is_null() {
        return Err(io::Error::last_os_error());
    }
    for i in 0..count as usize {
        // SAFETY: The list has so many devices.
        let device = unsafe { *list.add(i) };
        // SAFETY: The name of a device on the list is a C string.
        let found = unsafe { CStr::from_ptr(ibv_get_device_name(device)) };
        if found.to_bytes() == name.as_bytes() {
            // SAFETY: The device is on the list.
            context = NonNull::new(unsafe { ibv_open_device(device) });
        }
    }
    // SAFETY: The list is ours, and not used after this.
    unsafe { ibv_free_device_list(list) };
    context.ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, "no such RDMA device"))
}

/// Memory: there, back, and by another way.
fn memory(bar: &Context) -> Result<(), Box<dyn Error>> {
    let dm = bar.alloc_dm(&AllocDmAttr {
        length: 5000,
        log_align_req: 16,
        comp_mask: 0,
    })?;
    dm.memcpy_to_dm(4093, b"hello, device")?;
    // As a process does that was given the file.
    let given = dm.as_fd().try_clone_to_owned()?;
    let import = Dm::import_dm(given.as_fd())?;
    let mut back = [0; 13];
    import.memcpy_from_dm(&mut back, 4093)?;
    println!("read back: {}", String::from_utf8_lossy(&back));
    assert_eq!(&back, b"hello, device");
    assert!(dm.memcpy_to_dm(4990, &back).is_err());

    let Err(busy) = dm.free_dm() else {
        return Err("freed while it was mapped elsewhere".into());
    };
    assert_eq!(busy.error.raw_os_error(), Some(EBUSY));
    drop(import);
    busy.dm.free_dm().map_err(|busy| busy.error)?;
    Ok(())
}

/// A memory region.
fn region(bar: &Context, pd: NonNull<IbvPd>) -> Result<(), Box<dyn Error>> {
    let dm = bar.alloc_dm(&AllocDmAttr {
        length: 8192,
        ..AllocDmAttr::default()
    })?;
    let flags = access::LOCAL_WRITE | access::REMOTE_WRITE | access::REMOTE_ATOMIC;
    // SAFETY: `main` keeps the protection domain until we have returned.
    assert!(unsafe { dm.reg_dm_mr(pd, 0, 8192, flags) }.is_err());
    // SAFETY: As above.
    let mr = unsafe { dm.reg_dm_mr(pd, 4096, 100, flags | access::ZERO_BASED) }?;
    println!("a region of {} bytes, from address 0 on", mr.length());

    let Err(busy) = dm.free_dm() else {
        return Err("freed below a memory region".into());
    };
    assert_eq!(busy.error.raw_os_error(), Some(EBUSY));
    drop(mr);
    busy.dm.free_dm().map_err(|busy| busy.error)?;
    Ok(())
}

/// How to call this.
const USAGE: &str = "usage: dm_rust BAR [RDMA-DEVICE]
Uses memory of the BAR, /dev/io_peer_mem/BDF/barN (\"iopm list\"), in all ways there are.
RDMA-DEVICE is rxe0 if not given.";

/// Opens the BAR, or says what may be the matter.
fn open_bar(path: &str) -> Result<Context, String> {
    Context::open_device(path).map_err(|e| match e.kind() {
        io::ErrorKind::NotFound => {
            format!("{path}: {e}: is io_peer_mem loaded with the ids= of this function?")
        }
        io::ErrorKind::PermissionDenied => format!("{path}: {e}: are you in the group rdma?"),
        _ => format!("{path}: {e}"),
    })
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut args = env::args().skip(1);
    let path = args.next().ok_or(USAGE)?;
    if path == "--help" || path == "-h" {
        println!("{USAGE}");
        return Ok(());
    }
    let bar = open_bar(&path)?;
    let before = bar.query_device_ex()?;
    println!(
        "{} of {} bytes are free",
        before.free_dm_size, before.max_dm_size
    );
    memory(&bar)?;

    let context = open(&args.next().unwrap_or_else(|| "rxe0".into()))?;
    // SAFETY: The device is open.
    let pd = unsafe { ibv_alloc_pd(context.as_ptr()) };
    let result = region(&bar, NonNull::new(pd).ok_or("no protection domain")?);
    // SAFETY: Nothing uses the protection domain any more.
    unsafe { ibv_dealloc_pd(pd) };
    // SAFETY: Nothing uses the device any more.
    unsafe { ibv_close_device(context.as_ptr()) };
    result?;
    assert_eq!(bar.query_device_ex()?, before);
    println!("all of it is free again");
    Ok(())
}
