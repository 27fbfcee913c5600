// SPDX-License-Identifier: GPL-2.0

//! References to this module while importers may call this module for a shared dma-buf.
//!
//! Until the release of a dma-buf, the core calls the exporter's operations, which are functions of
//! this module. So [`ModuleRef`] holds a reference to the module while an importer is attached, and
//! from the end of the pool to the release. A module that is being removed gives no reference:
//! module removal waits for the release in [`wait_released`].

use crate::shared::ext::base::module::ThisModuleRef;
use crate::shared::prelude::*;

/// Number of shared dma-bufs that are [`Left::Awaited`] and not released.
static AWAITED: Atomic<i32> = Atomic::new(0);

/// Waits until no shared dma-buf is left that has outlived its pool during module removal.
///
/// No device may have a pool any more. The release of a dma-buf is a function of this module, so a
/// Tasks RCU grace period must follow this call, and waits for the tasks that are in the function.
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

/// What delays module removal from the end of the pool to the release of the dma-buf.
pub(super) enum Left {
    /// The pool still has the dma-buf.
    No,
    /// A reference to the module.
    Pinned(ThisModuleRef),
    /// [`wait_released`]: the module is being removed.
    Awaited,
}

impl Left {
    /// The last step of the release of the dma-buf. The module may be gone when the caller has
    /// returned, so no step may follow, and the caller must not sleep.
    pub(super) fn end(self) {
        match self {
            Self::No => {}
            Self::Pinned(module) => drop(module),
            // Pairs with the load in `wait_released`.
            Self::Awaited => {
                AWAITED.fetch_add(-1, Release);
            }
        }
    }
}

struct Importers {
    attached: u32,
    /// The reference while an importer is attached, unless `left` has the reference.
    pinned: Option<ThisModuleRef>,
    /// Whether the dma-buf has outlived the pool, because other code has a reference.
    left: Left,
}

/// The reference to the module for a shared dma-buf.
#[pin_data]
pub(super) struct ModuleRef {
    #[pin]
    importers: SpinLock<Importers>,
}

impl ModuleRef {
    /// Creates the count for a dma-buf of a pool, without a reference to the module.
    pub(super) fn new() -> impl PinInit<Self> {
        pin_init!(Self {
            importers <- new_spinlock!(
                Importers { attached: 0, pinned: None, left: Left::No },
                "dma_buf::ModuleRef::importers"
            ),
        })
    }

    /// Counts an importer. Returns `ENODEV` if the module is being unloaded.
    pub(super) fn get(&self) -> Result {
        let mut importers = self.importers.lock();
        if importers.attached == 0 {
            importers.pinned = Some(ThisModuleRef::get().ok_or(ENODEV)?);
        }
        importers.attached += 1;
        Ok(())
    }

    /// Reverts [`Self::get`]. The caller returns to the dma-buf code without sleeping.
    pub(super) fn put(&self) {
        let mut importers = self.importers.lock();
        importers.attached -= 1;
        let last = if importers.attached == 0 {
            importers.pinned.take()
        } else {
            None
        };
        drop(importers);
        drop(last);
    }

    /// Delays module removal until [`Left::end`], as the pool ends.
    pub(super) fn stay(&self) {
        let mut importers = self.importers.lock();
        importers.left = match importers.pinned.take().or_else(ThisModuleRef::get) {
            Some(pinned) => Left::Pinned(pinned),
            None => {
                AWAITED.fetch_add(1, Relaxed);
                Left::Awaited
            }
        };
    }

    /// Returns the value whose [`Left::end`] the release of the dma-buf must call.
    pub(super) fn left(&self) -> Left {
        mem::replace(&mut self.importers.lock().left, Left::No)
    }
}
