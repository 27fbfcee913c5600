// SPDX-License-Identifier: GPL-2.0
//
// The result of `get_pages` must not borrow from the region.
//
// expect: error: lifetime may not live long enough

/// Pages, and the region they belong to.
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
