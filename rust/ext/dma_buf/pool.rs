// SPDX-License-Identifier: GPL-2.0

//! Dma-bufs that one device imports, each any number of times. Each import happens within one
//! function call.
//!
//! A dma-buf needs a file, an inode and a dentry, which cost more than an MR. So the imports of a
//! [`Pool`] share dma-bufs, and the memory belongs to the attachment: an [`Import`] is the memory
//! of one attachment. There is one shared dma-buf for each CPU, so that tasks on different CPUs do
//! not wait for the same reservation lock. Used for the MRs of a device.

use super::{
    exporter::{
        Attachment,
        Buf,
        Exporter,
        ImporterCaps,
        Mismatch,
        Pins, //
    },
    fences::FenceBudget,
    module_ref::ModuleRef,
    private_fd,
    tables::Tables, //
};
use crate::shared::ext::{
    base::{
        compat::{
            eopnotsupp,
            AtomicPtr, //
        },
        sg::{
            FixedTable,
            ForeignPart, //
        }, //
    },
    task::worker, //
};
use crate::shared::prelude::*;
use core::mem::ManuallyDrop;
use kernel::{
    bindings,
    cpu::{
        nr_cpu_ids,
        CpuId, //
    },
    device::Device,
    static_lock_class, //
};

/// Reported size of a shared dma-buf. No address space is larger, so importers accept any length.
const SIZE: usize = 1 << 57;

/// Maximum number of shared dma-bufs of a device.
const MOST: u32 = 64;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Importer {
    None,
    /// The attachment of an importer was rejected.
    Rejected(Mismatch),
    Attached {
        /// Whether the importer unmaps in `invalidate_mappings`.
        revocable: bool,
    },
    Gone,
}

/// Receiver of the notification that the importer has detached.
pub trait OnDetach: Send + Sync {
    /// Handles the end of the attachment. Context: may sleep. The caller holds no lock of the
    /// dma-buf.
    fn detached(&self);
}

struct State {
    importer: Importer,
    on_detach: Option<Arc<dyn OnDetach>>,
}

/// The memory of one import: the private data of the attachment.
#[pin_data]
struct Mapping {
    /// DMA addresses of the device, valid until `tables` ends. The MR of an import has all of the memory, so
    /// all tables of the importer are this one.
    table: FixedTable,
    requirements: ImporterCaps,
    #[pin]
    state: SpinLock<State>,
    /// The attachment. Valid while a table is mapped, for a holder of the reservation lock.
    attachment: AtomicPtr<Attachment>,
    #[pin]
    tables: Tables,
}

impl Mapping {
    fn new(table: FixedTable, requirements: ImporterCaps) -> impl PinInit<Self> {
        pin_init!(Self {
            table,
            requirements,
            state <- new_spinlock!(
                State { importer: Importer::None, on_detach: None },
                "dma_buf::Mapping::state"
            ),
            attachment: AtomicPtr::new(ptr::null_mut()),
            tables <- Tables::new(),
        })
    }

    fn attach(&self, attachment: &Attachment) -> Result {
        let importer = attachment.importer();
        let mut state = self.state.lock();
        if state.importer != Importer::None {
            return Err(EPERM);
        }
        if let Some(mismatch) = self.requirements.unmet_by(importer) {
            state.importer = Importer::Rejected(mismatch);
            return Err(eopnotsupp());
        }
        let at = ptr::from_ref(attachment).cast_mut();
        self.attachment.store(at, Relaxed);
        let revocable = importer.revocable;
        state.importer = Importer::Attached { revocable };
        Ok(())
    }

    fn detach(&self) {
        let mut state = self.state.lock();
        state.importer = Importer::Gone;
        let on_detach = state.on_detach.take();
        drop(state);
        if let Some(on_detach) = on_detach {
            on_detach.detached();
        }
    }

    /// Returns the mapping of an attachment.
    ///
    /// # Safety
    ///
    /// [`PoolExporter::attach`] must have accepted the attachment, and the attachment must not be
    /// detached during `'a`.
    unsafe fn of<'a>(attachment: &'a Attachment) -> ArcBorrow<'a, Self> {
        // SAFETY: By the safety requirements the field holds an `Arc<Self>`, and only
        // `PoolExporter::detach` drops the `Arc`.
        unsafe { Arc::borrow(attachment.private().load(Relaxed)) }
    }
}

/// Private data of a shared dma-buf.
#[pin_data]
struct PoolExporter {
    /// The only device that can import.
    dev: ARef<Device>,
    #[pin]
    module: ModuleRef,
}

impl Exporter for PoolExporter {
    fn attach(&self, attachment: &Attachment) -> Result {
        let mapping = private_fd::cookie(attachment.dma_buf()).ok_or(EPERM)?;
        // SAFETY: Offers for the dma-bufs of pools are from `Pool::import`, and `Pool::import`
        // keeps the `Arc`.
        let mapping = unsafe { ArcBorrow::from_raw(mapping.cast::<Mapping>()) };
        let mapping: Arc<Mapping> = mapping.into();
        if !ptr::eq(&raw const *self.dev, attachment.device()) {
            return Err(EPERM);
        }
        self.module.get()?;
        mapping
            .attach(attachment)
            .inspect_err(|_| self.module.put())?;
        attachment.private().store(mapping.into_foreign(), Relaxed);
        Ok(())
    }

