// SPDX-License-Identifier: GPL-2.0

//! The tables that importers have of a dma-buf's memory.

use super::super::{
    bindings::helpers,
    sg::{
        Segment,
        Table, //
    }, //
};
use core::ptr;
use kernel::{
    bindings,
    new_condvar,
    new_spinlock,
    prelude::*,
    sync::{
        CondVar,
        SpinLock, //
    }, //
};

/// Counts the tables of one importer, in what the exporter has of an attachment.
///
/// # Safety
///
/// `attachment` must be one of a dma-buf of ours, whose reservation lock is held.
unsafe fn count(attachment: *mut bindings::dma_buf_attachment, by: isize) {
    // SAFETY: The caller's promise; nobody else uses this field, which is NULL at first.
    let tables = unsafe { &mut (*attachment).priv_ };
    *tables = ptr::without_provenance_mut(tables.addr().wrapping_add_signed(by));
}

struct State {
    revoked: bool,
    /// How many tables are out.
    out: u32,
}

/// Counts the tables.
#[pin_data]
pub(super) struct Tables {
    #[pin]
    state: SpinLock<State>,
    #[pin]
    changed: CondVar,
}

impl Tables {
    /// None are out.
    pub(super) fn new() -> impl PinInit<Self> {
        pin_init!(Self {
            state <- new_spinlock!(State { revoked: false, out: 0 }, "dma_buf::Tables::state"),
            changed <- new_condvar!("dma_buf::Tables::changed"),
        })
    }

    /// An importer wants one; `ENODEV` once the memory is revoked.
    ///
    /// # Safety
    ///
    /// `attachment` must be one of the dma-buf that these tables are of, whose reservation lock is
    /// held.
    pub(super) unsafe fn lend(
        &self,
        attachment: *mut bindings::dma_buf_attachment,
        segments: &[Segment],
    ) -> Result<*mut bindings::sg_table> {
        let table = KBox::new(Table::of_dma(segments)?, GFP_KERNEL_ACCOUNT)?;
        let mut state = self.state.lock();
        // It is set under the reservation lock: who gets past this is told to let go.
        if state.revoked {
            drop(state);
            return Err(ENODEV);
        }
        state.out += 1;
        // SAFETY: The caller's promise.
        unsafe { count(attachment, 1) };
        Ok(Table::into_raw(table))
    }

    /// An importer has given one back.
    ///
    /// # Safety
    ///
    /// `table` must be from [`Self::lend`] for `attachment`, and not be used any more; the
    /// reservation lock must be held.
    pub(super) unsafe fn take_back(
        &self,
        attachment: *mut bindings::dma_buf_attachment,
        table: *mut bindings::sg_table,
    ) {
        // SAFETY: The caller's promise.
        unsafe { count(attachment, -1) };
        // SAFETY: The caller's promise.
        drop(unsafe { Table::from_raw(table) });
        self.state.lock().out -= 1;
        self.changed.notify_all();
    }

    /// Waits until none are out. May sleep.
    pub(super) fn wait(&self) {
        let mut state = self.state.lock();
        while state.out > 0 {
            self.changed.wait(&mut state);
        }
    }

    /// Takes the memory away from the importers of `buf`, all of which let go when they are told
    /// to: on return none of them has access, nor gets it again. May sleep; takes the reservation
    /// lock and calls the importers under it.
    ///
    /// # Safety
    ///
    /// `buf` must be the dma-buf that these tables are of, valid during the call.
    pub(super) unsafe fn revoke(&self, buf: *mut bindings::dma_buf) {
        // SAFETY: By the caller's promise; the reservation object lives as long as the dma-buf.
        let resv = unsafe { (*buf).resv };
        // SAFETY: As above; whoever calls this does not hold the lock.
        unsafe { helpers::ext_dma_resv_lock(resv) };
        self.state.lock().revoked = true;
        // SAFETY: As above; the lock is held.
        unsafe { helpers::ext_dma_buf_invalidate_mapped(buf) };
        // SAFETY: Locked above.
        unsafe { helpers::ext_dma_resv_unlock(resv) };
        // What `dma_buf_invalidate_mappings()` asks of its caller: an importer may write until
        // its fences are signalled, and read until it has unmapped.
        // SAFETY: As above.
        unsafe { helpers::ext_dma_resv_wait(resv) };
        self.wait();
    }
}
