// SPDX-License-Identifier: GPL-2.0

//! The memory: its pages, the memory regions on it, and the character device that maps it for processes.

use crate::{
    ext::base::{
        chardev::{
            self,
            Opened, //
        },
        ram::{
            Pages,
            Part, //
        },
        sg::PageTable,
        vma, //
    },
    peer_client::Tickets,
    prelude::*, //
};
use kernel::mm::virt::VmaNew;

/// Memory that processes can map and register.
///
/// Open files, mappings and memory regions each hold a reference.
#[pin_data]
pub(crate) struct DeviceMemory {
    pages: Arc<Pages>,
    /// The tickets of the memory regions. No lock of this driver is involved: the list is safe
    /// against concurrent registrations.
    tickets: Arc<Tickets>,
    /// Serializes invalidations. No callback takes it, so it may be held while tickets are
    /// invalidated.
    #[pin]
    invalidating: Mutex<()>,
}

impl DeviceMemory {
    pub(crate) fn new(n: usize) -> Result<Arc<Self>> {
        let pages = Arc::new(Pages::new(n)?, GFP_KERNEL)?;
        let tickets = Tickets::new()?;
        Arc::pin_init(
            pin_init!(Self {
                pages,
                tickets,
                invalidating <- new_mutex!((), "rust_client::DeviceMemory::invalidating"),
            }),
            GFP_KERNEL,
        )
    }

    pub(crate) fn table(&self, pages: Range<usize>) -> Result<PageTable<Part>> {
        Pages::table(&self.pages, pages)
    }

    pub(crate) fn tickets(&self) -> &Arc<Tickets> {
        &self.tickets
    }

    /// Revokes all memory regions. On return no device accesses the memory, and no page is pinned.
    ///
    /// A driver whose device is removed would not reopen the list.
    ///
    /// Context: may sleep; waits for registrations that are in progress.
    pub(crate) fn invalidate(&self) {
        let serialized = self.invalidating.lock();
        self.tickets.close_and_invalidate();
        // The memory of a region whose deregistration is in progress is dropped in that task. The
        // device does not access it any more, but its pages are still pinned.
        self.tickets.wait_empty();
        self.tickets.reopen();
        drop(serialized);
    }
}

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
        if first > this.pages.count() || count > this.pages.count() - first {
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
        fault.map(|i| self.pages.get(i))
    }
}
