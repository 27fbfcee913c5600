// SPDX-License-Identifier: GPL-2.0

//! A fake RDMA device, registered with the real ib_core.
//!
//! The device has one InfiniBand port and moves no data. The device executes REG_MR and LOCAL_INV
//! work requests, and records at any time the pages of valid MRs, which the device can access. The
//! fake clients compare the record with the callbacks.
//!
//! Some kinds import dma-bufs, in the modes of drivers in the kernel: see [`import`].

#![expect(
    clippy::missing_safety_doc,
    reason = "the contract of each operation is that of its field in `struct ib_device_ops`, on a \
              device made by `Registered`"
)]

mod import;
mod interposer;
mod mrs;
mod ops;
mod register;

pub(crate) use import::*;
pub(crate) use interposer::*;
pub(crate) use register::*;

use crate::prelude::*;

/// How a device does DMA and registers memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    /// Virtual addresses, as software RDMA. No dma-bufs.
    Virtual,
    /// A platform device. No dma-bufs.
    Dma,
    /// A function on the PCI bus. No dma-bufs. Only for temporary devices.
    Pci,
    /// A platform device. Imports dma-bufs.
    Importer(Mode),
}

/// The arguments of the driver's own `reg_user_mr`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Args {
    pub(crate) start: u64,
    pub(crate) length: u64,
    pub(crate) iova: u64,
    pub(crate) access: i32,
}

/// The device's record of an MR.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct MrState {
    /// 0: an unused record.
    key: u32,
    /// The C object.
    mr: usize,
    /// Made by the driver's own `reg_user_mr`.
    pub(crate) original: bool,
    /// The device can access the pages.
    pub(crate) valid: bool,
    /// Bounds of the pages, by physical or DMA address.
    pub(crate) lo: u64,
    pub(crate) hi: u64,
    pub(crate) pages: u32,
    pub(crate) page_size: u32,
    /// The entries of the dma-buf's table, and the bytes of the longest entry.
    pub(crate) entries: u32,
    pub(crate) longest: u64,
    pub(crate) access: i32,
}

/// The completion of a work request, of which a CQ has one at a time. The default is a success.
#[derive(Clone, Copy, Default)]
struct Completion {
    /// 0: an unused place.
    cq: usize,
    qp: usize,
    wr_cqe: usize,
    status: rdma::ib_wc_status,
    /// The MR that becomes invalid with the completion; 0: none.
    invalidates: u32,
}

const MRS: usize = 64;
const COMPLETIONS: usize = 16;

struct Inner {
    last_key: u32,
    records: [MrState; MRS],
    completions: [Completion; COMPLETIONS],
    qps: i32,
    cqs: i32,
    last_original: Args,
    quirks: Quirks,
    /// The address and the key that the next new MR has.
    reused: Option<(usize, u32)>,
    importing: import::State,
}

impl Inner {
    /// Returns whether completions are held back.
    fn is_held(&self) -> bool {
        self.quirks.quiesce == Quiesce::CompleteLater
    }

    fn record(&mut self, key: u32) -> Option<&mut MrState> {
        self.records.iter_mut().find(|r| r.key == key)
    }

    /// Returns the place of the completion for the CQ; 0: an unused place.
    fn completion(&mut self, cq: usize) -> Option<&mut Completion> {
        self.completions.iter_mut().find(|c| c.cq == cq)
    }
}

/// How the device and its driver deviate, apart from the script.
#[derive(Clone, Copy, Default)]
pub(crate) struct Quirks {
    /// The driver can pin the clients' memory.
    pub(crate) pins_all: bool,
    /// The next work request completes with an error.
    pub(crate) fails_work_request: bool,
    /// The next new MR has the address and the key of the next deregistered MR.
    pub(crate) reuses_mr: bool,
    /// Imports succeed on another dma-buf than the descriptor's, as if a thread had replaced the
    /// descriptor.
    pub(crate) swaps_descriptors: bool,
    /// Imports keep a reference to the dma-buf.
    pub(crate) leaks: bool,
    /// The importing task also attaches this DMA device. 0: none.
    pub(crate) other: usize,
    pub(crate) quiesce: Quiesce,
    /// Imports fail with this error once the memory is mapped, as in a driver whose device then also
    /// fails to undo the mapping, which stays until [`FakeDevice::undo_import`].
    pub(crate) keeps: Option<Error>,
    /// The mode of imports, as in a driver whose firmware has changed.
    pub(crate) mode: Option<Mode>,
}

/// The device's own side: the state and the script.
#[pin_data]
pub(crate) struct FakeDevice {
    kind: Kind,
    #[pin]
    pub(crate) script: Script,
    #[pin]
    inner: SpinLock<Inner>,
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
                        records: [MrState::default(); MRS],
                        completions: [Completion::default(); COMPLETIONS],
                        qps: 0,
                        cqs: 0,
                        last_original: Args::default(),
                        quirks: Quirks::default(),
                        reused: None,
                        importing: import::State::default(),
                    },
                    "kunit::FakeDevice"
                ),
            }),
            GFP_KERNEL,
        )
    }

    /// Returns whether the device can access any of `[lo, hi)`.
    pub(crate) fn can_touch(&self, lo: u64, hi: u64) -> bool {
        let inner = self.inner.lock();
        inner
            .records
            .iter()
            .any(|r| r.key != 0 && r.valid && !r.original && r.lo < hi && lo < r.hi)
    }

    pub(crate) fn mr(&self, key: u32) -> Option<MrState> {
        self.inner.lock().record(key).copied()
    }

    /// Returns the numbers of MRs, queue pairs and completion queues.
    pub(crate) fn objects(&self) -> (usize, i32, i32) {
        let inner = self.inner.lock();
        let mrs = inner.records.iter().filter(|r| r.key != 0).count();
        (mrs, inner.qps, inner.cqs)
    }

    /// Returns the arguments of the last call of the driver's own function.
    pub(crate) fn last_original(&self) -> Args {
        self.inner.lock().last_original
    }

    /// Changes how the device and its driver deviate.
    pub(crate) fn set(&self, change: impl FnOnce(&mut Quirks)) {
        change(&mut self.inner.lock().quirks);
    }

    /// Ends all accesses of the device. From now on the device completes no work request.
    fn die(&self) {
        let mut inner = self.inner.lock();
        inner.quirks.quiesce = Quiesce::CompleteLater;
        for record in &mut inner.records {
            record.valid = false;
        }
    }

    /// Calls the completion handler of a CQ.
    fn notify(cq: *mut rdma::ib_cq) {
        // SAFETY: The callers pass a CQ that exists; ib_core has set both fields at the creation of
        // the CQ.
        let (handler, context) = unsafe { ((*cq).comp_handler, (*cq).cq_context) };
        if let Some(handler) = handler {
            // SAFETY: The handler gets the CQ and the context of the CQ, in process context.
            unsafe { handler(cq, context) };
        }
    }

    pub(crate) fn reset(&self) {
        self.script.reset();
        let mut inner = self.inner.lock();
        inner.quirks = Quirks::default();
        let old = core::mem::take(&mut inner.importing);
        drop(inner);
        drop(old);
    }
}
