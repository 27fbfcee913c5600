// SPDX-License-Identifier: GPL-2.0

//! Device memory with the semantics of `ibv_alloc_dm(3)`: allocations with a length and an
//! alignment. Each allocation is a file that can be mapped and passed to other processes.
//!
//! The memory is an [`Allocation`], the same as behind `mmap(2)` of the device, so memory regions
//! and revocation need no special case. The pages are freed when the files are closed and the last
//! user is gone. `IO_PEER_MEM_IOC_DM_FREE` frees the pages at once, or fails if a page is in use.

use crate::{
    bar::{
        Allocation,
        Bar, //
    },
    dm_abi as abi,
    ext::base::{
        chardev::{
            self,
            Opened, //
        },
        lockdown,
        pci,
        vma, //
    },
    mapping,
    prelude::*,
    uapi::{
        self,
        io_peer_mem_dm_alloc,
        io_peer_mem_dm_capacity,
        io_peer_mem_dm_info, //
    }, //
};
use kernel::{
    bindings,
    fs::file::FileDescriptorReservation,
    mm::virt::VmaNew,
    uaccess::{
        UserSliceReader,
        UserSliceWriter, //
    }, //
};

/// An allocation with a separate file.
pub(crate) struct Dm {
    allocation: Arc<Allocation>,
    length: u64,
    pages: usize,
}

/// Implements `IO_PEER_MEM_IOC_DM_ALLOC`, with the errors of ioctl.rst.
pub(crate) fn alloc(this: ArcBorrow<'_, Bar>, opened: &Opened<'_>, arg: usize) -> Result<isize> {
    lockdown::pci_access()?;
    let request: io_peer_mem_dm_alloc = uapi::read(arg)?;
    let abi::Allocate { align, clear } = abi::check_alloc(&request)?;
    let align = align.max(PAGE_SIZE as u64);
    let pages = request.length.div_ceil(PAGE_SIZE as u64).try_into()?;
    let allocation = Bar::allocate(&this.into(), pages, align, clear)?;
    let bar_offset = allocation.offset()?;
    let dm = Dm {
        allocation: Arc::new(allocation, GFP_KERNEL_ACCOUNT)?,
        length: request.length,
        pages,
    };
    // On an error from here on, the file is dropped before any process sees it.
    let file = opened.handle(c"[io_peer_mem]", Arc::new(dm, GFP_KERNEL_ACCOUNT)?)?;
    let fd = FileDescriptorReservation::get_unused_fd_flags(bindings::O_CLOEXEC)?;
    uapi::write(
        arg,
        &io_peer_mem_dm_alloc {
            fd: fd.reserved_fd().try_into()?,
            bar_offset,
            ..request
        },
    )?;
    fd.fd_install(file);
    Ok(0)
}

/// Implements `IO_PEER_MEM_IOC_DM_CAPACITY`, with the errors of ioctl.rst.
pub(crate) fn capacity(this: ArcBorrow<'_, Bar>, arg: usize) -> Result<isize> {
    abi::check_capacity(&uapi::read(arg)?)?;
    let phys = this.memory().bar_range().phys();
    let space = this.memory().free_space()?;
    uapi::write(
        arg,
        &io_peer_mem_dm_capacity {
            version: uapi::IO_PEER_MEM_DM_VERSION,
            total: phys.end - phys.start,
            free: space.free,
            largest: space.largest,
            page_size: PAGE_SIZE as u64,
            ..Default::default()
        },
    )?;
    Ok(0)
}

impl chardev::Device for Dm {
    type Mapping = Allocation;

