// SPDX-License-Identifier: GPL-2.0
//
// A table is made only of memory that is held: there is no other way.
//
// expect: error[E0451]: field `sgt` of struct `dma_table::Table` is private
// expect: error[E0451]: field `mapped` of struct `dma_table::Table` is private
// expect: error: type `Mapping` is private

/// Makes a table up.
pub fn make_up(lent: Lent) -> Table {
    let sgt = kernel::bindings::sg_table::default();
    drop(lent);
    Table { sgt, mapped: None }
}
