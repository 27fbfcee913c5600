// SPDX-License-Identifier: GPL-2.0
//
// Values that are used after their end, or longer than they live.
//
// expect: error[E0382]: use of moved value: `registration`
// expect: error[E0382]: use of moved value: `table`
// expect: error[E0505]: cannot move out of `pages` because it is borrowed
// expect: error[E0505]: cannot move out of `tickets` because it is borrowed
// expect: error[E0507]: cannot move out of `*self` which is behind a mutable reference
// expect: error: lifetime may not live long enough
// expect: error: lifetime may not live long enough

mod freed_twice {
    use super::*;

    // A table has one owner, which frees it.
    client!(
        Mine,
        get_pages = |_region| {
            let table = pin()?;
            drop(table);
            drop(table);
            pin()
        }
    );
    peer_client_slot!(Mine);

    /// Unregisters the client twice: a registration is unique and cannot be copied.
    pub fn unregister(registration: Registration<Mine>) {
        drop(registration);
        drop(registration);
    }
}

/// Frees a table and uses it.
pub fn look() -> Result<usize> {
    let pages = pin()?;
    let table: &Table<Owned> = pages.table();
    drop(pages);
    Ok(core::ptr::from_ref(table).addr())
}

/// Releases the lock, but still refers to the data that it protects. A ticket must be moved out of a lock
/// before it is used: `invalidate` waits for tasks that take the lock.
pub fn invalidate(tickets: &Mutex<KVec<Ticket>>) {
    let tickets = tickets.lock();
    if let Some(ticket) = tickets.first() {
        drop(tickets);
        ticket.invalidate();
    }
}

/// Pages that are dropped too early: the core drops the result of `get_pages`, after `unmap`.
pub struct Early(PinnedPages);

impl Memory for Early {
    fn table(&self) -> &Table<Owned> {
        self.0.table()
    }

    fn map(&mut self, dev: &device::Device) -> Result {
        self.0.map(dev)
    }

    fn unmap(&mut self) {
        drop(*self);
    }
}

mod memory_borrows_region {
    use super::*;

    /// Pages, and the region they belong to, which the result of `get_pages` must not borrow from.
    pub struct Borrowed(PinnedPages, &'static u64);

    impl Memory for Borrowed {
        fn table(&self) -> &Table<Owned> {
            self.0.table()
        }

        fn map(&mut self, dev: &device::Device) -> Result {
            self.0.map(dev)
        }

        fn unmap(&mut self) {
            self.0.unmap();
        }
    }

    client!(
        Mine,
        Region = u64,
        Memory = Borrowed,
        get_pages = |region| { Ok(Borrowed(pin()?, region)) }
    );
    peer_client_slot!(Mine);
}

mod region_used_after_release {
    use super::*;

    /// Refers to a region for longer than it lives: `release` drops the region.
    pub struct Later(&'static u64);

    /// Uses the region.
    pub fn keep(later: Later) -> u64 {
        *later.0
    }

    client!(
        Mine,
        Region = u64,
        get_pages = |region| {
            keep(Later(region));
            pin()
        }
    );
    peer_client_slot!(Mine);
}
