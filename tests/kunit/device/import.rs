// SPDX-License-Identifier: GPL-2.0

//! The dma-buf imports of a fake device, on the importer layer that test devices share.
//!
//! The device can access the memory of the umem's table from the mapping until the invalidation or,
//! with a deferred [`Quiesce`], until [`FakeDevice::quiesce`].

mod leak;

pub(crate) use leak::*;

use super::{
    mrs::{
        make,
        to_ptr,
        unmake,
        Mr, //
    },
    ops::fake,
    register::shared, //
};
use crate::{
    importer::{
        Importer,
        Mapped,
        Part,
        Pending,
        Resv,
        Unmap, //
    },
    prelude::*, //
};

pub(super) type Umem = crate::importer::Umem<Access>;

/// The additional operations of a device that imports.
pub(super) const OPS: rdma::ib_device_ops = rdma::ib_device_ops {
    reg_user_mr_dmabuf: Some(reg_user_mr_dmabuf),
    ..pin_init::zeroed()
};

/// The arguments of the call of the driver's function.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Import {
    pub(crate) offset: u64,
    pub(crate) length: u64,
    pub(crate) iova: u64,
    pub(crate) access: i32,
    pub(crate) fd: i32,
    pub(crate) dmah: usize,
    /// From the bundle: the caller, and whether there is any attribute.
    pub(crate) ufile: usize,
    pub(crate) context: usize,
    pub(crate) attributes: bool,
}

/// When the device stops its accesses: after a work request, or after an invalidation of a dynamic
/// umem.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum Quiesce {
    /// At once, or before the callback returns.
    #[default]
    Now,
    /// In [`FakeDevice::quiesce`], which executes and completes the work requests.
    CompleteLater,
    /// In [`FakeDevice::quiesce`], which also unmaps.
    UnmapLater,
    /// In [`FakeDevice::quiesce`], which signals a fence. The callback unmaps.
    FenceLater,
    /// Before the callback returns. But a process has added a fence, and only
    /// [`FakeDevice::quiesce`] signals the fence.
    FenceOfAProcess,
}

impl Quiesce {
    /// Returns the wait of a task that makes the device stop.
    pub(crate) fn wait(self) -> Wait {
        match self {
            Self::Now => Wait::Anything,
            Self::CompleteLater => Wait::Completion,
            Self::UnmapLater => Wait::Importer,
            Self::FenceLater | Self::FenceOfAProcess => Wait::Fences,
        }
    }
}

/// Records of imports.
#[derive(Default)]
pub(super) struct State {
    last: Import,
    leaked: Option<Leaked>,
    /// The result of the attachment of the second DMA device.
    other_result: Option<Result>,
    /// The MR of an import that has failed and stays mapped.
    kept: usize,
    /// The MR and the fence (0: unmap instead) of a deferred [`Quiesce`].
    deferred: Option<(u32, usize)>,
}

/// The device's access through one umem.
pub(super) struct Access {
    fake: Arc<FakeDevice>,
    key: u32,
}

impl Importer for Access {
    fn mapped(&self, mapped: Mapped<'_>) -> Result {
        let (mut lo, mut hi, mut longest, mut bytes, mut entries) = (u64::MAX, 0, 0, 0, 0);
        for segment in mapped.segments() {
            lo = lo.min(segment.addr);
            hi = hi.max(segment.addr + segment.len);
            longest = longest.max(segment.len);
            bytes += segment.len;
            entries += 1;
        }
        let mut inner = self.fake.inner.lock();
        if let Some(r) = inner.record(self.key) {
            (r.lo, r.hi) = (lo, hi);
            (r.pages, r.page_size) = ((bytes / PAGE) as u32, PAGE as u32);
            (r.entries, r.longest) = (entries, longest);
            r.valid = true;
        }
        Ok(())
    }

