// SPDX-License-Identifier: GPL-2.0

//! Calls to a client: the outbound half of the C ABI edge.
//!
//! An [`Acquired`] exists from `acquire` to `release`, and knows whether the range is pinned and mapped.
//! Dropping the object calls the counterpart of each callback that has succeeded, once. The dispatch
//! creates an [`Acquired`], a region owns the object, and a backend has the pages mapped.
//!
//! Context: may sleep. The caller must not hold a lock across any of the calls.

use crate::{
    client::{
        Client,
        ClientRef, //
    },
    data::hint::Hint,
    ext::base::{
        compat::eremoteio,
        device::as_raw,
        pinned::kernel_half,
        sg::{
            Borrowed,
            ForeignPart,
            ForeignTable,
            Table, //
        }, //
    },
    prelude::*, //
};
use kernel::{
    device::Device,
    ffi, //
};

/// The client's context of one acquired range.
#[derive(Clone, Copy)]
struct Context(*mut ffi::c_void);

// SAFETY: The core never dereferences the pointer, and only passes the pointer to callbacks of the
// client. By the C ABI callbacks may run in any task.
unsafe impl Send for Context {}
// SAFETY: As for `Send`: the pointer is only copied.
unsafe impl Sync for Context {}

/// A range that a client has claimed. Dropping the object calls `dma_unmap` if the range is mapped,
/// `put_pages` if the range is pinned, and `release`; all may sleep.
///
/// # Invariants
///
/// - `context` came from `acquire` of the client, and is not released. So the client is registered.
/// - If `pinned`, `get_pages` of the client has succeeded for the range, with `table`. A client may look at
///   the table until `release` has returned, so the object does not move any more.
/// - If `mapped` is a device, the range is pinned, and the client has mapped the range for the
///   device, in `entries` entries.
pub(crate) struct Acquired {
    context: Context,
    client: ClientRef,
    range: VaRange,
    table: ForeignTable,
    pinned: bool,
    mapped: Option<ARef<Device>>,
    entries: u32,
}

impl Acquired {
    /// Asks `client` whether `range` of the calling process is memory of the client. Returns `None`
    /// if the client does not claim the range or is being unregistered, or if no client can own the
    /// range. Context: process context; may sleep.
    pub(crate) fn ask(client: &Arc<Client>, range: VaRange, hint: Option<&Hint>) -> Option<Self> {
        if !range.may_be_a_clients(kernel_half()) {
            return None;
        }
        let client = client.get_ref()?;
        let acquire = client.callbacks().acquire?;
        let mut context = ptr::null_mut();
        let name = hint.and_then(|h| h.name.as_deref());
        // SAFETY:
        // - `client` keeps the client registered, so the callbacks may be called;
        // - the C ABI lets both halves of a hint be NULL; `hint` keeps the name alive, and the
        //   client only reads the name;
        // - `context` is valid for a write.
        let ret = unsafe {
            acquire(
                range.addr(),
                range.len(),
                ptr::without_provenance_mut(hint.map_or(0, |h| h.private_data)),
                name.map_or(ptr::null(), |n| n.as_char_ptr()).cast_mut(),
                &mut context,
            )
        };
        // Not then_some(): an object would be created and dropped, and `release` called, even if
        // the client does not claim the range.
        //
        // INVARIANT: The client has claimed the range, which is neither pinned nor mapped.
        (ret > 0).then(|| Self {
            context: Context(context),
            client,
            range,
            table: ForeignTable::new(),
            pinned: false,
            mapped: None,
            entries: 0,
        })
    }

    pub(crate) fn client(&self) -> &ClientRef {
        &self.client
    }

