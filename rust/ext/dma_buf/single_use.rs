// SPDX-License-Identifier: GPL-2.0

//! A dma-buf for one importer: memory that a driver which imports dma-bufs is to be given, once.

use super::super::{
    compat::eopnotsupp,
    sg::Segment, //
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
    bindings,
    device::Device,
    fs::file::FileDescriptorReservation,
    new_spinlock,
    prelude::*,
    sync::{
        aref::ARef,
        Arc,
        SpinLock, //
    },
};

/// Who has come for the memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Importer {
    /// Nobody yet.
    None,
    /// Somebody who was not let in.
    Refused(Mismatch),
    /// The one that there can be.
    Attached {
        /// Does it let go when it is told to?
        revocable: bool,
    },
    /// Nobody, and nobody will.
    Gone,
}

/// Wants to know when the importer has let go for good.
pub trait OnDetach: Send + Sync {
    /// The importer has detached. No lock of the dma-buf is held; may sleep.
    fn detached(&self);
}

struct State {
    importer: Importer,
    on_detach: Option<Arc<dyn OnDetach>>,
}

/// What the dma-buf and its [`SingleUse`] share: the private data of the dma-buf.
#[pin_data]
struct Shared {
    /// What an importer is given: DMA addresses of `dev`.
    segments: KVec<Segment>,
    /// The only device that they are good for.
    dev: ARef<Device>,
    rules: Requirements,
    /// The task that makes the export. Only what it calls may import: who else gets hold of the
    /// file descriptor has nothing.
    task: usize,
    #[pin]
    state: SpinLock<State>,
    #[pin]
    tables: Tables,
}

impl Exporter for Shared {
    fn attach(&self, dev: &Device, importer: ImporterCaps) -> Result {
        let mut state = self.state.lock();
        let ours = ptr::eq(&raw const *self.dev, dev);
        if state.importer != Importer::None || !ours || current_task() != self.task {
            return Err(EPERM);
        }
        if let Some(unfit) = self.rules.unmet_by(importer) {
            state.importer = Importer::Refused(unfit);
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

/// The calling task, as a number.
fn current_task() -> usize {
    let task: &kernel::task::Task = current!();
    ptr::from_ref(task).addr()
}

/// A dma-buf of ours.
pub struct SingleUse {
    buf: Buf,
    shared: Arc<Shared>,
}

impl SingleUse {
    /// Makes one of `segments`, whole pages as `dev` sees them, which must be good until the
    /// object is dropped; `dev` is the only device that can import it. `ENODEV` where this module
    /// is being unloaded. May sleep.
    pub fn new(segments: KVec<Segment>, dev: &Device, rules: Requirements) -> Result<Self> {
        let size = segments.iter().map(|s| s.len).sum::<u64>().try_into()?;
        let shared = Arc::pin_init(
            pin_init!(Shared {
                segments,
                dev: dev.into(),
                rules,
                task: current_task(),
                state <- new_spinlock!(
                    State {
                        importer: Importer::None,
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

    /// Runs `f` with a file descriptor for the dma-buf, which is closed then. Nobody can begin to
    /// import it afterwards. `EMFILE` where the process can have no more. May sleep.
    ///
    /// Other threads of the process can close the descriptor meanwhile, and open something else
    /// that gets its number: whether it was this dma-buf that `f` has used, [`Self::importer`]
    /// tells.
    pub fn lend<R>(&self, f: impl FnOnce(i32) -> R) -> Result<R> {
        let fd = FileDescriptorReservation::get_unused_fd_flags(bindings::O_CLOEXEC)?;
        let number = fd.reserved_fd();
        fd.fd_install(self.buf.file());
        let result = f(number as i32);
        // SAFETY: Closes what the process has under that number, as close(2) does.
        unsafe { bindings::close_fd(number) };
        let mut state = self.shared.state.lock();
        if state.importer == Importer::None {
            state.importer = Importer::Gone;
        }
        drop(state);
        Ok(result)
    }

    /// Who has come.
    pub fn importer(&self) -> Importer {
        self.shared.state.lock().importer
    }

    /// Takes the memory away from the importer: on return it has no access any more and gets
    /// none. `EOPNOTSUPP` where it is one that cannot be told. May sleep; takes the reservation
    /// lock and calls the importer under it.
    pub fn revoke(&self) -> Result {
        if self.importer() == (Importer::Attached { revocable: false }) {
            return Err(eopnotsupp());
        }
        // SAFETY: It is that dma-buf, which lives as long as `self`.
        unsafe { self.shared.tables.revoke(self.buf.as_raw()) };
        Ok(())
    }

    /// Has `hook` told when the importer detaches. The importer must be attached, and must not
    /// be able to detach during this call.
    pub fn on_detach(&self, hook: Arc<dyn OnDetach>) {
        let old = self.shared.state.lock().on_detach.replace(hook);
        drop(old);
    }
}

impl Drop for SingleUse {
    fn drop(&mut self) {
        // Whoever drops this is about to take the memory away.
        self.shared.tables.wait();
    }
}
