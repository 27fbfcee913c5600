// SPDX-License-Identifier: GPL-2.0

//! The memory of the fake clients, and the tables of the memory.

use super::{
    ledger::Entry,
    Fault,
    Setup,
    Shape, //
};
use crate::{
    helpers,
    sizes::{
        M,
        PAGE, //
    },
    testbed::Testbed, //
};
use core::mem::size_of;
use kernel::{
    bindings,
    error::to_result,
    prelude::*, //
};

/// Returns the virtual address of the memory of slot `number`.
pub(super) fn base(number: usize) -> u64 {
    0x7000_0000_0000 + ((number as u64) << 32)
}

/// Returns the offset of an address in the client's memory.
fn offset(number: usize, setup: &Setup, addr: u64) -> u64 {
    addr - base(setup.place.unwrap_or(number))
}

/// Returns the DMA address of byte `offset` of a client's memory: real pages, or made-up addresses of
/// device memory.
pub(super) fn device_address(testbed: &Testbed, number: usize, setup: &Setup, offset: u64) -> u64 {
    if setup.shape != Shape::Seed {
        return 0x40_0000_0000 + ((number as u64) << 32) + offset;
    }
    let offset = if setup.scattered {
        // Swaps each two neighbours.
        offset ^ setup.page
    } else {
        offset
    };
    testbed.memory() + number as u64 * M + offset
}

/// Returns the offsets of the range that a table describes: all client pages of `entry`.
fn span(number: usize, setup: &Setup, entry: &Entry) -> (u64, u64) {
    let from = offset(number, setup, entry.addr) & !(setup.page - 1);
    let to = offset(number, setup, entry.addr + entry.size).next_multiple_of(setup.page);
    (from, to)
}

/// Returns the bounds of a region in DMA addresses, in whole CPU pages.
pub(super) fn bounds(testbed: &Testbed, number: usize, setup: &Setup, entry: &Entry) -> (u64, u64) {
    let (mut from, mut to) = (
        offset(number, setup, entry.addr) & !(PAGE - 1),
        offset(number, setup, entry.addr + entry.size).next_multiple_of(PAGE),
    );
    if setup.scattered {
        from &= !(2 * setup.page - 1);
        to = to.next_multiple_of(2 * setup.page);
        return (
            testbed.memory() + number as u64 * M + from,
            testbed.memory() + number as u64 * M + to,
        );
    }
    (
        device_address(testbed, number, setup, from),
        device_address(testbed, number, setup, to),
    )
}

/// Fills the table of a region, with pages or only with DMA addresses.
pub(super) fn fill(
    testbed: &Testbed,
    number: usize,
    setup: &Setup,
    entry: &Entry,
    table: *mut bindings::sg_table,
) -> Result {
    let (from, to) = span(number, setup, entry);
    let mut n = ((to - from) / setup.page) as u32;
    match setup.fault {
        Fault::Empty => return Ok(()),
        Fault::Short => n -= 1,
        _ => (),
    }
    if n == 0 {
        return Ok(());
    }
    // SAFETY: The callers pass a table that is not in use.
    to_result(unsafe { bindings::sg_alloc_table(table, n + setup.spare, bindings::GFP_KERNEL) })?;
    // SAFETY: The list was just allocated.
    let mut sg = unsafe { (*table).sgl };
    for i in 0..n {
        let mut at = device_address(testbed, number, setup, from + u64::from(i) * setup.page);
        let mut len = setup.page as u32;
        match setup.fault {
            // The entry is shorter, so that the end does not change.
            Fault::Misaligned if i == 0 => (at, len) = (at + 0x800, len - 0x800),
            Fault::InnerMisaligned if i == 1 => at += 0x800,
            Fault::InnerOdd if i == 1 => len -= 0x800,
            Fault::Odd if i == n - 1 => len -= 0x800,
            _ => (),
        }
        let pages = if setup.shape == Shape::Seed { at } else { 0 };
        // SAFETY: `sg` is an entry of the list; the address is 0, or an address of the testbed's
        // pages.
        unsafe { helpers::kt_sg_set(sg, pages, len) };
        if setup.shape != Shape::Seed {
            // SAFETY: `sg` is an entry of the list.
            unsafe { helpers::kt_sg_set_dma(sg, at, len) };
        }
        // SAFETY: `sg` is an entry of the list.
        sg = unsafe { bindings::sg_next(sg) };
    }
    Ok(())
}

/// Applies a deviation to a table that [`fill`] has filled.
pub(super) fn alter(table: &mut bindings::sg_table, fault: Fault) {
    match fault {
        Fault::NoOrigNents => table.orig_nents = 0,
        Fault::NoEndMark if table.nents > 0 => {
            // SAFETY: `fill` has made a list of `nents` entries.
            unsafe { helpers::kt_sg_unmark_end(table.sgl, table.nents - 1) };
        }
        _ => (),
    }
}

/// Returns the three words of a table.
pub(super) fn words(table: &bindings::sg_table) -> [u64; 3] {
    [
        table.sgl.addr() as u64,
        table.nents.into(),
        table.orig_nents.into(),
    ]
}

/// Returns a digest of all bytes of a table's entries.
pub(super) fn digest(table: &bindings::sg_table) -> u64 {
    let mut sum = 0xcbf2_9ce4_8422_2325u64;
    let mut sg = table.sgl;
    for i in 0..table.orig_nents {
        if i > 0 {
            // SAFETY: `sg` is an entry of the list, and not the last.
            sg = unsafe { bindings::sg_next(sg) };
        }
        if sg.is_null() {
            break;
        }
        // SAFETY: `sg` is an entry of a list from sg_alloc_table(), which initialises all bytes.
        let bytes = unsafe {
            core::slice::from_raw_parts(sg.cast::<u8>(), size_of::<bindings::scatterlist>())
        };
        for b in bytes {
            sum = (sum ^ u64::from(*b)).wrapping_mul(0x100_0000_01b3);
        }
    }
    sum
}
