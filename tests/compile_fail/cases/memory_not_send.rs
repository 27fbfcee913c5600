// SPDX-License-Identifier: GPL-2.0
//
// Pages are unpinned in any task.
//
// expect: error[E0277]: `*mut u8` cannot be sent between threads safely

/// Pages, and a pointer that belongs to a task.
pub struct Local(PinnedPages, *mut u8);

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