    /// Has the client pin the range. An invalidation names the region by `ticket`. The object must not
    /// move any more.
    ///
    /// Fails with the error of `get_pages`. Context: process context; may sleep.
    pub(crate) fn pin(&mut self, write: bool, ticket: u32) -> Result {
        let get_pages = self.client.callbacks().get_pages.ok_or(EINVAL)?;
        // SAFETY:
        // - by the type invariants the context is valid, so the client is registered and the
        //   callbacks may be called;
        // - `table` is an empty sg_table; by the C ABI the client leaves the table alone or fills the
        //   table as sg_alloc_table() does.
        to_result(unsafe {
            get_pages(
                self.range.addr(),
                self.range.len(),
                1,
                write.into(),
                self.table.as_raw(),
                self.context.0,
                ticket.into(),
            )
        })?;
        // INVARIANT: `get_pages` has succeeded, and the object does not move.
        self.pinned = true;
        Ok(())
    }

    /// Returns whether [`Self::pin`] has succeeded, and the pages are not put.
    pub(crate) fn is_pinned(&self) -> bool {
        self.pinned
    }

    /// Returns a table of the pages of the range, with entries of at most `max` bytes, or `None` if
    /// the memory has no struct pages. Fails with `EINVAL` if the client's table does not describe the range.
    /// Context: may sleep.
    pub(crate) fn physical(&self, max: u32) -> Result<Option<Table<Borrowed<'_>>>> {
        let (skip, len) = self.window()?;
        Table::of_pages(&self.table, skip, len, max).inspect_err(|e| self.log_bad_table(*e))
    }

    /// Returns whether a CPU may copy the memory with accesses of any alignment. The memory must have
    /// struct pages. Context: any.
    pub(crate) fn are_copyable(&self) -> bool {
        self.table.is_copyable()
    }

    /// Has the client map the range for `dev`, unless the range is mapped for `dev` already.
    /// Returns the DMA addresses, in segments of at most `max` bytes. `dev` must be the DMA device of
    /// an adapter, unless the client maps for any device.
    ///
    /// Fails with `EBUSY` if the range is mapped for another device, with the error of `dma_map`,
    /// and with `EINVAL` if the client's table does not describe the range.
    ///
    /// Context: may sleep.
    pub(crate) fn map(&mut self, dev: &Device, max: u32) -> Result<ForeignPart> {
        match &self.mapped {
            Some(mapped) if !ptr::eq(&raw const **mapped, dev) => return Err(EBUSY),
            Some(_) => {}
            None => self.dma_map(dev)?,
        }
        let (skip, len) = self.window()?;
        // CAST: `usize` has at least 32 bits.
        let entries = self.entries as usize;
        // SAFETY: By the C ABI the client neither changes nor frees the list before `dma_unmap`, or
        // with `PEER_MEM_INVALIDATE_UNMAPS` before an invalidation has revoked the access. The owner
        // ends the access of devices before this object is dropped.
        let part = unsafe { self.table.part(entries, skip, len, max) };
        part.inspect_err(|e| self.log_bad_table(*e))
    }

    /// Has the client map the range as [`Self::map`], and returns a table of the DMA addresses.
    /// Context: may sleep.
    pub(crate) fn dma_table(&mut self, dev: &Device, max: u32) -> Result<Table<Borrowed<'_>>> {
        let part = self.map(dev, max)?;
        // SAFETY: The list has not changed since the line above.
        unsafe { part.table() }
    }

    /// Calls `dma_map`. Context: may sleep.
    fn dma_map(&mut self, dev: &Device) -> Result {
        let dma_map = self.client.callbacks().dma_map.ok_or(EINVAL)?;
        // A client may leave `nmap` alone and set only `nents` of the table.
        let before = self.table.mapped_entries();
        let mut nmap = before;
        // SAFETY:
        // - by the type invariants the context is valid, so the client is registered and the
        //   callbacks may be called;
        // - by the type invariants `table` is the table of `get_pages`; by the C ABI the client may
        //   change the table here;
        // - `dev` is valid while `dev` is borrowed, and `nmap` is valid for a write.
        to_result(unsafe {
            dma_map(
                self.table.as_raw(),
                self.context.0,
                as_raw(dev),
                0,
                &mut nmap,
            )
        })?;
        if nmap == before {
            nmap = self.table.mapped_entries();
        }
        // INVARIANT: `dma_map` has succeeded for `dev`, with `nmap` entries.
        self.mapped = Some(dev.into());
        self.entries = u32::try_from(nmap).unwrap_or(0);
        Ok(())
    }

    /// Returns whether the client's table has entries, each with a struct page.
    pub(crate) fn have_struct_pages(&self) -> bool {
        self.table.has_pages()
    }

    /// Returns the client's page size for the range, in bytes: a power of two, at least
    /// `PAGE_SIZE`. A client may know the page size only after `dma_map`. Fails with `EINVAL` if
    /// the client returns another number.
    fn page_size(&self) -> Result<usize> {
        let Some(get_page_size) = self.client.callbacks().get_page_size else {
            return Ok(PAGE_SIZE);
        };
        // SAFETY: By the type invariants the context is valid, so the client is registered and the
        // callbacks may be called.
        let size = unsafe { get_page_size(self.context.0) };
        if !size.is_power_of_two() || size < PAGE_SIZE {
            pr_warn_limited!(
                "client {}: get_page_size() returned {}, not a power of two >= PAGE_SIZE; \
                 fix the client\n",
                self.client.name(),
                size
            );
            return Err(EINVAL);
        }
        Ok(size)
    }

    /// Returns the position of the range, rounded to whole pages, in the client's table: the number
    /// of bytes before the range, and the number of bytes in the range.
    fn window(&self) -> Result<(u64, u64)> {
        let skip = self.range.skip(self.page_size()?);
        Ok((skip as u64, (self.range.pages() * PAGE_SIZE) as u64))
    }

    /// Logs that the client's table does not describe the range, if `e` is `EINVAL`, or has memory of a
    /// BAR that the kernel did not map, if `e` is `EREMOTEIO`.
    fn log_bad_table(&self, e: Error) {
        if e == eremoteio() {
            pr_warn_limited!(
                "client {}: this kernel's dma_map_sg() gave no DMA address for memory of a BAR; use an \
                 IOMMU or a newer kernel\n",
                self.client.name(),
            );
        } else if e == EINVAL {
            pr_warn_limited!(
                "client {}: its sg_table for {} bytes is short, empty or not page aligned; \
                 fix the client\n",
                self.client.name(),
                self.range.len(),
            );
        }
    }

    /// Makes [`Self::put`] do nothing: the client unmaps and puts the pages itself.
    pub(crate) fn leave_to_client(&mut self) {
        self.mapped = None;
        self.pinned = false;
    }

    /// Calls `dma_unmap` if the range is mapped, and then `put_pages` if the range is pinned. Context: may
    /// sleep.
    pub(crate) fn put(&mut self) {
        let callbacks = self.client.callbacks();
        if let (Some(dev), Some(dma_unmap)) = (self.mapped.take(), callbacks.dma_unmap) {
            // SAFETY:
            // - by the type invariants the context is valid, so the client is registered and the
            //   callbacks may be called;
            // - by the type invariants the client has mapped `table` for `dev`.
            let ret = unsafe { dma_unmap(self.table.as_raw(), self.context.0, as_raw(&dev)) };
            if ret != 0 {
                pr_warn_limited!(
                    "client {}: dma_unmap returned {}; fix the client\n",
                    self.client.name(),
                    ret
                );
            }
        }
        if let (true, Some(put_pages)) = (mem::take(&mut self.pinned), callbacks.put_pages) {
            // SAFETY:
            // - by the type invariants the context is valid, so the client is registered and the
            //   callbacks may be called;
            // - by the type invariants `table` is the table of `get_pages`, and this is the only
            //   `put_pages` for `table`.
            unsafe { put_pages(self.table.as_raw(), self.context.0) };
        }
    }
}

impl Drop for Acquired {
    fn drop(&mut self) {
        self.put();
        if let Some(release) = self.client.callbacks().release {
            // SAFETY:
            // - `client` keeps the client registered, so the callbacks may be called;
            // - the context came from `acquire` of the client, and `self`, the only owner of the
            //   context, is being dropped.
            unsafe { release(self.context.0) };
        }
    }
}
