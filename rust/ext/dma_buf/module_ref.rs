// SPDX-License-Identifier: GPL-2.0

//! What keeps the module loaded while others may use its code for a shared dma-buf.
//!
//! A dma-buf calls the exporter's operations, which are functions of this module, until it is released.
//! [`ModuleRef`] has a reference to the module while an importer is attached, and from the end of the
//! pool to the release. A module that is being removed gives no reference: its removal waits for the
//! release in [`wait_released`]. Used by [`pool`](super::pool).

use kernel::{
    bindings,
    new_spinlock,
    prelude::*,
    sync::{
        atomic::{
            Acquire,
            Atomic,
            Relaxed,
            Release, //
        },
        SpinLock, //
    },
    time::{
        delay::fsleep,
        Delta, //
    }, //
};

/// How many shared dma-bufs are [`Left::Awaited`] and not released.
static AWAITED: Atomic<i32> = Atomic::new(0);

/// Waits until all shared dma-bufs are released that the removal of the module has left to others.
///
/// No device may have a pool any more. The release of a dma-buf is a function of this module: after
/// this call a Tasks RCU grace period waits for the tasks that are in it.
///
/// Context: may sleep.
pub(in super::super) fn wait_released() {
    let mut logged = false;
    while AWAITED.load(Acquire) > 0 {
        if !logged {
            pr_err!(
                "waiting until the last reference to a dma-buf of this module is dropped; end the \
                 programs that iterate over dma-bufs (BPF iterators)\n"
            );
            logged = true;
        }
        fsleep(Delta::from_millis(100));
    }
}

/// Takes a reference to the module. Returns `false` if it is being unloaded.
fn pin() -> bool {
    // SAFETY: This is the module that the code is linked into.
    unsafe { bindings::try_module_get(&raw mut bindings::__this_module) }
}

/// Drops a reference to the module. The caller returns to the dma-buf without sleeping, so the
/// removal of the module, which waits for a Tasks RCU grace period, waits for it.
fn unpin() {
    // SAFETY: The reference was taken in `pin`.
    unsafe { bindings::module_put(&raw mut bindings::__this_module) };
}

/// What keeps the module loaded from the end of the pool to the release of the dma-buf.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Left {
    /// The pool has the dma-buf.
    No,
    /// A reference to the module.
    Pinned,
    /// [`wait_released`]: the module is being removed.
    Awaited,
}

impl Left {
    /// Ends the release of the dma-buf. The module may be gone when the caller has returned, so nothing
    /// may follow, and the caller must not sleep.
    pub(super) fn end(self) {
        match self {
            Self::No => {}
            Self::Pinned => unpin(),
            // Pairs with the load in `wait_released`.
            Self::Awaited => {
                AWAITED.fetch_add(-1, Release);
            }
        }
    }
}

/// Counts the importers of a shared dma-buf.
struct Importers {
    /// How many are attached. While there is one, there is a reference to the module.
    attached: u32,
    /// Whether the pool has left the dma-buf to those who have a reference.
    left: Left,
}

/// The reference to the module for a shared dma-buf.
#[pin_data]
pub(super) struct ModuleRef {
    #[pin]
    importers: SpinLock<Importers>,
}

impl ModuleRef {
    /// Creates it for a dma-buf of a pool, without a reference.
    pub(super) fn new() -> impl PinInit<Self> {
        pin_init!(Self {
            importers <- new_spinlock!(
                Importers { attached: 0, left: Left::No },
                "dma_buf::ModuleRef::importers"
            ),
        })
    }

    /// Counts an importer. Returns `ENODEV` if the module is being unloaded.
    pub(super) fn enter(&self) -> Result {
        let mut importers = self.importers.lock();
        if importers.attached == 0 && !pin() {
            return Err(ENODEV);
        }
        importers.attached += 1;
        Ok(())
    }

    /// Ends what [`Self::enter`] has begun.
    pub(super) fn leave(&self) {
        let mut importers = self.importers.lock();
        importers.attached -= 1;
        let last = importers.attached == 0 && importers.left != Left::Pinned;
        drop(importers);
        if last {
            unpin();
        }
    }

    /// Has the module stay until [`Left::end`], as the pool ends.
    pub(super) fn stay(&self) {
        let mut importers = self.importers.lock();
        importers.left = if importers.attached > 0 || pin() {
            Left::Pinned
        } else {
            AWAITED.fetch_add(1, Relaxed);
            Left::Awaited
        };
    }

    /// Returns what the release of the dma-buf has to end.
    pub(super) fn left(&self) -> Left {
        self.importers.lock().left
    }
}
