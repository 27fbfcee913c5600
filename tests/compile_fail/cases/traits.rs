// SPDX-License-Identifier: GPL-2.0
//
// Clients without all of what a client needs.
//
// expect: error[E0046]: not all trait items implemented, missing: `get_pages`
// expect: error[E0277]: `core::cell::Cell<u32>` cannot be shared between threads safely
// expect: error[E0277]: `core::cell::Cell<u64>` cannot be shared between threads safely
// expect: error[E0277]: `*mut u8` cannot be sent between threads safely
// expect: error[E0277]: `*mut u8` cannot be shared between threads safely
// expect: error[E0277]: `*mut u16` cannot be sent between threads safely
// expect: error[E0277]: the trait bound `NoSlot: peer_client::Slotted` is not satisfied
// expect: error[E0200]: the trait `peer_client::Slotted` requires an `unsafe impl` declaration
// expect: error[E0200]: the trait `Segments` requires an `unsafe impl` declaration

use crate::ext::base::sg::{
    PageTable,
    Segments, //
};

mod without_get_pages {
    use super::*;

    /// All callbacks are mandatory.
    pub struct Mine;

    peer_client_slot!(Mine);

    impl Client for Mine {
        const NAME: &'static CStr = c"mine";
        const VERSION: &'static CStr = c"1.0";

        type Data = ();
        type Region = ();
        type Memory = PinnedPages;

        fn acquire(_: &(), _: VaRange) -> Result<Option<()>> {
            Ok(Some(()))
        }
    }
}

mod data_not_sync {
    use super::*;

    // Callbacks of different regions run concurrently: shared data must be Sync.
    client!(Mine, Data = Cell<u32>);
    peer_client_slot!(Mine);
}

mod region_not_sync {
    use super::*;

    // Callbacks of one region may run concurrently: changes need a lock.
    client!(Mine, Region = Cell<u64>);
    peer_client_slot!(Mine);
}

mod region_not_send {
    use super::*;

    /// A claimed range with a pointer that belongs to a task: a region is released in any task.
    pub struct Region(pub *mut u8);

    client!(
        Mine,
        Region = Region,
        acquire = Region(core::ptr::null_mut())
    );
    peer_client_slot!(Mine);
}

/// Pages, and a pointer that belongs to a task: pages are unpinned in any task.
pub struct Local(PinnedPages, *mut u16);

impl Memory for Local {
    fn table(&self) -> &Table<Owned> {
        self.0.table()
    }

    fn map(&mut self, dev: &device::Device) -> Result {
        self.0.map(dev)
    }

    fn unmap(&mut self) {
        self.1 = core::ptr::null_mut();
        self.0.unmap();
    }
}

mod no_slot {
    use super::*;

    client!(NoSlot);
}

mod slot_not_unique {
    use super::*;

    client!(Mine);

    // Safe code cannot implement `Slotted`, which must return one slot.
    impl Slotted for Mine {
        fn slot() -> &'static Slot<Self> {
            static ONE: Slot<Mine> = Slot::new();
            static OTHER: Slot<Mine> = Slot::new();
            if current!().pid() % 2 == 0 {
                &ONE
            } else {
                &OTHER
            }
        }
    }
}

/// All physical memory: who names the physical addresses of a table must promise that they are pages,
/// and stay.
struct Everything;

impl Segments for Everything {
    fn segments(&self) -> impl Iterator<Item = Segment> + Clone + '_ {
        let (addr, len) = (0, 1 << 40);
        core::iter::once(Segment { addr, len })
    }
}

/// Creates a table of it.
pub fn make() -> Result {
    PageTable::new(Everything).map(|_| ())
}
