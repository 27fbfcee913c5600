// SPDX-License-Identifier: GPL-2.0

//! Mappings of BARs that belong to other drivers, or to no driver.

use crate::{
    ext::{
        pci::Window,
        pfnmap,
        pinned,
        vma, //
    },
    options, //
};
use kernel::{
    mm::virt::VmaRef,
    page::PAGE_SIZE,
    prelude::*, //
};

/// Kinds of BAR memory that a mapping may contain.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Peer-to-peer memory, which has struct pages: `p2pmem/allocate` in sysfs, or mappings of a
    /// driver.
    Pages,
    /// `resourceN` in sysfs, which has no struct pages. Only with the parameter `mmio`.
    Mmio,
}

impl Kind {
    /// Returns the kind of memory that `vma` may contain. Reads only the flags of host memory.
    pub(crate) fn of(vma: &VmaRef) -> Option<Self> {
        if vma::is_mixed(vma) {
            Some(Self::Pages)
        } else if pfnmap::is_mmio(vma) && options::mmio() {
            Some(Self::Mmio)
        } else {
            None
        }
    }

    /// Returns the BAR that `addr` of the calling process is mapped to, or `None` if there is no
    /// memory of this kind at `addr`.
    ///
    /// Context: process context; may sleep. Takes the `mmap_lock`.
    pub(crate) fn window(self, addr: usize) -> Option<Window> {
        let page = addr - addr % PAGE_SIZE;
        match self {
            Self::Pages => {
                Window::of_p2pdma(pinned::Pages::pin(page, 1, false).ok()?.map_of_first()?)
            }
            Self::Mmio => {
                let task = current!();
                let mm = task.mm()?.mmap_read_lock();
                let runs = pfnmap::physical(&mm, page, PAGE_SIZE, false).ok()?;
                Window::of(runs.first()?.start)
            }
        }
    }
}
