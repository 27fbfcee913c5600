// SPDX-License-Identifier: GPL-2.0

//! Memory that an application registers with the device for queues and doorbell records, and where
//! the memory of a queue is: in such umems, or in pages that the driver lists.

use crate::prelude::*;

/// The first page list entry, after the head of the umem.
const LIST: usize = 32;
/// The permission of an entry to write.
const WRITE: u8 = 2;
/// A ring begins at such an address.
const RING_ALIGNMENT: u64 = 64;
/// The length of a doorbell record, and its alignment.
const RECORD: u64 = 8;

pub struct Umem {
    buffer: Buffer,
    /// The device may write to all of it.
    writable: bool,
}

impl Umem {
    /// Returns the DMA address of the first byte in each of its pages.
    pub fn pages(&self) -> impl Iterator<Item = u64> + '_ {
        self.buffer.pages()
    }
}

/// Where a command says that a ring is.
pub enum RingPlace<'a> {
    /// In pages of this size, from this offset in the first one on.
    Pages {
        list: &'a [u8],
        log_page: u32,
        offset: u64,
    },
    Umem {
        id: u32,
        offset: u64,
    },
}

impl<'a> RingPlace<'a> {
    /// Returns the ring in the pages of `list`. The unit of `offset` is a 64th of a page.
    pub fn pages(list: &'a [u8], log_page: u32, offset: u64) -> Self {
        Self::Pages {
            list,
            log_page,
            offset: offset << (log_page - 6),
        }
    }
}

/// Where a command says that a doorbell record is: in a umem at this offset, or else at this DMA address.
pub type Record = (Option<u32>, u64);

#[derive(Default)]
pub struct QueueMemory {
    pub buffer: Buffer,
    /// The DMA address of the doorbell record.
    pub dbr: u64,
    /// The umems that these are in.
    pub uses: Uses,
}

impl Function {
    pub fn create_umem(&mut self, input: &[u8]) -> Result<u32, Refusal> {
        let context = create_umem_in::umem.rest(input);
        let count = umem::num_of_mtt.get(context) as usize;
        let list = context.get(LIST..LIST.saturating_add(count.saturating_mul(8)));
        let list = list.ok_or(Refusal::new(BAD_PARAM, "fewer pages than announced"))?;
        let log_page = umem::log_page_size.get32(context) + 12;
        let offset = umem::page_offset.get(context);
        let new = Umem {
            buffer: Buffer::new(list, log_page, offset),
            writable: list.chunks_exact(8).all(|entry| entry[7] & WRITE != 0),
        };
        if !new.buffer.holds(1) {
            let why = format!("offset {offset:#x} in {count} pages of 2^{log_page} bytes");
            return Err(Refusal::new(BAD_PARAM, why));
        }
        let uses = Uses::new();
        let number = self.hca.objects.create(Kind::Umem, user(input), uses)?;
        self.hca.umems.insert(number, new);
        Ok(number)
    }

    fn umem(&self, id: u32) -> Result<&Umem, Refusal> {
        let umem = self.hca.umems.get(&id);
        umem.ok_or_else(|| Refusal::missing("umem", id))
    }

    /// Returns the `len` bytes from `offset` on of a umem, whose address
    /// must be a multiple of `alignment`.
    fn umem_part(
        &self,
        id: u32,
        (offset, len): (u64, u64),
        alignment: u64,
    ) -> Result<Buffer, Refusal> {
        let part = self.umem(id)?.buffer.from(offset);
        if !part.holds(len) || part.address(0) % alignment != 0 {
            let why =
                format!("umem {id:#x}: no {len} bytes, aligned to {alignment}, at {offset:#x}");
            return Err(Refusal::new(BAD_PARAM, why));
        }
        Ok(part)
    }

    /// Returns `count` entries of a translation table, for pages of 2^`log_page` bytes from `offset`
    /// of a umem on.
    pub fn umem_translations(
        &self,
        id: u32,
        offset: u64,
        (count, log_page): (u64, u32),
    ) -> Result<Vec<u64>, Refusal> {
        let size = 1u64.checked_shl(log_page).unwrap_or(0);
        let len = count.saturating_mul(size);
        let part = self.umem_part(id, (offset, len), size.max(1))?;
        if size == 0 || log_page > part.log_page() {
            let why = format!("umem {id:#x} has pages of 2^{} bytes", part.log_page());
            return Err(Refusal::new(BAD_PARAM, why));
        }
        Ok((0..count).map(|n| part.address(n * size)).collect())
    }

    /// Returns the memory of a queue with rings of `size` bytes.
    pub fn queue_memory(
        &self,
        ring: RingPlace<'_>,
        record: Record,
        size: u64,
    ) -> Result<QueueMemory, Refusal> {
        let mut uses = Uses::new();
        let buffer = match ring {
            RingPlace::Pages {
                list,
                log_page,
                offset,
            } => Buffer::new(list, log_page, offset),
            RingPlace::Umem { id, offset } => {
                uses.push((Kind::Umem, id));
                self.umem_part(id, (offset, 1), RING_ALIGNMENT)?
            }
        };
        if !buffer.holds(size) {
            return Err(Refusal::new(BAD_PARAM, "too few pages for the queue"));
        }
        let dbr = match record {
            (None, at) => at,
            (Some(id), offset) => {
                uses.push((Kind::Umem, id));
                let part = self.umem_part(id, (offset, RECORD), RECORD)?;
                part.address(0)
            }
        };
        Ok(QueueMemory { buffer, dbr, uses })
    }

    /// Returns the memory of a queue that the context `queue`, a `wq`, describes. `list` has the pages
    /// that follow it.
    pub fn work_queue_memory(
        &self,
        queue: &[u8],
        list: &[u8],
        size: u64,
    ) -> Result<QueueMemory, Refusal> {
        let ring = if wq::wq_umem_valid.is_set(queue) {
            RingPlace::Umem {
                id: wq::wq_umem_id.get32(queue),
                offset: wq::wq_umem_offset.get(queue),
            }
        } else {
            let log_page = wq::log_wq_pg_sz.get32(queue) + 12;
            RingPlace::pages(list, log_page, wq::page_offset.get(queue))
        };
        let in_umem = wq::dbr_umem_valid.is_set(queue);
        let umem = in_umem.then(|| wq::dbr_umem_id.get32(queue));
        let record = (umem, wq::dbr_addr.get(queue));
        self.queue_memory(ring, record, size)
    }

    /// Fails if the device may not write to the umem `id`.
    pub fn umem_writable(&self, id: u32) -> Result<(), Refusal> {
        if self.hca.umems.get(&id).is_some_and(|umem| !umem.writable) {
            let why = format!("umem {id:#x} is read-only");
            return Err(Refusal::new(BAD_PARAM, why));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
