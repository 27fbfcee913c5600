// SPDX-License-Identifier: GPL-2.0

//! MRs of users that the core has made, as the hooks see them.
//!
//! [`Registered`] is the memory behind the MRs: a region, or an import of a dma-buf of another
//! exporter. The index of a device has the memory by the local key of each MR. The hooks
//! re-register and deregister MRs, and leave MRs to the driver when the device is removed.
//!
//! Context: as each function states. No lock is held across an operation of the driver.

use crate::{
    backend::Backend,
    data::index::Index,
    ext::rdma::Change,
    prelude::*, //
};
use core::cell::Cell;
use pin_init::stack_pin_init;

/// The MRs that the core has made on a device, by local key.
pub(crate) type MrIndex = Index<dyn Registered>;

/// The arguments of a registration that a re-registration may leave unchanged.
pub(crate) struct Arguments {
    pub(crate) range: VaRange,
    pub(crate) access: Access,
    pub(crate) iova: u64,
}

/// Memory behind MRs of users.
pub(crate) trait Registered: Send + Sync {
    /// Returns whether `mr` is an MR on this memory, and is not being deregistered. Context: any.
    fn is_of(&self, mr: &Mr) -> bool;

    /// Begins the deregistration of `mr` by the user. The driver may reuse the address and the key
    /// of the MR before the driver's function returns, so from here on [`Self::is_of`] returns
    /// `false`, unless the deregistration fails. Returns whether `mr` was on this memory. Context:
    /// any.
    fn begin_dereg(&self, mr: &Mr) -> bool;

    /// Deregisters `mr`, which is on this memory, for the user, after [`Self::begin_dereg`]. Fails
    /// with the error of the driver; the MR then stays. Context: may sleep.
    fn deregister(&self, mr: &Mr, original: &Original<'_>) -> Result;

    /// Returns the arguments of the last registration, or `None` if the device is removed. Context:
    /// any.
    fn arguments(&self) -> Option<Arguments>;

    /// Fills in the arguments that a re-registration does not change. Context: any.
    fn fill_unchanged(&self, req: &mut Request<'_>, change: Change) {
        let Some(arguments) = self.arguments() else {
            return;
        };
        if !change.access() {
            req.access = arguments.access;
        }
        if !change.range() {
            req.start = arguments.range.addr() as u64;
            req.length = arguments.range.len() as u64;
            req.iova = arguments.iova;
        }
    }

    /// Makes another MR on the same memory, for a re-registration without a new range. `req` has
    /// the PD and the access flags. After a failure the old MR is unchanged.
    ///
    /// Fails with `ENODEV` if the memory is revoked, and with `EACCES` if the MR is to become
    /// writable and the memory is read-only.
    ///
    /// Context: may sleep.
    fn replace_mr(self: Arc<Self>, backend: &Backend, req: &Request<'_>) -> Result<UserMr>;

    /// First step of a fence: stops new accesses of the device. Returns whether there is anything
    /// to fence. Context: may sleep.
    fn stop(&self) -> Result<bool>;

    /// Leaves the MRs to the driver, as the device is removed. On return the memory is not in the
    /// index. Context: may sleep.
    fn disassociate(self: Arc<Self>, deadline: &Deadline);

    /// Prints the row of an import for debugfs. Prints nothing for a region: the client has the
    /// region. Context: may sleep.
    fn print_import(&self, _: &mut fmt::Formatter<'_>) -> fmt::Result {
        Ok(())
    }
}

/// The time that a removed device has to answer, for all MRs together.
#[pin_data]
pub(crate) struct Deadline {
    start: Instant<Monotonic>,
    /// The device has let a fence time out, and is not asked again.
    unanswered: Cell<bool>,
    /// For the fences of dma-bufs.
    #[pin]
    fences: FenceBudget,
}

impl Deadline {
    /// Seconds in which failed fences are repeated.
    const SECONDS: i64 = 10;

    fn start() -> impl PinInit<Self> {
        pin_init!(Self {
            start: Instant::now(),
            unanswered: Cell::new(false),
            fences <- FenceBudget::new(),
        })
    }

    pub(crate) fn fences(&self) -> &FenceBudget {
        &self.fences
    }

    pub(crate) fn is_unanswered(&self) -> bool {
        self.unanswered.get()
    }

    /// Records that a fence has failed with `e`. Returns whether the time is over.
    pub(crate) fn is_over_after(&self, e: Error) -> bool {
        if e == ETIMEDOUT {
            self.unanswered.set(true);
        }
        self.unanswered.get() || self.start.elapsed() >= Delta::from_secs(Self::SECONDS)
    }
}

/// Leaves all MRs of a removed device to the driver. `mrs` has the MRs, and no task adds another
/// MR. Context: may sleep.
pub(crate) fn disassociate_all(mrs: &MrIndex, backend: &Backend) {
    stack_pin_init!(let deadline = Deadline::start());
    // Stop all MRs first, so that one drain serves all MRs, and the waits for importers overlap.
    let (mut next, mut stopped) = (Some(0), false);
    while let Some((lkey, registered)) = next.and_then(|lkey| mrs.from(lkey)) {
        match registered.stop() {
            Err(e) if deadline.is_over_after(e) => break,
            Err(_) => {}
            Ok(one) => stopped |= one,
        }
        next = lkey.checked_add(1);
    }
    if stopped {
        backend.drain();
    }
    while let Some((_, registered)) = mrs.from(0) {
        registered.disassociate(&deadline);
    }
}
