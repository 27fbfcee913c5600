// SPDX-License-Identifier: GPL-2.0

//! Device memory that a process has mapped without struct pages, through a BAR's file in sysfs.
//!
//! C header: [`include/linux/mm.h`](srctree/include/linux/mm.h).

use super::{
    bindings::helpers,
    vma, //
};
use core::ops::Range;
use kernel::{
    bindings,
    mm::{
        virt::VmaRef,
        MmapReadGuard, //
    },
    prelude::*, //
};

/// Whether `vma` is a shared mapping of a file in sysfs, of addresses that have no struct page:
/// `resourceN` and `resourceN_wc` of a PCI function are such files.
///
/// Mappings of other files do not count. Drivers that offer them (VFIO, RDMA, graphics) take them
/// away and move them as they like, and nobody outside is told.
pub fn is_mmio(vma: &VmaRef) -> bool {
    const FLAGS: usize = 1 << bindings::VMA_PFNMAP_BIT | 1 << bindings::VMA_IO_BIT;

    vma.flags() & FLAGS == FLAGS && vma::is_shared(vma) && {
        // SAFETY: The VMA may be looked at.
        unsafe { helpers::ext_vma_is_sysfs(vma.as_ptr()) }
    }
}

/// The physical addresses behind `[addr, addr + len)`, all of which has to be mapped in such VMAs
/// as [`is_mmio`] describes, with `write` such that may be written; neighbours are one range.
///
/// `EFAULT` where some of it is not.
///
/// The addresses are those of the moment. A mapping holds nothing: the caller has to know what
/// they belong to, and when they no longer do.
///
/// Context: may sleep.
pub fn physical(
    mm: &MmapReadGuard<'_>,
    addr: usize,
    len: usize,
    write: bool,
) -> Result<KVec<Range<u64>>> {
    let end = addr.checked_add(len).ok_or(EFAULT)?;
    let mut runs: KVec<Range<u64>> = KVec::new();
    let mut at = addr;
    while at < end {
        let vma = mm.vma_lookup(at).ok_or(EFAULT)?;
        let writable = vma.flags() & (1 << bindings::VMA_WRITE_BIT) != 0;
        if !is_mmio(vma) || (write && !writable) {
            return Err(EFAULT);
        }
        let mut phys = 0;
        let upto = end.min(vma.end());
        // SAFETY: The VMA is valid, `at` lies in it, and the `mmap_lock` is held for reading.
        let got = unsafe { helpers::ext_pfnmap_run(vma.as_ptr(), at, upto, &mut phys) };
        if got == 0 {
            return Err(EFAULT);
        }
        let run = phys..phys + got as u64;
        match runs.last_mut() {
            Some(last) if last.end == run.start => last.end = run.end,
            _ => runs.push(run, GFP_KERNEL)?,
        }
        at += got;
    }
    Ok(runs)
}
