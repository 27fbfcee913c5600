// SPDX-License-Identifier: GPL-2.0
//
// A client gives only memory of its own: a table of any DMA addresses is for drivers.
//
// expect: error[E0308]: mismatched types

use crate::ext::base::sg::Borrowed;

/// Returns the table of a client.
pub fn table<'a>(dma: &'a Table<Borrowed<'static>>) -> &'a Table<Owned> {
    dma
}
