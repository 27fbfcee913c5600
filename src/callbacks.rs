// SPDX-License-Identifier: GPL-2.0

//! Calling a client: the outbound half of the C ABI edge.
//!
//! The order of the callbacks is in the types: [`Acquired`] stands between `acquire` and
//! `release`, [`Pages`] between `get_pages` and `put_pages`, and inside it `dma_map` and
//! `dma_unmap`. Each is undone once, when its object is dropped. No lock of ours may be held
//! across any of these.

use crate::{
    bindings::peer,
    client::Use,
    ext::sg::{
        self,
        ForeignTable,
        Segment,
        Table, //
    },
    hint::Hint,
    pr_warn_limited,
    range::Range, //
};
use core::ptr;
use kernel::{
    device::Device,
    error::to_result,
    ffi,
    page::PAGE_SIZE,
    prelude::*,
    sync::aref::ARef, //
};

/// The callbacks of a client, which it has promised to be callable until it has been
/// unregistered.
///
/// # Invariants
///
/// `acquire`, `get_pages`, `dma_map`, `dma_unmap` and `put_pages` are there.
pub(crate) struct Callbacks {
    raw: peer::peer_memory_client,
}

/// What a client calls a range of its memory.
#[derive(Clone, Copy)]
struct Context(*mut ffi::c_void);

// SAFETY: It is only handed back to the client, whose callbacks may run in any task.
unsafe impl Send for Context {}
// SAFETY: As above.
unsafe impl Sync for Context {}

impl Callbacks {
    /// Checks that nothing required is missing; the error is what is.
    pub(crate) fn new(raw: &peer::peer_memory_client) -> core::result::Result<Self, &'static str> {
        let missing = [
            (raw.acquire.is_none(), "acquire"),
            (raw.get_pages.is_none(), "get_pages"),
            (raw.dma_map.is_none(), "dma_map"),
            (raw.dma_unmap.is_none(), "dma_unmap"),
            (raw.put_pages.is_none(), "put_pages"),
        ];
        match missing.iter().find(|m| m.0) {
            Some(&(_, name)) => Err(name),
            // INVARIANT: Just checked.
            None => Ok(Self { raw: *raw }),
        }
    }
}

/// A range that a client has said is its own. Dropping it calls `release`.
pub(crate) struct Acquired {
    context: Context,
    client: Use,
}

impl Acquired {
    /// Asks a client whether `range` of the calling process is its memory. May sleep.
    pub(crate) fn ask(client: Use, range: Range, hint: Option<&Hint>) -> Option<Self> {
        let acquire = client.callbacks().raw.acquire?;
        let mut context = ptr::null_mut();
        let name = hint.and_then(|h| h.name.as_deref());
        // SAFETY: `client` shows that the client has not been unregistered, so that it still
        // keeps its promise. The two halves of a hint may be NULL; the name is only read.
        let ret = unsafe {
            acquire(
                range.addr(),
                range.len(),
                ptr::without_provenance_mut(hint.map_or(0, |h| h.private_data)),
                name.map_or(ptr::null(), |n| n.as_char_ptr()).cast_mut(),
                &mut context,
            )
        };
        // Not then_some(): an object that is made and dropped would be released.
        (ret == 1).then(|| Self {
            context: Context(context),
            client,
        })
    }

    /// The client.
    pub(crate) fn client(&self) -> &Use {
        &self.client
    }

    /// Bytes in a page of this range; a power of two that is at least `PAGE_SIZE`.
    fn page_size(&self) -> Result<usize> {
        let Some(get_page_size) = self.client.callbacks().raw.get_page_size else {
            return Ok(PAGE_SIZE);
        };
        // SAFETY: `client` shows that the client is registered; the context is what its
        // `acquire` returned and has not been released.
        let size = unsafe { get_page_size(self.context.0) };
        if !size.is_power_of_two() || size < PAGE_SIZE {
            pr_err!("client {}: {} is no page size\n", self.client.name(), size);
            return Err(EINVAL);
        }
        Ok(size)
    }

    /// Has the client pin the range. `force`: somebody is going to write. May sleep.
    pub(crate) fn get_pages(&self, range: Range, force: bool, ticket: u32) -> Result<Pages> {
        let get_pages = self.client.callbacks().raw.get_pages.ok_or(EINVAL)?;
        let table = ForeignTable::new()?;
        // SAFETY: As in `page_size`; the client fills `table` as sg_alloc_table() does, or leaves
        // it alone, as the C ABI says.
        to_result(unsafe {
            get_pages(
                range.addr(),
                range.len(),
                1,
                force.into(),
                table.as_raw(),
                self.context.0,
                ticket.into(),
            )
        })?;
        Ok(Pages {
            context: self.context,
            client: self.client.clone(),
            page_size: self.page_size(),
            range,
            table,
            mapped: None,
        })
    }
}

