// SPDX-License-Identifier: GPL-2.0

//! The operations of a fake device on MRs.

use super::{
    import::Umem,
    ops::fake, //
};
use crate::{
    client,
    prelude::*, //
};

/// An MR. The device's record has the same key.
#[repr(C)]
pub(super) struct Mr {
    pub(super) ib: rdma::ib_mr,
    /// The dma-buf import of the MR.
    pub(super) umem: Option<Umem>,
    max_pages: u32,
    pages: u32,
    lo: u64,
    hi: u64,
}

pub(super) fn make(
    dev: *mut rdma::ib_device,
    original: bool,
    max_pages: u32,
) -> Result<*mut rdma::ib_mr> {
    // SAFETY: The callers pass the device of an operation that is being called.
    let fake = unsafe { fake(dev) };
    let blank = Mr {
        ib: pin_init::zeroed(),
        umem: None,
        max_pages,
        pages: 0,
        lo: 0,
        hi: 0,
    };
    let reused = fake.inner.lock().reused.take();
    let (mr, key) = match reused {
        Some((mr, key)) => {
            let raw = ptr::with_exposed_provenance_mut::<Mr>(mr);
            // SAFETY: `unmake` has kept the box of this address, and the record was the only user.
            let mut mr = unsafe { KBox::from_raw(raw) };
            *mr = blank;
            (mr, key)
        }
        None => (KBox::new(blank, GFP_KERNEL)?, 0),
    };
    let mut inner = fake.inner.lock();
    let key = match key {
        0 => {
            inner.last_key += 0x100;
            inner.last_key
        }
        key => key,
    };
    let slot = inner.record(0).ok_or(ENOMEM)?;
    let mr = KBox::into_raw(mr).cast::<rdma::ib_mr>();
    *slot = MrState {
        key,
        mr: mr.expose_provenance(),
        original,
        valid: original,
        ..Default::default()
    };
    drop(inner);
    // SAFETY: Just made.
    unsafe {
        (*mr).lkey = key;
        (*mr).rkey = key;
    }
    Ok(mr)
}

/// Frees an MR and its record.
///
/// # Safety
///
/// `mr` must be from [`make`] on the same device, and must not be used afterwards.
pub(super) unsafe fn unmake(fake: &FakeDevice, mr: *mut rdma::ib_mr) -> Result {
    // SAFETY: By the safety requirements the MR is valid.
    let key = unsafe { (*mr).lkey };
    let mut inner = fake.inner.lock();
    *inner.record(key).ok_or(ENOENT)? = MrState::default();
    if mem::take(&mut inner.quirks.reuses_mr) {
        inner.reused = Some((mr.expose_provenance(), key));
        return Ok(());
    }
    drop(inner);
    // SAFETY: `make` has made the MR as a `KBox<Mr>`, and the record was just removed.
    drop(unsafe { KBox::from_raw(mr.cast::<Mr>()) });
    Ok(())
}

/// Returns a result as drivers do.
pub(super) fn to_ptr(result: Result<*mut rdma::ib_mr>) -> *mut rdma::ib_mr {
    result.unwrap_or_else(|e| e.to_ptr())
}

pub(super) unsafe extern "C" fn get_dma_mr(
    _pd: *mut rdma::ib_pd,
    _access: c_int,
) -> *mut rdma::ib_mr {
    EINVAL.to_ptr()
}

pub(super) unsafe extern "C" fn alloc_mr(
    pd: *mut rdma::ib_pd,
    _type: rdma::ib_mr_type,
    pages: u32,
) -> *mut rdma::ib_mr {
    // SAFETY: The PD is valid.
    let dev = unsafe { (*pd).device };
    // SAFETY: The device of the PD belongs to a `Registered`.
    let reached = unsafe { fake(dev) }.reach(Point::AllocMr);
    to_ptr(reached.and_then(|()| make(dev, false, pages)))
}

/// Adds one page to an MR.
///
/// # Safety
///
/// `mr` must be from [`make`], and the device of `mr` must be set.
unsafe extern "C" fn set_page(mr: *mut rdma::ib_mr, addr: u64) -> c_int {
    // SAFETY: By the safety requirements the MR is a `Mr`, and the device belongs to a
    // `Registered`.
    let (mr, kind) = unsafe { (&mut *mr.cast::<Mr>(), fake((*mr).device).kind) };
    if mr.pages == mr.max_pages {
        return ENOMEM.to_errno();
    }
    let at = match kind {
        // SAFETY: Without a DMA device the DMA addresses of ib_core are kernel addresses.
        Kind::Virtual => unsafe {
            shared::ext_virt_to_phys(ptr::with_exposed_provenance_mut(addr as usize))
        },
        _ => addr,
    };
    mr.lo = if mr.pages == 0 { at } else { mr.lo.min(at) };
    mr.hi = mr.hi.max(at + u64::from(mr.ib.page_size));
    mr.pages += 1;
    0
}

