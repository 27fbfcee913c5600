// SPDX-License-Identifier: GPL-2.0

//! Operations of a VMA, which [`kernel::mm::virt`] lacks: an object behind a mapping, its page
//! faults, and how to find it again by address.
//!
//! C header: [`include/linux/mm.h`](srctree/include/linux/mm.h).

use super::bindings::helpers;
use core::marker::PhantomData;
use kernel::{
    bindings,
    mm::{
        virt::{
            vm_flags_t,
            VmaNew,
            VmaRef, //
        },
        MmapReadGuard, //
    },
    page::{
        BorrowedPage,
        PAGE_SIZE, //
    },
    prelude::*,
    sync::{
        Arc,
        ArcBorrow, //
    },
};

/// What lies behind a VMA.
///
/// The object is shared by all VMAs that a mapping becomes through splitting and `fork()`; the
/// last of them to go drops it.
pub trait Mapping: Send + Sync + 'static {
    /// A page that is not mapped was touched: map it, with [`Fault::map`].
    ///
    /// `Ok` or `EBUSY` let the access be tried again, `ENOMEM` invokes the OOM handling, any other
    /// error sends SIGBUS.
    ///
    /// Context: may sleep; the `mmap_lock` of the process is held for reading.
    fn fault(&self, fault: &Fault<'_>) -> Result;
}

/// The operations of VMAs behind which there is a `T`.
///
/// To be a static: its address is what tells its VMAs from all others.
///
/// # Invariants
///
/// Every VMA whose `vm_ops` point at this object has in `vm_private_data` a reference count of an
/// `Arc<T>`, as [`Arc::into_raw`] returns it.
#[repr(transparent)]
pub struct Ops<T: Mapping> {
    /// The C structure.
    inner: bindings::vm_operations_struct,
    /// What the operations are called on.
    _t: PhantomData<fn(T)>,
}

// SAFETY: The table is never written, and what it points to may be called from any task.
unsafe impl<T: Mapping> Sync for Ops<T> {}

