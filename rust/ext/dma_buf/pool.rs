// SPDX-License-Identifier: GPL-2.0

//! Dma-bufs that one device imports, each any number of times, during function calls.
//!
//! A dma-buf takes a file, an inode and a dentry, which cost more than an MR. So those of a [`Pool`]
//! are shared: each import brings the memory that its attachment maps. There is one for each CPU,
//! so that tasks on different CPUs do not wait for one another's reservation lock.
//!
//! # Examples
//!
//! ```
//! use crate::ext::{
//!     dma_buf::{Import, Importer, Mismatch, Pool, Requirements},
//!     sg::Segment,
//!     small_vec::SmallVec,
//! };
//! use kernel::device;
//!
//! /// Lets the function `import` of the driver of `dev` import `segments`.
//! fn give(
//!     segments: SmallVec<Segment>,
//!     dev: &device::Device,
//!     import: impl Fn(i32) -> Result + Sync,
//! ) -> Result<Import> {
//!     let pool = Pool::new(dev)?;
//!     let requirements = Requirements { revocable: true, peer2peer: false };
//!     let (imported, handle) = pool.import(segments, requirements, import)?;
//!     if handle.importer() == Importer::Refused(Mismatch::NotRevocable) {
//!         dev_warn!(dev, "the driver pins dma-bufs\n");
//!     }
//!     imported?;
//!     Ok(handle)
//! }
//! ```

use super::super::{
    compat::eopnotsupp,
    sg::{
        Segment,
        Table, //
    },
    small_vec::SmallVec,
    worker, //
};
use super::{
    attachment::Attachment,
    buf::{
        Buf,
        Exporter,
        Pins, //
    },
    module_ref::ModuleRef,
    number,
    tables::Tables,
    FenceBudget,
    Mismatch,
    Requirements, //
};
use core::{
    ffi::c_void,
    mem::ManuallyDrop,
    ptr, //
};
use kernel::{
    cpu::{
        nr_cpu_ids,
        CpuId, //
    },
    device::Device,
    new_mutex,
    new_spinlock,
    prelude::*,
    static_lock_class,
    sync::{
        aref::ARef,
        atomic::{
            Atomic,
            Relaxed, //
        },
        Arc,
        ArcBorrow,
        Mutex,
        SpinLock, //
    },
    types::ForeignOwnable, //
};

/// Size of a shared dma-buf: that of no address space is more, so importers accept every length.
const SIZE: usize = 1 << 57;

/// The most shared dma-bufs of a device.
const MOST: u32 = 64;

/// The importer of an [`Import`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Importer {
    /// None has attached.
    None,
    /// The attachment of one was rejected.
    Refused(Mismatch),
    /// It is attached.
    Attached {
        /// Whether it unmaps in `invalidate_mappings`.
        revocable: bool,
    },
    /// It has detached.
    Gone,
}

/// Receiver of the notification that the importer has detached.
pub trait OnDetach: Send + Sync {
    /// Handles the end of the attachment.
    ///
    /// Context: may sleep. The caller holds no lock of the dma-buf.
    fn detached(&self);
}

/// State that changes, of a [`Mapping`].
struct State {
    importer: Importer,
    on_detach: Option<Arc<dyn OnDetach>>,
}

/// The memory of one import: the private data of its attachment.
#[pin_data]
struct Mapping {
    /// DMA addresses of the device.
    segments: SmallVec<Segment>,
    requirements: Requirements,
    #[pin]
    state: SpinLock<State>,
    /// The attachment. Valid while a table is mapped, for a holder of the reservation lock.
    attachment: Atomic<*mut Attachment>,
    #[pin]
    tables: Tables,
}

impl Mapping {
    /// Accepts or rejects the importer.
    fn attach(&self, attachment: &Attachment) -> Result {
        let importer = attachment.importer();
        let mut state = self.state.lock();
        if state.importer != Importer::None {
            return Err(EPERM);
        }
        if let Some(mismatch) = self.requirements.unmet_by(importer) {
            state.importer = Importer::Refused(mismatch);
            return Err(eopnotsupp());
        }
        self.attachment.store(attachment.as_ptr().as_ptr(), Relaxed);
        let revocable = importer.revocable;
        state.importer = Importer::Attached { revocable };
        Ok(())
    }

    /// Handles the end of the attachment.
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
    /// The attachment must be one that [`Shared::attach`] has accepted, and must not be detached
    /// during `'a`.
    unsafe fn of<'a>(attachment: &'a Attachment) -> ArcBorrow<'a, Self> {
        // SAFETY: By this function's safety contract the field has an `Arc<Self>`, which only
        // `Shared::detach` drops.
        unsafe { Arc::borrow(attachment.private().load(Relaxed)) }
    }
}

