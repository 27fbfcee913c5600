// SPDX-License-Identifier: GPL-2.0

//! Memory that an adapter does DMA with, as ib_core hands it to drivers: host memory, and dma-bufs
//! imported in one of three ways ([`Mode`]).
//!
//! C header: [`include/rdma/ib_umem.h`](srctree/include/rdma/ib_umem.h).
//!
//! # Locking
//!
//! The reservation of a dma-buf is taken before its [`Fence`].
//!
//! An exporter takes memory back with the reservation held. Whoever does DMA holds the fence
//! meanwhile, but not the reservation: so the exporter gets as far as the callback here, which then
//! waits for the DMA, as that of a real adapter waits for its hardware.

use crate::{
    bindings::rdma,
    mode::Mode,
    pr_warn_limited, //
};
use core::ptr::{
    self,
    NonNull, //
};
use kernel::{
    bindings,
    error::{
        from_err_ptr,
        to_result, //
    },
    new_mutex,
    prelude::*,
    sync::{
        Arc,
        Mutex, //
    },
};

/// The page sizes that an MR can have, a bit each.
pub(crate) const PAGE_SIZES: usize = (4 << 10) | (64 << 10) | (2 << 20);

/// A run of addresses as the device sees them.
#[derive(Clone, Copy)]
pub(crate) struct Segment {
    pub(crate) addr: u64,
    pub(crate) len: u64,
}

/// What stands between the adapter and memory that can be taken back.
#[pin_data]
struct Fence {
    /// The addresses are the adapter's to use, while this is locked.
    #[pin]
    open: Mutex<bool>,
}

impl Fence {
    /// A closed one.
    fn new() -> Result<Arc<Self>> {
        Arc::pin_init(
            pin_init!(Self {
                open <- new_mutex!(false, "adapter::Fence"),
            }),
            GFP_KERNEL,
        )
    }

    /// Waits until nobody uses the addresses, and lets nobody use them from then on. May sleep.
    fn close(&self) {
        *self.open.lock() = false;
    }
}

/// Host memory or a dma-buf.
///
/// # Invariants
///
/// - `raw` is a umem that belongs to this object. Where there is a `mode` it is the first field of
///   an `ib_umem_dmabuf`, whose `private` is NULL or `fence`.
/// - While `fence` is locked and open, the umem is mapped for the device and stays so.
pub(crate) struct Umem {
    raw: NonNull<rdma::ib_umem>,
    mode: Option<Mode>,
    iova: u64,
    fence: Arc<Fence>,
}

// SAFETY: A umem belongs to no task; ib_core releases it from any.
unsafe impl Send for Umem {}
// SAFETY: `&self` methods lock: the reservation to map, the fence to read.
unsafe impl Sync for Umem {}

/// The reservation of a dma-buf, held.
struct Reservation<'a>(&'a Umem);

impl<'a> Reservation<'a> {
    /// Takes the reservation of `umem`, which must be a dma-buf. May sleep.
    fn lock(umem: &'a Umem) -> Self {
        // SAFETY: By the type invariants, for a dma-buf.
        unsafe { rdma::ib_umem_dmabuf_revoke_lock(umem.dma_buf_raw()) };
        Self(umem)
    }
}

impl Drop for Reservation<'_> {
    fn drop(&mut self) {
        // SAFETY: This object stands for the reservation, which its task holds.
        unsafe { rdma::ib_umem_dmabuf_revoke_unlock(self.0.dma_buf_raw()) };
    }
}

/// What mlx5 has: an invalidation unmaps, and the next access maps again.
static DYNAMIC: bindings::dma_buf_attach_ops = bindings::dma_buf_attach_ops {
    allow_peer2peer: true,
    invalidate_mappings: Some(invalidate),
};

/// # Safety
///
/// As `invalidate_mappings` in `struct dma_buf_attach_ops`, on an attachment that
/// `ib_umem_dmabuf_get()` has made with [`DYNAMIC`].
unsafe extern "C" fn invalidate(attach: *mut bindings::dma_buf_attachment) {
    // SAFETY: The attachment is valid, and its importer is ib_core's umem.
    let raw = unsafe { (*attach).importer_priv }.cast::<rdma::ib_umem_dmabuf>();
    // SAFETY: The umem outlives its attachment. Once it has been made, both fields change only with
    // the reservation held, as it is now; while it is made they are NULL.
    let (private, sgt) = unsafe { ((*raw).private, (*raw).sgt) };
    if private.is_null() || sgt.is_null() {
        return;
    }
    // SAFETY: By the type invariants of `Umem`, which keeps the fence until it has set the field to
    // NULL with the reservation held.
    unsafe { &*private.cast::<Fence>() }.close();
    // SAFETY: The reservation is held, and the adapter does not use the addresses any more.
    unsafe { rdma::ib_umem_dmabuf_unmap_pages(raw) };
}

