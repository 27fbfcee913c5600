// SPDX-License-Identifier: GPL-2.0

//! A dma-buf that a device has imported.

use crate::{
    bindings::rdma,
    device::{
        FakeDevice,
        Kind, //
    }, //
};
use core::ptr;
use kernel::{
    bindings,
    error::to_result,
    prelude::*, //
};

/// The reservation lock of a umem's dma-buf, held.
pub(super) struct Locked(pub(super) *mut rdma::ib_umem_dmabuf);

impl Locked {
    /// Takes it.
    ///
    /// # Safety
    ///
    /// The umem must exist for as long as the object.
    pub(super) unsafe fn new(umem: *mut rdma::ib_umem_dmabuf) -> Self {
        // SAFETY: The caller's promise.
        unsafe { rdma::ib_umem_dmabuf_revoke_lock(umem) };
        Self(umem)
    }
}

impl Drop for Locked {
    fn drop(&mut self) {
        // SAFETY: The umem exists, and whoever made this has locked.
        unsafe { rdma::ib_umem_dmabuf_revoke_unlock(self.0) };
    }
}

/// A dma-buf that has been imported. Dropping it lets go of it.
///
/// # Invariants
///
/// The pointer is to a umem that is owned by this object.
pub(in crate::device) struct Umem(pub(super) *mut rdma::ib_umem_dmabuf);

impl Umem {
    /// Takes the reservation lock.
    fn lock(&self) -> Locked {
        // SAFETY: By the type invariants.
        unsafe { Locked::new(self.0) }
    }

    /// The MR is on what the umem's table says, which must not change meanwhile.
    pub(super) fn enter(&self, fake: &FakeDevice, key: u32) {
        // SAFETY: By the type invariants; the caller's promise.
        let table = unsafe { &(*self.0).umem.sgt_append.sgt };
        let (mut lo, mut hi, mut longest, mut bytes) = (u64::MAX, 0, 0, 0);
        let mut sg = table.sgl;
        for _ in 0..table.nents {
            // SAFETY: An entry of the table.
            let (at, len) = unsafe {
                (
                    bindings::sg_dma_address(sg),
                    u64::from(bindings::sg_dma_len(sg)),
                )
            };
            lo = lo.min(at);
            hi = hi.max(at + len);
            longest = longest.max(len);
            bytes += len;
            // SAFETY: As above.
            sg = unsafe { bindings::sg_next(sg) };
        }
        let mut inner = fake.inner.lock();
        if let Some(r) = inner.records.iter_mut().find(|r| r.key == key) {
            (r.lo, r.hi) = (lo, hi);
            (r.pages, r.page_size) = ((bytes >> 12) as u32, 1 << 12);
            (r.entries, r.longest) = (table.nents, longest);
            r.valid = true;
        }
    }

    /// Maps, and lets the adapter touch what is mapped.
    pub(super) fn fault(&self, fake: &FakeDevice, key: u32) -> Result {
        let _locked = self.lock();
        // SAFETY: By the type invariants; the lock is held.
        to_result(unsafe { rdma::ib_umem_dmabuf_map_pages(self.0) })?;
        self.enter(fake, key);
        Ok(())
    }

    /// The adapter stops, and lets go of the dma-buf.
    pub(in crate::device) fn let_go(self, fake: &FakeDevice, key: u32) {
        fake.invalid(key);
        if matches!(fake.kind, Kind::Dynamic | Kind::Local) {
            let _locked = self.lock();
            // SAFETY: By the type invariants; the lock is what the field is read under.
            unsafe { (*self.0).private = ptr::null_mut() };
        }
    }
}

impl Drop for Umem {
    fn drop(&mut self) {
        // SAFETY: By the type invariants; nobody holds the reservation lock.
        unsafe { rdma::ib_umem_release(&raw mut (*self.0).umem) };
    }
}
