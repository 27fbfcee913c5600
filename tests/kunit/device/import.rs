// SPDX-License-Identifier: GPL-2.0

//! Importing dma-bufs, in the ways that drivers in the kernel do it.
//!
//! What a device could touch is what the umem's table says, from the mapping on until the mapping
//! is given back or, where the device is late ([`Late`]), until it says that it has stopped.
//!
//! All `# Safety` sections: as the operation of that name in `struct ib_device_ops`, on a device
//! that was made by [`super::Registered`].

mod leak;
mod umem;

pub(crate) use leak::{
    is_dma_buf,
    Leaked, //
};
pub(super) use umem::Umem;

use super::{
    memory::{
        make,
        to_ptr,
        unmake,
        Mr, //
    },
    ops::fake,
    FakeDevice,
    Kind,
    Registered, //
};
use crate::{
    bindings::rdma,
    helpers,
    script::Point, //
};
use core::{
    mem,
    ptr, //
};
use kernel::{
    bindings,
    error::{
        from_err_ptr,
        to_result, //
    },
    ffi::{
        c_int,
        c_void, //
    },
    prelude::*, //
};
use umem::Locked;

/// What a device that imports has beside the others.
pub(super) const OPS: rdma::ib_device_ops = rdma::ib_device_ops {
    reg_user_mr_dmabuf: Some(reg_user_mr_dmabuf),
    ..pin_init::zeroed()
};

/// As mlx5's.
static DYNAMIC: bindings::dma_buf_attach_ops = bindings::dma_buf_attach_ops {
    allow_peer2peer: true,
    invalidate_mappings: Some(invalidate_mappings),
};

/// As those of a driver that has not been told of peers.
static LOCAL: bindings::dma_buf_attach_ops = bindings::dma_buf_attach_ops {
    allow_peer2peer: false,
    invalidate_mappings: Some(invalidate_mappings),
};

/// The arguments that the driver's function was called with.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Import {
    pub(crate) offset: u64,
    pub(crate) length: u64,
    pub(crate) iova: u64,
    pub(crate) access: i32,
    pub(crate) fd: i32,
    pub(crate) dmah: usize,
    /// Of the bundle: whose call it is, and whether it has any attribute.
    pub(crate) ufile: usize,
    pub(crate) context: usize,
    pub(crate) attributes: bool,
}

/// When an adapter has stopped after it was told to let go of a mapping.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum Late {
    /// At once.
    #[default]
    No,
    /// It gives the mapping back later.
    Unmap,
    /// It gives it back at once, but writes until a fence is signalled.
    Fence,
}

/// What is to be done differently, and what there is to be done later.
#[derive(Default)]
pub(super) struct State {
    last: Import,
    /// Another thread has put something else under the number of the descriptor.
    swapped: bool,
    /// Keep the dma-buf.
    leaks: bool,
    leaked: Option<Leaked>,
    /// A device that tries to import as well, in the same task, and what it got.
    intruder: usize,
    intruded: Option<Result>,
    late: Late,
    /// The MR, its umem and a fence (0: none) that an adapter is late with.
    owed: Option<(u32, usize, usize)>,
}

