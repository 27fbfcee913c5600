// SPDX-License-Identifier: GPL-2.0

//! A dma-buf for whoever has its file descriptor.
//!
//! It is for one device, the first that imports it, as often as it likes; when the last importer
//! has let go the memory is given back, and a file descriptor that is still open is good for
//! nothing.

use super::super::{
    bindings::helpers,
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
    Requirements, //
};
use core::{
    mem,
    ptr, //
};
use kernel::{
    bindings,
    device::Device,
    fs::File,
    new_condvar,
    new_spinlock,
    prelude::*,
    sync::{
        aref::ARef,
        Arc,
        CondVar,
        SpinLock, //
    }, //
};

/// What is behind an offer. Nothing here is called with a lock of the dma-buf held; all may sleep.
pub trait Memory: Send + Sync {
    /// Makes the memory reachable for `dev`, in pieces of at most `max` bytes. Called again only
    /// where it has failed.
    fn map(&self, dev: &Device, max: u64) -> Result<KVec<Segment>>;

    /// No device has access to the memory any more, nor gets it. Called once.
    fn ended(&self);
}

/// Where an offer is.
enum Phase {
    /// Nobody has imported it.
    Fresh,
    /// The memory is being mapped for the first importer.
    Mapping,
    /// There are importers, all for this device.
    Mapped {
        dev: ARef<Device>,
        segments: Arc<KVec<Segment>>,
        importers: u32,
    },
    /// The last importer has let go, or the file is closed.
    Ended,
}

struct State {
    phase: Phase,
    /// Importers that do not let go when they are told to.
    non_revocable: u32,
    /// The dma-buf, until its file is released; and how many tasks use this pointer.
    buf: *mut bindings::dma_buf,
    uses: u32,
}

/// What the dma-buf and an [`Revoker`] share: the private data of the dma-buf.
///
/// # Invariants
///
/// Where `State::buf` is not NULL it is valid, and remains so while `State::uses` is not 0.
#[pin_data]
struct Shared {
    memory: Arc<dyn Memory>,
    rules: Requirements,
    #[pin]
    state: SpinLock<State>,
    #[pin]
    changed: CondVar,
    #[pin]
    tables: Tables,
}

// SAFETY: The pointer may be used from any thread.
unsafe impl Send for Shared {}
// SAFETY: As above; what changes is under a lock.
unsafe impl Sync for Shared {}

impl Exporter for Shared {
    /// `EOPNOTSUPP` where it does not follow the rules, `EBUSY` where the memory is mapped for
    /// another device, `ENODEV` where it is over.
    fn attach(&self, dev: &Device, importer: ImporterCaps) -> Result {
        if self.rules.unmet_by(importer).is_some() {
            return Err(eopnotsupp());
        }
        let mut state = self.state.lock();
        loop {
            match &mut state.phase {
                Phase::Fresh => break,
                Phase::Mapping => self.changed.wait(&mut state),
                Phase::Mapped {
                    dev: of, importers, ..
                } => {
                    if !ptr::eq(&raw const **of, dev) {
                        return Err(EBUSY);
                    }
                    *importers += 1;
                    state.non_revocable += u32::from(!importer.revocable);
                    return Ok(());
                }
                Phase::Ended => return Err(ENODEV),
            }
        }
        state.phase = Phase::Mapping;
        drop(state);

        // SAFETY: The device is one that an importer works with.
        let max = unsafe { helpers::ext_dma_max_seg_size(ptr::from_ref(dev).cast_mut().cast()) };
        let mapped = self
            .memory
            .map(dev, max.into())
            .and_then(|segments| Ok(Arc::new(segments, GFP_KERNEL_ACCOUNT)?));
        let mut state = self.state.lock();
        let result = match mapped {
            Ok(segments) => {
                state.phase = Phase::Mapped {
                    dev: dev.into(),
                    segments,
                    importers: 1,
                };
                state.non_revocable += u32::from(!importer.revocable);
                Ok(())
            }
            Err(e) => {
                state.phase = Phase::Fresh;
                Err(e)
            }
        };
        drop(state);
        self.changed.notify_all();
        result
    }

