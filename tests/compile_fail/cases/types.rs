// SPDX-License-Identifier: GPL-2.0
//
// Calls that safe code must not make, and calls in a wrong order.
//
// expect: error: cannot construct `ticket::Ticket` with struct literal syntax due to private fields
// expect: error[E0616]: field `state` of struct `tickets::Tickets` is private
// expect: error[E0599]: no method named `clone` found for struct `tickets::TicketGuard` in the current scope
// expect: error[E0624]: associated function `new` is private
// expect: error[E0624]: associated function `of_mmio` is private
// expect: error[E0624]: associated function `from_pages` is private
// expect: error[E0308]: mismatched types
// expect: error[E0040]: explicit use of destructor method
// expect: error[E0061]: this method takes 1 argument but 0 arguments were supplied
// expect: error[E0277]: the trait bound `case::Region: peer_client::Memory` is not satisfied

use crate::ext::base::{
    pci::BarRange,
    sg::Borrowed, //
};

/// Revokes the region of another client: tickets are created for `get_pages` only.
pub fn guess(number: u64) {
    Ticket {
        core_context: number,
    }
    .invalidate();
}

/// Holds the lock of a list while a ticket is invalidated, which takes it.
pub fn invalidate(tickets: &Tickets, ticket: &Ticket) {
    let state = tickets.state.lock();
    ticket.invalidate();
    drop(state);
}

/// Copies a guard: the list would count one region twice.
pub fn copy(guard: TicketGuard) -> (TicketGuard, TicketGuard) {
    (guard.clone(), guard)
}

/// Declares all physical memory to be a BAR: only the abstractions check addresses.
pub fn unchecked(dev: kernel::sync::aref::ARef<kernel::pci::Device>) -> BarRange {
    // SAFETY: There is no reason.
    unsafe { BarRange::new(dev, 0, 0..u64::MAX) }
}

/// Maps any physical memory for a device, in a BAR or not.
pub fn map_any(dev: &device::Device) -> Result<Table<Owned>> {
    let (addr, len) = (0, u64::MAX);
    Table::of_mmio([Segment { addr, len }].into_iter(), dev, None)
}

/// Creates a table of pages that may be freed: it needs an object that keeps the pages.
pub fn unpinned(pages: &[Segment]) -> Result<Table<Owned>> {
    // SAFETY: None.
    unsafe { Table::from_pages(pages.len(), pages.iter().copied()) }
}

/// Returns the table of a client: one of any DMA addresses is for drivers.
pub fn table<'a>(dma: &'a Table<Borrowed<'static>>) -> &'a Table<Owned> {
    dma
}

/// Pages that are unmapped on drop.
pub struct Held(PinnedPages);

impl Drop for Held {
    fn drop(&mut self) {
        self.0.unmap();
    }
}

/// Drops the pages twice.
pub fn put(mut held: Held) {
    held.drop();
}

// `get_pages` has no device to map for.
client!(
    Mine,
    get_pages = |_region| {
        let mut pages = pin()?;
        pages.map()?;
        Ok(pages)
    }
);
peer_client_slot!(Mine);

/// A claimed range.
pub struct Region;

/// Maps the region itself: before `get_pages` nothing can be mapped.
pub fn map(region: &mut Region, dev: &device::Device) -> Result {
    Memory::map(region, dev)
}
