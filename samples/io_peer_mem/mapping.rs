// SPDX-License-Identifier: GPL-2.0

//! Mappings of BAR memory: setting up a VMA, and finding the allocation behind an address.

use crate::{
    bar::{
        Allocation,
        Bar, //
    },
    ext::base::{
        lockdown,
        vma, //
    },
    prelude::*,
    uapi, //
};
use kernel::mm::virt::VmaNew;

/// The operations of all mappings of this module. The address of the operations identifies the
/// mappings.
pub(crate) static VM_OPS: vma::Ops<Allocation> = vma::Ops::new();

/// The bit in the offset of `mmap(2)` that requests write-combining, in pages.
// CAST: `usize` has 64 bits on architectures with P2PDMA.
const COMBINE: usize = uapi::IO_PEER_MEM_MMAP_WC as usize / PAGE_SIZE;

/// Whether an uncached mapping permits unaligned accesses. On other architectures the mapping may be
/// one of device registers (Device-nGnRnE on arm64), in which the `memcpy()` of a program raises
/// SIGBUS.
const UNCACHED_IS_UNALIGNED: bool = cfg!(CONFIG_X86);

/// Sets the flags and the caching of `vma`, a new mapping of memory of `bar`. Sets the offset of
/// `vma` to the offset in the memory, and returns the offset, in pages.
///
/// Returns `EPERM` under kernel lockdown, and `EINVAL` if write-combining is requested and the BAR
/// is not prefetchable.
pub(crate) fn set_up(vma: &VmaNew, bar: &Bar) -> Result<usize> {
    lockdown::pci_access()?;
    let combine = vma::pgoff(vma) & COMBINE != 0;
    let pgoff = vma::pgoff(vma) & !COMBINE;
    if combine && !bar.memory().is_prefetchable() {
        return Err(EINVAL);
    }
    // Memory regions and O_DIRECT pin the pages, so the mapping must not be PFNMAP.
    vma.set_mixedmap();
    vma.set_dontexpand();
    vma.set_dontdump();
    if combine || (!UNCACHED_IS_UNALIGNED && bar.memory().is_prefetchable()) {
        vma::set_writecombine(vma);
    } else {
        vma::set_noncached(vma);
    }
    vma::set_pgoff(vma, pgoff);
    Ok(pgoff)
}

/// Finds the mapping of any BAR at `addr` in the calling process.
///
/// Context: process context; may sleep. Takes the `mmap_lock`.
pub(crate) fn find(addr: usize) -> Option<vma::Found<Allocation>> {
    let task = current!();
    let mm = task.mm()?.mmap_read_lock();
    VM_OPS.find(&mm, addr)
}