pub(super) unsafe extern "C" fn map_mr_sg(
    mr: *mut rdma::ib_mr,
    sg: *mut bindings::scatterlist,
    n: c_int,
    offset: *mut u32,
) -> c_int {
    // SAFETY: The MR is from `make`, and ib_core has set the device.
    let fake = unsafe { fake((*mr).device) };
    let errno = fake.script.pass(Point::MapMrSg);
    if errno != 0 {
        return errno;
    }
    // SAFETY: ib_core passes a list of `n` entries with DMA addresses.
    let done = unsafe { rdma::ib_sg_to_pages(mr, sg, n, offset, Some(set_page)) };
    // SAFETY: The MR is from `make`.
    let raw = unsafe { &*mr.cast::<Mr>() };
    if let Some(r) = fake.inner.lock().record(raw.ib.lkey) {
        (r.lo, r.hi) = (raw.lo, raw.hi);
        (r.pages, r.page_size) = (raw.pages, raw.ib.page_size);
    }
    done
}

pub(super) unsafe extern "C" fn reg_user_mr(
    pd: *mut rdma::ib_pd,
    start: u64,
    length: u64,
    iova: u64,
    access: c_int,
    _dmah: *mut rdma::ib_dmah,
    _udata: *mut rdma::ib_udata,
) -> *mut rdma::ib_mr {
    // SAFETY: The PD is valid.
    let dev = unsafe { (*pd).device };
    // SAFETY: The device of the PD belongs to a `Registered`.
    let fake = unsafe { fake(dev) };
    let args = Args {
        start,
        length,
        iova,
        access,
    };
    to_ptr(
        fake.own(Point::RegUserMr, args, true)
            .and_then(|()| make(dev, true, 0)),
    )
}

pub(super) unsafe extern "C" fn rereg_user_mr(
    mr: *mut rdma::ib_mr,
    flags: c_int,
    start: u64,
    length: u64,
    iova: u64,
    access: c_int,
    _pd: *mut rdma::ib_pd,
    _udata: *mut rdma::ib_udata,
) -> *mut rdma::ib_mr {
    // SAFETY: The MR is valid, and the device belongs to a `Registered`.
    let fake = unsafe { fake((*mr).device) };
    let args = Args {
        start,
        length,
        iova,
        access,
    };
    let moves = flags & rdma::ib_mr_rereg_flags_IB_MR_REREG_TRANS as c_int != 0;
    // NULL: changed in place.
    to_ptr(
        fake.own(Point::ReregUserMr, args, moves)
            .map(|()| ptr::null_mut()),
    )
}

impl FakeDevice {
    /// Records a call of the driver's own function `point`. Fails as the script says, or if the
    /// function pins memory that the CPU cannot pin.
    fn own(&self, point: Point, args: Args, pins: bool) -> Result {
        self.inner.lock().last_original = args;
        self.reach(point)?;
        if pins && !self.can_pin(args) {
            return Err(EFAULT);
        }
        Ok(())
    }

    /// Returns whether the CPU can pin the memory. The memory of a client cannot be pinned, unless
    /// the driver [pins all](super::Quirks).
    fn can_pin(&self, args: Args) -> bool {
        let Args { start, length, .. } = args;
        let on_demand = args.access & rdma::ib_access_flags_IB_ACCESS_ON_DEMAND as c_int != 0;
        let range = start..start.saturating_add(length);
        let valid = length > 0
            && start
                .checked_add(length)
                .is_some_and(|end| end < u64::MAX - PAGE);
        on_demand || !valid || !client::owns(&range) || self.inner.lock().quirks.pins_all
    }
}

pub(super) unsafe extern "C" fn dereg_mr(
    mr: *mut rdma::ib_mr,
    _udata: *mut rdma::ib_udata,
) -> c_int {
    // SAFETY: The MR is valid.
    let (dev, key) = unsafe { ((*mr).device, (*mr).lkey) };
    // SAFETY: The device of the MR belongs to a `Registered`.
    let fake = unsafe { fake(dev) };
    from_result(|| {
        fake.reach(Point::DeregMr)?;
        // SAFETY: The MR is from `make`, and not in use during the deregistration.
        if let Some(umem) = unsafe { (*mr.cast::<Mr>()).umem.take() } {
            fake.invalid(key);
            drop(umem);
        }
        // SAFETY: The MR is from `make`, and not used afterwards.
        unsafe { unmake(fake, mr) }?;
        fake.reach(Point::Deregistered)?;
        Ok(0)
    })
}
