// SPDX-License-Identifier: GPL-2.0

//! The DMA engine of the `edu` function: between memory and a buffer of the device's own, which
//! nobody else can look into.

use crate::ext::{
    compat::DevresBar,
    pci as ext_pci, //
};
use kernel::{
    bindings,
    device::Bound,
    io::{
        poll::read_poll_timeout,
        Io, //
    },
    pci,
    prelude::*,
    sync::aref::ARef,
    time::Delta, //
};

/// How much goes into the device's buffer. It has one byte more, but QEMU before 8.1 takes a
/// transfer that ends with the buffer for one that ends beyond it, and aborts.
pub(crate) const BUFFER_SIZE: usize = 4095;

/// The buffer's address, as the device sees it.
const BUFFER: u64 = 0x40000;

/// What the lowest byte of the identification is.
const ID: u32 = 0xed;
/// Registers. Those of 64 bits are checked as they are accessed: kernel 7.3 takes a BAR to be
/// aligned to no more than 4 bytes.
const REG_ID: usize = 0;
const REG_SRC: usize = 0x80;
const REG_DST: usize = 0x88;
const REG_COUNT: usize = 0x90;
const REG_CMD: usize = 0x98;
/// Starts; clear again when the transfer is done.
const CMD_RUN: u64 = 1;
/// From the buffer to memory.
const CMD_TO_MEMORY: u64 = 2;

/// The device takes 0.1 s of the guest's time; an emulated machine may be starved for long.
const TIME_LIMIT: Delta = Delta::from_secs(20);

/// As much of the BAR as has registers.
type Bar<'a> = pci::Bar<'a, 0x100>;

/// The BAR, while the function is bound.
type Registers = DevresBar<0x100>;

/// Which way bytes go.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Direction {
    /// From memory into the device's buffer.
    FromMemory,
    /// From the device's buffer to memory.
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
    /// Takes the registers of `dev`, whose memory space is enabled. May sleep.
    pub(crate) fn new(dev: &pci::Device<Bound>) -> Result<Self> {
        let bar = dev.iomap_region_sized::<0x100>(0, c"peer_mem_test_adapter")?;
        if bar.read32(REG_ID) & 0xff != ID || bar.try_read64(REG_CMD)? & CMD_RUN != 0 {
            return Err(ENODEV);
        }
        // INVARIANT: Just looked.
        Ok(Self {
            bar: bar.into_devres()?,
            dev: dev.into(),
            broken: false,
        })
    }

    /// Does something with the registers; `ENODEV` once the function is unbound.
    fn with_bar<R>(&self, f: impl FnOnce(&Bar<'_>) -> Result<R>) -> Result<R> {
        self.bar.try_access_with(f).ok_or(ENODEV)?
    }

    /// Moves `len` bytes between the device's buffer, from `at` on, and memory, and waits for it.
    /// May sleep.
    ///
    /// `EINVAL` for nothing, `EMSGSIZE` where the buffer has no such place, `ETIMEDOUT` where the device does not come to
    /// an end, `EIO` ever after.
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
            return Err(EMSGSIZE);
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
            // INVARIANT: Whatever it still does, it does not reach memory.
            self.broken = true;
            // SAFETY: The device is valid.
            unsafe { bindings::pci_clear_master(ext_pci::as_raw(&self.dev)) };
            return Err(e);
        }
        Ok(())
    }
}
