// SPDX-License-Identifier: GPL-2.0

//! Look-up of the dma-buf that the calling process has mapped at an address.
//!
//! [`mapped()`] returns a [`Part`]: the dma-buf, the offset, and the permission to write. Used to
//! register memory of dma-bufs by address.

use super::buffer::Buffer;
use crate::shared::{
    ext::base::vma,
    prelude::*, //
};
use kernel::{
    mm::{
        virt::{
            flags,
            VmaRef, //
        },
        MmapReadGuard, //
    },
    page::PAGE_SHIFT, //
};

/// A part of a dma-buf.
#[derive(Clone)]
pub struct Part {
    pub buffer: Buffer,
    /// Where the part begins, in bytes. The part ends within the dma-buf.
    pub offset: u64,
    pub writable: bool,
}

impl Part {
    /// Returns `EACCES` if `write` is set and the process must not write to the part.
    pub fn permits(&self, write: bool) -> Result {
        if write && !self.writable {
            return Err(EACCES);
        }
        Ok(())
    }
}

/// Where a range ceases to be one part of one dma-buf: two dma-bufs meet, or memory that is no dma-buf
/// (`None`) begins or ends.
#[derive(PartialEq, Eq, Debug)]
pub struct Seam<B> {
    pub at: usize,
    /// The dma-buf of the range below the address.
    pub before: Option<B>,
    /// The dma-buf at the address.
    pub after: Option<B>,
}

/// Why a range is not a part of a dma-buf.
pub enum NoPart {
    Seam(Seam<Buffer>),
    Error(Error),
}

impl From<Error> for NoPart {
    fn from(e: Error) -> Self {
        Self::Error(e)
    }
}

/// The smallest constant that DRM adds to the offset of a mapping, in pages
/// (`DRM_FILE_PAGE_OFFSET_START`). Offsets of 32 bits are smaller.
const DRM_START: usize = (u32::MAX as usize >> PAGE_SHIFT) + 1;

/// Returns the offset of a range that begins `distance` bytes after the offset `pgoff` of a VMA, in
/// pages. Returns `None` if the range of `len` bytes is not within a dma-buf of `size` bytes, or if
/// `pgoff` may contain the constant of DRM.
fn offset(pgoff: usize, distance: usize, len: usize, size: usize) -> Option<usize> {
    if pgoff >= DRM_START {
        return None;
    }
    let offset = (pgoff * PAGE_SIZE).checked_add(distance)?;
    let end = offset.checked_add(len)?;
    (end <= size).then_some(offset)
}

/// VMAs without a gap that map a dma-buf without a gap.
struct Run {
    buffer: Buffer,
    /// First address, and first address after the run.
    start: usize,
    end: usize,
    /// Offset of `start` in the file, in pages, as the exporter has left it in the VMA.
    pgoff: usize,
    readable: bool,
    writable: bool,
}

impl Run {
    /// Returns the run of `vma` alone, or `None` if `vma` does not map a dma-buf.
    fn of(vma: &VmaRef) -> Option<Self> {
        // Pages of a private mapping can be copies.
        if !vma::is_shared(vma) {
            return None;
        }
        Some(Self {
            buffer: Buffer::behind(vma)?,
            start: vma.start(),
            end: vma.end(),
            pgoff: vma::pgoff(vma),
            readable: vma.flags() & flags::READ != 0,
            writable: vma.flags() & flags::WRITE != 0,
        })
    }

    fn pages(&self) -> usize {
        (self.end - self.start) / PAGE_SIZE
    }

    /// Returns whether `next` begins where this run ends, in the address space and in the dma-buf.
    fn is_before(&self, next: &Self) -> bool {
        self.end == next.start
            && self.buffer == next.buffer
            && self.pgoff.checked_add(self.pages()) == Some(next.pgoff)
    }

    /// Adds the VMAs that continue this run, until the run reaches the address `end`.
    fn extend(&mut self, mm: &MmapReadGuard<'_>, end: usize) {
        while self.end < end {
            let next = mm.vma_lookup(self.end);
            let next = next.and_then(Self::of);
            let Some(next) = next.filter(|next| self.is_before(next)) else {
                return;
            };
            self.end = next.end;
            self.readable &= next.readable;
            self.writable &= next.writable;
        }
    }

