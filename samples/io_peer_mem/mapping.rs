// SPDX-License-Identifier: GPL-2.0

//! Mappings of BAR memory: setting up a VMA, and finding the allocation behind an address.

use crate::{
    bar::Allocation,
    ext::{
        lockdown,
        vma, //
    }, //
};
use kernel::{
    mm::{
        virt::{
            VmaNew,
            VmaRef, //
        },
        MmapReadGuard, //
    },
    prelude::*, //
};

/// The operations of all mappings of this module. Their address identifies these mappings.
static VM_OPS: vma::Ops<Allocation> = vma::Ops::new();

/// Returns the operations of the mappings.
pub(crate) fn vm_ops() -> &'static vma::Ops<Allocation> {
    &VM_OPS
}

/// Sets the flags and the caching of `vma`, a new mapping of BAR memory. Returns `EPERM` under kernel
/// lockdown.
pub(crate) fn set_up(vma: &VmaNew) -> Result {
    lockdown::pci_access()?;
    // Not PFNMAP: the pages can be pinned, for memory regions and O_DIRECT.
    vma.set_mixedmap();
    vma.set_dontexpand();
    vma.set_dontdump();
    vma::set_noncached(vma);
    Ok(())
}

/// Returns the allocation behind `vma`, or `None` if `vma` is not a mapping of this module.
pub(crate) fn behind(vma: &VmaRef) -> Option<vma::Found<Allocation>> {
    VM_OPS.behind(vma)
}

/// Finds the mapping of any BAR at `addr` in the calling process.
///
/// Context: process context; may sleep. Takes the `mmap_lock`.
pub(crate) fn find(addr: usize) -> Option<vma::Found<Allocation>> {
    let task = current!();
    let mm = task.mm()?.mmap_read_lock();
    at(&mm, addr)
}

/// Finds the mapping of any BAR at `addr`, as [`find`] does in the calling process.
pub(crate) fn at(mm: &MmapReadGuard<'_>, addr: usize) -> Option<vma::Found<Allocation>> {
    VM_OPS.find(mm, addr)
}