/// Imports the dma-buf `args.fd` and makes an MR on it.
///
/// # Safety
///
/// `dev` must be the device of an operation that is being called.
unsafe fn import(dev: *mut rdma::ib_device, args: &Import) -> Result<*mut rdma::ib_mr> {
    // SAFETY: The caller's promise.
    let fake = unsafe { fake(dev) };
    let (offset, len) = (args.offset as usize, args.length as usize);
    // SAFETY: The device is registered; the operations are `'static`.
    let umem = from_err_ptr(unsafe {
        match fake.kind {
            Kind::Revocable => rdma::ib_umem_dmabuf_get_pinned_revocable_and_lock(
                dev,
                offset,
                len,
                args.fd,
                args.access,
            ),
            Kind::Pinned => rdma::ib_umem_dmabuf_get_pinned(dev, offset, len, args.fd, args.access),
            kind => {
                let ops = if kind == Kind::Local {
                    &LOCAL
                } else {
                    &DYNAMIC
                };
                rdma::ib_umem_dmabuf_get(dev, offset, len, args.fd, args.access, ops)
            }
        }
    })?;
    // INVARIANT: Just made.
    let umem = Umem(umem);
    // Where there is a lock it goes before the umem, also when this fails.
    let locked = (fake.kind == Kind::Revocable).then(|| Locked(umem.0));
    let mr = make(dev, false, 0)?;
    // SAFETY: Just made.
    let key = unsafe {
        (*mr).device = dev;
        (*mr).lkey
    };
    let mut inner = fake.inner.lock();
    if let Some(r) = inner.records.iter_mut().find(|r| r.key == key) {
        r.access = args.access;
    }
    drop(inner);
    let result = fake.reach(Point::Imported).and_then(|()| {
        match fake.kind {
            Kind::Pinned => umem.enter(fake, key),
            Kind::Revocable => {
                umem.enter(fake, key);
                // SAFETY: The lock is held; the MR goes after the umem.
                unsafe { rdma::ib_umem_dmabuf_set_revoke_locked(umem.0, Some(revoke), mr.cast()) };
            }
            _ => {
                // SAFETY: The umem is ours; nobody can have been told to let go of it yet.
                unsafe { (*umem.0).private = mr.cast() };
                umem.fault(fake, key)?;
            }
        }
        Ok(())
    });
    drop(locked);
    if let Err(e) = result {
        umem.let_go(fake, key);
        // SAFETY: Nobody knows the MR.
        unsafe { unmake(fake, mr) }?;
        return Err(e);
    }
    // SAFETY: The MR is ours until it is given to the caller.
    unsafe { (*mr.cast::<Mr>()).umem = Some(umem) };
    Ok(mr)
}

/// # Safety
///
/// See the module.
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
    // SAFETY: The PD is valid; there is a bundle, all of whose bytes are initialised.
    let (dev, hdr) = unsafe { ((*pd).device, &(*attrs).__bindgen_anon_1.hdr) };
    // SAFETY: The device of the PD.
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
    let State {
        swapped,
        leaks,
        intruder,
        ..
    } = inner.importing;
    drop(inner);
    to_ptr((|| {
        if leaks {
            let leaked = Leaked::get(fd)?;
            let intruded = (intruder != 0)
                .then(|| leaked.attach_raw(ptr::with_exposed_provenance_mut(intruder)));
            let mut inner = fake.inner.lock();
            inner.importing.intruded = intruded;
            let old = inner.importing.leaked.replace(leaked);
            drop(inner);
            drop(old);
        }
        fake.reach(Point::Import)?;
        if swapped {
            // It was another dma-buf, but it could be imported.
            return make(dev, false, 0);
        }
        // SAFETY: The device of the PD.
        unsafe { import(dev, &args) }
    })())
}

/// # Safety
///
/// As `dma_buf_attach_ops.invalidate_mappings`, for an attachment of [`DYNAMIC`] or [`LOCAL`].
unsafe extern "C" fn invalidate_mappings(attachment: *mut bindings::dma_buf_attachment) {
    // SAFETY: ib_core has put the umem there; the reservation lock is held.
    let (umem, mr) = unsafe {
        let umem: *mut rdma::ib_umem_dmabuf = (*attachment).importer_priv.cast();
        (umem, (*umem).private.cast::<rdma::ib_mr>())
    };
    // SAFETY: As above.
    if mr.is_null() || unsafe { (*umem).sgt }.is_null() {
        return;
    }
    // SAFETY: `private` is an MR of ours for as long as it is set.
    let (fake, key) = unsafe { (fake((*mr).device), (*mr).lkey) };
    fake.script.pass(Point::Invalidate);
    let late = fake.inner.lock().importing.late;
    let mut fence = ptr::null_mut();
    match late {
        Late::No => fake.invalid(key),
        Late::Unmap => {}
        // SAFETY: The lock of the dma-buf's reservation object is held.
        Late::Fence => fence = unsafe { helpers::kt_fence_add((*(*attachment).dmabuf).resv) },
    }
    if late != Late::No {
        let owed = (key, umem.expose_provenance(), fence.expose_provenance());
        fake.inner.lock().importing.owed = Some(owed);
    }
    if late != Late::Unmap {
        // SAFETY: The lock is held.
        unsafe { rdma::ib_umem_dmabuf_unmap_pages(umem) };
    }
}