    /// Adds the VMAs that this run continues.
    fn extend_back(&mut self, mm: &MmapReadGuard<'_>) {
        while let Some(last) = self.start.checked_sub(1) {
            let before = mm.vma_lookup(last);
            let before = before.and_then(Self::of);
            let Some(before) = before.filter(|before| before.is_before(self)) else {
                return;
            };
            (self.start, self.pgoff) = (before.start, before.pgoff);
        }
    }

    /// Returns the offset of `addr` in the dma-buf. Returns `None` if the offset is not known, or
    /// if the `len` bytes from there are not all in the dma-buf.
    fn offset(&self, addr: usize, len: usize) -> Option<usize> {
        offset(self.pgoff, addr - self.start, len, self.buffer.size())
    }
}

/// Returns the part of a dma-buf that the calling process has mapped at `addr`, `len` bytes long,
/// or `None` if no dma-buf is mapped at `addr`.
///
/// Exporters may add a constant to the file offset of a mapping, as the exporters of DRM do: 4 GiB
/// or more. So for larger file offsets the offset in the dma-buf is known only if the dma-buf is
/// mapped from beginning to end, in any number of VMAs.
///
/// Returns the seam if the dma-buf is mapped only at the beginning of the range, and `EFAULT` if a part
/// of the range is not readable, or if the offset is not known. Context: process context; may
/// sleep. Takes the `mmap_lock`.
pub fn mapped(addr: usize, len: usize) -> Result<Option<Part>, NoPart> {
    let end = addr.checked_add(len).ok_or(EFAULT)?;
    let task = current!();
    let Some(mm) = task.mm() else {
        return Ok(None);
    };
    let mm = mm.mmap_read_lock();
    let first = mm.vma_lookup(addr);
    let Some(mut run) = first.and_then(Run::of) else {
        return Ok(None);
    };
    run.extend(&mm, end);
    if run.end < end {
        let next = mm.vma_lookup(run.end);
        return Err(NoPart::Seam(Seam {
            at: run.end,
            after: next.and_then(Buffer::behind),
            before: Some(run.buffer),
        }));
    }
    if !run.readable {
        return Err(EFAULT.into());
    }
    let writable = run.writable;
    let offset = match run.offset(addr, len) {
        Some(offset) => offset,
        None => {
            run.extend_back(&mm);
            run.extend(&mm, usize::MAX);
            if run.pages() != run.buffer.size() / PAGE_SIZE {
                return Err(EFAULT.into());
            }
            addr - run.start
        }
    };
    Ok(Some(Part {
        buffer: run.buffer,
        offset: offset as u64,
        writable,
    }))
}

#[cfg(ext_tests)]
#[kunit_tests(ext_dma_buf_mapped)]
mod tests {
    use super::*;

    const MIB: usize = 1 << 20;

    #[test]
    fn the_offset_is_that_of_the_vma() {
        assert_eq!(offset(0, 0, MIB, MIB), Some(0));
        assert_eq!(offset(3, 5, 1, MIB), Some(3 * PAGE_SIZE + 5));
        assert_eq!(
            offset(DRM_START - 1, 0, 1, 1 << 33),
            Some((1 << 32) - PAGE_SIZE)
        );
    }

    #[test]
    fn a_range_ends_within_the_dma_buf() {
        assert_eq!(offset(0, 1, MIB, MIB), None);
        assert_eq!(offset(1, 0, MIB, MIB), None);
        assert_eq!(offset(1, usize::MAX, 1, MIB), None);
    }

    /// The dma-buf is large enough for both meanings of the offset.
    #[test]
    fn an_offset_that_may_have_a_constant_in_it_is_not_known() {
        assert_eq!(offset(DRM_START, 0, PAGE_SIZE, 1 << 34), None);
        assert_eq!(offset(DRM_START + 7, 0, PAGE_SIZE, 1 << 34), None);
        assert_eq!(offset(usize::MAX, 0, PAGE_SIZE, usize::MAX), None);
    }
}
