// SPDX-License-Identifier: GPL-2.0

//! The memory of the fake clients, and the tables that they describe it with.

use super::{
    book::Entry,
    Fault,
    Setup,
    Shape, //
};
use crate::{
    helpers,
    World, //
};
use core::mem::size_of;
use kernel::{
    bindings,
    error::to_result,
    prelude::*, //
};

/// Where slot `number` has its memory in the process.
pub(super) fn base(number: usize) -> u64 {
    0x7000_0000_0000 + ((number as u64) << 32)
}

/// How far into the client's memory an address is.
fn offset(number: usize, setup: &Setup, addr: u64) -> u64 {
    addr - base(setup.place.unwrap_or(number))
}

/// Where byte `offset` of a client's memory is: real pages, or addresses made up as those of a
/// device's memory.
pub(super) fn device_address(world: &World, number: usize, setup: &Setup, offset: u64) -> u64 {
    if setup.shape != Shape::Seed {
        return 0x40_0000_0000 + ((number as u64) << 32) + offset;
    }
    let offset = if setup.scattered {
        // Each two neighbours change places.
        offset ^ setup.page
    } else {
        offset
    };
    world.memory() + ((number as u64) << 20) + offset
}

/// The range that a table describes: the client's pages that `entry` touches. Offsets.
fn span(number: usize, setup: &Setup, entry: &Entry) -> (u64, u64) {
    let from = offset(number, setup, entry.addr) & !(setup.page - 1);
    let to = offset(number, setup, entry.addr + entry.size).next_multiple_of(setup.page);
    (from, to)
}

/// The bounds of a region in the device's address space; whole pages of the CPU's.
pub(super) fn bounds(world: &World, number: usize, setup: &Setup, entry: &Entry) -> (u64, u64) {
    let (mut from, mut to) = (
        offset(number, setup, entry.addr) & !0xfff,
        offset(number, setup, entry.addr + entry.size).next_multiple_of(4096),
    );
    if setup.scattered {
        from &= !(2 * setup.page - 1);
        to = to.next_multiple_of(2 * setup.page);
        return (
            world.memory() + ((number as u64) << 20) + from,
            world.memory() + ((number as u64) << 20) + to,
        );
    }
    (
        device_address(world, number, setup, from),
        device_address(world, number, setup, to),
    )
}

/// Makes the table of a region: with pages, or with DMA addresses alone.
pub(super) fn fill(
    world: &World,
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
    // SAFETY: The caller gives a table that is not in use.
    to_result(unsafe { bindings::sg_alloc_table(table, n + setup.spare, bindings::GFP_KERNEL) })?;
    // SAFETY: Just allocated.
    let mut sg = unsafe { (*table).sgl };
    for i in 0..n {
        let mut at = device_address(world, number, setup, from + u64::from(i) * setup.page);
        let mut len = setup.page as u32;
        match setup.fault {
            Fault::Misaligned if i == 0 => at += 0x800,
            Fault::Odd if i == n - 1 => len -= 0x800,
            _ => (),
        }
        let pages = if setup.shape == Shape::Seed { at } else { 0 };
        // SAFETY: An entry of the table; the address is that of pages of ours, or 0.
        unsafe { helpers::kt_sg_set(sg, pages, len) };
        if setup.shape != Shape::Seed {
            // SAFETY: As above.
            unsafe { helpers::kt_sg_set_dma(sg, at, len) };
        }
        // SAFETY: As above.
        sg = unsafe { bindings::sg_next(sg) };
    }
    Ok(())
}

/// The three words of a table.
pub(super) fn words(table: &bindings::sg_table) -> [u64; 3] {
    [
        table.sgl.addr() as u64,
        table.nents.into(),
        table.orig_nents.into(),
    ]
}

/// A digest of a table's entries, byte by byte.
pub(super) fn digest(table: &bindings::sg_table) -> u64 {
    let mut sum = 0xcbf2_9ce4_8422_2325u64;
    let mut sg = table.sgl;
    for _ in 0..table.orig_nents {
        if sg.is_null() {
            break;
        }
        // SAFETY: An entry of a table that the client has allocated, which zeroes it.
        let bytes = unsafe {
            core::slice::from_raw_parts(sg.cast::<u8>(), size_of::<bindings::scatterlist>())
        };
        for b in bytes {
            sum = (sum ^ u64::from(*b)).wrapping_mul(0x100_0000_01b3);
        }
        // SAFETY: As above.
        sg = unsafe { bindings::sg_next(sg) };
    }
    sum
}
