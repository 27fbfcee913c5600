// SPDX-License-Identifier: GPL-2.0

//! The device's own side: the memory of its MRs and queues, and access to it.
//!
//! # Locking
//!
//! [`Adapter::inner`] is taken before the locks of a umem, and never within a callback of a dma-buf.

use crate::{
    engine::{
        Direction,
        Engine,
        BUFFER_SIZE, //
    },
    ext::base::compat::emsgsize,
    files::Place,
    mode::{
        self,
        Mode, //
    },
    prelude::*,
    umem::{
        Range,
        Umem, //
    }, //
};

/// Memory that the device accesses by a key: an MR, or the buffer of a queue.
pub(crate) struct Record {
    /// Unique until the memory is removed, also if it was invalidated.
    key: u32,
    /// The device's addresses of the memory.
    range: Range,
    access: u32,
    umem: Umem,
}

impl Record {
    /// Returns the offset of `addr`; `EINVAL` unless all of `len` bytes are in the memory.
    fn offset(&self, addr: u64, len: u64) -> Result<u64> {
        let offset = addr.checked_sub(self.range.iova).ok_or(EINVAL)?;
        let end = offset.checked_add(len).ok_or(EINVAL)?;
        if len == 0 || end > self.range.len {
            return Err(EINVAL);
        }
        Ok(offset)
    }

    fn allows(&self, direction: Direction) -> bool {
        direction == Direction::FromMemory
            || self.access & rdma::ib_access_flags_IB_ACCESS_LOCAL_WRITE != 0
    }

    /// Returns the names of the memory's kind and state, for the file `mrs`.
    fn kind(&self, is_mapped: bool) -> (&'static str, &'static str) {
        match self.umem.mode() {
            None if self.umem.is_provided() => ("va", "provided"),
            None => ("host", "host"),
            mode if is_mapped => (mode::name(mode), "mapped"),
            mode => (mode::name(mode), "revoked"),
        }
    }

    fn show(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.umem.peek(|mapped| {
            let (mode, state) = self.kind(mapped.is_some());
            write!(
                f,
                "lkey={:#x} mode={} state={} iova={:#x} length={} access={:#x} page_size={:#x} dma=",
                self.key,
                mode,
                state,
                self.range.iova,
                self.range.len,
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

struct Inner {
    engine: Engine,
    last_key: u32,
    mrs: KVec<Record>,
}

impl Inner {
    fn position(&self, key: u32) -> Option<usize> {
        self.mrs.iter().position(|r| r.key == key)
    }

    fn new_key(&mut self) -> u32 {
        loop {
            self.last_key = self.last_key.wrapping_add(0x100);
            if self.last_key != 0 && self.position(self.last_key).is_none() {
                return self.last_key;
            }
        }
    }

    /// Moves bytes between memory and the device's buffer.
    fn access(&mut self, direction: Direction, place: Place, len: usize) -> Result {
        if len > BUFFER_SIZE {
            return Err(emsgsize());
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
                // CAST: At most `len`.
                let n = segment.len as usize;
                engine.transfer(direction, segment.addr, at, n)?;
                at += n;
            }
            Ok(())
        })
    }
}

#[pin_data]
pub(crate) struct Adapter {
    mode: Mode,
    /// Held while the device does DMA: memory that is not in the list is not in use.
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

    pub(crate) fn mode(&self) -> Mode {
        self.mode
    }

    /// Adds memory and returns its key. Context: may sleep.
    pub(crate) fn insert(&self, umem: Umem, range: Range, access: u32) -> Result<u32> {
        let mut inner = self.inner.lock();
        inner.mrs.reserve(1, GFP_KERNEL)?;
        let key = inner.new_key();
        let record = Record {
            key,
            range,
            access,
            umem,
        };
        inner.mrs.push(record, GFP_KERNEL)?;
        Ok(key)
    }

    /// Removes memory. The device does not use it any more. Context: may sleep.
    pub(crate) fn remove(&self, key: u32) -> Option<Record> {
        let mut inner = self.inner.lock();
        let i = inner.position(key)?;
        inner.mrs.remove(i).ok()
    }

    /// Changes an MR: its memory if there is `new` memory, and its access. Context: may sleep.
    pub(crate) fn change(
        &self,
        key: u32,
        new: Option<(Umem, Range)>,
        access: Option<u32>,
    ) -> Result {
        let mut inner = self.inner.lock();
        let i = inner.position(key).ok_or(EINVAL)?;
        let record = &mut inner.mrs[i];
        let mut old = None;
        match new {
            Some((umem, range)) => {
                record.range = range;
                old = Some(core::mem::replace(&mut record.umem, umem));
            }
            None => access.map_or(Ok(()), |a| record.umem.check_access(a))?,
        }
        record.access = access.unwrap_or(record.access);
        // The old memory is released without the lock, as in `remove`.
        drop(inner);
        drop(old);
        Ok(())
    }

    pub(crate) fn access_of(&self, key: u32) -> Result<u32> {
        let inner = self.inner.lock();
        let i = inner.position(key).ok_or(EINVAL)?;
        Ok(inner.mrs[i].access)
    }

    /// See [`crate::files`]. Context: may sleep.
    pub(crate) fn access(&self, direction: Direction, place: Place, len: usize) -> Result {
        self.inner.lock().access(direction, place, len)
    }

    /// Copies `len` bytes through the device's buffer. Context: may sleep.
    pub(crate) fn copy_piece(&self, from: Place, to: Place, len: usize) -> Result {
        let mut inner = self.inner.lock();
        inner.access(Direction::FromMemory, from, len)?;
        inner.access(Direction::ToMemory, to, len)
    }

    /// Writes bytes of the device's buffer to any DMA address. Context: may sleep.
    pub(crate) fn raw_write(&self, addr: u64, len: usize) -> Result {
        let mut inner = self.inner.lock();
        inner.engine.transfer(Direction::ToMemory, addr, 0, len)
    }

    /// Prints a line for each piece of memory. Context: may sleep.
    pub(crate) fn list(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let inner = self.inner.lock();
        inner.mrs.iter().try_for_each(|record| record.show(f))
    }
}