/// Private data of a shared dma-buf.
#[pin_data]
struct Shared {
    /// The only device that can import.
    dev: ARef<Device>,
    #[pin]
    module: ModuleRef,
}

impl Exporter for Shared {
    fn attach(&self, attachment: &Attachment) -> Result {
        let mapping = number::offer(attachment.dma_buf()).ok_or(EPERM)?;
        // SAFETY: Offers for the dma-bufs of pools are from `Pool::import`, which keeps the `Arc`.
        let mapping = unsafe { ArcBorrow::from_raw(mapping.cast::<Mapping>()) };
        let mapping: Arc<Mapping> = mapping.into();
        if !ptr::eq(&raw const *self.dev, attachment.device()) {
            return Err(EPERM);
        }
        self.module.enter()?;
        mapping
            .attach(attachment)
            .inspect_err(|_| self.module.leave())?;
        attachment.private().store(mapping.into_foreign(), Relaxed);
        Ok(())
    }

    fn detach(&self, attachment: &Attachment) {
        let mapping = attachment.private().load(Relaxed);
        // SAFETY: `attach` stored an `Arc<Mapping>` from `into_foreign`. The attachment ends, so this
        // call may take it over.
        let mapping = unsafe { Arc::<Mapping>::from_foreign(mapping) };
        // The end of the import may be that of the pool, which leaves the dma-buf to this importer.
        mapping.detach();
        drop(mapping);
        self.module.leave();
    }

    fn map(&self, attachment: &Attachment) -> Result<KBox<Table<'static>>> {
        // SAFETY: The attachment was accepted, and is not detached during this call.
        let mapping = unsafe { Mapping::of(attachment) };
        mapping.tables.map(&mapping.segments)
    }

    fn unmap(&self, attachment: &Attachment, table: KBox<Table<'static>>) {
        // SAFETY: The attachment was accepted, and is not detached during this call.
        unsafe { Mapping::of(attachment) }.tables.unmap(table);
    }

    fn release(this: Arc<Self>) {
        let left = this.module.left();
        // This may sleep, so it comes before the module may go.
        drop(this);
        left.end();
    }
}

/// A shared dma-buf. Dropping it releases the dma-buf, or leaves it to others who have a reference.
struct SharedBuf {
    buf: ManuallyDrop<Buf>,
    shared: Arc<Shared>,
}

