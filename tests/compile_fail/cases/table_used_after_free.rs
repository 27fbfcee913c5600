// SPDX-License-Identifier: GPL-2.0
//
// A table that is in use is not freed.
//
// expect: error[E0505]: cannot move out of `pages` because it is borrowed

/// Frees a table and uses it.
pub fn look() -> Result<usize> {
    let pages = pin()?;
    let table: &Table<Owned> = pages.table();
    drop(pages);
    Ok(core::ptr::from_ref(table).addr())
}