impl<T: Mapping> Ops<T> {
    /// The operations.
    pub const fn new() -> Self {
        // INVARIANT: No VMA can point at a new object.
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

    /// Puts `data` behind `vma`, a VMA in the making.
    ///
    /// To be the last thing an `mmap` operation does: a VMA that fails afterwards never drops
    /// `data`.
    pub(crate) fn attach(&'static self, vma: &VmaNew, data: Arc<T>) {
        let vma = vma.as_ptr();
        // INVARIANT: Both are set together, and nobody else sees the VMA before.
        // SAFETY: A VMA that `VmaNew` stands for may be set up.
        unsafe { (*vma).vm_private_data = Arc::into_raw(data).cast_mut().cast() };
        // SAFETY: As above.
        unsafe { (*vma).vm_ops = &raw const self.inner };
    }

    /// Finds the VMA at `addr`, if there is a `T` behind it.
    pub fn find(&'static self, mm: &MmapReadGuard<'_>, addr: usize) -> Option<Found<T>> {
        self.behind(mm.vma_lookup(addr)?)
    }

    /// What is behind `vma`, if that is a `T`.
    pub fn behind(&'static self, vma: &VmaRef) -> Option<Found<T>> {
        // SAFETY: The VMA is valid, and stable while it may be looked at.
        let ops = unsafe { (*vma.as_ptr()).vm_ops };
        if !core::ptr::eq(ops, &raw const self.inner) {
            return None;
        }
        Some(Found {
            // SAFETY: By the type invariant; the lock that lets us look at the VMA keeps it from
            // closing.
            data: unsafe { Self::data(vma.as_ptr()) }.into(),
            start: vma.start(),
            end: vma.end(),
            pgoff: pgoff(vma),
            flags: vma.flags(),
        })
    }

    /// # Safety
    ///
    /// `vma` must be a VMA of some `Ops<T>` that is not closed during `'a`.
    unsafe fn data<'a>(vma: *mut bindings::vm_area_struct) -> ArcBorrow<'a, T> {
        // SAFETY: By the type invariant it is what `Arc::into_raw` returned, and by the
        // requirements its count is held during `'a`.
        unsafe { ArcBorrow::from_raw((*vma).vm_private_data.cast_const().cast()) }
    }

    /// # Safety
    ///
    /// `vma` must be a copy, made by the kernel, of a VMA of some `Ops<T>`.
    unsafe extern "C" fn open(vma: *mut bindings::vm_area_struct) {
        // SAFETY: The VMA it was copied from is still there, so the count that is behind both keeps
        // the object.
        let data: Arc<T> = unsafe { Self::data(vma) }.into();
        // INVARIANT: Now the copy has a count of its own.
        let _ = Arc::into_raw(data);
    }

    /// # Safety
    ///
    /// `vma` must be a VMA of some `Ops<T>` that is going away.
    unsafe extern "C" fn close(vma: *mut bindings::vm_area_struct) {
        // SAFETY: By the type invariant the VMA has a count, which nobody uses after this.
        drop(unsafe { Arc::from_raw((*vma).vm_private_data.cast_const().cast::<T>()) });
    }

    /// # Safety
    ///
    /// `vmf` must be a fault in a VMA of some `Ops<T>`, with the `mmap_lock` held.
    unsafe extern "C" fn fault(vmf: *mut bindings::vm_fault) -> bindings::vm_fault_t {
        // SAFETY: By the requirements the fault may be read.
        let at = unsafe { (*vmf).__bindgen_anon_1 };
        let fault = Fault {
            // SAFETY: The VMA of a fault is valid during it. The kernel takes the `mmap_lock` for
            // operations that, like ours, have no `map_pages`.
            vma: unsafe { VmaRef::from_raw(at.vma) },
            addr: at.address,
            pgoff: at.pgoff,
        };
        // SAFETY: By the requirements, and the VMA is not closed during a fault.
        match unsafe { Self::data(at.vma) }.fault(&fault) {
            Ok(()) | Err(EBUSY) => bindings::vm_fault_reason_VM_FAULT_NOPAGE,
            Err(ENOMEM) => bindings::vm_fault_reason_VM_FAULT_OOM,
            Err(_) => bindings::vm_fault_reason_VM_FAULT_SIGBUS,
        }
    }
}

/// The offset of `vma` in its file, in pages.
pub fn pgoff(vma: &VmaRef) -> usize {
    // SAFETY: A `VmaRef` may be read.
    unsafe { (*vma.as_ptr()).vm_pgoff }
}

/// Whether `vma` is of `MAP_SHARED`, be the file open for writing or not.
pub fn is_shared(vma: &VmaRef) -> bool {
    // Not `flags::MAYSHARE`: in Linux 7.2 that has the value of `VM_MAYEXEC`.
    vma.flags() & (1 << bindings::VMA_MAYSHARE_BIT) != 0
}

/// Whether pages with a struct page and addresses without one may both be mapped in `vma`, as
/// drivers do. Host memory of processes never is.
pub fn is_mixed(vma: &VmaRef) -> bool {
    vma.flags() & (1 << bindings::VMA_MIXEDMAP_BIT) != 0
}

/// Makes the CPU's accesses through `vma` uncached, as device memory wants it.
pub fn set_noncached(vma: &VmaNew) {
    // SAFETY: A VMA that `VmaNew` stands for may be set up.
    unsafe { helpers::ext_vma_set_noncached(vma.as_ptr()) };
}

/// A VMA that was found by address, as it was then.
pub struct Found<T> {
    /// The object behind it.
    pub data: Arc<T>,
    /// Its first address.
    pub start: usize,
    /// The first address past it.
    pub end: usize,
    /// Its offset in its file, in pages.
    pub pgoff: usize,
    /// `VM_*`.
    pub flags: vm_flags_t,
}

impl<T> Found<T> {
    /// Where in the file `addr`, an address within the VMA, lies: in bytes.
    pub fn offset(&self, addr: usize) -> usize {
        self.pgoff * PAGE_SIZE + (addr - self.start)
    }
}

/// A page fault.
pub struct Fault<'a> {
    /// Where it happened.
    vma: &'a VmaRef,
    /// The address of the page that was touched.
    addr: usize,
    /// Its offset in the file, in pages.
    pgoff: usize,
}

impl Fault<'_> {
    /// How far a fault maps: to the next multiple of this many bytes.
    const AROUND: usize = 512 * PAGE_SIZE;

    /// Maps the page that was touched, and those after it that `page` gives and that are not
    /// mapped yet; `page` is asked with offsets in the file, in pages.
    ///
    /// `EFAULT` where `page` gives none for the fault itself, `EINVAL` where the VMA is not
    /// `VM_MIXEDMAP`, `EBUSY` where somebody else was faster, `ENOMEM`.
    ///
    /// Context: may sleep.
    pub fn map<'p>(&self, page: impl Fn(usize) -> Option<BorrowedPage<'p>>) -> Result {
        let vma = self.vma.as_mixedmap_vma().ok_or(EINVAL)?;
        vma.vm_insert_page(self.addr, &*page(self.pgoff).ok_or(EFAULT)?)?;

        // A bonus: if it fails, these pages fault on their own.
        let end = (self.addr | (Self::AROUND - 1)).min(self.vma.end() - 1);
        for i in 1..=(end - self.addr) / PAGE_SIZE {
            let Some(page) = page(self.pgoff + i) else {
                break;
            };
            if vma
                .vm_insert_page(self.addr + i * PAGE_SIZE, &page)
                .is_err()
            {
                break;
            }
        }
        Ok(())
    }
}
