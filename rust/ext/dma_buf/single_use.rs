// SPDX-License-Identifier: GPL-2.0

//! A dma-buf that one device imports once, during a function call.
//!
//! # Examples
//!
//! ```
//! use crate::ext::{
//!     dma_buf::{Importer, Mismatch, Requirements, SingleUse},
//!     sg::Segment,
//! };
//! use kernel::device;
//!
//! /// Lets the function `import` of the driver of `dev` import `segments`.
//! fn give(
//!     segments: KVec<Segment>,
//!     dev: &device::Device,
//!     import: impl FnOnce(i32) -> Result + Send,
//! ) -> Result<SingleUse> {
//!     let requirements = Requirements { revocable: true, peer2peer: false };
//!     let buf = SingleUse::new(segments, dev, requirements)?;
//!     let imported = buf.import(import)?;
//!     if buf.importer() == Importer::Refused(Mismatch::NotRevocable) {
//!         dev_warn!(dev, "the driver pins dma-bufs\n");
//!     }
//!     imported?;
//!     Ok(buf)
//! }
//! ```

use super::super::{
    compat::eopnotsupp,
    sg::Segment,
    task::TaskId,
    worker, //
};
use super::{
    buf::{
        Buf,
        Exporter, //
    },
    tables::Tables,
    ImporterCaps,
    Mismatch, //
    Requirements,
};
use core::ptr;
use kernel::{
    device::Device,
    new_spinlock,
    prelude::*,
    static_lock_class,
    sync::{
        aref::ARef,
        Arc,
        SpinLock, //
    },
};

/// The importer of a [`SingleUse`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Importer {
    /// None has attached yet.
    None,
    /// The attachment of one was rejected.
    Refused(Mismatch),
    /// It is attached.
    Attached {
        /// Whether it unmaps in `invalidate_mappings`.
        revocable: bool,
    },
    /// None is attached, and none can attach any more.
    Gone,
}

/// Receiver of the notification that the importer has detached.
pub trait OnDetach: Send + Sync {
    /// Handles the end of the attachment.
    ///
    /// Context: may sleep. The caller holds no lock of the dma-buf.
    fn detached(&self);
}

/// State that changes, of a [`Shared`].
struct State {
    importer: Importer,
    /// The task that imports. Only this task can attach: kernel threads share their file
    /// descriptors.
    task: Option<TaskId>,
    on_detach: Option<Arc<dyn OnDetach>>,
}

/// Private data of the dma-buf, shared with its [`SingleUse`].
#[pin_data]
struct Shared {
    /// DMA addresses of `dev`.
    segments: KVec<Segment>,
    /// The only device that can import.
    dev: ARef<Device>,
    requirements: Requirements,
    #[pin]
    state: SpinLock<State>,
    #[pin]
    tables: Tables,
}

impl Exporter for Shared {
    fn attach(&self, dev: &Device, importer: ImporterCaps) -> Result {
        let mut state = self.state.lock();
        let same_dev = ptr::eq(&raw const *self.dev, dev);
        if state.importer != Importer::None || !same_dev || state.task != Some(TaskId::current()) {
            return Err(EPERM);
        }
        if let Some(mismatch) = self.requirements.unmet_by(importer) {
            state.importer = Importer::Refused(mismatch);
            return Err(eopnotsupp());
        }
        let revocable = importer.revocable;
        state.importer = Importer::Attached { revocable };
        Ok(())
    }

    fn detach(&self, _: ImporterCaps) {
        let mut state = self.state.lock();
        state.importer = Importer::Gone;
        let on_detach = state.on_detach.take();
        drop(state);
        if let Some(on_detach) = on_detach {
            on_detach.detached();
        }
    }

    fn with_segments<R>(&self, f: impl FnOnce(&[Segment]) -> Result<R>) -> Result<R> {
        f(&self.segments)
    }

    fn tables(&self) -> &Tables {
        &self.tables
    }
}

/// A dma-buf for one importer. Dropping it waits until the importer has unmapped.
pub struct SingleUse {
    buf: Buf,
    shared: Arc<Shared>,
}

impl SingleUse {
    /// Creates a dma-buf of `segments`, whole pages at DMA addresses of `dev`.
    ///
    /// Only `dev` can import it. The addresses must be valid until the object is dropped.
    ///
    /// Returns `ENODEV` if this module is being unloaded.
    ///
    /// Context: may sleep.
    pub fn new(segments: KVec<Segment>, dev: &Device, requirements: Requirements) -> Result<Self> {
        let size = segments.iter().map(|s| s.len).sum::<u64>().try_into()?;
        let shared = Arc::pin_init(
            pin_init!(Shared {
                segments,
                dev: dev.into(),
                requirements,
                state <- new_spinlock!(
                    State {
                        importer: Importer::None,
                        task: None,
                        on_detach: None,
                    },
                    "dma_buf::Shared::state"
                ),
                tables <- Tables::new(),
            }),
            GFP_KERNEL_ACCOUNT,
        )?;
        let buf = Buf::export(size, shared.clone())?;
        Ok(Self { buf, shared })
    }

    /// Calls `f` in a kernel worker with a file descriptor of the dma-buf, and closes the descriptor
    /// afterwards. No driver can attach after that.
    ///
    /// No process has the descriptor: none can use, close, duplicate or inherit it.
    ///
    /// Returns `EMFILE` if the kernel threads have no free file descriptor.
    ///
    /// Context: may sleep; see [`worker`] for locks.
    pub fn import<R: Send>(&self, f: impl FnOnce(i32) -> R + Send) -> Result<R> {
        worker::run(static_lock_class!(), |worker| {
            self.shared.state.lock().task = Some(TaskId::current());
            let result = worker.with_fd(&self.buf.file(), f);
            let mut state = self.shared.state.lock();
            state.task = None;
            if state.importer == Importer::None {
                state.importer = Importer::Gone;
            }
            drop(state);
            result
        })
    }

    /// Returns the state of the importer.
    ///
    /// Context: any.
    pub fn importer(&self) -> Importer {
        self.shared.state.lock().importer
    }

    /// Revokes the memory: on return the importer has unmapped it and cannot map it again.
    ///
    /// Returns `EOPNOTSUPP` if the importer is not revocable, and `ETIMEDOUT` if it does not unmap.
    ///
    /// Context: may sleep. Takes the reservation lock, and calls the importer under it.
    pub fn revoke(&self) -> Result {
        if self.importer() == (Importer::Attached { revocable: false }) {
            return Err(eopnotsupp());
        }
        // SAFETY: `self.buf` is the dma-buf of these tables, and `self` holds a reference.
        unsafe { self.shared.tables.revoke(self.buf.as_raw()) }
    }

    /// Sets `hook` as the receiver of the notification that the importer has detached.
    ///
    /// The importer must be attached, and must not be able to detach during this call.
    ///
    /// Context: any.
    pub fn on_detach(&self, hook: Arc<dyn OnDetach>) {
        let old = self.shared.state.lock().on_detach.replace(hook);
        drop(old);
    }
}

impl Drop for SingleUse {
    fn drop(&mut self) {
        // The owner frees the memory after this.
        self.shared.tables.wait();
    }
}