    fn invalidate(&self, resv: Resv<'_>) -> Unmap {
        let errno = self.fake.script.pass(Point::Invalidate);
        // SAFETY: The function has no requirements.
        if unsafe { helpers::kt_update_mr(errno) } != 0 {
            // As mlx5: the driver unmaps, and the device keeps the translation.
            return Unmap::Now;
        }
        let quiesce = self.fake.inner.lock().quirks.quiesce;
        let (fence, unmap) = match (quiesce, resv.as_raw()) {
            (Quiesce::UnmapLater, Some(_)) => (ptr::null_mut(), Unmap::Later),
            (Quiesce::FenceLater | Quiesce::FenceOfAProcess, Some(resv)) => {
                if quiesce == Quiesce::FenceOfAProcess {
                    self.fake.invalid(self.key);
                }
                // SAFETY: The layer passes the reservation object with the lock held.
                let fence = unsafe { helpers::kt_fence_add(resv.as_ptr()) };
                (fence, Unmap::Now)
            }
            // A revocable umem cannot be deferred.
            _ => {
                self.fake.invalid(self.key);
                return Unmap::Now;
            }
        };
        let deferred = (self.key, fence.expose_provenance());
        self.fake.inner.lock().importing.deferred = Some(deferred);
        unmap
    }
}

/// Imports the dma-buf `args.fd` and makes an MR on it.
///
/// # Safety
///
/// `dev` must be the device of an operation that is being called.
unsafe fn import(dev: *mut rdma::ib_device, args: &Import) -> Result<*mut rdma::ib_mr> {
    // SAFETY: By the safety requirements the device belongs to a `Registered`.
    let fake = unsafe { shared(dev) };
    let Kind::Importer(mode) = fake.kind else {
        return Err(EINVAL);
    };
    let mode = fake.inner.lock().quirks.mode.unwrap_or(mode);
    let part = Part {
        offset: args.offset,
        length: args.length,
    };
    // SAFETY: The device is registered while an operation runs, and ib_core unregisters the device
    // only without MRs.
    let pending = unsafe { Pending::<Access>::import(dev, mode, args.fd, part, args.access) }?;
    let mr = make(dev, false, 0)?;
    // SAFETY: Just made.
    let key = unsafe {
        (*mr).device = dev;
        (*mr).lkey
    };
    if let Some(r) = fake.inner.lock().record(key) {
        r.access = args.access;
    }
    let umem = fake.reach(Point::Imported).and_then(|()| {
        let access = Access {
            fake: fake.clone(),
            key,
        };
        pending.activate(Arc::new(access, GFP_KERNEL)?)
    });
    match umem {
        Ok(umem) => {
            // SAFETY: The MR belongs to this function until the return.
            unsafe { (*mr.cast::<Mr>()).umem = Some(umem) };
            let mut inner = fake.inner.lock();
            if let Some(error) = inner.quirks.keeps {
                inner.importing.kept = mr.expose_provenance();
                return Err(error);
            }
            Ok(mr)
        }
        Err(e) => {
            // SAFETY: Just made, and never returned.
            unsafe { unmake(&fake, mr) }?;
            Err(e)
        }
    }
}

unsafe extern "C" fn reg_user_mr_dmabuf(
    pd: *mut rdma::ib_pd,
    offset: u64,
    length: u64,
    iova: u64,
    fd: c_int,
    access: c_int,
    dmah: *mut rdma::ib_dmah,
    attrs: *mut rdma::uverbs_attr_bundle,
) -> *mut rdma::ib_mr {
    // SAFETY: The PD is valid. There is a bundle, and all bytes of the bundle are initialised.
    let (dev, hdr) = unsafe { ((*pd).device, &(*attrs).__bindgen_anon_1.hdr) };
    // SAFETY: The device of the PD belongs to a `Registered`.
    let fake = unsafe { fake(dev) };
    let args = Import {
        offset,
        length,
        iova,
        access,
        fd,
        dmah: dmah.addr(),
        ufile: hdr.ufile.addr(),
        context: hdr.context.addr(),
        attributes: hdr.attr_present[0] != 0 || !hdr.uobject.is_null(),
    };
    let mut inner = fake.inner.lock();
    inner.importing.last = args;
    let quirks = inner.quirks;
    drop(inner);
    to_ptr((|| {
        if quirks.leaks {
            let leaked = Leaked::get(fd)?;
            let other = ptr::with_exposed_provenance_mut::<bindings::device>(quirks.other);
            let other = (!other.is_null()).then(|| leaked.attach_raw(other));
            let mut inner = fake.inner.lock();
            inner.importing.other_result = other;
            let old = inner.importing.leaked.replace(leaked);
            drop(inner);
            drop(old);
        }
        fake.reach(Point::Import)?;
        if quirks.swaps_descriptors {
            // The import of the other dma-buf succeeds.
            return make(dev, false, 0);
        }
        // SAFETY: `dev` is the device of the PD, and this is an operation of `dev`.
        unsafe { import(dev, &args) }
    })())
}

