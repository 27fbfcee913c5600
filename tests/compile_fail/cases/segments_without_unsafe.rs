// SPDX-License-Identifier: GPL-2.0
//
// Who names the physical addresses of a table must promise that they are pages, and stay.
//
// expect: error[E0200]: the trait `Segments` requires an `unsafe impl` declaration

use crate::ext::base::sg::{
    PageTable,
    Segments, //
};

/// All physical memory.
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
