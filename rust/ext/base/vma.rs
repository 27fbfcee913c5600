// SPDX-License-Identifier: GPL-2.0

//! VMA operations, which [`kernel::mm::virt`] lacks: an object behind a mapping, page faults, and
//! lookup of the object by address.
//!
//! An object implements [`Mapping`], and a static [`Ops`] holds the operations.

use crate::shared::prelude::raw::*;
use kernel::{
    mm::{
        virt::{
            vm_flags_t,
            VmaNew,
            VmaRef, //
        },
        MmapReadGuard, //
    },
    page::BorrowedPage, //
};

/// All VMAs that result from a mapping by splitting and by `fork()` share the object. Closing the
/// last VMA drops the object.
pub trait Mapping: Send + Sync + 'static {
    /// Handles an access to a page that is not mapped: maps the page with [`Fault::map`].
    ///
    /// After `Ok` or `EBUSY` the CPU retries the access; `ENOMEM` invokes the OOM handling; any
    /// other error sends SIGBUS. Context: may sleep. The caller holds the `mmap_lock` of the
    /// process for reading.
    fn fault(&self, fault: &Fault<'_>) -> Result;
}

/// Operations of VMAs with a `T` behind them.
///
/// The address of the object identifies the VMAs, so define the object as a static.
///
/// # Invariants
///
/// Every VMA whose `vm_ops` point to this object owns a reference to an `Arc<T>`: `vm_private_data`
/// is a pointer from [`Arc::into_raw`].
#[repr(transparent)]
pub struct Ops<T: Mapping> {
    inner: bindings::vm_operations_struct,
    _t: PhantomData<fn(T)>,
}

// SAFETY: The table is never written, and any task may call the functions in it.
unsafe impl<T: Mapping> Sync for Ops<T> {}

/// The C operations have the safety requirements of `vm_operations_struct`, for a VMA of an `Ops<T>`: `open`
/// gets a copy of an open VMA, `close` one that is being closed, and the caller of `fault` holds the `mmap_lock`.
#[allow(clippy::missing_safety_doc)]
impl<T: Mapping> Ops<T> {
    pub const fn new() -> Self {
        // INVARIANT: No VMA points to a new object.
        Self {
            inner: bindings::vm_operations_struct {
                open: Some(Self::open),
                close: Some(Self::close),
                fault: Some(Self::fault),
                ..pin_init::zeroed()
            },
            _t: PhantomData,
        }
    }

    /// Installs `data` behind `vma`, which is being set up.
    ///
    /// If an `mmap` operation failed after this call, `data` would leak. So the call must be the
    /// last in the operation. Context: may sleep. The caller holds the `mmap_lock` for writing.
    pub(crate) fn attach(&'static self, vma: &VmaNew, data: Arc<T>) {
        let vma = vma.as_ptr();
        // INVARIANT: Both fields are set before any other task can see the VMA.
        // SAFETY: A `VmaNew` is valid and exclusive, so its fields may be written.
        unsafe {
            (*vma).vm_private_data = Arc::into_raw(data).cast_mut().cast();
            (*vma).vm_ops = &raw const self.inner;
        }
    }

    /// Finds the VMA at `addr` and returns the `T` behind the VMA, or `None` if there is no VMA
    /// with these operations. Context: may sleep.
    pub fn find(&'static self, mm: &MmapReadGuard<'_>, addr: usize) -> Option<Found<T>> {
        self.behind(mm.vma_lookup(addr)?)
    }

    /// Returns the `T` behind `vma`, or `None` if `vma` has other operations.
    pub fn behind(&'static self, vma: &VmaRef) -> Option<Found<T>> {
        // SAFETY: A `VmaRef` is valid and locked at least for reading, so its fields may be read.
        let ops = unsafe { (*vma.as_ptr()).vm_ops };
        ptr::eq(ops, &raw const self.inner).then(|| Found {
            // SAFETY: By the comparison `vma` is a VMA of this `Ops<T>`. The lock behind a `VmaRef` keeps
            // the VMA open.
            data: unsafe { Self::data(vma.as_ptr()) }.into(),
            start: vma.start(),
            end: vma.end(),
            pgoff: pgoff(vma),
            flags: vma.flags(),
        })
    }

    /// # Safety
    ///
    /// `vma` must be a VMA of an `Ops<T>` that is not closed during `'a`.
    unsafe fn data<'a>(vma: *mut bindings::vm_area_struct) -> ArcBorrow<'a, T> {
        // SAFETY:
        // - By the type invariants `vm_private_data` came from `Arc::into_raw`.
        // - By the safety requirements the VMA holds the reference during `'a`.
        unsafe { ArcBorrow::from_raw((*vma).vm_private_data.cast_const().cast()) }
    }

    unsafe extern "C" fn open(vma: *mut bindings::vm_area_struct) {
        // SAFETY: `vma` is a copy of an open VMA, whose reference keeps the object during the call.
        let data: Arc<T> = unsafe { Self::data(vma) }.into();
        // INVARIANT: Now the copy owns a reference too.
        let _ = Arc::into_raw(data);
    }

    unsafe extern "C" fn close(vma: *mut bindings::vm_area_struct) {
        // SAFETY: By the type invariants `vm_private_data` came from `Arc::into_raw`, and the VMA, which is being
        // closed, gives its reference up.
        drop(unsafe { Arc::from_raw((*vma).vm_private_data.cast_const().cast::<T>()) });
    }

