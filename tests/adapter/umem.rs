// SPDX-License-Identifier: GPL-2.0

//! Memory that an adapter does DMA with, as ib_core hands it to drivers: user memory that
//! `ib_umem_get_va()` and its variants return, and imported dma-bufs.
//!
//! C header: [`include/rdma/ib_umem.h`](srctree/include/rdma/ib_umem.h).
//!
//! # Locking
//!
//! The reservation of a dma-buf is taken before the [`Fence`].
//!
//! An exporter invalidates with the reservation held. A DMA holds the fence but not the
//! reservation: the exporter gets as far as [`Fence::invalidate`], which waits for the DMA, as the
//! callback of a hardware driver does.

use crate::{
    ext::base::sg::Segment,
    importer::{
        self,
        Importer,
        Mode,
        Part,
        Pending,
        Reservation,
        Resv,
        Unmap, //
    },
    prelude::*, //
};

/// The page sizes that an MR can have, a bit each. ib_core makes no pages smaller than its own.
pub(crate) const PAGE_SIZES: usize = PAGE_SIZE | (64 << 10) | (2 << 20);

/// The part of memory that a umem is made of.
#[derive(Clone, Copy)]
pub(crate) struct Range {
    /// The first byte: a virtual address of the calling process, or an offset into a dma-buf.
    pub(crate) start: u64,
    pub(crate) len: u64,
    /// The device's address of the first byte.
    pub(crate) iova: u64,
}

/// Stops the DMA to memory that the exporter invalidates.
#[pin_data]
struct Fence {
    iova: u64,
    /// Whether the adapter may use the addresses, while this is locked.
    #[pin]
    open: Mutex<bool>,
}

impl Fence {
    fn new(iova: u64) -> Result<Arc<Self>> {
        Arc::pin_init(
            pin_init!(Self {
                iova,
                open <- new_mutex!(false, "adapter::Fence"),
            }),
            GFP_KERNEL,
        )
    }

    /// Opens the fence for memory that was just mapped. `EINVAL` if no page size suits the
    /// addresses.
    fn open(&self, mapped: importer::Mapped<'_>) -> Result {
        if page_size(mapped, self.iova) == 0 {
            return Err(EINVAL);
        }
        *self.open.lock() = true;
        Ok(())
    }
}

impl Importer for Fence {
    fn mapped(&self, mapped: importer::Mapped<'_>) -> Result {
        self.open(mapped)
    }

    fn invalidate(&self, _: Resv<'_>) -> Unmap {
        *self.open.lock() = false;
        Unmap::Now
    }
}

/// Returns the page size that suits the addresses and the iova; 0 if there is no such size.
fn page_size(mapped: importer::Mapped<'_>, iova: u64) -> usize {
    // SAFETY: The umem is valid and mapped. The call stores the iova in it, which only the driver
    // uses.
    unsafe { rdma::ext_umem_find_best_pgsz(mapped.as_raw(), PAGE_SIZES, iova) }
}

/// User memory that ib_core has pinned: host memory, or peer memory if a hook provides that.
///
/// # Invariants
///
/// The pointer is to a umem that is owned by this object, unless borrowed, and mapped for as long as
/// it exists.
struct Pinned {
    umem: NonNull<rdma::ib_umem>,
    /// The caller of the operation releases the umem.
    is_borrowed: bool,
}

// SAFETY: A umem belongs to no task; ib_core releases it from any.
unsafe impl Send for Pinned {}
// SAFETY: Shared references give out only the addresses, which do not change.
unsafe impl Sync for Pinned {}

impl Pinned {
    /// Takes what ib_core returns for a new umem.
    ///
    /// # Safety
    ///
    /// `raw` must be the result of `ib_umem_get_va()` or a variant of it that no one else has.
    unsafe fn new(raw: *mut rdma::ib_umem) -> Result<Self> {
        // INVARIANT: By this function's safety contract.
        Ok(Self {
            umem: NonNull::new(from_err_ptr(raw)?).ok_or(EINVAL)?,
            is_borrowed: false,
        })
    }

    fn mapped(&self) -> importer::Mapped<'_> {
        // SAFETY: By the type invariants the umem is valid and mapped while `self` exists.
        unsafe { importer::Mapped::new(self.umem) }
    }

    fn is_dma_buf(&self) -> bool {
        // SAFETY: By the type invariants the umem is valid.
        unsafe { self.umem.as_ref() }.is_dmabuf() != 0
    }
}

