// SPDX-License-Identifier: GPL-2.0

//! The memory of a queue: pages in the order of its bytes.

use std::rc::Rc;

use crate::bits::be64;
use crate::dma::{gather, scatter, Dma, Spans, Unmapped};

/// What a list entry has below the address: presence, and permissions.
const PAGE_FLAGS: u64 = 0xfff;

/// Pages, of the same size each.
#[derive(Clone, Default)]
pub struct Buffer {
    pages: Rc<[u64]>,
    pub log_page: u32,
    /// The offset of the first byte in the first page.
    offset: u64,
}

impl Buffer {
    /// Creates a buffer of the pages in `list`, 8 bytes each.
    pub fn new(list: &[u8], log_page: u32, offset: u64) -> Self {
        let page = |entry: &[u8]| be64(entry, 0) & !PAGE_FLAGS;
        Self {
            pages: list.chunks_exact(8).map(page).collect(),
            log_page,
            offset,
        }
    }

    pub fn from(&self, offset: u64) -> Self {
        Self {
            offset: self.offset.saturating_add(offset),
            ..self.clone()
        }
    }

    /// Returns the DMA address of the first byte in each page. Where the last one ends is not said.
    pub fn pages(&self) -> impl Iterator<Item = u64> + '_ {
        let pages = self.pages.iter().enumerate();
        pages.map(|(n, page)| page + if n == 0 { self.offset } else { 0 })
    }

    /// Returns the DMA address of a byte; 0 if it is not in the buffer.
    pub fn address(&self, at: u64) -> u64 {
        let at = self.offset.saturating_add(at);
        let page = self.pages.get((at >> self.log_page) as usize);
        page.unwrap_or(&0) + (at & ((1 << self.log_page) - 1))
    }

    pub fn holds(&self, len: u64) -> bool {
        let size = (self.pages.len() as u64) << self.log_page;
        self.log_page < 48 && self.offset.saturating_add(len) <= size
    }

    pub fn spans(
        &self,
        dma: &Dma,
        mut at: u64,
        mut len: u64,
        write: bool,
    ) -> Result<Spans, Unmapped> {
        let mut spans = Spans::new();
        while len > 0 {
            let inside = self.offset.saturating_add(at) & ((1 << self.log_page) - 1);
            let here = len.min((1 << self.log_page) - inside);
            let address = self.address(at);
            if !self.holds(at.saturating_add(here)) {
                return Err(Unmapped(address));
            }
            spans.extend(dma.spans(address, here, write)?);
            at += here;
            len -= here;
        }
        Ok(spans)
    }

    pub fn read(&self, dma: &Dma, at: u64, to: &mut [u8]) -> Result<(), Unmapped> {
        gather(&self.spans(dma, at, to.len() as u64, false)?, to);
        Ok(())
    }

    pub fn write(&self, dma: &Dma, at: u64, from: &[u8]) -> Result<(), Unmapped> {
        scatter(&self.spans(dma, at, from.len() as u64, true)?, from);
        Ok(())
    }
}
