// SPDX-License-Identifier: GPL-2.0

//! Tables that importers have mapped.
//!
//! [`Tables`] counts the mapped tables of some memory, and waits for importers to unmap.

use super::{
    exporter::Attachment,
    fences::FenceBudget, //
};
use crate::shared::{
    ext::base::compat::AtomicPtr,
    prelude::raw::*, //
};

struct State {
    /// No table may be mapped any more.
    closed: bool,
    /// The memory is revoked. Implies that no table may be mapped any more.
    revoked: bool,
    mapped: u32,
    /// A table was mapped since the last wait for fences and importers. If not, no importer has
    /// accessed the memory, and no fence stands for an access.
    accessed: bool,
    /// Number of tasks that wait until `mapped` is 0.
    waiting: u32,
}

/// Time in milliseconds that importers have to unmap after an invalidation.
const UNMAP_TIMEOUT: i64 = 10_000;

/// Counts the mapped tables of some memory.
#[pin_data]
pub(super) struct Tables {
    #[pin]
    state: SpinLock<State>,
    #[pin]
    changed: CondVar,
}

impl Tables {
    pub(super) fn new() -> impl PinInit<Self> {
        pin_init!(Self {
            state <- new_spinlock!(
                State {
                    closed: false,
                    revoked: false,
                    mapped: 0,
                    accessed: false,
                    waiting: 0,
                },
                "dma_buf::Tables::state"
            ),
            changed <- new_condvar!("dma_buf::Tables::changed"),
        })
    }

    /// Counts a table that an importer maps. Returns `ENODEV` if the memory is revoked or closed. The
    /// caller holds the reservation lock.
    pub(super) fn map(&self) -> Result {
        let mut state = self.state.lock();
        // `begin_revoke` sets `revoked` under the reservation lock, and then invalidates all mapped
        // tables.
        if state.revoked || state.closed {
            return Err(ENODEV);
        }
        state.mapped += 1;
        state.accessed = true;
        Ok(())
    }

    /// Reverts [`Self::map`], and wakes the tasks that wait. Context: any. The caller holds the
    /// reservation lock.
    pub(super) fn unmap(&self) {
        let mut state = self.state.lock();
        state.mapped -= 1;
        let awaited = state.waiting > 0;
        drop(state);
        if awaited {
            self.changed.notify_all();
        }
    }

    /// Forbids importers to map a table, and waits until no table is mapped. Does not wait if the device
    /// is `dead`: the importer does not unmap, and accesses nothing. Context: may sleep. The caller must
    /// not hold the reservation lock.
    pub(super) fn end(&self, dead: bool) {
        let mut state = self.state.lock();
        state.closed = true;
        state.waiting += 1;
        while state.mapped > 0 && !dead {
            self.changed.wait(&mut state);
        }
        state.waiting -= 1;
    }

    /// Waits until no table is mapped, [`UNMAP_TIMEOUT`] at most. Returns whether no table is
    /// mapped. Context: may sleep.
    fn wait_unmapped(&self) -> bool {
        let start = Instant::<Monotonic>::now();
        while self.state.lock().mapped > 0 {
            if start.elapsed() >= Delta::from_millis(UNMAP_TIMEOUT) {
                return false;
            }
            fsleep(Delta::from_millis(5));
        }
        true
    }

    /// Forbids importers to map a table, and waits until no table is mapped, [`UNMAP_TIMEOUT`] at
    /// most. Returns whether no table is mapped. Does not make importers unmap. Context: may sleep.
    /// The caller must not hold the reservation lock.
    pub(super) fn close(&self) -> bool {
        self.state.lock().closed = true;
        self.wait_unmapped()
    }

    /// First step of revocation: importers cannot map the memory any more. The first call makes the
    /// importer of `one`, or all importers of `buf`, invalidate the mapped tables.
    /// [`Self::wait_revoked`] is the second step. Context: may sleep. Takes the reservation lock, and
    /// calls importers under it.
    ///
    /// # Safety
    ///
    /// - `buf` must be the dma-buf by which importers map this memory, valid for the duration of the
    ///   call.
    /// - While a table is mapped, `one` must have the attachment that maps it, valid for a holder of the
    ///   reservation lock.
    pub(super) unsafe fn begin_revoke(
        &self,
        buf: *mut bindings::dma_buf,
        one: Option<&AtomicPtr<Attachment>>,
    ) {
        // SAFETY: By the safety requirements `buf` is valid.
        let resv = unsafe { (*buf).resv };
        // SAFETY: The reservation object lives as long as the dma-buf. The context of this function
        // allows to sleep.
        unsafe { helpers::ext_dma_resv_lock(resv) };
        let mut state = self.state.lock();
        let again = mem::replace(&mut state.revoked, true);
        let mapped = state.mapped > 0;
        drop(state);
        if mapped && !again {
            match one {
                // SAFETY: A table is mapped. The importer unmaps the table under the reservation lock,
                // and detaches later. This task holds the lock, so the attachment is valid.
                Some(one) => unsafe { (*one.load(Relaxed)).invalidate() },
                // SAFETY: By the safety requirements `buf` is valid; this task holds the lock.
                None => unsafe { helpers::ext_dma_buf_invalidate_mapped(buf) },
            }
        }
        // SAFETY: This task took the lock above.
        unsafe { helpers::ext_dma_resv_unlock(resv) };
    }

    /// Second step of revocation: waits for the fences and the importers of the memory. On return
    /// all importers have unmapped the memory.
    ///
    /// Returns `ETIMEDOUT` if an importer has not unmapped in [`UNMAP_TIMEOUT`]. The importer may
    /// unmap later. Context: may sleep. The caller must not hold the reservation lock.
    ///
    /// # Safety
    ///
    /// As for [`Self::begin_revoke`], which must have returned.
    pub(super) unsafe fn wait_revoked(
        &self,
        buf: *mut bindings::dma_buf,
        fences: &FenceBudget,
    ) -> Result {
        if !self.state.lock().accessed {
            return Ok(());
        }
        // An importer may write until the importer's fences are signalled, so
        // `dma_buf_invalidate_mappings()` requires the caller to wait for the fences. A process
        // with the file descriptor can add any fence, also a fence that waits for the caller, so
        // the time is limited.
        //
        // SAFETY: By the safety requirements `buf` is valid, and the reservation object lives as
        // long as `buf`.
        unsafe { fences.wait((*buf).resv) };
        if !self.wait_unmapped() {
            return Err(ETIMEDOUT);
        }
        // No table can be mapped any more.
        self.state.lock().accessed = false;
        Ok(())
    }
}
