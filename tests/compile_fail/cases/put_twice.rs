// SPDX-License-Identifier: GPL-2.0
//
// Nor is it anybody's to drop twice.
//
// expect: error[E0040]: explicit use of destructor method

/// Pages that an adapter may use.
pub struct Held(Lent);

impl Drop for Held {
    fn drop(&mut self) {
        self.0.unmap();
    }
}

/// Lets go twice.
pub fn put(mut held: Held) {
    held.drop();
}
