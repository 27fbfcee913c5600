// SPDX-License-Identifier: GPL-2.0

//! Revocation of memory regions on mappings without struct pages, when a part of the mapping ends.
//!
//! The task that ends the mapping waits for the revocation, for [`LIMIT_MS`]. If that was not enough, the next
//! ones on the same RDMA device are waited for [`SHORT_MS`] alone until the first has ended: enough for a device
//! that answers, whatever has delayed the first, and bearable for many regions on one that does not.

use crate::{
    ext::base::{
        device::name as device_name,
        pci::BarRange,
        unmap_watch::{
            Limit,
            OnUnmap, //
        }, //
    },
    peer_client::Ticket,
    prelude::*, //
};
use kernel::device;

const LIMIT_MS: u32 = 10_000;

/// How long a task waits for a revocation on a device with one that takes longer.
const SHORT_MS: u32 = 200;

/// The devices that do not answer, by address; 0 in a free place. A device has a place for each revocation that
/// has exceeded its time, if one was free.
static SILENT: [Atomic<usize>; 64] = [const { Atomic::new(0) }; 64];

/// Replaces one `old` in [`SILENT`] by `new`. Returns whether there was one.
fn replace(old: usize, new: usize) -> bool {
    SILENT
        .iter()
        .any(|place| place.cmpxchg(old, new, Relaxed).is_ok())
}

/// A memory region on a mapping without struct pages.
#[pin_data]
pub(crate) struct Unmapped {
    ticket: Ticket,
    bar_range: BarRange,
    bytes: usize,
    /// The device that the region is mapped for, or was last.
    #[pin]
    device: SpinLock<Option<ARef<device::Device>>>,
    /// The entry of the region in [`SILENT`], or 0.
    silent: Atomic<usize>,
}

impl Unmapped {
    pub(crate) fn new(ticket: Ticket, bar_range: BarRange, bytes: usize) -> impl PinInit<Self> {
        pin_init!(Self {
            ticket,
            bar_range,
            bytes,
            device <- new_spinlock!(None, "io_peer_mem::Unmapped::device"),
            silent: Atomic::new(0),
        })
    }

    pub(crate) fn set_device(&self, dev: &device::Device) {
        let old = self.device.lock().replace(dev.into());
        drop(old);
    }

    fn entry(&self) -> usize {
        let device = self.device.lock();
        (device.as_ref()).map_or(0, |device| core::ptr::from_ref(&**device).addr())
    }
}

impl OnUnmap for Unmapped {
    fn unmapped(&self) {
        self.ticket.invalidate();
    }

    fn limit(&self) -> Limit {
        let entry = self.entry();
        if entry != 0 && SILENT.iter().any(|place| place.load(Relaxed) == entry) {
            Limit::Short(SHORT_MS)
        } else {
            Limit::Usual(LIMIT_MS)
        }
    }

    fn set_late(&self, late: bool) {
        if late {
            let entry = self.entry();
            if entry != 0 && replace(0, entry) {
                self.silent.store(entry, Relaxed);
            }
        } else {
            let entry = self.silent.load(Relaxed);
            if entry != 0 {
                replace(entry, 0);
                self.silent.store(0, Relaxed);
            }
        }
    }

    fn log_late(&self) {
        let device = self.device.lock().clone();
        let device = device
            .as_deref()
            .and_then(|device| device_name(device).to_str().ok());
        // Without a device the registration is still in progress.
        let device = device.unwrap_or("the registration");
        let function = device_name(self.bar_range.dev().as_ref());
        pr_warn_limited!(
            "{}: BAR {}: {} does not answer, and may still access {} bytes that were unmapped; reset the device\n",
            function.to_str().unwrap_or("unnamed function"),
            self.bar_range.index(),
            device,
            self.bytes
        );
    }
}