    fn detach(&self, attachment: &Attachment) {
        let mapping = attachment.private().load(Relaxed);
        // SAFETY: `attach` stored an `Arc<Mapping>` from `into_foreign`. The attachment ends, so
        // this call may take the `Arc` over.
        let mapping = unsafe { Arc::<Mapping>::from_foreign(mapping) };
        // If this was the last import, the pool may end here, while this importer still has the
        // dma-buf.
        mapping.detach();
        drop(mapping);
        self.module.put();
    }

    fn map(&self, attachment: &Attachment) -> Result<*mut bindings::sg_table> {
        // SAFETY: The attachment was accepted, and is not detached during this call.
        let mapping = unsafe { Mapping::of(attachment) };
        mapping.tables.map()?;
        Ok(mapping.table.as_raw())
    }

    unsafe fn unmap(&self, attachment: &Attachment, _: *mut bindings::sg_table) {
        // SAFETY: The attachment was accepted, and is not detached during this call.
        unsafe { Mapping::of(attachment) }.tables.unmap();
    }

    fn release(this: Arc<Self>) {
        let left = this.module.left();
        // The drop may sleep, so the drop must come before the last step, after which the module
        // may be gone.
        drop(this);
        left.end();
    }
}

/// A shared dma-buf. Dropping the object puts the reference, and releases the dma-buf unless other
/// code has a reference.
struct SharedBuf {
    buf: ManuallyDrop<Buf>,
    shared: Arc<PoolExporter>,
}

impl SharedBuf {
    /// Creates a dma-buf that only `dev` can import. Context: may sleep.
    fn new(dev: &Device) -> Result<Arc<Self>> {
        let shared = Arc::pin_init(
            pin_init!(PoolExporter {
                dev: dev.into(),
                module <- ModuleRef::new(),
            }),
            GFP_KERNEL,
        )?;
        let buf = ManuallyDrop::new(Buf::export(SIZE, shared.clone(), Pins::Exporter)?);
        Ok(Arc::new(Self { buf, shared }, GFP_KERNEL)?)
    }
}

impl Drop for SharedBuf {
    fn drop(&mut self) {
        // No importer can attach any more: an import has a reference to `self`. Other code may have
        // a reference to the dma-buf, or get a reference until the release.
        self.shared.module.stay();
        // SAFETY: The field is not used after this line.
        unsafe { ManuallyDrop::take(&mut self.buf) }.put_now();
    }
}

/// The place of a shared dma-buf, which is created with the first import.
#[pin_data]
struct PoolEntry {
    #[pin]
    buf: Mutex<Option<Arc<SharedBuf>>>,
}

/// The dma-bufs of one device.
pub struct Pool {
    dev: ARef<Device>,
    /// At least one.
    entries: KVec<Pin<KBox<PoolEntry>>>,
}

impl Pool {
    /// Creates the pool of a device. Context: may sleep.
    pub fn new(dev: &Device) -> Result<Self> {
        let mut entries = KVec::new();
        for _ in 0..nr_cpu_ids().clamp(1, MOST) {
            let entry = KBox::pin_init(
                pin_init!(PoolEntry { buf <- new_mutex!(None, "dma_buf::PoolEntry::buf") }),
                GFP_KERNEL,
            )?;
            entries.push(entry, GFP_KERNEL)?;
        }
        let dev = dev.into();
        Ok(Self { dev, entries })
    }

    /// Returns the dma-buf of this CPU. Context: may sleep.
    fn buf(&self) -> Result<Arc<SharedBuf>> {
        let cpu = CpuId::current().as_u32() as usize;
        let mut entry = self.entries[cpu % self.entries.len()].buf.lock();
        match &*entry {
            // A dma-buf with a fence is not used: a revocation would wait for the fence, which
            // concerns other imports.
            Some(shared) if shared.buf.is_idle() => Ok(shared.clone()),
            _ => {
                // The file keeps the credentials of the creator, and the memory of the file keeps
                // the cgroup, longer than the first registering process lives. So a kernel worker
                // creates the dma-buf.
                let shared = worker::run(static_lock_class!(), |_| SharedBuf::new(&self.dev))?;
                let old = entry.replace(shared.clone());
                drop(entry);
                drop(old);
                Ok(shared)
            }
        }
    }

