// SPDX-License-Identifier: GPL-2.0

//! Device memory that a process has mapped without struct pages, through a BAR's file in sysfs or the file of
//! a driver.

use super::{
    mm::Locked,
    sg::{
        self,
        Segment, //
    },
    small_vec::SmallVec,
    vma, //
};
use crate::shared::prelude::raw::*;
use kernel::mm::{
    virt::VmaRef,
    MmapReadGuard, //
};

/// Kinds of mappings with device memory without struct pages.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// The files `resourceN` and `resourceN_wc` of a PCI function in sysfs.
    Sysfs,
    Driver,
}

/// Returns the kind of `vma`, or `None` unless it is a shared mapping of a file, of addresses without struct
/// pages.
///
/// `/dev/mem`, dma-bufs, and the files of graphics and accelerator drivers are none: the first has no owner that
/// takes memory back, and the others serve their memory as dma-bufs, and move it while they hold locks of these.
pub fn source(vma: &VmaRef) -> Option<Source> {
    const FLAGS: usize = 1 << bindings::VMA_PFNMAP_BIT | 1 << bindings::VMA_IO_BIT;
    /// Major numbers of the devices of `linux/major.h`, `drm/drm_ioctl.h` and `drm/drm_accel.h`.
    const NOT_SERVED: [u32; 3] = [1, 226, 261];
    // CAST: A magic number has 32 bits.
    const SYSFS: usize = helpers::SYSFS_MAGIC as usize;

    if vma.flags() & FLAGS != FLAGS || !vma::is_shared(vma) {
        return None;
    }
    // SAFETY: A `VmaRef` is valid and locked at least for reading, so its fields may be read.
    let major = unsafe { helpers::ext_vma_chardev_major(vma.as_ptr()) };
    match vma::file_system(vma) {
        // No file.
        0 => None,
        SYSFS => Some(Source::Sysfs),
        vma::DMA_BUF => None,
        _ if NOT_SERVED.contains(&major) => None,
        _ => Some(Source::Driver),
    }
}

/// Returns the physical addresses behind `[addr, addr + len)`. Adjacent addresses form one segment.
///
/// Returns `EFAULT` unless the whole range is mapped in VMAs of the kind `wanted`, with page table entries
/// that allow to write if `write` is true.
///
/// The addresses are a snapshot. A mapping holds no reference: the caller must know which device
/// owns the addresses, and until when. Context: may sleep. The caller holds the `mmap_lock` for
/// reading.
pub fn physical(
    mm: &MmapReadGuard<'_>,
    addr: usize,
    len: usize,
    wanted: Source,
    write: bool,
) -> Result<SmallVec<Segment>> {
    let mut segments = SmallVec::new();
    let push = |segment| sg::push(&mut segments, segment);
    let unmapped = for_each_run(mm, addr, len, wanted, write, push)?;
    unmapped.map_or(Ok(segments), |_| Err(EFAULT))
}

/// Faults in the pages of `[addr, addr + len)` that are not mapped yet, for writing if `write` is true.
/// Returns `EFAULT` as [`physical`].
///
/// A driver may wait for anything in a page fault. So the caller must hold nothing that the driver may wait
/// for. Context: process context; may sleep.
pub fn fault_in(
    mm: &mut Locked<'_>,
    addr: usize,
    len: usize,
    wanted: Source,
    write: bool,
) -> Result {
    let end = addr.checked_add(len).ok_or(EFAULT)?;
    let (mut at, mut faulted) = (addr, None);
    loop {
        match for_each_run(mm, at, end - at, wanted, write, |_| Ok(()))? {
            None => return Ok(()),
            // One fault for each page.
            Some(page) if faulted != Some(page) => {
                mm.fault(page, write)?;
                (at, faulted) = (page, Some(page));
            }
            Some(_) => return Err(EFAULT),
        }
    }
}

/// Calls `f` for each run of adjacent addresses behind `[addr, addr + len)`. Stops at the first page that is not
/// mapped, or not for writing, in a VMA that allows it, and returns its address. Context: may sleep. The caller
/// holds the `mmap_lock` for reading.
fn for_each_run(
    mm: &MmapReadGuard<'_>,
    addr: usize,
    len: usize,
    wanted: Source,
    write: bool,
    mut f: impl FnMut(Segment) -> Result,
) -> Result<Option<usize>> {
    let mut at = addr;
    let end = addr.checked_add(len).ok_or(EFAULT)?;
    while at < end {
        let vma = mm.vma_lookup(at).ok_or(EFAULT)?;
        let writable = vma.flags() & (1 << bindings::VMA_WRITE_BIT) != 0;
        if source(vma) != Some(wanted) || (write && !writable) {
            return Err(EFAULT);
        }
        let mut phys = 0;
        let upto = end.min(vma.end());
        // SAFETY: `at` lies in the VMA, and `mm` shows that the `mmap_lock` is held for reading.
        let got = unsafe { helpers::ext_pfnmap_run(vma.as_ptr(), at, upto, write, &mut phys) };
        if got == 0 {
            return Ok(Some(at));
        }
        // CAST: `usize` has 64 bits on all architectures with RDMA and Rust support.
        f(Segment {
            addr: phys,
            len: got as u64,
        })?;
        at += got;
    }
    Ok(None)
}
