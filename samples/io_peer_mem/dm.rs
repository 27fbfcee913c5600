// SPDX-License-Identifier: GPL-2.0

//! Device memory as the verbs have it: allocations that have a length and an alignment, each of
//! them a file that can be mapped, and handed to other processes.
//!
//! An allocation is a [`Range`], as what `mmap(2)` of the device allocates is, so memory regions and
//! revocation know nothing of it. Its pages are free when its files are closed and their last user
//! is gone, or at once by `IO_PEER_MEM_IOC_DM_FREE`, which refuses while there is one.

use crate::{
    bar::{
        Bar,
        Range, //
    },
    dm_abi::{
        self as abi,
        Arg,
        FreeArg,
        Info, //
    },
    ext::{
        chardev::{
            self,
            Opened, //
        },
        pci,
        vma, //
    },
    file, //
};
use kernel::{
    bindings,
    fs::file::FileDescriptorReservation,
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

pub(crate) use crate::dm_abi::{
    IOC_ALLOC,
    IOC_CAPACITY, //
};

/// An allocation.
pub(crate) struct Dm {
    /// Its pages.
    range: Arc<Range>,
    /// Its bytes, as they were asked for.
    length: u64,
    /// How many pages there are.
    pages: usize,
}

/// What a question or an answer of type `T` is read from and written to.
fn user<T>(arg: usize) -> UserSlice {
    UserSlice::new(UserPtr::from_addr(arg), core::mem::size_of::<T>())
}

/// `IO_PEER_MEM_IOC_DM_ALLOC`.
///
/// `EINVAL` for a wrong structure, no bytes, and an alignment that there is none of; `ENOMEM` where
/// there is no room; `ENODEV` where the device is gone.
pub(crate) fn alloc(this: ArcBorrow<'_, Bar>, opened: &Opened<'_>, arg: usize) -> Result<isize> {
    let (mut reader, mut writer) = user::<Arg>(arg).reader_writer();
    let question = reader.read::<Arg>()?;
    let (length, align) = abi::parse_alloc(&question)?;
    let pages = length.div_ceil(PAGE_SIZE as u64).try_into()?;
    let range = Bar::allocate_aligned(&this.into(), pages, align.max(PAGE_SIZE as u64))?;
    let offset = range.offset()?;
    let dm = Dm {
        range: Arc::new(range, GFP_KERNEL)?,
        length,
        pages,
    };
    // Whatever fails from here on, all is dropped: nobody sees the file before it is installed.
    let file = opened.handle(c"[io_peer_mem]", Arc::new(dm, GFP_KERNEL)?)?;
    let fd = FileDescriptorReservation::get_unused_fd_flags(bindings::O_CLOEXEC)?;
    writer.write(&abi::answer_alloc(&question, fd.reserved_fd(), offset))?;
    fd.fd_install(file);
    Ok(0)
}

/// `IO_PEER_MEM_IOC_DM_CAPACITY`: `EINVAL` for a wrong structure, `ENODEV` where the device is gone.
pub(crate) fn capacity(this: ArcBorrow<'_, Bar>, arg: usize) -> Result<isize> {
    let (mut reader, mut writer) = user::<Arg>(arg).reader_writer();
    abi::check_capacity(&reader.read::<Arg>()?)?;
    let phys = this.memory.phys();
    let room = this.memory.room()?;
    let total = phys.end - phys.start;
    let page = PAGE_SIZE as u64;
    writer.write(&abi::answer_capacity(total, room.free, room.largest, page))?;
    Ok(0)
}

impl chardev::Device for Dm {
    type Mapping = Range;

    fn vm_ops() -> &'static vma::Ops<Range> {
        &file::VM_OPS
    }

    fn mmap(this: ArcBorrow<'_, Self>, vma: &VmaNew) -> Result<Arc<Range>> {
        let n = (vma.end() - vma.start()) / PAGE_SIZE;
        let end = vma::pgoff(vma).checked_add(n).ok_or(EINVAL)?;
        if !vma::is_shared(vma) || end > this.pages {
            return Err(EINVAL);
        }
        // Also where it has been freed.
        this.range.offset()?;
        file::set_up(vma);
        Ok(this.range.clone())
    }

    fn ioctl(this: ArcBorrow<'_, Self>, _: Opened<'_>, cmd: u32, arg: usize) -> Result<isize> {
        match cmd {
            abi::IOC_INFO => this.info(arg),
            abi::IOC_FREE => this.free(arg),
            _ => Err(ENOTTY),
        }
    }
}

impl Dm {
    /// `IO_PEER_MEM_IOC_DM_INFO`: `EINVAL` for a wrong structure, `ENODEV` where the device is gone or
    /// the allocation was freed.
    fn info(&self, arg: usize) -> Result<isize> {
        let (mut reader, mut writer) = user::<Arg>(arg).reader_writer();
        abi::check_info(&reader.read::<Arg>()?)?;
        let bar = self.range.bar();
        writer.write(&abi::answer_info(&Info {
            length: self.length,
            size: (self.pages * PAGE_SIZE) as u64,
            bar_offset: self.range.offset()?,
            function: pci::address(&bar.dev),
            bar: bar.index,
        }))?;
        Ok(0)
    }

    /// `IO_PEER_MEM_IOC_DM_FREE`: as [`Dm::info`], and `EBUSY` while the memory is in use.
    fn free(&self, arg: usize) -> Result<isize> {
        let [head, reserved @ ..] = user::<FreeArg>(arg).reader().read::<FreeArg>()?;
        abi::check(head, &reserved)?;
        self.range.free()?;
        Ok(0)
    }
}
