// SPDX-License-Identifier: GPL-2.0
//
// Who names the physical addresses of a table must promise that they are pages, and stay.
//
// expect: error[E0200]: the trait `Runs` requires an `unsafe impl` declaration

use crate::ext::base::run_table::{
    RunTable,
    Runs, //
};
use core::ops::Range;

/// All physical memory.
struct Everything([Range<u64>; 1]);

impl Runs for Everything {
    fn runs(&self) -> &[Range<u64>] {
        &self.0
    }
}

/// Creates a table of it.
pub fn make() -> Result {
    RunTable::new(Everything([0..1 << 40])).map(|_| ())
}
