// SPDX-License-Identifier: GPL-2.0

//! The device's own side: its MRs, and access to them.
//!
//! # Locking
//!
//! [`Adapter::inner`] is taken before what a umem takes, and never within a callback of a dma-buf.

use crate::{
    bindings::rdma,
    command::Place,
    engine::{
        Direction,
        Engine, //
        BUFFER_SIZE,
    },
    mode::Mode,
    umem::Umem, //
};
use kernel::{
    fmt, new_mutex,
    prelude::*,
    sync::{
        Arc,
        Mutex, //
    },
};

/// An MR as the device knows it.
pub(crate) struct Record {
    /// No other MR has it until this one is deregistered, revoked or not.
    key: u32,
    iova: u64,
    length: u64,
    access: u32,
    umem: Umem,
}

impl Record {
    /// How far from the first byte `addr` is; `EINVAL` where not all of the range is in the MR.
    fn offset(&self, addr: u64, len: u64) -> Result<u64> {
        let offset = addr.checked_sub(self.iova).ok_or(EINVAL)?;
        let end = offset.checked_add(len).ok_or(EINVAL)?;
        if len == 0 || end > self.length {
            return Err(EINVAL);
        }
        Ok(offset)
    }

    /// May bytes go that way?
    fn allows(&self, direction: Direction) -> bool {
        direction == Direction::FromMemory
            || self.access & rdma::ib_access_flags_IB_ACCESS_LOCAL_WRITE != 0
    }

    fn show(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mode = self.umem.mode();
        self.umem.peek(|mapped| {
            let state = match (mode, mapped) {
                (None, _) => "host",
                (_, Some(_)) => "mapped",
                (_, None) => "revoked",
            };
            write!(
                f,
                "lkey={:#x} mode={} state={} iova={:#x} length={} access={:#x} page_size={:#x} dma=",
                self.key,
                mode.map_or("host", Mode::name),
                state,
                self.iova,
                self.length,
                self.access,
                mapped.map_or(0, |m| m.page_size()),
            )?;
            for (i, s) in mapped.into_iter().flat_map(|m| m.segments()).enumerate() {
                let comma = if i > 0 { "," } else { "" };
                write!(f, "{}{:#x}+{:#x}", comma, s.addr, s.len)?;
            }
            writeln!(f)
        })
    }
}

/// What is the device's.
struct Inner {
    engine: Engine,
    last_key: u32,
    mrs: KVec<Record>,
}

impl Inner {
    fn position(&self, key: u32) -> Option<usize> {
        self.mrs.iter().position(|r| r.key == key)
    }

    /// A key that no MR has.
    fn new_key(&mut self) -> u32 {
        loop {
            self.last_key = self.last_key.wrapping_add(0x100);
            if self.last_key != 0 && self.position(self.last_key).is_none() {
                return self.last_key;
            }
        }
    }

    /// Moves bytes between an MR and the device's buffer.
    fn access(&mut self, direction: Direction, place: Place, len: usize) -> Result {
        if len > BUFFER_SIZE {
            return Err(EMSGSIZE);
        }
        let Self { engine, mrs, .. } = self;
        let record = mrs.iter().find(|r| r.key == place.key).ok_or(EINVAL)?;
        let offset = record.offset(place.addr, len as u64)?;
        if !record.allows(direction) {
            return Err(EACCES);
        }
        record.umem.with_mapped(|mapped| {
            let mut at = 0;
            for segment in mapped.range(offset, len as u64) {
                let segment = segment?;
                // No longer than `len`.
                let n = segment.len as usize;
                engine.transfer(direction, segment.addr, at, n)?;
                at += n;
            }
            Ok(())
        })
    }
}

/// A device.
#[pin_data]
pub(crate) struct Adapter {
    mode: Mode,
    /// Held while the device is at work: an MR that is not in the list any more is not in use.
    #[pin]
    inner: Mutex<Inner>,
}

impl Adapter {
    pub(crate) fn new(mode: Mode, engine: Engine) -> Result<Arc<Self>> {
        Arc::pin_init(
            pin_init!(Self {
                mode,
                inner <- new_mutex!(
                    Inner {
                        engine,
                        last_key: 0,
                        mrs: KVec::new(),
                    },
                    "adapter::Adapter"
                ),
            }),
            GFP_KERNEL,
        )
    }

    /// How the device imports dma-bufs.
    pub(crate) fn mode(&self) -> Mode {
        self.mode
    }

    /// Enters an MR and returns its key. May sleep.
    pub(crate) fn insert(&self, umem: Umem, iova: u64, length: u64, access: u32) -> Result<u32> {
        let mut inner = self.inner.lock();
        inner.mrs.reserve(1, GFP_KERNEL)?;
        let key = inner.new_key();
        let record = Record {
            key,
            iova,
            length,
            access,
            umem,
        };
        inner.mrs.push(record, GFP_KERNEL)?;
        Ok(key)
    }

    /// Takes an MR out. Nobody uses it any more. May sleep.
    pub(crate) fn remove(&self, key: u32) -> Option<Record> {
        let mut inner = self.inner.lock();
        let i = inner.position(key)?;
        inner.mrs.remove(i).ok()
    }

    /// Changes an MR: other memory, where there is some in `new`, and another access. May sleep.
    pub(crate) fn change(
        &self,
        key: u32,
        new: Option<(Umem, u64, u64)>,
        access: Option<u32>,
    ) -> Result {
        let mut inner = self.inner.lock();
        let i = inner.position(key).ok_or(EINVAL)?;
        let record = &mut inner.mrs[i];
        let mut old = None;
        match new {
            Some((umem, iova, length)) => {
                (record.iova, record.length) = (iova, length);
                old = Some(core::mem::replace(&mut record.umem, umem));
            }
            None => access.map_or(Ok(()), |a| record.umem.check_access(a))?,
        }
        record.access = access.unwrap_or(record.access);
        // It is released without the lock, as in `remove`.
        drop(inner);
        drop(old);
        Ok(())
    }

    /// The access that an MR gives.
    pub(crate) fn access_of(&self, key: u32) -> Result<u32> {
        let inner = self.inner.lock();
        let i = inner.position(key).ok_or(EINVAL)?;
        Ok(inner.mrs[i].access)
    }

    /// See [`crate::command`]. May sleep.
    pub(crate) fn access(&self, direction: Direction, place: Place, len: usize) -> Result {
        self.inner.lock().access(direction, place, len)
    }

    /// Copies what fits in the device's buffer. May sleep.
    pub(crate) fn copy_piece(&self, from: Place, to: Place, len: usize) -> Result {
        let mut inner = self.inner.lock();
        inner.access(Direction::FromMemory, from, len)?;
        inner.access(Direction::ToMemory, to, len)
    }

    /// Moves bytes between any DMA address and the device's buffer. May sleep.
    pub(crate) fn raw(&self, direction: Direction, addr: u64, len: usize) -> Result {
        self.inner.lock().engine.transfer(direction, addr, 0, len)
    }

    /// Shows the MRs. May sleep.
    pub(crate) fn list(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let inner = self.inner.lock();
        inner.mrs.iter().try_for_each(|record| record.show(f))
    }
}