impl FakeDevice {
    /// Passes `point`, and fails if the script says so.
    pub(super) fn reach(&self, point: Point) -> Result {
        to_result(self.script.pass(point))
    }

    /// Ends the device's access through the MR.
    pub(super) fn invalid(&self, key: u32) {
        if let Some(r) = self.inner.lock().record(key) {
            r.valid = false;
        }
    }

    /// Calls `f` with the umem of an MR. The MR must not be deregistered meanwhile.
    fn with_umem<R>(&self, key: u32, f: impl FnOnce(&Umem) -> Result<R>) -> Result<R> {
        let mr: *mut Mr = ptr::with_exposed_provenance_mut(self.mr(key).ok_or(ENOENT)?.mr);
        // SAFETY: The MR was in the table, so the MR exists; the caller does not deregister the MR.
        f(unsafe { (*mr).umem.as_ref() }.ok_or(EINVAL)?)
    }

    /// Accesses an MR after an invalidation: the device maps the memory again, if the exporter
    /// permits the mapping. The MR must not be deregistered meanwhile.
    pub(crate) fn page_fault(&self, key: u32) -> Result {
        self.with_umem(key, |umem| umem.lock().map())
    }

    pub(crate) fn last_import(&self) -> Import {
        self.inner.lock().importing.last
    }

    /// Returns the reference kept by an import.
    pub(crate) fn leaked(&self) -> Result<Leaked> {
        self.inner.lock().importing.leaked.take().ok_or(ENOENT)
    }

    pub(crate) fn other_attached(&self) -> Option<Result> {
        self.inner.lock().importing.other_result
    }

    /// Returns whether an import has failed and stays.
    pub(crate) fn has_kept_import(&self) -> bool {
        self.inner.lock().importing.kept != 0
    }

    /// Undoes an import that has failed and stayed.
    pub(crate) fn undo_import(&self) -> Result {
        let mut inner = self.inner.lock();
        inner.quirks.keeps = None;
        inner.importing.deferred = None;
        let kept = mem::take(&mut inner.importing.kept);
        drop(inner);
        let mr: *mut Mr = ptr::with_exposed_provenance_mut(kept);
        if mr.is_null() {
            return Err(ENOENT);
        }
        // SAFETY: `import` has left the MR to this function, and this function takes the MR once.
        let (key, umem) = unsafe { ((*mr).ib.lkey, (*mr).umem.take()) };
        self.invalid(key);
        drop(umem);
        // SAFETY: `import` has left the MR to this function, and the MR has no other user.
        unsafe { unmake(self, mr.cast()) }
    }

    /// Stops the accesses that a [`Quiesce`] has deferred. The MR must not be deregistered
    /// meanwhile.
    pub(crate) fn quiesce(&self) {
        let mut inner = self.inner.lock();
        inner.quirks.quiesce = Quiesce::Now;
        let deferred = mem::take(&mut inner.importing.deferred);
        let completions = inner.completions;
        drop(inner);
        for completion in completions.iter().filter(|c| c.cq != 0) {
            // A CQ is not destroyed while a work request of the CQ is pending.
            Self::notify(ptr::with_exposed_provenance_mut(completion.cq));
        }
        let Some((key, fence)) = deferred else {
            return;
        };
        self.invalid(key);
        if fence != 0 {
            // SAFETY: The fence is from kt_fence_add(), and taken from `deferred` once.
            unsafe { helpers::kt_fence_signal(ptr::with_exposed_provenance_mut(fence)) };
            return;
        }
        let unmapped = self.with_umem(key, |umem| {
            umem.lock().unmap();
            Ok(())
        });
        if let Err(e) = unmapped {
            pr_err!("kunit: MR {:#x} has no umem to unmap: {:?}\n", key, e);
        }
    }
}
