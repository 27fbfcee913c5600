// SPDX-License-Identifier: GPL-2.0

//! The DMA engine of the `edu` function: transfers between memory and a buffer of the device, which
//! the CPU cannot access.

use crate::{
    ext::base::{
        compat::{
            emsgsize,
            map_bar,
            DevresBar,
            MappedBar, //
        },
        pci as ext_pci, //
    },
    prelude::*, //
};
use kernel::io::{
    poll::read_poll_timeout,
    Io, //
};

/// The usable size of the device's buffer. It has one byte more, but QEMU before 8.1 aborts if a
/// transfer includes that byte.
pub(crate) const BUFFER_SIZE: usize = 4095;

/// The buffer's address, as the device sees it.
const BUFFER: u64 = 0x40000;

/// The lowest byte of the identification.
const ID: u32 = 0xed;
/// Registers. Those of 64 bits are checked as they are accessed: kernel 7.3 takes a BAR to be
/// aligned to no more than 4 bytes.
const REG_ID: usize = 0;
const REG_SRC: usize = 0x80;
const REG_DST: usize = 0x88;
const REG_COUNT: usize = 0x90;
const REG_CMD: usize = 0x98;
/// Starts a transfer; reads as 0 when the transfer is done.
const CMD_RUN: u64 = 1;
const CMD_TO_MEMORY: u64 = 2;

/// A transfer takes 0.1 s of the guest's time; an emulated machine may get no CPU time for long.
const TIME_LIMIT: Delta = Delta::from_secs(20);

/// The part of the BAR that has registers.
type Bar<'a> = MappedBar<'a, 0x100>;

/// The BAR, while the function is bound.
type Registers = DevresBar<0x100>;

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Direction {
    FromMemory,
    ToMemory,
}

/// The engine.
///
/// # Invariants
///
/// No transfer is running, unless bus mastering is off and `broken` is set.
pub(crate) struct Engine {
    bar: Registers,
    dev: ARef<pci::Device>,
    broken: bool,
}

impl Engine {
    /// Maps the registers of `dev`, whose memory space is enabled. Context: may sleep.
    pub(crate) fn new(dev: &pci::Device<Bound>) -> Result<Self> {
        // INVARIANT: Only with a command register that says that no transfer is running.
        let engine = Self {
            bar: map_bar(dev, 0, c"peer_mem_test_adapter")?,
            dev: dev.into(),
            broken: false,
        };
        let (id, command) =
            engine.with_bar(|bar| Ok((bar.try_read32(REG_ID)?, bar.try_read64(REG_CMD)?)))?;
        if id & 0xff != ID || command & CMD_RUN != 0 {
            return Err(ENODEV);
        }
        Ok(engine)
    }

    /// Calls `f` with the registers; `ENODEV` if the function is unbound.
    fn with_bar<R>(&self, f: impl FnOnce(&Bar<'_>) -> Result<R>) -> Result<R> {
        self.bar.try_access_with(f).ok_or(ENODEV)?
    }

    /// Moves `len` bytes between the device's buffer, from `at` on, and memory, and waits for the
    /// end of the transfer. Context: may sleep.
    ///
    /// Returns `EINVAL` if `len` is 0, `EMSGSIZE` if the range is not in the buffer, `ETIMEDOUT` if
    /// the transfer does not end, `EIO` after that.
    pub(crate) fn transfer(
        &mut self,
        direction: Direction,
        memory: u64,
        at: usize,
        len: usize,
    ) -> Result {
        if len == 0 {
            return Err(EINVAL);
        }
        if at > BUFFER_SIZE || len > BUFFER_SIZE - at {
            return Err(emsgsize());
        }
        if self.broken {
            return Err(EIO);
        }
        let buffer = BUFFER + at as u64;
        let (src, dst, cmd) = match direction {
            Direction::FromMemory => (memory, buffer, CMD_RUN),
            Direction::ToMemory => (buffer, memory, CMD_RUN | CMD_TO_MEMORY),
        };
        self.with_bar(|bar| {
            bar.try_write64(src, REG_SRC)?;
            bar.try_write64(dst, REG_DST)?;
            bar.try_write64(len as u64, REG_COUNT)?;
            bar.try_write64(cmd, REG_CMD)
        })?;
        let done = read_poll_timeout(
            || self.with_bar(|bar| bar.try_read64(REG_CMD)),
            |cmd| cmd & CMD_RUN == 0,
            Delta::from_millis(5),
            TIME_LIMIT,
        );
        if let Err(e) = done {
            // INVARIANT: Without bus mastering the device does not reach memory.
            self.broken = true;
            // SAFETY: `dev` holds a reference to the device.
            unsafe { bindings::pci_clear_master(ext_pci::as_raw(&self.dev)) };
            return Err(e);
        }
        Ok(())
    }
}
