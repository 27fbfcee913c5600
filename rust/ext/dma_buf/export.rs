// SPDX-License-Identifier: GPL-2.0

//! A dma-buf for every process that has the file descriptor.
//!
//! Only the first importing device can import the memory, any number of times. When the last
//! importer has detached, the memory is released, and later imports fail.
//!
//! [`Export`] is the dma-buf, [`ExportOps`] the trait of the memory behind the dma-buf, and
//! [`Revoker`] the handle to revoke the memory. Used for the file descriptors that a process asks
//! for.

use super::{
    buffer::Buffer,
    exporter::{
        Attachment,
        Buf,
        Exporter,
        ImporterCaps,
        Pins, //
    },
    fences::FenceBudget,
    tables::Tables, //
};
use crate::shared::{
    ext::base::{
        compat::eopnotsupp,
        sg::{
            ForeignPart,
            Table, //
        }, //
    },
    prelude::raw::*, //
};
use kernel::{
    device::Device,
    fs::File, //
};

/// The operations of the memory behind an [`Export`], implemented by a layer above. Context: may
/// sleep, for all methods. The caller holds no lock of the dma-buf.
pub trait ExportOps: Send + Sync {
    /// Returns an error if `dev` must not import the memory. The importer gets the error, and the
    /// export does not change.
    fn admit(&self, dev: &Device) -> Result;

    /// Maps the memory for `dev`.
    ///
    /// Called again only after a failure, and then perhaps for another device.
    fn map(&self, dev: &Device) -> Result<ForeignPart>;

    /// Handles the end of the export: no device has access to the memory, or can get access. Called
    /// once.
    fn ended(&self);
}

/// Adds `by` to the number of tables that the importer of `attachment` has mapped. Called under the
/// reservation lock.
///
/// The number is in the exporter's field of the attachment, for `ext_dma_buf_invalidate_mapped()`.
fn count(attachment: &Attachment, by: isize) {
    let tables = attachment.private();
    let n = tables.load(Relaxed).addr().wrapping_add_signed(by);
    tables.store(ptr::without_provenance_mut(n), Relaxed);
}

enum Phase {
    /// No importer has attached yet.
    Fresh,
    Mapping,
    /// One device has importers attached.
    Mapped {
        dev: ARef<Device>,
        /// Valid until the memory is revoked or the export has ended.
        memory: ForeignPart,
        importers: u32,
    },
    /// The last importer has detached, or the file is released.
    Ended,
}

struct State {
    phase: Phase,
    /// Number of importers that do not unmap in `invalidate_mappings`.
    non_revocable: u32,
    /// The dma-buf, or NULL once the file is released.
    buf: *mut bindings::dma_buf,
    /// Number of tasks that use `buf` without the lock.
    uses: u32,
    /// The memory is revoked or being revoked.
    revoked: bool,
}

/// Private data of the dma-buf, shared with the [`Revoker`].
///
/// # Invariants
///
/// `State::buf` is NULL or valid. While `State::uses` is not 0, the dma-buf stays valid.
#[pin_data]
struct Shared {
    memory: Arc<dyn ExportOps>,
    requirements: ImporterCaps,
    #[pin]
    state: SpinLock<State>,
    #[pin]
    changed: CondVar,
    #[pin]
    tables: Tables,
}

// SAFETY: A dma-buf is not bound to a task, and neither are the other fields.
unsafe impl Send for Shared {}
// SAFETY: A lock protects all fields that change.
unsafe impl Sync for Shared {}