    fn vm_ops() -> &'static vma::Ops<Allocation> {
        &mapping::VM_OPS
    }

    fn mmap(this: ArcBorrow<'_, Self>, vma: &VmaNew) -> Result<Arc<Allocation>> {
        if !vma::is_shared(vma) {
            return Err(EINVAL);
        }
        let n = (vma.end() - vma.start()) / PAGE_SIZE;
        let first = mapping::set_up(vma, this.allocation.bar())?;
        if first.checked_add(n).ok_or(EINVAL)? > this.pages {
            return Err(EINVAL);
        }
        // Fails if the memory was freed.
        this.allocation.offset()?;
        Ok(this.allocation.clone())
    }

    fn read(this: ArcBorrow<'_, Self>, at: u64, mut to: UserSliceWriter) -> Result<usize> {
        // Lockdown may begin while the file is open. So check each access, as sysfs does.
        lockdown::pci_access()?;
        let mut done = 0;
        let mut page = KVec::from_elem(0, PAGE_SIZE.min(to.len()), GFP_KERNEL_ACCOUNT)?;
        while let Some(part) = this.part(&mut page, at, done, to.len()) {
            let copied = (this.allocation)
                .with_pages(|pages| pages.read(at + done as u64, part))
                .and_then(|n| to.write_slice(part.get(..n).ok_or(EINVAL)?).map(|()| n));
            match copied {
                Ok(n) => done += n,
                Err(e) if done == 0 => return Err(e),
                Err(_) => break,
            }
        }
        Ok(done)
    }

    fn write(this: ArcBorrow<'_, Self>, at: u64, mut from: UserSliceReader) -> Result<usize> {
        lockdown::pci_access()?;
        if !from.is_empty() && at >= this.length {
            return Err(ENOSPC);
        }
        let mut done = 0;
        let mut page = KVec::from_elem(0, PAGE_SIZE.min(from.len()), GFP_KERNEL_ACCOUNT)?;
        while let Some(part) = this.part(&mut page, at, done, from.len()) {
            let copied = from.read_slice(part).and_then(|()| {
                (this.allocation).with_pages(|pages| pages.write(at + done as u64, part))
            });
            match copied {
                Ok(n) => done += n,
                Err(e) if done == 0 => return Err(e),
                Err(_) => break,
            }
        }
        Ok(done)
    }

    fn ioctl(this: ArcBorrow<'_, Self>, file: Opened<'_>, cmd: u32, arg: usize) -> Result<isize> {
        match cmd {
            uapi::IO_PEER_MEM_IOC_DM_INFO => this.info(arg),
            uapi::IO_PEER_MEM_IOC_DM_FREE => this.free(&file, arg),
            _ => Err(ENOTTY),
        }
    }
}

impl Dm {
    /// Returns the part of `page` for the next bytes of a copy that starts at offset `at`, with
    /// `done` bytes copied and `left` bytes to copy. The part does not cross a page of the memory.
    /// Returns `None` at the end of the copy or of the memory. Also returns `None` if a signal is
    /// pending, but only after the first bytes, so that each call makes progress.
    fn part<'a>(
        &self,
        page: &'a mut [u8],
        at: u64,
        done: usize,
        left: usize,
    ) -> Option<&'a mut [u8]> {
        let task: &kernel::task::CurrentTask = current!();
        // CAST: `usize` has 64 bits on architectures with P2PDMA.
        let at = at.saturating_add(done as u64);
        if left == 0 || at >= self.length || (done > 0 && task.signal_pending()) {
            return None;
        }
        // CAST: The remainder is less than `PAGE_SIZE`.
        let in_page = PAGE_SIZE - (at % PAGE_SIZE as u64) as usize;
        let len = in_page
            .min(left)
            .min(usize::try_from(self.length - at).unwrap_or(usize::MAX));
        page.get_mut(..len)
    }

    /// Implements `IO_PEER_MEM_IOC_DM_INFO`, with the errors of ioctl.rst.
    fn info(&self, arg: usize) -> Result<isize> {
        abi::check_info(&uapi::read(arg)?)?;
        let bar = self.allocation.bar();
        let (domain, bus, slot) = pci::address(bar.dev());
        uapi::write(
            arg,
            &io_peer_mem_dm_info {
                version: uapi::IO_PEER_MEM_DM_VERSION,
                length: self.length,
                size: (self.pages * PAGE_SIZE) as u64,
                bar_offset: self.allocation.offset()?,
                domain,
                address: u32::from(bus) << 8 | u32::from(slot),
                bar: bar.index(),
                ..Default::default()
            },
        )?;
        Ok(0)
    }

    /// Implements `IO_PEER_MEM_IOC_DM_FREE`.
    ///
    /// A process that may only read the memory must not free the memory for others. So the function
    /// returns `EBADF` if the file is not open for writing. Returns `EBUSY` while the memory is in
    /// use, and errors as [`Dm::info`].
    fn free(&self, file: &Opened<'_>, arg: usize) -> Result<isize> {
        if !file.is_writable() {
            return Err(EBADF);
        }
        abi::check_free(&uapi::read(arg)?)?;
        self.allocation.free()?;
        Ok(0)
    }
}
