// SPDX-License-Identifier: GPL-2.0

//! The character device: how a process maps the memory.

use crate::{
    ext::{
        chardev::{
            self,
            Opened, //
        },
        vma, //
    },
    memory::Memory, //
};
use kernel::{
    mm::virt::VmaNew,
    page::PAGE_SIZE,
    prelude::*,
    sync::{
        Arc,
        ArcBorrow, //
    }, //
};

/// The operations of our mappings. Their address tells them from all others: that is how `acquire`
/// knows the memory, and finds the object behind it.
pub(crate) static VM_OPS: vma::Ops<Memory> = vma::Ops::new();

impl chardev::Device for Memory {
    type Mapping = Memory;

    fn vm_ops() -> &'static vma::Ops<Memory> {
        &VM_OPS
    }

    fn mmap(this: ArcBorrow<'_, Self>, vma: &VmaNew) -> Result<Arc<Memory>> {
        let count = (vma.end() - vma.start()) / PAGE_SIZE;
        let first = vma::pgoff(vma);
        if first > this.count() || count > this.count() - first {
            return Err(ENXIO);
        }
        // What is written to a private mapping is a copy, which is not our memory.
        if !vma::is_shared(vma) {
            return Err(EINVAL);
        }
        vma.set_mixedmap();
        vma.set_dontexpand();
        Ok(this.into())
    }

    fn ioctl(_: ArcBorrow<'_, Self>, _: Opened<'_>, _: u32, _: usize) -> Result<isize> {
        Err(ENOTTY)
    }
}

impl vma::Mapping for Memory {
    fn fault(&self, fault: &vma::Fault<'_>) -> Result {
        fault.map(|i| self.page(i))
    }
}