    unsafe extern "C" fn fault(vmf: *mut bindings::vm_fault) -> bindings::vm_fault_t {
        // SAFETY: `vmf` is a fault, valid during the call, as is its VMA, and the `mmap_lock` is held.
        let (at, vma) = unsafe {
            let at = (*vmf).__bindgen_anon_1;
            (at, VmaRef::from_raw(at.vma))
        };
        let (addr, pgoff) = (at.address, at.pgoff);
        // SAFETY: The VMA is one of an `Ops<T>`, and is not closed during a fault.
        match unsafe { Self::data(at.vma) }.fault(&Fault { vma, addr, pgoff }) {
            Ok(()) | Err(EBUSY) => bindings::vm_fault_reason_VM_FAULT_NOPAGE,
            Err(ENOMEM) => bindings::vm_fault_reason_VM_FAULT_OOM,
            Err(_) => bindings::vm_fault_reason_VM_FAULT_SIGBUS,
        }
    }
}

/// The magic number of the file system of dma-bufs.
// CAST: A magic number has 32 bits.
pub const DMA_BUF: usize = helpers::DMA_BUF_MAGIC as usize;

/// Returns the magic number of the file system of the file that `vma` maps, or 0 without a file.
pub fn file_system(vma: &VmaRef) -> usize {
    // SAFETY: A `VmaRef` is valid and locked at least for reading, so its fields may be read.
    unsafe { helpers::ext_vma_magic(vma.as_ptr()) }
}

/// Returns the offset of `vma` in the file, in pages.
pub fn pgoff(vma: &VmaRef) -> usize {
    // SAFETY: A `VmaRef` is valid and locked at least for reading, so its fields may be read.
    unsafe { (*vma.as_ptr()).vm_pgoff }
}

/// Returns whether `vma` was mapped with `MAP_SHARED`, even if the file is open read-only.
pub fn is_shared(vma: &VmaRef) -> bool {
    // `flags::MAYSHARE` has the value of `VM_MAYEXEC` in Linux 7.2, so the bit number is used.
    vma.flags() & (1 << bindings::VMA_MAYSHARE_BIT) != 0
}

/// Returns whether `vma` is `VM_MIXEDMAP`: a driver may map both struct pages and other addresses
/// in `vma`. Mappings of host memory are not `VM_MIXEDMAP`.
pub fn is_mixed(vma: &VmaRef) -> bool {
    vma.flags() & (1 << bindings::VMA_MIXEDMAP_BIT) != 0
}

/// Makes accesses of the CPU through `vma` uncached, for device memory.
pub fn set_noncached(vma: &VmaNew) {
    // SAFETY: A `VmaNew` is valid and exclusive, so its fields may be written.
    unsafe { helpers::ext_vma_set_noncached(vma.as_ptr()) };
}

/// Lets the CPU combine writes through `vma`, and reorder them, for device memory.
pub fn set_writecombine(vma: &VmaNew) {
    // SAFETY: A `VmaNew` is valid and exclusive, so its fields may be written.
    unsafe { helpers::ext_vma_set_writecombine(vma.as_ptr()) };
}

/// Sets the offset of `vma` in the file, in pages: the offset of `mmap(2)` without the bits used as
/// a flag.
pub fn set_pgoff(vma: &VmaNew, pgoff: usize) {
    // SAFETY: A `VmaNew` is valid and exclusive, so its fields may be written. The VMA is not in
    // the address space of the file yet.
    unsafe { (*vma.as_ptr()).vm_pgoff = pgoff };
}

pub struct Found<T> {
    /// The object behind the VMA.
    pub data: Arc<T>,
    pub start: usize,
    pub end: usize,
    /// In pages, in the file.
    pub pgoff: usize,
    pub flags: vm_flags_t,
}

impl<T> Found<T> {
    /// Returns whether the process may read, or write if `write`.
    pub fn allows(&self, write: bool) -> bool {
        let bits = [bindings::VMA_READ_BIT, bindings::VMA_WRITE_BIT];
        self.flags & (1 << bits[usize::from(write)]) != 0
    }

    /// Returns the offset in the file, in bytes, of the address `addr` in the VMA.
    pub fn offset(&self, addr: usize) -> usize {
        self.pgoff * PAGE_SIZE + (addr - self.start)
    }
}

pub struct Fault<'a> {
    vma: &'a VmaRef,
    addr: usize,
    /// Offset of the page in the file, in pages.
    pgoff: usize,
}

impl Fault<'_> {
    /// A fault maps pages up to the next multiple of this number of bytes.
    const AROUND: usize = 512 * PAGE_SIZE;

    /// Maps the page of the fault, and pages after it that are not mapped yet. `page` returns the page at an
    /// offset in the file, in pages.
    ///
    /// Returns `EFAULT` if `page` returns `None` for the fault itself, `EINVAL` if the VMA is not
    /// `VM_MIXEDMAP`, `EBUSY` if another task has mapped the page, and `ENOMEM`. Context: may
    /// sleep. The caller of the fault handler holds the `mmap_lock` for reading.
    pub fn map<'p>(&self, page: impl Fn(usize) -> Option<BorrowedPage<'p>>) -> Result {
        let vma = self.vma.as_mixedmap_vma().ok_or(EINVAL)?;
        vma.vm_insert_page(self.addr, &*page(self.pgoff).ok_or(EFAULT)?)?;

        // Fault-around is an optimization: pages that cannot be mapped now fault later.
        let end = (self.addr | (Self::AROUND - 1)).min(self.vma.end() - 1);
        for i in 1..=(end - self.addr) / PAGE_SIZE {
            let addr = self.addr + i * PAGE_SIZE;
            let fails = |page: BorrowedPage<'_>| vma.vm_insert_page(addr, &page).is_err();
            if page(self.pgoff + i).is_none_or(fails) {
                break;
            }
        }
        Ok(())
    }
}
