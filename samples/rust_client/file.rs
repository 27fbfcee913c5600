// SPDX-License-Identifier: GPL-2.0

//! The character device: maps the memory for processes.

use crate::{
    ext::base::{
        chardev::{
            self,
            Opened, //
        },
        vma, //
    },
    memory::DeviceMemory, //
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

/// The operations of the mappings. Their address identifies the mappings: `acquire` finds the memory
/// behind an address with them.
pub(crate) static VM_OPS: vma::Ops<DeviceMemory> = vma::Ops::new();

impl chardev::Device for DeviceMemory {
    type Mapping = DeviceMemory;

    fn vm_ops() -> &'static vma::Ops<DeviceMemory> {
        &VM_OPS
    }

    fn mmap(this: ArcBorrow<'_, Self>, vma: &VmaNew) -> Result<Arc<DeviceMemory>> {
        let count = (vma.end() - vma.start()) / PAGE_SIZE;
        let first = vma::pgoff(vma);
        if first > this.count() || count > this.count() - first {
            return Err(ENXIO);
        }
        // Writes to a private mapping go to a copy, which is not memory of this driver.
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

impl vma::Mapping for DeviceMemory {
    fn fault(&self, fault: &vma::Fault<'_>) -> Result {
        fault.map(|i| self.page(i))
    }
}