impl Exporter for Shared {
    /// Returns `EOPNOTSUPP` if the importer does not meet the requirements, the error of
    /// [`ExportOps::admit`] if the device is not admitted, `EBUSY` if the memory is mapped for
    /// another device, and `ENODEV` if the export has ended.
    fn attach(&self, attachment: &Attachment) -> Result {
        let (dev, importer) = (attachment.device(), attachment.importer());
        if self.requirements.unmet_by(importer).is_some() {
            return Err(eopnotsupp());
        }
        self.memory.admit(dev)?;
        let mut state = self.state.lock();
        loop {
            if state.revoked {
                return Err(ENODEV);
            }
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

        let mapped = self.memory.map(dev);
        let mut state = self.state.lock();
        let result = match mapped {
            Ok(_) if state.revoked => {
                state.phase = Phase::Fresh;
                Err(ENODEV)
            }
            Ok(memory) => {
                state.phase = Phase::Mapped {
                    dev: dev.into(),
                    memory,
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

    fn detach(&self, attachment: &Attachment) {
        let mut state = self.state.lock();
        state.non_revocable -= u32::from(!attachment.importer().revocable);
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

    fn map(&self, attachment: &Attachment) -> Result<*mut bindings::sg_table> {
        let memory = match &self.state.lock().phase {
            Phase::Mapped { memory, .. } => *memory,
            _ => return Err(ENODEV),
        };
        self.tables.map()?;
        // A table of its own for each importer: an MR may have a part of the memory.
        //
        // SAFETY: By the safety requirements of `ForeignTable::part` the list does not change before
        // the memory is revoked, which waits until no table is mapped, or the export has ended: then
        // there is no attachment.
        let table = unsafe { memory.table() }
            .and_then(|table| Ok(KBox::new(table, GFP_KERNEL_ACCOUNT)?))
            .inspect_err(|_| self.tables.unmap())?;
        count(attachment, 1);
        Ok(Table::into_raw(table))
    }

    unsafe fn unmap(&self, attachment: &Attachment, table: *mut bindings::sg_table) {
        // SAFETY: By the safety requirements `table` is from `map`, and has no user any more.
        drop(unsafe { Table::from_raw(table) });
        count(attachment, -1);
        self.tables.unmap();
    }

    fn release(this: Arc<Self>) {
        let mut state = this.state.lock();
        state.buf = ptr::null_mut();
        // A task that revokes the memory waits only for fences and importers. No importer is left,
        // and the wait for fences is limited: to 30 s, for which the kernel's worker that closes files
        // waits here if it has the last reference.
        while state.uses > 0 {
            this.changed.wait(&mut state);
        }
        let old = mem::replace(&mut state.phase, Phase::Ended);
        drop(state);
        if !matches!(old, Phase::Ended) {
            this.memory.ended();
        }
    }
}

/// A dma-buf for every process that has the file descriptor.
pub struct Export(Buf);

impl Export {
    /// Creates a dma-buf of `size` bytes of `memory`.
    ///
    /// The export ends with the last reference to the file, or with the detachment of the last
    /// importer. If this function fails, [`ExportOps::ended`] is not called.
    ///
    /// Returns `ENODEV` if this module is being unloaded. Context: may sleep.
    pub fn new(
        memory: Arc<dyn ExportOps>,
        size: usize,
        requirements: ImporterCaps,
    ) -> Result<(Self, Revoker)> {
        let shared = Arc::pin_init(
            pin_init!(Shared {
                memory,
                requirements,
                state <- new_spinlock!(
                    State {
                        phase: Phase::Fresh,
                        non_revocable: 0,
                        buf: ptr::null_mut(),
                        uses: 0,
                        revoked: false,
                    },
                    "dma_buf::Export::state"
                ),
                changed <- new_condvar!("dma_buf::Export::changed"),
                tables <- Tables::new(),
            }),
            GFP_KERNEL_ACCOUNT,
        )?;
        let buf = Buf::export(size, shared.clone(), Pins::File)?;
        // INVARIANT: The dma-buf is valid until `release`, and `release` sets the field to NULL.
        shared.state.lock().buf = buf.as_raw();
        Ok((Self(buf), Revoker(shared)))
    }

    pub fn buffer(&self) -> Buffer {
        Buffer::of(&self.0)
    }

    pub fn file(&self) -> ARef<File> {
        self.0.file().into()
    }
}

pub struct Revoker(Arc<Shared>);

impl Revoker {
    /// Returns whether all current importers are revocable.
    pub fn can_revoke(&self) -> bool {
        self.0.state.lock().non_revocable == 0
    }

    /// First step of revocation: no importer can attach or map the memory any more, and importers
    /// with a mapping are made to unmap. Does nothing if an importer is not revocable.
    /// [`Self::wait_revoked`] is the second step. Context: may sleep. Takes the reservation lock,
    /// and calls the importers under it.
    pub fn begin_revoke(&self) {
        // Once `revoked` is set no importer can attach, so no non-revocable importer can appear.
        let can_revoke = |state: &mut State| {
            state.revoked |= state.non_revocable == 0;
            state.revoked
        };
        self.with_buf(can_revoke, |buf| {
            // SAFETY: The dma-buf is valid during the call, and the importers map by it.
            unsafe { self.0.tables.begin_revoke(buf, None) };
        });
    }

    /// Second step of revocation, after [`Self::begin_revoke`]: on return all importers have
    /// unmapped the memory.
    ///
    /// Returns `EOPNOTSUPP` if an importer is not revocable, and `ETIMEDOUT` if an importer does
    /// not unmap in time. Context: may sleep. The caller must not hold the reservation lock.
    pub fn wait_revoked(&self, fences: &FenceBudget) -> Result {
        if !self.0.state.lock().revoked {
            return Err(eopnotsupp());
        }
        let wait = |buf| {
            // SAFETY: The dma-buf is valid during the call, and the importers map by it. The revocation
            // has begun.
            unsafe { self.0.tables.wait_revoked(buf, fences) }
        };
        self.with_buf(|_| true, wait).unwrap_or(Ok(()))
    }

    /// Calls `f` with the dma-buf if the dma-buf still exists and `wanted` returns `true`. The
    /// dma-buf is valid during the call.
    fn with_buf<T>(
        &self,
        wanted: impl FnOnce(&mut State) -> bool,
        f: impl FnOnce(*mut bindings::dma_buf) -> T,
    ) -> Option<T> {
        let shared = &*self.0;
        let mut state = shared.state.lock();
        let buf = state.buf;
        if !wanted(&mut state) || buf.is_null() {
            return None;
        }
        state.uses += 1;
        drop(state);
        // By the type invariants the dma-buf is valid, as the pointer is not NULL and `uses` is not
        // 0.
        let result = f(buf);
        shared.state.lock().uses -= 1;
        shared.changed.notify_all();
        Some(result)
    }
}
