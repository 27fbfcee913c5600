// SPDX-License-Identifier: GPL-2.0

//! Mapped tables of a dma-buf's importers.

use super::super::{
    bindings::helpers,
    sg::{
        Segment,
        Table, //
    }, //
};
use core::{
    mem,
    ptr, //
};
use kernel::{
    bindings,
    new_condvar,
    new_spinlock,
    prelude::*,
    sync::{
        CondVar,
        SpinLock, //
    },
    time::{
        delay::fsleep,
        Delta,
        Instant,
        Monotonic, //
    }, //
};

/// Adds `by` to the number of tables that the importer of `attachment` has mapped.
///
/// The number is in `priv`, the exporter's field of an attachment.
///
/// # Safety
///
/// - `attachment` must be a valid attachment of a dma-buf of this exporter.
/// - The caller must hold its reservation lock.
unsafe fn count(attachment: *mut bindings::dma_buf_attachment, by: isize) {
    // SAFETY: By this function's safety contract `attachment` is valid. The field belongs to the
    // exporter, and the reservation lock protects it.
    let tables = unsafe { &mut (*attachment).priv_ };
    *tables = ptr::without_provenance_mut(tables.addr().wrapping_add_signed(by));
}

/// State of a [`Tables`].
struct State {
    /// The memory is revoked: no table may be mapped any more.
    revoked: bool,
    /// Number of mapped tables.
    mapped: u32,
}

/// Time in milliseconds that fences have to be signalled.
const FENCE_TIMEOUT: u32 = 30_000;

/// Time in milliseconds that importers have to unmap after an invalidation.
const UNMAP_TIMEOUT: i64 = 10_000;

/// Counts the mapped tables of a dma-buf.
#[pin_data]
pub(super) struct Tables {
    #[pin]
    state: SpinLock<State>,
    #[pin]
    changed: CondVar,
}

impl Tables {
    /// Creates the count, with no table mapped.
    pub(super) fn new() -> impl PinInit<Self> {
        pin_init!(Self {
            state <- new_spinlock!(State { revoked: false, mapped: 0 }, "dma_buf::Tables::state"),
            changed <- new_condvar!("dma_buf::Tables::changed"),
        })
    }

    /// Creates a table for an importer. Returns `ENODEV` if the memory is revoked.
    ///
    /// Context: may sleep. The caller holds the reservation lock.
    ///
    /// # Safety
    ///
    /// - `attachment` must be a valid attachment of the dma-buf of this object.
    /// - The caller must hold its reservation lock.
    pub(super) unsafe fn map(
        &self,
        attachment: *mut bindings::dma_buf_attachment,
        segments: &[Segment],
    ) -> Result<*mut bindings::sg_table> {
        let table = KBox::new(Table::of_dma(segments)?, GFP_KERNEL_ACCOUNT)?;
        let mut state = self.state.lock();
        // `revoke` sets this under the reservation lock, and then invalidates every mapped table.
        if state.revoked {
            drop(state);
            return Err(ENODEV);
        }
        state.mapped += 1;
        // SAFETY: By this function's safety contract `attachment` is valid and its lock is held.
        unsafe { count(attachment, 1) };
        Ok(Table::into_raw(table))
    }

    /// Frees a table that an importer has unmapped.
    ///
    /// Context: any. The caller holds the reservation lock.
    ///
    /// # Safety
    ///
    /// - `table` must be from [`Self::map`] for `attachment`, and must have no other user.
    /// - The caller must hold the reservation lock.
    pub(super) unsafe fn unmap(
        &self,
        attachment: *mut bindings::dma_buf_attachment,
        table: *mut bindings::sg_table,
    ) {
        // SAFETY: By this function's safety contract `attachment` is valid and its lock is held.
        unsafe { count(attachment, -1) };
        // SAFETY: By this function's safety contract `table` is from `Table::into_raw` and unused.
        drop(unsafe { Table::from_raw(table) });
        self.state.lock().mapped -= 1;
        self.changed.notify_all();
    }

    /// Waits until no table is mapped.
    ///
    /// Context: may sleep. The caller must not hold the reservation lock.
    pub(super) fn wait(&self) {
        let mut state = self.state.lock();
        while state.mapped > 0 {
            self.changed.wait(&mut state);
        }
    }

    /// Revokes the memory: on return all importers of `buf`, which must all be revocable, have unmapped
    /// it and cannot map it again.
    ///
    /// Returns `ETIMEDOUT` if one has not unmapped in [`UNMAP_TIMEOUT`]. It may unmap later.
    ///
    /// Context: may sleep. Takes the reservation lock, and calls the importers under it.
    ///
    /// # Safety
    ///
    /// `buf` must be the dma-buf of this object, valid for the duration of the call.
    pub(super) unsafe fn revoke(&self, buf: *mut bindings::dma_buf) -> Result {
        // SAFETY: By this function's safety contract `buf` is valid.
        let resv = unsafe { (*buf).resv };
        // SAFETY: The reservation object lives as long as the dma-buf. The context of this function
        // allows to sleep. Without a `ww_acquire_ctx` the call cannot fail.
        unsafe { bindings::dma_resv_lock(resv, ptr::null_mut()) };
        let again = mem::replace(&mut self.state.lock().revoked, true);
        if !again {
            // SAFETY: `buf` is valid, and this task holds its reservation lock.
            unsafe { helpers::ext_dma_buf_invalidate_mapped(buf) };
        }
        // SAFETY: This task took the lock above.
        unsafe { bindings::dma_resv_unlock(resv) };

        // `dma_buf_invalidate_mappings()` requires this of its caller, as an importer may write until
        // its fences are signalled. A process with the file descriptor can add any fence, also one
        // that waits for the caller. So the wait ends after the time in which every driver must signal
        // its fences, if need be by a reset of its device.
        //
        // SAFETY: The reservation object lives as long as the dma-buf.
        if !unsafe { helpers::ext_dma_resv_wait(resv, FENCE_TIMEOUT) } {
            pr_err!(
                "a revoked dma-buf has a fence that is not signalled after {} ms; not waiting for it\n",
                FENCE_TIMEOUT
            );
        }
        let start = Instant::<Monotonic>::now();
        while self.state.lock().mapped > 0 {
            if start.elapsed() >= Delta::from_millis(UNMAP_TIMEOUT) {
                return Err(ETIMEDOUT);
            }
            fsleep(Delta::from_millis(5));
        }
        Ok(())
    }
}
