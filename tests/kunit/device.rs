// SPDX-License-Identifier: GPL-2.0

//! A fake RDMA device, registered with the real ib_core.
//!
//! It has one InfiniBand port and moves no data. It executes REG_MR and LOCAL_INV work requests,
//! and knows at any time what an adapter could touch: the pages of its valid MRs. That is what
//! the tests compare with what the clients have been told.
//!
//! Some kinds import dma-bufs, each as drivers in the kernel do: see [`import`].

mod import;
mod memory;
mod ops;
mod register;

pub(crate) use import::{
    is_dma_buf,
    Import,
    Late,
    Leaked, //
};
pub(crate) use register::Registered;

use crate::{
    bindings::rdma,
    script::Script, //
};
use core::ptr;
use kernel::{
    new_spinlock,
    prelude::*,
    sync::{
        Arc,
        SpinLock, //
    },
};

/// What a device does its DMA with.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    /// Nothing: virtual addresses, as software RDMA.
    Virtual,
    /// A platform device.
    Dma,
    /// As above; imports dma-bufs, and maps again what was taken away (mlx5).
    Dynamic,
    /// Imports dma-bufs, and lets go of them for good (irdma).
    Revocable,
    /// Imports dma-bufs, and does not let go of them (efa).
    Pinned,
    /// As [`Self::Dynamic`], but takes no memory without struct pages.
    Local,
}

impl Kind {
    /// Those that import dma-bufs.
    pub(crate) const IMPORTERS: [Self; 4] =
        [Self::Dynamic, Self::Revocable, Self::Pinned, Self::Local];

    /// Does it import dma-bufs?
    pub(crate) fn imports(self) -> bool {
        Self::IMPORTERS.contains(&self)
    }
}

/// The arguments of a registration that the driver's own function got.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Args {
    pub(crate) start: u64,
    pub(crate) length: u64,
    pub(crate) iova: u64,
    pub(crate) access: i32,
}

/// An MR as the device knows it.
#[derive(Clone, Copy, Default)]
struct Record {
    /// 0: unused.
    key: u32,
    /// The C object.
    mr: usize,
    /// Made by the driver's own `reg_user_mr`.
    original: bool,
    /// The adapter would let somebody touch the pages.
    valid: bool,
    /// Bounds of the pages, by physical or DMA address.
    lo: u64,
    hi: u64,
    pages: u32,
    page_size: u32,
    /// Of the table that a dma-buf gave: how many, and the bytes of the longest.
    entries: u32,
    longest: u64,
    access: i32,
}

/// A work request that has been executed, or is about to be.
#[derive(Clone, Copy)]
struct Completion {
    cq: usize,
    qp: usize,
    wr_cqe: usize,
    status: rdma::ib_wc_status,
    /// The MR that is invalid from now on; 0: none.
    invalidates: u32,
}

impl Default for Completion {
    fn default() -> Self {
        Self {
            cq: 0,
            qp: 0,
            wr_cqe: 0,
            status: rdma::ib_wc_status_IB_WC_SUCCESS,
            invalidates: 0,
        }
    }
}

const MRS: usize = 64;
const COMPLETIONS: usize = 16;

struct Inner {
    last_key: u32,
    records: [Record; MRS],
    completions: [Completion; COMPLETIONS],
    pending: usize,
    /// Completions stay in the device.
    held: bool,
    /// The next work request completes with this.
    next_status: rdma::ib_wc_status,
    qps: i32,
    cqs: i32,
    last_original: Args,
    importing: import::State,
}

/// The device's own side.
#[pin_data]
pub(crate) struct FakeDevice {
    kind: Kind,
    #[pin]
    pub(crate) script: Script,
    #[pin]
    inner: SpinLock<Inner>,
}

