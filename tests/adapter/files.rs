// SPDX-License-Identifier: GPL-2.0

//! The files of a device in debugfs: `mrs` lists the MRs and the memory of queues, `dma` takes commands.
//!
//! Only root can open them, and must close them before the module is unloaded: such files have no
//! owner module.
//!
//! # Commands
//!
//! A write is one command.
//!
//! ========================================  =====================================================
//! `read KEY ADDR LEN`                       from the memory into the device's buffer
//! `write KEY ADDR LEN`                      from the device's buffer to the memory
//! `copy KEY ADDR KEY2 ADDR2 LEN`            from the first memory to the second
//! `raw-write DMAADDR LEN`                   to that DMA address, unchecked
//! ========================================  =====================================================
//!
//! `KEY` is the lkey of an MR, or the key of a queue's memory. Numbers are decimal, or hexadecimal
//! after `0x`. `ADDR` counts from the iova, which is the address of the first byte. The buffer
//! keeps its bytes from one command to the next.

use crate::{
    device::Adapter,
    engine::{
        Direction,
        BUFFER_SIZE, //
    },
    prelude::*, //
};
use core::str;
use kernel::{
    current,
    debugfs::{
        Dir,
        File, //
    },
    uaccess::UserSliceReader, //
};

/// The files. Dropping this removes them and waits for running commands.
pub(crate) struct Files {
    _dma: Pin<KBox<File<Arc<Adapter>>>>,
    _mrs: Pin<KBox<File<Arc<Adapter>>>>,
}

impl Files {
    pub(crate) fn new(dir: &Dir, adapter: &Arc<Adapter>) -> Result<Self> {
        let dma = dir.write_callback_file(c"dma", adapter.clone(), &write);
        let mrs = dir.read_callback_file(c"mrs", adapter.clone(), &read);
        Ok(Self {
            _dma: KBox::pin_init(dma, GFP_KERNEL)?,
            _mrs: KBox::pin_init(mrs, GFP_KERNEL)?,
        })
    }
}

/// The result of `write(2)` is that of the command.
fn write(adapter: &Arc<Adapter>, reader: &mut UserSliceReader) -> Result {
    let mut buffer = [0; 256];
    let text = buffer.get_mut(..reader.len()).ok_or(EINVAL)?;
    reader.read_slice(text)?;
    run(adapter, text)
}

fn read(adapter: &Arc<Adapter>, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    adapter.list(f)
}

/// Where an access begins.
#[derive(Clone, Copy)]
pub(crate) struct Place {
    pub(crate) key: u32,
    pub(crate) addr: u64,
}

fn number(word: &str) -> Result<u64> {
    match word.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).map_err(|_| EINVAL),
        None => word.parse().map_err(|_| EINVAL),
    }
}

/// Executes the command `text`. Context: may sleep.
///
/// `EINVAL`: not a command, an unknown key, outside of the memory. `EMSGSIZE`: more than the size of
/// the buffer. `EACCES`: the access flags do not allow it, or the memory was invalidated. `EIO`,
/// `ETIMEDOUT`: the device fails. `EINTR`: a signal arrived between two pieces of a copy.
fn run(adapter: &Adapter, text: &[u8]) -> Result {
    let text = str::from_utf8(text).map_err(|_| EINVAL)?;
    let mut words = text.split_ascii_whitespace();
    let name = words.next().ok_or(EINVAL)?;
    let (mut args, mut n) = ([0; 5], 0);
    for word in words {
        *args.get_mut(n).ok_or(EINVAL)? = number(word)?;
        n += 1;
    }
    let place = |i: usize| -> Result<Place> {
        Ok(Place {
            key: args[i].try_into()?,
            addr: args[i + 1],
        })
    };
    match (name, n) {
        ("read", 3) => adapter.access(Direction::FromMemory, place(0)?, args[2].try_into()?),
        ("write", 3) => adapter.access(Direction::ToMemory, place(0)?, args[2].try_into()?),
        ("copy", 5) => copy(adapter, place(0)?, place(2)?, args[4]),
        ("raw-write", 2) => adapter.raw_write(args[0], args[1].try_into()?),
        _ => Err(EINVAL),
    }
}

/// Copies through the buffer, in pieces. Other commands can run between two pieces, as an adapter
/// serves other queues between two packets.
fn copy(adapter: &Adapter, mut from: Place, mut to: Place, mut left: u64) -> Result {
    if left == 0 {
        return Err(EINVAL);
    }
    while left > 0 {
        let piece = left.min(BUFFER_SIZE as u64);
        adapter.copy_piece(from, to, piece as usize)?;
        left -= piece;
        from.addr = from.addr.wrapping_add(piece);
        to.addr = to.addr.wrapping_add(piece);
        if left > 0 && current!().signal_pending() {
            return Err(EINTR);
        }
    }
    Ok(())
}
