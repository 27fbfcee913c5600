// SPDX-License-Identifier: GPL-2.0
//
// A table that somebody looks at is not freed.
//
// expect: error[E0505]: cannot move out of `lent` because it is borrowed

/// Frees a table and looks at it.
pub fn look() -> Result<usize> {
    let lent = lend()?;
    let table: &Table = lent.table();
    drop(lent);
    Ok(core::ptr::from_ref(table).addr())
}