/// What there is of an MR.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct MrState {
    pub(crate) original: bool,
    pub(crate) valid: bool,
    pub(crate) lo: u64,
    pub(crate) hi: u64,
    pub(crate) pages: u32,
    pub(crate) page_size: u32,
    pub(crate) entries: u32,
    pub(crate) longest: u64,
    pub(crate) access: i32,
}

impl FakeDevice {
    fn new(kind: Kind) -> Result<Arc<Self>> {
        Arc::pin_init(
            pin_init!(Self {
                kind,
                script <- Script::new(),
                inner <- new_spinlock!(
                    Inner {
                        last_key: 0x100,
                        records: [Record::default(); MRS],
                        completions: [Completion::default(); COMPLETIONS],
                        pending: 0,
                        held: false,
                        next_status: rdma::ib_wc_status_IB_WC_SUCCESS,
                        qps: 0,
                        cqs: 0,
                        last_original: Args::default(),
                        importing: import::State::default(),
                    },
                    "kunit::FakeDevice"
                ),
            }),
            GFP_KERNEL,
        )
    }

    /// Could the adapter touch any of `[lo, hi)`?
    pub(crate) fn can_touch(&self, lo: u64, hi: u64) -> bool {
        let inner = self.inner.lock();
        inner
            .records
            .iter()
            .any(|r| r.key != 0 && r.valid && !r.original && r.lo < hi && lo < r.hi)
    }

    /// The MR with that key.
    pub(crate) fn mr(&self, key: u32) -> Option<MrState> {
        let inner = self.inner.lock();
        let r = inner.records.iter().find(|r| r.key == key)?;
        Some(MrState {
            original: r.original,
            valid: r.valid,
            lo: r.lo,
            hi: r.hi,
            pages: r.pages,
            page_size: r.page_size,
            entries: r.entries,
            longest: r.longest,
            access: r.access,
        })
    }

    /// How many MRs, queue pairs and completion queues there are.
    pub(crate) fn objects(&self) -> (usize, i32, i32) {
        let inner = self.inner.lock();
        let mrs = inner.records.iter().filter(|r| r.key != 0).count();
        (mrs, inner.qps, inner.cqs)
    }

    /// What the driver's own function was last called with.
    pub(crate) fn last_original(&self) -> Args {
        self.inner.lock().last_original
    }

    /// The next work request completes with an error.
    pub(crate) fn fail_work_request(&self) {
        self.inner.lock().next_status = rdma::ib_wc_status_IB_WC_MW_BIND_ERR;
    }

    /// From now on work requests are executed, and their completions come, only when
    /// [`Self::release_completions`] says so.
    pub(crate) fn hold_completions(&self) {
        self.inner.lock().held = true;
    }

    /// Executes and completes what has been held up.
    pub(crate) fn release_completions(&self) {
        let mut cqs = [0; COMPLETIONS];
        let mut inner = self.inner.lock();
        inner.held = false;
        let n = inner.pending;
        for (cq, completion) in cqs.iter_mut().zip(&inner.completions[..n]) {
            *cq = completion.cq;
        }
        drop(inner);
        for cq in &cqs[..n] {
            // The CQ cannot go while a work request on it is on its way.
            Self::notify(ptr::with_exposed_provenance_mut(*cq));
        }
    }

    /// Tells the CQ's owner that there is something.
    fn notify(cq: *mut rdma::ib_cq) {
        // SAFETY: The callers give a CQ that exists; ib_core has set both fields when it was
        // made.
        let (handler, context) = unsafe { ((*cq).comp_handler, (*cq).cq_context) };
        if let Some(handler) = handler {
            // SAFETY: As the contract of completion handlers says; any context is fine.
            unsafe { handler(cq, context) };
        }
    }

    /// Forgets all plans.
    pub(crate) fn reset(&self) {
        self.script.reset();
        let mut inner = self.inner.lock();
        inner.held = false;
        inner.next_status = rdma::ib_wc_status_IB_WC_SUCCESS;
        let old = core::mem::take(&mut inner.importing);
        drop(inner);
        drop(old);
    }
}