    fn detach(&self, importer: ImporterCaps) {
        let mut state = self.state.lock();
        state.non_revocable -= u32::from(!importer.revocable);
        let last = match &mut state.phase {
            Phase::Mapped { importers, .. } => {
                *importers -= 1;
                *importers == 0
            }
            _ => false,
        };
        let old = last.then(|| mem::replace(&mut state.phase, Phase::Ended));
        drop(state);
        if old.is_some() {
            self.memory.ended();
        }
    }

    fn with_segments<R>(&self, f: impl FnOnce(&[Segment]) -> Result<R>) -> Result<R> {
        let segments = match &self.state.lock().phase {
            Phase::Mapped { segments, .. } => segments.clone(),
            _ => return Err(ENODEV),
        };
        f(&segments)
    }

    fn tables(&self) -> &Tables {
        &self.tables
    }

    fn release(&self) {
        let mut state = self.state.lock();
        state.buf = ptr::null_mut();
        // Whoever uses it waits for importers alone, of which there are none any more.
        while state.uses > 0 {
            self.changed.wait(&mut state);
        }
        let old = mem::replace(&mut state.phase, Phase::Ended);
        drop(state);
        if !matches!(old, Phase::Ended) {
            self.memory.ended();
        }
    }
}

impl Shared {
    /// See [`Revoker::revoke`].
    fn revoke(&self) -> Result {
        let mut state = self.state.lock();
        if state.non_revocable > 0 {
            return Err(eopnotsupp());
        }
        let buf = state.buf;
        if buf.is_null() {
            return Ok(());
        }
        state.uses += 1;
        drop(state);
        // SAFETY: By the type invariants, as `uses` is not 0.
        unsafe { self.tables.revoke(buf) };
        self.state.lock().uses -= 1;
        self.changed.notify_all();
        Ok(())
    }
}

/// A dma-buf that can be given to people.
pub struct Export(Buf);

impl Export {
    /// Makes one of `size` bytes of `memory`. Dropping it, or closing the last file descriptor,
    /// ends it. `ENODEV` where this module is being unloaded; where it fails `memory` is not told
    /// anything. May sleep.
    pub fn new(
        memory: Arc<dyn Memory>,
        size: usize,
        rules: Requirements,
    ) -> Result<(Self, Revoker)> {
        let shared = Arc::pin_init(
            pin_init!(Shared {
                memory,
                rules,
                state <- new_spinlock!(
                    State {
                        phase: Phase::Fresh,
                        non_revocable: 0,
                        buf: ptr::null_mut(),
                        uses: 0,
                    },
                    "dma_buf::Export::state"
                ),
                changed <- new_condvar!("dma_buf::Export::changed"),
                tables <- Tables::new(),
            }),
            GFP_KERNEL_ACCOUNT,
        )?;
        let buf = Buf::export(size, shared.clone())?;
        // INVARIANT: Just made; `release` sets it back.
        shared.state.lock().buf = buf.as_raw();
        Ok((Self(buf), Revoker(shared)))
    }

    /// Its file, to be given a file descriptor.
    pub fn file(&self) -> ARef<File> {
        self.0.file()
    }
}

/// What is kept of an [`Export`], to take the memory back.
pub struct Revoker(Arc<Shared>);

impl Revoker {
    /// Could all importers that there are be told to let go?
    pub fn can_revoke(&self) -> bool {
        self.0.state.lock().non_revocable == 0
    }

    /// Takes the memory away from all importers: on return they have no access any more and get
    /// none. `EOPNOTSUPP` where one of them cannot be told. May sleep; takes the reservation lock
    /// and calls the importers under it.
    pub fn revoke(&self) -> Result {
        self.0.revoke()
    }
}
