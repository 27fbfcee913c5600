// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause

//! The crate on the first BAR that this process may open. Without one the tests pass and say that
//! they did nothing.

use iopm::{AllocDmAttr, Context, Device, Dm, DmaBufRange};
use std::{
    ffi::{c_int, c_void},
    io::{self, Seek, SeekFrom},
    os::fd::{AsFd, AsRawFd},
    sync::{Mutex, MutexGuard},
};

/// One test at a time: they compare the free memory.
static ONE: Mutex<()> = Mutex::new(());

/// Returns the BAR of the tests.
fn bar() -> Option<(Device, Context, MutexGuard<'static, ()>)> {
    let one = ONE.lock().unwrap_or_else(|e| e.into_inner());
    let found = iopm::devices().expect("the list").into_iter().find_map(|device| {
        let context = device.open().ok()?;
        Some((device, context))
    });
    let Some((device, context)) = found else {
        println!("skipped: no BAR of io_peer_mem that can be opened");
        return None;
    };
    println!("on {}", device.name());
    Some((device, context, one))
}

extern "C" {
    fn mmap(at: *mut c_void, n: usize, prot: c_int, flags: c_int, fd: c_int, o: i64) -> *mut c_void;
    fn munmap(at: *mut c_void, n: usize) -> c_int;
}

/// Returns the size of a page of memory.
fn page_size(bar: &Context) -> usize {
    let size = bar.query().expect("query").page_size;
    size.try_into().expect("a size")
}

/// Maps the first page of `dm`, of `size` bytes, to read.
fn map(dm: &Dm, size: usize) -> *mut c_void {
    let (read, shared) = (1, 1);
    let fd = dm.as_fd().as_raw_fd();
    // SAFETY: The kernel chooses the address.
    let page = unsafe { mmap(std::ptr::null_mut(), size, read, shared, fd, 0) };
    assert_ne!(page as usize, usize::MAX);
    page
}

#[test]
fn a_bar_has_a_name_and_a_place() {
    let Some((device, bar, _one)) = bar() else {
        return;
    };
    assert!(device.name().starts_with(&device.address().to_string()));
    assert!(device.path().ends_with(device.name()));
    let nearest = bar.nearest(device.address()).expect("nearest");
    assert_eq!(nearest.distance, Some(0));
    let attr = bar.query().expect("query");
    assert!(attr.largest <= attr.free && attr.free <= attr.size);
}

#[test]
fn bytes_come_back_and_the_memory_is_freed() {
    let Some((device, bar, _one)) = bar() else {
        return;
    };
    let (before, page) = (bar.query().expect("query"), page_size(&bar));
    let (length, end) = (page + 904, page as u64);
    let dm = bar.alloc_dm(&AllocDmAttr { length, log_align: 14, zero: true }).expect("alloc_dm");
    let mut bytes = vec![1; length];
    dm.read_at(&mut bytes, 0).expect("read_at");
    assert_eq!(bytes, vec![0; length]);
    let attr = dm.query().expect("query");
    assert_eq!((attr.length, attr.bar_offset % (1 << 14)), (length as u64, 0));
    assert_eq!(attr.function, device.address());
    assert_eq!(attr.mmap_wc, Some(1 << 43));

    dm.write_at(b"device memory", end - 5).expect("write_at");
    let import = Dm::import_dm(dm.as_fd()).expect("import_dm");
    let mut back = [0; 13];
    import.read_at(&mut back, end - 5).expect("read_at");
    assert_eq!(&back, b"device memory");
    assert_eq!(dm.write_at(&back, end + 894).map_err(|e| e.errno()), Err(22));

    let mapped = map(&dm, page);
    // SAFETY: The page is mapped.
    let first = unsafe { mapped.cast::<u8>().read_volatile() };
    import.read_at(&mut back[..1], 0).expect("read_at");
    assert_eq!(back[0], first);
    assert_eq!(dm.free_dm().map_err(|e| e.errno()), Err(16));
    // SAFETY: Nothing uses the mapping afterwards.
    assert_eq!(unsafe { munmap(mapped, page) }, 0);
    // An import alone uses no page.
    dm.free_dm().expect("free_dm");
    assert_eq!(import.read_at(&mut back, 0).map_err(|e| e.errno()), Err(19));
    assert_eq!(import.write_at(&back, 0).map_err(|e| e.errno()), Err(19));
    drop(import);
    assert_eq!(bar.query().expect("query"), before);
}

fn alloc(bar: &Context, length: usize) -> Dm {
    let attr = AllocDmAttr { length, ..AllocDmAttr::default() };
    bar.alloc_dm(&attr).expect("alloc_dm")
}

#[test]
fn memory_has_a_name_until_the_range_is_dropped() {
    let Some((_, bar, _one)) = bar() else {
        return;
    };
    let page = page_size(&bar);
    let dm = alloc(&bar, 2 * page);
    let fd = dm.export_dmabuf(0, 2 * page).expect("export_dmabuf");
    // Nothing is mapped there.
    let addr = 0x2000_0000_0000_usize;
    let register = |offset| DmaBufRange::register(addr, page, fd.as_fd(), offset);
    let first = register(0).expect("register");
    assert_eq!(register(page as u64).err().map(|e| e.errno()), Some(17));
    assert_eq!(register(2 * page as u64).err().map(|e| e.errno()), Some(22));
    drop(first);
    register(page as u64).expect("the range has no name");
}

#[test]
fn a_dma_buf_keeps_the_memory() {
    let Some((_, bar, _one)) = bar() else {
        return;
    };
    let page = page_size(&bar);
    let dm = alloc(&bar, 2 * page);
    assert_eq!(dm.export_dmabuf(1, page).map_err(|e| e.errno()).err(), Some(22));
    let Ok(dma_buf) = dm.export_dmabuf(page as u64, page) else {
        println!("skipped: ib_peer_mem is not loaded");
        return;
    };
    let mut file = std::fs::File::from(dma_buf);
    assert_eq!(file.seek(SeekFrom::End(0)).expect("seek"), page as u64);
    assert_eq!(dm.free_dm().map_err(|e| e.errno()), Err(16));
    drop(file);
    dm.free_dm().expect("free_dm");
}

#[test]
fn wrong_files_are_refused() {
    assert_eq!(Context::open_path("/dev/null").map_err(|e| e.errno()).err(), Some(25));
    let missing = Context::open_path("/dev/io_peer_mem/none");
    assert_eq!(missing.map_err(|e| e.kind()).err(), Some(io::ErrorKind::NotFound));
}