impl Drop for Pinned {
    fn drop(&mut self) {
        if !self.is_borrowed {
            // SAFETY: By the type invariants the umem is owned by this object.
            unsafe { rdma::ib_umem_release(self.umem.as_ptr()) };
        }
    }
}

/// Where the memory of a [`Umem`] comes from.
enum Source {
    Pinned(Pinned),
    DmaBuf(importer::Umem<Fence>),
}

/// Memory of an MR or of a queue.
///
/// # Invariants
///
/// While `fence` is locked and open, `source` is mapped for the device and stays so.
pub(crate) struct Umem {
    source: Source,
    fence: Arc<Fence>,
}

impl Umem {
    fn pinned(pinned: Pinned, iova: u64) -> Result<Self> {
        let fence = Fence::new(iova)?;
        fence.open(pinned.mapped())?;
        // INVARIANT: Pinned memory is always mapped.
        Ok(Self {
            source: Source::Pinned(pinned),
            fence,
        })
    }

    /// Pins and maps memory of the calling process by its address. Context: may sleep.
    ///
    /// # Safety
    ///
    /// `dev` must be registered until the umem is dropped.
    pub(crate) unsafe fn of_user(
        dev: *mut rdma::ib_device,
        range: Range,
        access: u32,
    ) -> Result<Self> {
        let (start, len) = (range.start.try_into()?, range.len.try_into()?);
        // SAFETY: The device is valid; ib_core checks the other arguments.
        let raw = unsafe { rdma::ib_umem_get_va(dev, start, len, access as c_int) };
        // SAFETY: The umem is new.
        Self::pinned(unsafe { Pinned::new(raw) }?, range.iova)
    }

    /// Pins and maps the buffer of a CQ: `borrowed`, or that of the attributes of the request, or if they
    /// have none, that at `range.start`. Context: may sleep.
    ///
    /// # Safety
    ///
    /// - `dev` must be registered until the umem is dropped.
    /// - `attrs` must be the attributes of a request to create a CQ on `dev`.
    /// - `borrowed` must be NULL, or stay valid until the umem is dropped.
    pub(crate) unsafe fn of_cq(
        dev: *mut rdma::ib_device,
        attrs: *const rdma::uverbs_attr_bundle,
        borrowed: *mut rdma::ib_umem,
        range: Range,
        access: u32,
    ) -> Result<Self> {
        if let Some(umem) = NonNull::new(borrowed) {
            // INVARIANT: By this function's safety contract.
            let is_borrowed = true;
            return Self::pinned(Pinned { umem, is_borrowed }, range.iova);
        }
        let len = range.len.try_into()?;
        let access = access as c_int;
        // SAFETY: The device and the attributes are valid; ib_core checks the other arguments.
        let raw = unsafe { rdma::ib_umem_get_cq_buf_or_va(dev, attrs, range.start, len, access) };
        // SAFETY: The umem is new.
        Self::pinned(unsafe { Pinned::new(raw) }?, range.iova)
    }

    /// Imports and maps `range` of the dma-buf `fd`. Context: may sleep; takes the reservation.
    ///
    /// # Safety
    ///
    /// `dev` must be registered until the umem is dropped.
    pub(crate) unsafe fn of_dma_buf(
        dev: *mut rdma::ib_device,
        mode: Mode,
        fd: c_int,
        range: Range,
        access: u32,
    ) -> Result<Self> {
        let fence = Fence::new(range.iova)?;
        let part = Part {
            offset: range.start,
            length: range.len,
        };
        // SAFETY: By this function's safety contract.
        let pending = unsafe { Pending::import(dev, mode, fd, part, access as c_int) }?;
        // INVARIANT: The importer layer opens the fence when it maps, and closes it before an
        // unmap.
        Ok(Self {
            source: Source::DmaBuf(pending.activate(fence.clone())?),
            fence,
        })
    }