/// # Safety
///
/// As the function of `ib_umem_dmabuf_set_revoke_locked()`; `mr` is the MR.
unsafe extern "C" fn revoke(mr: *mut c_void) {
    let mr: *mut rdma::ib_mr = mr.cast();
    // SAFETY: The MR goes after the umem.
    let (fake, key) = unsafe { (fake((*mr).device), (*mr).lkey) };
    fake.script.pass(Point::Invalidate);
    fake.invalid(key);
}

impl FakeDevice {
    /// Comes to `point`, where it may be told to fail.
    fn reach(&self, point: Point) -> Result {
        to_result(self.script.pass(point))
    }

    /// The adapter has stopped touching what the MR is on.
    fn invalid(&self, key: u32) {
        let mut inner = self.inner.lock();
        if let Some(r) = inner.records.iter_mut().find(|r| r.key == key) {
            r.valid = false;
        }
    }

    /// Somebody touches an MR whose mapping was taken away: the adapter maps it again, if it can.
    /// The MR must not be deregistered meanwhile.
    pub(crate) fn page_fault(&self, key: u32) -> Result {
        let inner = self.inner.lock();
        let record = inner.records.iter().find(|r| r.key == key);
        let mr: *mut Mr = ptr::with_exposed_provenance_mut(record.ok_or(ENOENT)?.mr);
        drop(inner);
        // SAFETY: The MR is in the table, so it exists; it stays for this call.
        let umem = unsafe { (*mr).umem.as_ref() };
        umem.ok_or(EINVAL)?.fault(self, key)
    }

    /// What was last to be imported, and how.
    pub(crate) fn last_import(&self) -> Import {
        self.inner.lock().importing.last
    }

    /// From now on what it imports is not what it was told to.
    pub(crate) fn swap_descriptors(&self) {
        self.inner.lock().importing.swapped = true;
    }

    /// From now on it keeps what it imports; the task that imports it also tries that for
    /// `intruder`.
    pub(crate) fn leak(&self, intruder: Option<&Registered>) {
        let mut inner = self.inner.lock();
        inner.importing.leaks = true;
        inner.importing.intruder = intruder.map_or(0, Registered::dma_device);
    }

    /// What it has kept.
    pub(crate) fn leaked(&self) -> Result<Leaked> {
        self.inner.lock().importing.leaked.take().ok_or(ENOENT)
    }

    /// What the intruder got.
    pub(crate) fn intruded(&self) -> Option<Result> {
        self.inner.lock().importing.intruded
    }

    /// From now on it is late with letting go.
    pub(crate) fn be_late(&self, late: Late) {
        self.inner.lock().importing.late = late;
    }

    /// It lets go of what it is late with. The MR must not be deregistered meanwhile.
    pub(crate) fn catch_up(&self) {
        let mut inner = self.inner.lock();
        inner.importing.late = Late::No;
        let owed = mem::take(&mut inner.importing.owed);
        drop(inner);
        let Some((key, umem, fence)) = owed else {
            return;
        };
        self.invalid(key);
        if fence != 0 {
            // SAFETY: The fence is from kt_fence_add(), and is given back once.
            unsafe { helpers::kt_fence_signal(ptr::with_exposed_provenance_mut(fence)) };
            return;
        }
        let umem: *mut rdma::ib_umem_dmabuf = ptr::with_exposed_provenance_mut(umem);
        // SAFETY: The umem exists for as long as its MR.
        let _locked = unsafe { Locked::new(umem) };
        // SAFETY: As above; the lock is held.
        unsafe { rdma::ib_umem_dmabuf_unmap_pages(umem) };
    }
}