impl Drop for Acquired {
    fn drop(&mut self) {
        if let Some(release) = self.client.callbacks().raw.release {
            // SAFETY: As in `page_size`; this is the last use of the context.
            unsafe { release(self.context.0) };
        }
    }
}

/// A range that a client has pinned. Dropping it calls `dma_unmap`, where it is mapped, and
/// `put_pages`.
///
/// # Invariants
///
/// `context` has not been released: whoever owns this drops it before the [`Acquired`] that it
/// came from.
pub(crate) struct Pages {
    context: Context,
    client: Use,
    page_size: Result<usize>,
    range: Range,
    table: ForeignTable,
    /// The device that it is mapped for.
    mapped: Option<ARef<Device>>,
}

impl Pages {
    /// The range's whole pages, in pieces of at most `max` bytes; `None` where the client gave
    /// no struct pages. May sleep.
    pub(crate) fn physical(&self, max: u64) -> Result<Option<Table<'_>>> {
        let (skip, len) = self.window()?;
        Table::of_pages(&self.table, skip, len, max).inspect_err(|e| self.blame(*e))
    }

    /// Has the client map the range for `dev`, which must be an adapter's real DMA device.
    /// Returns what the device sees, pieces of at most `max` bytes. May sleep.
    pub(crate) fn map(&mut self, dev: &Device, max: u64) -> Result<KVec<Segment>> {
        if self.mapped.is_some() {
            return Err(EBUSY);
        }
        let dma_map = self.client.callbacks().raw.dma_map.ok_or(EINVAL)?;
        let mut nmap: ffi::c_int = 0;
        // SAFETY: As in `Acquired::page_size`. `Device` is transparent over struct device; the
        // client changes the table as the C ABI says.
        to_result(unsafe {
            dma_map(
                self.table.as_raw(),
                self.context.0,
                ptr::from_ref(dev).cast_mut().cast(),
                0,
                &mut nmap,
            )
        })?;
        self.mapped = Some(dev.into());
        let entries = usize::try_from(nmap).unwrap_or(0);
        let (skip, len) = self.window()?;
        sg::cut(self.table.dma(entries), skip, len, max).inspect_err(|e| self.blame(*e))
    }

    /// Did the client give a struct page for every piece of it?
    pub(crate) fn have_struct_pages(&self) -> bool {
        let n = self.table.entries();
        n > 0 && self.table.pages(n).all(|s| s.is_some())
    }

    /// Where in the client's table the range's whole pages are: bytes to skip, bytes to take.
    fn window(&self) -> Result<(u64, u64)> {
        let skip = self.range.skip(self.page_size?);
        Ok((skip as u64, (self.range.pages() * PAGE_SIZE) as u64))
    }

    /// Says whose fault a bad table is.
    fn blame(&self, e: Error) {
        if e == EINVAL {
            pr_warn_limited!(
                "client {}: its table for {} bytes at {:#x} is short, empty or not in pages\n",
                self.client.name(),
                self.range.len(),
                self.range.addr()
            );
        }
    }

    /// Lets go without `dma_unmap` and `put_pages`: the client does both itself.
    pub(crate) fn leave_to_client(self) {
        let mut this = core::mem::ManuallyDrop::new(self);
        // The callbacks are what dropping `self` adds to dropping its fields.
        //
        // SAFETY: Each field is dropped once, `this` is not used again.
        unsafe {
            ptr::drop_in_place(&mut this.client);
            ptr::drop_in_place(&mut this.table);
            ptr::drop_in_place(&mut this.mapped);
        }
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        let callbacks = self.client.callbacks();
        if let (Some(dev), Some(dma_unmap)) = (&self.mapped, callbacks.raw.dma_unmap) {
            let dev: *const Device = &**dev;
            // SAFETY: As in `map`, whose undoing this is.
            let ret =
                unsafe { dma_unmap(self.table.as_raw(), self.context.0, dev.cast_mut().cast()) };
            if ret != 0 {
                pr_warn!(
                    "client {}: dma_unmap returned {}\n",
                    self.client.name(),
                    ret
                );
            }
        }
        if let Some(put_pages) = callbacks.raw.put_pages {
            // SAFETY: As in `Acquired::get_pages`, whose undoing this is; by the type invariants
            // the context has not been released.
            unsafe { put_pages(self.table.as_raw(), self.context.0) };
        }
    }
}