    /// Returns the addresses.
    ///
    /// # Safety
    ///
    /// The fence must be locked and open while the result is used.
    unsafe fn mapped(&self) -> Mapped<'_> {
        let umem = match &self.source {
            Source::Pinned(pinned) => pinned.mapped(),
            // SAFETY: By the type invariants, as the fence is locked and open.
            Source::DmaBuf(umem) => unsafe { umem.mapped() },
        };
        Mapped {
            umem,
            iova: self.fence.iova,
        }
    }

    /// Maps a dynamic umem whose mapping was invalidated; the fence is open afterwards.
    fn map_again(&self, reservation: &Reservation<'_, Fence>) -> Result {
        if *self.fence.open.lock() {
            return Ok(());
        }
        reservation.map().map_err(|e| {
            pr_warn_limited!("a dma-buf cannot be mapped again: {:?}\n", e);
            EACCES
        })
    }

    /// Calls `f` with the addresses; they are not unmapped meanwhile. Context: may sleep; takes the
    /// reservation.
    ///
    /// Returns `EACCES` if they were invalidated for good, or the exporter refuses to map them
    /// again.
    pub(crate) fn with_mapped<R>(&self, f: impl FnOnce(Mapped<'_>) -> Result<R>) -> Result<R> {
        let reservation = match &self.source {
            Source::DmaBuf(umem) if umem.mode().is_dynamic() => Some(umem.lock()),
            _ => None,
        };
        if let Some(reservation) = &reservation {
            self.map_again(reservation)?;
        }
        let open = self.fence.open.lock();
        drop(reservation);
        if !*open {
            return Err(EACCES);
        }
        // SAFETY: The fence is open, and locked until `f` has returned.
        f(unsafe { self.mapped() })
    }

    /// Calls `f` with the addresses, if the memory is mapped. Context: may sleep.
    pub(crate) fn peek<R>(&self, f: impl FnOnce(Option<Mapped<'_>>) -> R) -> R {
        let open = self.fence.open.lock();
        // SAFETY: The fence is open, and locked until `f` has returned.
        f(open.then(|| unsafe { self.mapped() }))
    }

    /// Returns how the dma-buf is imported; `None` for user memory.
    pub(crate) fn mode(&self) -> Option<Mode> {
        match &self.source {
            Source::Pinned(_) => None,
            Source::DmaBuf(umem) => Some(umem.mode()),
        }
    }

    /// Returns whether ib_core has made the umem of user memory from a dma-buf.
    pub(crate) fn is_provided(&self) -> bool {
        matches!(&self.source, Source::Pinned(pinned) if pinned.is_dma_buf())
    }

    /// Checks if the MR can have that access without another umem.
    pub(crate) fn check_access(&self, access: u32) -> Result {
        let raw = match &self.source {
            Source::Pinned(pinned) => pinned.umem.as_ptr(),
            Source::DmaBuf(umem) => umem.as_raw().cast(),
        };
        let flags = rdma::ib_mr_rereg_flags_IB_MR_REREG_ACCESS as c_int;
        // SAFETY: The umem is valid.
        to_result(unsafe { rdma::ib_umem_check_rereg(raw, flags, access as c_int) })
    }
}

#[derive(Clone, Copy)]
pub(crate) struct Mapped<'a> {
    umem: importer::Mapped<'a>,
    iova: u64,
}

impl<'a> Mapped<'a> {
    /// Returns the size of the pages that a driver would make the MR of.
    pub(crate) fn page_size(self) -> usize {
        page_size(self.umem, self.iova)
    }

    /// Returns the addresses, entry by entry, from the start of the first page on.
    pub(crate) fn segments(self) -> impl Iterator<Item = Segment> + 'a {
        self.umem.segments()
    }

    /// Returns the addresses of `len` bytes from byte `offset` of the umem on; `EIO` if there are
    /// fewer.
    pub(crate) fn range(self, offset: u64, len: u64) -> impl Iterator<Item = Result<Segment>> + 'a {
        // SAFETY: The umem is valid.
        let in_page = unsafe { rdma::ib_umem_offset(self.umem.as_raw()) };
        let (mut skip, mut left) = (u64::from(in_page.unsigned_abs()) + offset, len);
        let mut segments = self.segments();
        core::iter::from_fn(move || {
            while left > 0 {
                let Some(s) = segments.next() else {
                    left = 0;
                    return Some(Err(EIO));
                };
                if skip >= s.len {
                    skip -= s.len;
                    continue;
                }
                let len = (s.len - skip).min(left);
                let addr = s.addr + skip;
                skip = 0;
                left -= len;
                return Some(Ok(Segment { addr, len }));
            }
            None
        })
    }
}
