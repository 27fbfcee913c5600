// SPDX-License-Identifier: GPL-2.0

//! Mappings of BARs that belong to other drivers, or to no driver.
//!
//! [`Kind`] says whether a mapping may contain BAR memory, and finds the BAR. The client uses
//! [`Kind`] for mappings that are not mappings of this driver.

use crate::{
    ext::base::{
        mm,
        pci::BarRange,
        pfnmap::{
            self,
            Source, //
        },
        pinned,
        vma, //
    },
    options::{
        self,
        Mmio, //
    },
    prelude::*, //
};
use kernel::mm::virt::VmaRef;

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Peer-to-peer memory with struct pages: `p2pmem/allocate` in sysfs, or mappings of a driver.
    Pages,
    /// Memory without struct pages, in mappings of `resourceN` in sysfs or of a driver's file. Only with the
    /// parameter `mmio`.
    Mmio(Source),
}

impl Kind {
    /// Returns the kind of memory that `vma` may contain. Reads only the flags of host memory.
    pub(crate) fn of(vma: &VmaRef) -> Option<Self> {
        if vma::is_mixed(vma) {
            return Some(Self::Pages);
        }
        let source = pfnmap::source(vma)?;
        let least = match source {
            Source::Sysfs => Mmio::Sysfs,
            Source::Driver => Mmio::Any,
        };
        (options::mmio() >= least).then_some(Self::Mmio(source))
    }

    /// Returns the BAR that `addr` of the calling process is mapped to, or `None` if no memory of
    /// the kind is mapped at `addr`. Memory without struct pages is faulted in.
    ///
    /// Context: process context; may sleep.
    pub(crate) fn bar_range(self, mut mm: mm::Locked<'_>, addr: usize) -> Option<BarRange> {
        let page = addr - addr % PAGE_SIZE;
        match self {
            Self::Pages => {
                let pinned = pinned::Pages::pin(&mm, page, 1, false).ok()?;
                drop(mm);
                BarRange::of_p2pdma(pinned.map_of_first()?)
            }
            Self::Mmio(source) => {
                let look_up =
                    |mm: &mm::Locked<'_>| pfnmap::physical(mm, page, PAGE_SIZE, source, false).ok();
                let mut segments = look_up(&mm);
                if segments.is_none() {
                    pfnmap::fault_in(&mut mm, page, PAGE_SIZE, source, false).ok()?;
                    segments = look_up(&mm);
                }
                drop(mm);
                let segments = segments?;
                BarRange::of(segments.first()?.addr)
            }
        }
    }

    /// Returns `EFAULT` unless all of `range` in the calling process may contain memory of the
    /// kind.
    ///
    /// Context: any.
    pub(crate) fn check(self, mm: &mm::Locked<'_>, range: Range<usize>) -> Result {
        let mut at = range.start;
        while at < range.end {
            let vma = mm.vma_lookup(at).ok_or(EFAULT)?;
            if Self::of(vma) != Some(self) {
                return Err(EFAULT);
            }
            at = vma.end();
        }
        Ok(())
    }
}
