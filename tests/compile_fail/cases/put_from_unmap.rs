// SPDX-License-Identifier: GPL-2.0
//
// What `get_pages` returned is not the client's to drop: the core does, after `unmap`.
//
// expect: error[E0507]: cannot move out of `*self` which is behind a mutable reference

/// Pages that an adapter may use.
pub struct Early(Lent);

impl Memory for Early {
    fn table(&self) -> &Table {
        self.0.table()
    }

    fn map(&mut self, dev: &device::Device) -> Result {
        self.0.map(dev)
    }

    fn unmap(&mut self) {
        drop(*self);
    }
}