    /// Calls `import` with a private descriptor of a dma-buf of `memory`, DMA addresses of the device,
    /// for one attachment in the task that calls `import`. The addresses must be valid until the
    /// [`Import`] is dropped.
    ///
    /// Returns the result of `import` with the handle of the import.
    ///
    /// `import` may be called again, in a kernel worker, if it has failed with `EBADF`. Context:
    /// may sleep; see [`worker`] for locks.
    pub fn import<T: Send>(
        &self,
        memory: ForeignPart,
        requirements: ImporterCaps,
        import: impl Fn(i32) -> Result<T> + Sync,
    ) -> Result<(Result<T>, Import)> {
        // SAFETY: By the safety requirements of `ForeignTable::part` the list does not change before the
        // import ends or is revoked. Both wait until no table is mapped, or the device is dead, and its
        // driver does not unmap. The MR of an import has all of the memory.
        let table = FixedTable::new(unsafe { memory.borrow() }?);
        let mapping = Arc::pin_init(Mapping::new(table, requirements), GFP_KERNEL_ACCOUNT)?;
        let handle = Import {
            shared: self.buf()?,
            mapping,
            dead: false,
        };
        let cookie: *const c_void = Arc::as_ptr(&handle.mapping).cast();
        // SAFETY: The file belongs to the dma-buf. Any task may use the mapping, and `handle` keeps
        // the mapping.
        let result = unsafe { private_fd::call(handle.shared.buf.file(), cookie, import) };
        Ok((result, handle))
    }
}

/// The memory of one import. Drop waits until the importer has unmapped the memory, except after
/// [`Self::set_dead`].
pub struct Import {
    mapping: Arc<Mapping>,
    shared: Arc<SharedBuf>,
    dead: bool,
}

impl Import {
    pub fn importer(&self) -> Importer {
        self.mapping.state.lock().importer
    }

    /// First step of revocation: the importer cannot map the memory any more, and is made to unmap
    /// the memory. Does nothing if the importer is not revocable. [`Self::wait_revoked`] is the
    /// second step. Context: may sleep. Takes the reservation lock, and calls the importer under
    /// it.
    pub fn begin_revoke(&self) {
        if self.importer() == (Importer::Attached { revocable: false }) {
            return;
        }
        let (buf, one) = (self.shared.buf.as_raw(), &self.mapping.attachment);
        // SAFETY: The importer maps by this dma-buf, which `self` holds, with this attachment.
        unsafe { self.mapping.tables.begin_revoke(buf, Some(one)) };
    }

    /// Second step of revocation, after [`Self::begin_revoke`]: on return the importer has unmapped
    /// the memory.
    ///
    /// Returns `EOPNOTSUPP` if the importer is not revocable, and `ETIMEDOUT` if the importer does
    /// not unmap in time. Context: may sleep. The caller must not hold the reservation lock.
    pub fn wait_revoked(&self, fences: &FenceBudget) -> Result {
        if self.importer() == (Importer::Attached { revocable: false }) {
            return Err(eopnotsupp());
        }
        // SAFETY: The importer maps by this dma-buf, and `self` holds the dma-buf. The caller has
        // begun.
        unsafe {
            self.mapping
                .tables
                .wait_revoked(self.shared.buf.as_raw(), fences)
        }
    }

    /// Sets `hook` as the receiver of the notification that the importer has detached. Returns
    /// `false` if no importer is attached; then `hook` is not notified.
    pub fn on_detach(&self, hook: Arc<dyn OnDetach>) -> bool {
        let mut state = self.mapping.state.lock();
        if !matches!(state.importer, Importer::Attached { .. }) {
            return false;
        }
        let old = state.on_detach.replace(hook);
        drop(state);
        drop(old);
        true
    }

    /// After a failed import, forbids the importer to map the memory, and waits until the importer
    /// has unmapped the memory, 10 s at most. Returns whether the memory is unmapped: drivers may
    /// fail to undo an import. Context: may sleep. The caller must not hold the reservation lock.
    pub fn close(&self) -> bool {
        self.mapping.tables.close()
    }

    /// Makes drop not wait for the importer, because the device is dead.
    pub fn set_dead(&mut self) {
        self.dead = true;
    }
}

impl Drop for Import {
    fn drop(&mut self) {
        // The owner frees the memory after the drop.
        self.mapping.tables.end(self.dead);
    }
}

#[cfg(ext_tests)]
#[kunit_tests(ext_dma_buf_pool)]
mod tests {
    use super::*;
    use crate::shared::ext::base::sg::{
        Segment,
        Table, //
    };

    /// A revocation reaches one importer.
    #[test]
    fn an_import_attaches_once() -> Result {
        let page = Segment {
            addr: 0,
            len: PAGE_SIZE as u64,
        };
        let table = FixedTable::new(Table::of_dma(1, [page].into_iter())?);
        let any = ImporterCaps {
            revocable: false,
            peer2peer: false,
        };
        let mapping = Arc::pin_init(Mapping::new(table, any), GFP_KERNEL)?;
        let mut raw: bindings::dma_buf_attachment = pin_init::zeroed();
        // SAFETY: The attachment has no operations, and its device and dma-buf are not used.
        let attachment = unsafe { Attachment::from_raw(&raw mut raw) };
        assert_eq!(mapping.attach(attachment), Ok(()));
        assert_eq!(mapping.attach(attachment), Err(EPERM));
        Ok(())
    }
}