/// What irdma has: called once at most, with the reservation held, before the memory is unmapped
/// for good.
///
/// # Safety
///
/// `fence` must be a valid [`Fence`].
unsafe extern "C" fn revoke(fence: *mut c_void) {
    // SAFETY: The caller's promise.
    unsafe { &*fence.cast::<Fence>() }.close();
}

impl Umem {
    /// Pins and maps host memory of the calling process. May sleep.
    ///
    /// # Safety
    ///
    /// `dev` must be registered until the umem is dropped.
    pub(crate) unsafe fn host(
        dev: *mut rdma::ib_device,
        (start, len): (u64, u64),
        iova: u64,
        access: u32,
    ) -> Result<Self> {
        let fence = Fence::new()?;
        let (start, len) = (start.try_into()?, len.try_into()?);
        // SAFETY: The device is valid; all else is checked.
        let raw = from_err_ptr(unsafe { rdma::ib_umem_get_va(dev, start, len, access as c_int) })?;
        // INVARIANT: It is new, and mapped for as long as it exists.
        let this = Self {
            raw: NonNull::new(raw).ok_or(EINVAL)?,
            mode: None,
            iova,
            fence,
        };
        this.open()?;
        Ok(this)
    }

    /// Imports the dma-buf `fd` and maps `len` bytes of it, from `offset` on. May sleep; takes the
    /// reservation.
    ///
    /// # Safety
    ///
    /// `dev` must be registered until the umem is dropped.
    pub(crate) unsafe fn dma_buf(
        dev: *mut rdma::ib_device,
        mode: Mode,
        fd: c_int,
        (offset, len): (u64, u64),
        iova: u64,
        access: u32,
    ) -> Result<Self> {
        let fence = Fence::new()?;
        let (offset, len) = (offset.try_into()?, len.try_into()?);
        let access = access as c_int;
        // SAFETY: For all three: the device is valid, all else is checked; the operations are
        // static.
        let raw = from_err_ptr(unsafe {
            match mode {
                Mode::Dynamic => rdma::ib_umem_dmabuf_get(dev, offset, len, fd, access, &DYNAMIC),
                Mode::Revocable => {
                    rdma::ib_umem_dmabuf_get_pinned_revocable_and_lock(dev, offset, len, fd, access)
                }
                Mode::Pinned => rdma::ib_umem_dmabuf_get_pinned(dev, offset, len, fd, access),
            }
        })?;
        // INVARIANT: It is new, and NULL is its `private`. The fence is closed.
        let this = Self {
            raw: NonNull::new(raw.cast()).ok_or(EINVAL)?,
            mode: Some(mode),
            iova,
            fence,
        };
        let private = Arc::as_ptr(&this.fence).cast_mut().cast::<c_void>();
        match mode {
            Mode::Dynamic => {
                let reservation = Reservation::lock(&this);
                // INVARIANT: It is the fence.
                // SAFETY: The umem is valid, and its reservation held.
                unsafe { (*raw).private = private };
                this.map(&reservation)?;
            }
            Mode::Revocable => {
                // The function has taken it.
                let _reservation = Reservation(&this);
                // INVARIANT: It is the fence, which `revoke` closes before anything is unmapped.
                // SAFETY: The reservation is held. `this` keeps the fence until it has released the
                // umem.
                unsafe { rdma::ib_umem_dmabuf_set_revoke_locked(raw, Some(revoke), private) };
                this.open()?;
            }
            // INVARIANT: It is mapped for as long as it exists.
            Mode::Pinned => this.open()?,
        }
        Ok(this)
    }

    /// The umem as a dma-buf, where it is one.
    fn dma_buf_raw(&self) -> *mut rdma::ib_umem_dmabuf {
        self.raw.as_ptr().cast()
    }

    /// The page size that suits the addresses and the iova; 0: none does. The umem must be mapped,
    /// and stay so for the call.
    fn page_size(&self) -> usize {
        // SAFETY: The umem is valid. The call stores the iova in it, which nobody else uses.
        unsafe { rdma::ib_umem_find_best_pgsz(self.raw.as_ptr(), PAGE_SIZES, self.iova) }
    }

    /// Gives the addresses of the umem, which has been mapped, to the adapter. `EINVAL` where an MR
    /// cannot be made of them.
    fn open(&self) -> Result {
        if self.page_size() == 0 {
            return Err(EINVAL);
        }
        *self.fence.open.lock() = true;
        Ok(())
    }

