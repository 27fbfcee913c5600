// SPDX-License-Identifier: GPL-2.0

//! The character device of a BAR: `mmap(2)` and the ioctls of `include/uapi/io_peer_mem.h`.

use crate::{
    bar::{
        Allocation,
        Bar, //
    },
    dm,
    ext::base::{
        chardev,
        vma, //
    },
    mapping,
    nearest,
    prelude::*,
    uapi::{
        self,
        io_peer_mem_range, //
    }, //
};
use kernel::mm::virt::VmaNew;

impl chardev::Device for Bar {
    type Mapping = Allocation;

    fn vm_ops() -> &'static vma::Ops<Allocation> {
        &mapping::VM_OPS
    }

    fn mmap(this: ArcBorrow<'_, Self>, vma: &VmaNew) -> Result<Arc<Allocation>> {
        if !vma::is_shared(vma) || mapping::set_up(vma, &this)? != 0 {
            dev_err_limited!(
                this.dev(),
                "BAR {}: cannot map: use MAP_SHARED and offset 0\n",
                this.index()
            );
            return Err(EINVAL);
        }
        let size = vma.end() - vma.start();
        let allocation = Bar::allocate(&this.into(), size / PAGE_SIZE, PAGE_SIZE as u64, false)
            .inspect_err(|e| {
                dev_err_limited!(
                    this.dev(),
                    "BAR {}: cannot allocate {} bytes: {:?}\n",
                    this.index(),
                    size,
                    e
                )
            })?;
        Ok(Arc::new(allocation, GFP_KERNEL_ACCOUNT)?)
    }

    fn ioctl(
        this: ArcBorrow<'_, Self>,
        file: chardev::Opened<'_>,
        cmd: u32,
        arg: usize,
    ) -> Result<isize> {
        match cmd {
            uapi::IO_PEER_MEM_IOC_DM_ALLOC => dm::alloc(this, &file, arg),
            uapi::IO_PEER_MEM_IOC_DM_CAPACITY => dm::capacity(this, arg),
            uapi::IO_PEER_MEM_IOC_RANGE => range(this, arg),
            uapi::IO_PEER_MEM_IOC_NEAREST => nearest::nearest(this, arg),
            _ => Err(ENOTTY),
        }
    }
}

/// Implements `IO_PEER_MEM_IOC_RANGE`, with the errors of ioctl.rst.
fn range(this: ArcBorrow<'_, Bar>, arg: usize) -> Result<isize> {
    let request: io_peer_mem_range = uapi::read(arg)?;
    if request.reserved != 0 {
        return Err(EINVAL);
    }
    let addr: usize = request.addr.try_into().map_err(|_| EFAULT)?;
    let found = mapping::find(addr).ok_or(EFAULT)?;
    if !core::ptr::eq(&**found.data.bar(), &*this) {
        return Err(EFAULT);
    }
    uapi::write(
        arg,
        &io_peer_mem_range {
            bar_offset: found.data.offset()? + found.offset(addr) as u64,
            length: (found.end - addr) as u64,
            ..request
        },
    )?;
    Ok(0)
}
