// SPDX-License-Identifier: GPL-2.0
//
// Pages are unpinned once.
//
// expect: error[E0040]: explicit use of destructor method

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
