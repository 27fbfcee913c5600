// SPDX-License-Identifier: GPL-2.0

//! Memory of functions that other drivers have, or none: how it is found in the address space of a
//! process.

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

/// What memory there may be in a mapping.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Peer-to-peer memory, which has struct pages: `p2pmem/allocate`, or in whatever way else its
    /// driver lets processes map it.
    Pages,
    /// A BAR's file in sysfs, which has none; only if that was asked for.
    Mmio,
}

impl Kind {
    /// What there may be in `vma`. Of host memory no more is looked at than the flags.
    pub(crate) fn of(vma: &VmaRef) -> Option<Self> {
        if vma::is_mixed(vma) {
            Some(Self::Pages)
        } else if pfnmap::is_mmio(vma) && options::mmio() {
            Some(Self::Mmio)
        } else {
            None
        }
    }

    /// The BAR behind the byte at `addr` of the calling process, if it is memory of this kind.
    ///
    /// Context: process context; may sleep; takes the `mmap_lock`.
    pub(crate) fn window(self, addr: usize) -> Option<Window> {
        let page = addr - addr % PAGE_SIZE;
        Window::of(match self {
            Self::Pages => pinned::Pages::pin(page, 1, false).ok()?.first()?,
            Self::Mmio => {
                let task = current!();
                let mm = task.mm()?.mmap_read_lock();
                pfnmap::physical(&mm, page, PAGE_SIZE, false)
                    .ok()?
                    .first()?
                    .start
            }
        })
    }
}
