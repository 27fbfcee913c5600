// SPDX-License-Identifier: GPL-2.0
//
// The core drops the result of `get_pages`, after `unmap`.
//
// expect: error[E0507]: cannot move out of `*self` which is behind a mutable reference

/// Pages that are dropped too early.
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
