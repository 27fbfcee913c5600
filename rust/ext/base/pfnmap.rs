// SPDX-License-Identifier: GPL-2.0

//! Device memory that a process has mapped without struct pages, through a BAR's file in sysfs.
//!
//! C header: [`include/linux/mm.h`](srctree/include/linux/mm.h).

use super::{
    sg::{
        self,
        Segment, //
    },
    small_vec::SmallVec,
    vma, //
};
use crate::shared::bindings::helpers;
use kernel::{
    bindings,
    mm::{
        virt::VmaRef,
        MmapReadGuard, //
    },
    prelude::*, //
};

/// Returns whether `vma` is a shared mapping of a file in sysfs, of addresses without struct pages.
///
/// The files `resourceN` and `resourceN_wc` of a PCI function are such files. Mappings of other
/// files do not count: drivers such as VFIO, RDMA and graphics unmap and move mappings without a
/// notification to other modules.
///
/// Context: any.
pub fn is_mmio(vma: &VmaRef) -> bool {
    const FLAGS: usize = 1 << bindings::VMA_PFNMAP_BIT | 1 << bindings::VMA_IO_BIT;

    vma.flags() & FLAGS == FLAGS && vma::is_shared(vma) && {
        // SAFETY: A `VmaRef` is valid and locked at least for reading, so its fields may be read.
        unsafe { helpers::ext_vma_is_sysfs(vma.as_ptr()) }
    }
}

/// Returns the physical addresses behind `[addr, addr + len)`. Adjacent addresses form one segment.
///
/// Returns `EFAULT` unless the whole range is mapped in VMAs for which [`is_mmio`] holds, writable
/// VMAs if `write` is true.
///
/// The addresses are a snapshot. A mapping holds no reference: the caller must know which device
/// owns the addresses, and until when.
///
/// Context: may sleep. The caller holds the `mmap_lock` for reading.
pub fn physical(
    mm: &MmapReadGuard<'_>,
    addr: usize,
    len: usize,
    write: bool,
) -> Result<SmallVec<Segment>> {
    let end = addr.checked_add(len).ok_or(EFAULT)?;
    let mut segments = SmallVec::new();
    let mut at = addr;
    while at < end {
        let vma = mm.vma_lookup(at).ok_or(EFAULT)?;
        let writable = vma.flags() & (1 << bindings::VMA_WRITE_BIT) != 0;
        if !is_mmio(vma) || (write && !writable) {
            return Err(EFAULT);
        }
        let mut phys = 0;
        let upto = end.min(vma.end());
        // SAFETY:
        // - The VMA is valid, and `at` lies in the VMA.
        // - `mm` shows that the `mmap_lock` is held for reading.
        let got = unsafe { helpers::ext_pfnmap_run(vma.as_ptr(), at, upto, &mut phys) };
        if got == 0 {
            return Err(EFAULT);
        }
        // CAST: `usize` has 64 bits on all architectures with RDMA and Rust support.
        let (addr, len) = (phys, got as u64);
        sg::push(&mut segments, Segment { addr, len })?;
        at += got;
    }
    Ok(segments)
}
