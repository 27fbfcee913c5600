// SPDX-License-Identifier: GPL-2.0

//! The character device of a BAR: `mmap(2)` and the ioctls of `include/uapi/io_peer_mem.h`.

use crate::{
    bar::{
        Bar,
        Range, //
    },
    dev_err_limited,
    dm,
    ext::{
        chardev,
        vma, //
    },
    nearest, //
};
use kernel::{
    ioctl::_IOWR,
    mm::virt::VmaNew,
    page::PAGE_SIZE,
    prelude::*,
    sync::{
        Arc,
        ArcBorrow, //
    },
    uaccess::{
        UserPtr,
        UserSlice, //
    }, //
};

/// The operations of our mappings, and what tells them from all others.
pub(crate) static VM_OPS: vma::Ops<Range> = vma::Ops::new();

/// `struct io_peer_mem_range`: `addr`, `bar_offset`, `length`, `reserved`.
type RangeArg = [u64; 4];

/// `IO_PEER_MEM_IOC_RANGE`.
const IOC_RANGE: u32 = _IOWR::<RangeArg>(0xB7, 1);

impl chardev::Device for Bar {
    type Mapping = Range;

    fn vm_ops() -> &'static vma::Ops<Range> {
        &VM_OPS
    }

    fn mmap(this: ArcBorrow<'_, Self>, vma: &VmaNew) -> Result<Arc<Range>> {
        if !vma::is_shared(vma) || vma::pgoff(vma) != 0 {
            dev_err_limited!(
                this.dev,
                "BAR {}: mmap needs MAP_SHARED and offset 0\n",
                this.index
            );
            return Err(EINVAL);
        }
        let size = vma.end() - vma.start();
        let range = Bar::allocate(&this.into(), size / PAGE_SIZE).inspect_err(|e| {
            dev_err_limited!(
                this.dev,
                "BAR {}: cannot allocate {} bytes: {:?}\n",
                this.index,
                size,
                e
            )
        })?;
        let range = Arc::new(range, GFP_KERNEL)?;
        set_up(vma);
        Ok(range)
    }

    fn ioctl(
        this: ArcBorrow<'_, Self>,
        file: chardev::Opened<'_>,
        cmd: u32,
        arg: usize,
    ) -> Result<isize> {
        match cmd {
            dm::IOC_ALLOC => dm::alloc(this, &file, arg),
            dm::IOC_CAPACITY => dm::capacity(this, arg),
            IOC_RANGE => range(this, arg),
            nearest::IOC_NEAREST => nearest::nearest(this, arg),
            _ => Err(ENOTTY),
        }
    }
}

/// Makes `vma` one of device memory.
pub(crate) fn set_up(vma: &VmaNew) {
    // Not PFNMAP: the pages can be pinned, for memory regions and O_DIRECT.
    vma.set_mixedmap();
    vma.set_dontexpand();
    vma.set_dontdump();
    vma::set_noncached(vma);
}

/// `IO_PEER_MEM_IOC_RANGE`: `EINVAL` where the reserved field is not 0, `EFAULT` where the address
/// is in no mapping of this device, `ENODEV` where the device is gone.
fn range(this: ArcBorrow<'_, Bar>, arg: usize) -> Result<isize> {
    let size = core::mem::size_of::<RangeArg>();
    let (mut reader, mut writer) = UserSlice::new(UserPtr::from_addr(arg), size).reader_writer();
    let [addr, _, _, reserved] = reader.read::<RangeArg>()?;
    if reserved != 0 {
        return Err(EINVAL);
    }
    let at: usize = addr.try_into().map_err(|_| EFAULT)?;
    let found = find(at).ok_or(EFAULT)?;
    if !core::ptr::eq(&**found.data.bar(), &*this) {
        return Err(EFAULT);
    }
    let bar_offset = found.data.offset()? + found.offset(at) as u64;
    let length = (found.end - at) as u64;
    writer.write(&[addr, bar_offset, length, 0])?;
    Ok(0)
}

/// Finds the mapping of the calling process at `addr`, of whichever BAR.
///
/// Context: process context; may sleep; takes the `mmap_lock`.
pub(crate) fn find(addr: usize) -> Option<vma::Found<Range>> {
    let task = current!();
    let mm = task.mm()?.mmap_read_lock();
    VM_OPS.find(&mm, addr)
}