impl SharedBuf {
    /// Creates a dma-buf that only `dev` can import.
    ///
    /// Context: may sleep.
    fn new(dev: &Device) -> Result<Arc<Self>> {
        let shared = Arc::pin_init(
            pin_init!(Shared {
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
        // No importer can attach any more: an import has a reference to `self`. Others may have a
        // reference to the dma-buf, or get one until it is released.
        self.shared.module.stay();
        // SAFETY: The field is not used after this.
        unsafe { ManuallyDrop::take(&mut self.buf) }.put_now();
    }
}

/// The place of a shared dma-buf, which is created with the first import.
#[pin_data]
struct Slot {
    #[pin]
    buf: Mutex<Option<Arc<SharedBuf>>>,
}

/// The dma-bufs of one device.
pub struct Pool {
    dev: ARef<Device>,
    /// At least one.
    slots: KVec<Pin<KBox<Slot>>>,
}

impl Pool {
    /// Creates the pool of a device.
    ///
    /// Context: may sleep.
    pub fn new(dev: &Device) -> Result<Self> {
        let mut slots = KVec::new();
        for _ in 0..nr_cpu_ids().clamp(1, MOST) {
            let slot = KBox::pin_init(
                pin_init!(Slot { buf <- new_mutex!(None, "dma_buf::Slot::buf") }),
                GFP_KERNEL,
            )?;
            slots.push(slot, GFP_KERNEL)?;
        }
        let dev = dev.into();
        Ok(Self { dev, slots })
    }

    /// Returns the dma-buf of this CPU.
    ///
    /// Context: may sleep.
    fn buf(&self) -> Result<Arc<SharedBuf>> {
        let cpu = CpuId::current().as_u32() as usize;
        let mut slot = self.slots[cpu % self.slots.len()].buf.lock();
        match &*slot {
            // A revocation would wait for a fence that concerns other imports.
            Some(shared) if shared.buf.is_idle() => Ok(shared.clone()),
            _ => {
                // In a worker: the file keeps the credentials of its creator, and its memory the
                // cgroup, longer than a process that is the first to register.
                let shared = worker::run(static_lock_class!(), |_| SharedBuf::new(&self.dev))?;
                let old = slot.replace(shared.clone());
                drop(slot);
                drop(old);
                Ok(shared)
            }
        }
    }

    /// Calls `import` with a number that stands for a dma-buf of `segments`, whole pages at DMA
    /// addresses of the device, for one attachment in the task that calls it. The addresses must be
    /// valid until the [`Import`] is dropped.
    ///
    /// Returns the result of `import` with the handle of the import.
    ///
    /// `import` may be called again, in a kernel worker, if it has failed with `EBADF`.
    ///
    /// Context: may sleep; see [`worker`] for locks.
    pub fn import<T: Send>(
        &self,
        segments: SmallVec<Segment>,
        requirements: Requirements,
        import: impl Fn(i32) -> Result<T> + Sync,
    ) -> Result<(Result<T>, Import)> {
        let mapping = Arc::pin_init(
            pin_init!(Mapping {
                segments,
                requirements,
                state <- new_spinlock!(
                    State { importer: Importer::None, on_detach: None },
                    "dma_buf::Mapping::state"
                ),
                attachment: Atomic::new(ptr::null_mut()),
                tables <- Tables::new(),
            }),
            GFP_KERNEL_ACCOUNT,
        )?;
        let handle = Import {
            shared: self.buf()?,
            mapping,
            left: false,
        };
        let offer: *const c_void = Arc::as_ptr(&handle.mapping).cast();
        // SAFETY: The file is that of the dma-buf. The mapping may be used by any task.
        let result = unsafe { number::call(handle.shared.buf.file(), offer, import) };
        Ok((result, handle))
    }
}

/// The memory of one import. Dropping it waits until the importer has unmapped it.
pub struct Import {
    mapping: Arc<Mapping>,
    shared: Arc<SharedBuf>,
    /// See [`Self::leave`].
    left: bool,
}

impl Import {
    /// Returns the state of the importer.
    ///
    /// Context: any.
    pub fn importer(&self) -> Importer {
        self.mapping.state.lock().importer
    }

    /// Begins to revoke the memory: the importer cannot map it any more. Has it unmap, if it is
    /// revocable; otherwise this does nothing. [`Self::wait_revoked`] follows. `call` is called, at most
    /// once for an import, with the function that has the importer unmap, and calls that.
    ///
    /// Context: may sleep. Takes the reservation lock, and calls the importer under it.
    pub fn begin_revoke(&self, call: impl FnOnce(&dyn Fn())) {
        if self.importer() == (Importer::Attached { revocable: false }) {
            return;
        }
        let invalidate = || {
            // SAFETY: A table is mapped, and this task holds the reservation lock under which it is
            // unmapped, before its importer detaches. So the attachment is valid.
            unsafe { (*self.mapping.attachment.load(Relaxed)).invalidate() }
        };
        let buf = self.shared.buf.as_raw();
        // SAFETY: The importer maps by this dma-buf, which `self` holds.
        unsafe { self.mapping.tables.begin_revoke(buf, || call(&invalidate)) };
    }

    /// Ends what [`Self::begin_revoke`] has begun: on return the importer has unmapped the memory.
    ///
    /// Returns `EOPNOTSUPP` if the importer is not revocable, and `ETIMEDOUT` if it does not unmap.
    ///
    /// Context: may sleep. The caller must not hold the reservation lock.
    pub fn wait_revoked(&self, fences: &FenceBudget) -> Result {
        if self.importer() == (Importer::Attached { revocable: false }) {
            return Err(eopnotsupp());
        }
        // SAFETY: The importer maps by this dma-buf, which `self` holds. The caller has begun.
        unsafe {
            self.mapping
                .tables
                .wait_revoked(self.shared.buf.as_raw(), fences)
        }
    }

    /// Sets `hook` as the receiver of the notification that the importer has detached. Returns `false`,
    /// without a notification, if none is attached.
    ///
    /// Context: any.
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

    /// Has the importer map the memory no more, after its import has failed, and waits until it has
    /// unmapped it, 10 s at most. Returns whether it has: drivers may fail to undo an import.
    ///
    /// Context: may sleep. The caller must not hold the reservation lock.
    pub fn close(&self) -> bool {
        self.mapping.tables.close()
    }

    /// Has the drop not wait for the importer, whose device is dead.
    ///
    /// Context: any.
    pub fn leave(&mut self) {
        self.left = true;
    }
}

impl Drop for Import {
    fn drop(&mut self) {
        // The owner frees the memory after this.
        if !self.left {
            self.mapping.tables.wait();
        }
    }
}