    /// Maps a dynamic umem that is not mapped, or not known to be. May sleep.
    fn map(&self, _held: &Reservation<'_>) -> Result {
        // SAFETY: The reservation is held.
        to_result(unsafe { rdma::ib_umem_dmabuf_map_pages(self.dma_buf_raw()) })?;
        // INVARIANT: It stays mapped until `invalidate` has closed the fence.
        self.open()
    }

    /// Lets `f` use the addresses; until it returns they are not taken back. May sleep; takes the
    /// reservation.
    ///
    /// `EACCES` where they have been taken back, and it is for good or the exporter says no.
    pub(crate) fn with_mapped<R>(&self, f: impl FnOnce(Mapped<'_>) -> Result<R>) -> Result<R> {
        let reservation = (self.mode == Some(Mode::Dynamic)).then(|| Reservation::lock(self));
        if let Some(reservation) = &reservation {
            if !*self.fence.open.lock() {
                self.map(reservation).map_err(|e| {
                    pr_warn_limited!("a dma-buf cannot be mapped again: {:?}\n", e);
                    EACCES
                })?;
            }
        }
        let open = self.fence.open.lock();
        drop(reservation);
        if !*open {
            return Err(EACCES);
        }
        // INVARIANT: The lock is held until `f` returns.
        f(Mapped(self))
    }

    /// Lets `f` look at the addresses, where there are any. May sleep.
    pub(crate) fn peek<R>(&self, f: impl FnOnce(Option<Mapped<'_>>) -> R) -> R {
        let open = self.fence.open.lock();
        // INVARIANT: The lock is held until `f` returns.
        f(open.then_some(Mapped(self)))
    }

    /// How the dma-buf is imported; `None`: it is host memory.
    pub(crate) fn mode(&self) -> Option<Mode> {
        self.mode
    }

    /// Can the MR be given that access without another umem?
    pub(crate) fn check_access(&self, access: u32) -> Result {
        let flags = rdma::ib_mr_rereg_flags_IB_MR_REREG_ACCESS as c_int;
        // SAFETY: The umem is valid.
        to_result(unsafe { rdma::ib_umem_check_rereg(self.raw.as_ptr(), flags, access as c_int) })
    }
}

impl Drop for Umem {
    fn drop(&mut self) {
        if self.mode == Some(Mode::Dynamic) {
            let _reservation = Reservation::lock(self);
            // INVARIANT: NULL is allowed.
            // SAFETY: The umem is valid, and its reservation held.
            unsafe { (*self.dma_buf_raw()).private = ptr::null_mut() };
        }
        // A revocable one calls `revoke` now, if it has not been; the fence is still there.
        // SAFETY: By the type invariants it is ours. `&mut self`: nobody uses the addresses.
        unsafe { rdma::ib_umem_release(self.raw.as_ptr()) };
    }
}

/// A umem whose addresses can be used.
///
/// # Invariants
///
/// The fence is locked, and open.
#[derive(Clone, Copy)]
pub(crate) struct Mapped<'a>(&'a Umem);

impl<'a> Mapped<'a> {
    /// The size of the pages that a driver would make the MR of.
    pub(crate) fn page_size(self) -> usize {
        self.0.page_size()
    }

    /// The addresses, entry by entry, from the beginning of the first page on.
    pub(crate) fn segments(self) -> impl Iterator<Item = Segment> + 'a {
        // SAFETY: By the type invariants the umem is mapped: its list has that many entries with
        // addresses.
        let (mut sg, mut left) = unsafe {
            let sgt = &(*self.0.raw.as_ptr()).sgt_append.sgt;
            (sgt.sgl, sgt.nents)
        };
        core::iter::from_fn(move || {
            if left == 0 || sg.is_null() {
                return None;
            }
            left -= 1;
            // SAFETY: `sg` is one of these entries.
            let segment = unsafe {
                Segment {
                    addr: bindings::sg_dma_address(sg),
                    len: bindings::sg_dma_len(sg).into(),
                }
            };
            // SAFETY: As above.
            sg = unsafe { bindings::sg_next(sg) };
            Some(segment)
        })
    }

    /// The addresses of `len` bytes, from byte `offset` of the umem on; `EIO` where there are fewer.
    pub(crate) fn range(self, offset: u64, len: u64) -> impl Iterator<Item = Result<Segment>> + 'a {
        // SAFETY: The umem is valid.
        let in_page = unsafe { rdma::ib_umem_offset(self.0.raw.as_ptr()) };
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
