// SPDX-License-Identifier: GPL-2.0

//! Memory that an application registers with the device for queues and doorbell records, and where
//! the memory of a queue is: in such umems, or in pages that the driver lists.

use crate::prelude::*;

/// The first page list entry, after the head of the umem.
const LIST: usize = 32;
/// The permission of an entry to write.
const WRITE: u8 = 2;
const RING_ALIGNMENT: u64 = 64;
/// The length of a doorbell record, and its alignment.
const RECORD: u64 = 8;

pub struct Umem {
    pub buffer: Buffer,
    /// The device may write to all of it.
    writable: bool,
}

#[derive(Default)]
pub struct QueuePlace<'a> {
    /// The umem of the ring, and the offset in it.
    pub umem: Option<(u32, u64)>,
    /// Else its pages, of 4 KiB or so many times doubled, and the offset in the first one, in 64ths.
    pub list: &'a [u8],
    pub log_page: u32,
    pub offset: u64,
    /// The doorbell record: in a umem at this offset, or else at this DMA address.
    pub record_umem: Option<u32>,
    pub record: u64,
}

#[derive(Default)]
pub struct QueueMemory {
    pub buffer: Buffer,
    pub dbr: u64,
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
            fail!(
                BAD_PARAM,
                "offset {offset:#x} in {count} pages of 2^{log_page} bytes"
            );
        }
        let number = self
            .hca
            .objects
            .create(Kind::Umem, user(input), Uses::new())?;
        self.hca.umems.insert(number, new);
        Ok(number)
    }

    /// Returns the `len` bytes from `offset` on of a umem, whose address is a multiple of `alignment`.
    fn umem_part(
        &self,
        id: u32,
        (offset, len): (u64, u64),
        alignment: u64,
    ) -> Result<Buffer, Refusal> {
        let part = find(&self.hca.umems, Kind::Umem, id)?.buffer.from(offset);
        if !part.holds(len) || part.address(0) % alignment != 0 {
            fail!(
                BAD_PARAM,
                "umem {id:#x}: no {len} bytes, aligned to {alignment}, at {offset:#x}"
            );
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
        let size = 1 << log_page;
        let part = self.umem_part(id, (offset, count.saturating_mul(size)), size)?;
        if log_page > part.log_page {
            fail!(
                BAD_PARAM,
                "umem {id:#x} has pages of 2^{} bytes",
                part.log_page
            );
        }
        Ok((0..count).map(|n| part.address(n * size)).collect())
    }

    /// Returns the memory of a queue with rings of `size` bytes, and the umems that it is in.
    pub fn queue_memory(
        &self,
        place: &QueuePlace<'_>,
        size: u64,
    ) -> Result<(QueueMemory, Uses), Refusal> {
        let log_page = place.log_page + 12;
        let buffer = match place.umem {
            Some((id, offset)) => self.umem_part(id, (offset, 1), RING_ALIGNMENT)?,
            None => Buffer::new(place.list, log_page, place.offset << (log_page - 6)),
        };
        if !buffer.holds(size) {
            fail!(BAD_PARAM, "too few pages for the queue");
        }
        let dbr = match place.record_umem {
            Some(id) => self
                .umem_part(id, (place.record, RECORD), RECORD)?
                .address(0),
            None => place.record,
        };
        let ring_umem = place.umem.map(|(id, _)| id);
        let umems = ring_umem.into_iter().chain(place.record_umem);
        let uses = umems.map(|id| (Kind::Umem, id)).collect();
        Ok((QueueMemory { buffer, dbr }, uses))
    }

    /// Returns the memory of a queue that a `wq` describes, after which its pages are.
    pub fn work_queue_memory(&self, queue: &[u8]) -> Result<(QueueMemory, Uses), Refusal> {
        let umem = (wq::wq_umem_id.get32(queue), wq::wq_umem_offset.get(queue));
        let record_umem = wq::dbr_umem_id.get32(queue);
        let place = QueuePlace {
            umem: wq::wq_umem_valid.is_set(queue).then_some(umem),
            list: queue.get(wq::BYTES..).unwrap_or_default(),
            log_page: wq::log_wq_pg_sz.get32(queue),
            offset: wq::page_offset.get(queue),
            record_umem: wq::dbr_umem_valid.is_set(queue).then_some(record_umem),
            record: wq::dbr_addr.get(queue),
        };
        let log_size = wq::log_wq_sz.get(queue) + wq::log_wq_stride.get(queue);
        self.queue_memory(&place, 1 << log_size)
    }

    pub fn umem_writable(&self, id: u32) -> bool {
        self.hca.umems.get(&id).is_some_and(|umem| umem.writable)
    }
}

#[cfg(test)]
mod tests;
