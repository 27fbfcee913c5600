// SPDX-License-Identifier: GPL-2.0

//! Backends: how a stock driver gets the addresses of a region.
//!
//! [`Backend`] is the backend of one device, chosen when the device is added. [`Backend::register`]
//! makes an MR, and returns the MR with an [`Attachment`], the access of the device to the memory.
//! A region owns the attachment, and fences the device with it.
//!
//! Errors: [`RegError`] says whether the dispatch asks the next client, and [`Failed`] has an import
//! that the driver has not undone.
//!
//! Context: functions that call clients or drivers may sleep. The caller holds no lock.

mod dma_buf_mr;
mod exported;
mod fast_reg;
mod param;
mod trust;

use self::{
    dma_buf_mr::{
        DmaBuf,
        DmaBufMr, //
    },
    fast_reg::{
        FastReg,
        FastRegMr, //
    },
    param::Choice, //
};
pub(crate) use self::{
    exported::{
        Exported,
        Importer,
        TrustOf, //
    },
    trust::Trust, //
};
use crate::{
    callbacks::Acquired,
    ext::{
        base::device::name as device_name,
        rdma::UmemHook, //
    },
    prelude::*, //
};
use core::ops::{
    Deref,
    DerefMut, //
};
use kernel::alloc::AllocError;

/// Why a backend made no MR.
pub(crate) enum RegError {
    Error(Error),
    /// The client could not pin the claimed range; the next client may claim the range.
    NotPinned(Error),
    /// The client cannot serve this device; the next client may. Holds the cause.
    Skip(&'static str),
    /// The device must not have the memory of the client: the registration fails with
    /// `EOPNOTSUPP`. Holds the cause.
    Rejected(&'static str),
    /// Root has stopped registrations of the client's memory: the registration fails with `EBUSY`.
    Draining,
}

/// Why a backend made no MR, and what stays.
pub(crate) struct Failed {
    pub(crate) error: RegError,
    /// An import that the driver has not undone: the device may still access the memory.
    pub(crate) left: Option<Attachment>,
}

impl<E: Into<RegError>> From<E> for Failed {
    fn from(e: E) -> Self {
        Self {
            error: e.into(),
            left: None,
        }
    }
}

/// Why a request is rejected whose access flags are not supported for peer memory.
const ACCESS: &str = "an access flag (MW_BIND, a FLUSH flag) or a DMA handle is not supported for \
    peer memory; register without it";

impl From<Error> for RegError {
    fn from(e: Error) -> Self {
        Self::Error(e)
    }
}

impl From<AllocError> for RegError {
    fn from(_: AllocError) -> Self {
        Self::Error(ENOMEM)
    }
}

/// The backend of one device.
pub(crate) enum Backend {
    DmaBuf(DmaBuf),
    /// A work request registers the pages.
    FastReg(Arc<FastReg>),
    /// The driver pins the memory through the hook on `ib_umem_get_desc()`, which serves whatever a driver
    /// pins: MRs, queue buffers, doorbell pages. The end of the umem ends the region.
    Umem,
}

fn parameter() -> &'static str {
    params::string(c"backend")
}

fn choice(dev: &Device) -> Result<Choice> {
    let name = dev.name();
    let dma = dev.dma_device();
    let dma = dma.and_then(|dma| device_name(dma).to_str().ok());
    match dma {
        Some(dma) => param::choose(parameter(), &[&name, dma]),
        None => param::choose(parameter(), &[&name]),
    }
}

impl Backend {
    pub(crate) fn check_parameter() -> Result {
        param::choose(parameter(), &[]).map(drop).inspect_err(|_| {
            pr_err!(
                "backend={}: not [DEVICE:]auto|dma_buf|umem|fast_reg|none[,...]\n",
                parameter()
            )
        })
    }

    /// Chooses the backend of a device. Fails with `EOPNOTSUPP` if no backend fits, or if the
    /// administrator has excluded the device. Context: may sleep.
    pub(crate) fn choose(dev: &Device) -> Result<Self> {
        let choice = choice(dev)?;
        // Software RDMA copies pages by CPU and has no DMA device to map a dma-buf for.
        let imports = dev.has_dma_buf() && !dev.is_virt_dma();
        let pins = UmemHook::state().is_ok() && !dev.is_virt_dma() && dev.dma_device().is_some();
        let registers = dev.has_fast_reg() && dev.ib_port().is_some();
        match choice {
            Choice::Auto | Choice::DmaBuf if imports => Ok(Self::DmaBuf(DmaBuf::new(dev)?)),
            Choice::Auto if registers && dev.quirks().fast_reg.is_some() => {
                Ok(Self::FastReg(FastReg::new(dev)?))
            }
            Choice::FastReg if registers => Ok(Self::FastReg(FastReg::new(dev)?)),
            Choice::Auto | Choice::Umem if pins => Ok(Self::Umem),
            _ => Err(eopnotsupp()),
        }
    }

    /// Returns whether the administrator lets umems of a device be on peer memory.
    pub(crate) fn allows_umems(dev: &Device) -> bool {
        choice(dev) != Ok(Choice::None)
    }

    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::DmaBuf(_) => "dma-buf",
            Self::FastReg(_) => "fast registration",
            Self::Umem => "umem",
        }
    }

    /// Returns whether live MRs of the device can be fenced, as far as is known.
    pub(crate) fn can_fence(&self) -> bool {
        match self {
            Self::DmaBuf(backend) => backend.can_fence(),
            Self::FastReg(_) => true,
            Self::Umem => false,
        }
    }

    /// Returns the text for debugfs: whether live MRs can be fenced.
    pub(crate) fn fence_word(&self) -> &'static str {
        match self {
            Self::DmaBuf(backend) => backend.fence_word(),
            Self::FastReg(_) => "yes",
            Self::Umem => "no",
        }
    }

    /// Returns what is known of the driver's invalidations, if the driver imports dma-bufs.
    pub(crate) fn trust(&self) -> Option<Arc<Trust>> {
        match self {
            Self::DmaBuf(backend) => Some(backend.trust().clone()),
            Self::FastReg(_) | Self::Umem => None,
        }
    }

    /// Records that the driver has reported a fatal error: the device is not trusted to invalidate
    /// any more. With fast registration, the completion of a work request shows the error.
    pub(crate) fn set_fatal(&self) {
        if let Some(trust) = self.trust() {
            trust.set_fatal();
        }
    }

    /// Waits for the accesses that the device began before [`DeviceAccess::stop`]. Context: may
    /// sleep.
    pub(crate) fn drain(&self) {
        if let Self::FastReg(backend) = self {
            backend.drain();
        }
    }

    /// Makes an MR on `pages`. `fenced`: the client requires that the MR can be fenced. Context: process
    /// context; may sleep.
    pub(crate) fn register(
        &self,
        req: &Request<'_>,
        range: VaRange,
        pages: &mut Acquired,
        fenced: bool,
    ) -> Result<(UserMr, Attachment), Failed> {
        match self {
            Self::DmaBuf(backend) => backend.register(req, range, pages, fenced),
            Self::FastReg(backend) => Ok(backend.register(req, range, pages)?),
            // The driver makes the MRs: the memory is pinned already, or cannot be pinned.
            Self::Umem => Err(EFAULT.into()),
        }
    }

    /// Has the driver make an MR on `part`, as by `ibv_reg_dmabuf_mr()`. Fails with `EOPNOTSUPP` if
    /// the backend imports no dma-bufs or does not support the access flags. Context: may sleep.
    pub(crate) fn import(&self, req: &Request<'_>, part: &Part) -> Result<UserMr> {
        match (self, req.access.for_dma_buf()) {
            (Self::DmaBuf(_), Some(access)) => {
                let import = |fd| req.import(fd, part.offset, access);
                part.buffer.import(import)
            }
            _ => Err(eopnotsupp()),
        }
    }
}

/// Why no fence of a device succeeds any more, even if the driver seems to succeed.
#[derive(Clone, Copy)]
pub(crate) struct Distrust {
    pub(crate) device: Name,
    /// The driver has reported a fatal error. Otherwise the driver has failed to invalidate the MR,
    /// and does not try again.
    pub(crate) is_fatal: bool,
}

impl Distrust {
    pub(crate) fn cause(self) -> &'static str {
        if self.is_fatal {
            "it has reported a fatal error"
        } else {
            "its driver has failed to invalidate the MR"
        }
    }
}

/// The access of a device to one region, through an MR or an exported dma-buf.
pub(crate) trait DeviceAccess {
    /// Returns whether the device can be fenced without deregistering the MR.
    fn can_fence(&self) -> bool {
        true
    }

    /// Returns why the device may access the memory until the MR is deregistered, or even longer,
    /// in spite of [`Self::fence`].
    fn distrust(&self) -> Option<Distrust> {
        None
    }

    /// First step of a fence: stops new accesses of the device, if the device can be fenced. The
    /// second step is a wait, and the waits for several attachments overlap. Context: may sleep.
    fn stop(&mut self) -> Result;

    /// Returns whether the device is stopped, so that [`Backend::drain`], once for any number of
    /// attachments, completes the fence. Otherwise [`Self::fence`] has to wait.
    fn is_stopped(&self) -> bool {
        false
    }

    /// Fences the device: on return the device cannot access the region. The user keeps the MR,
    /// whose use ends with errors. `fences`: the time to wait for fences of dma-bufs. Context: may
    /// sleep.
    fn fence(&mut self, fences: &FenceBudget) -> Result;

    /// Defers the end of the region to the driver, which deregisters the MR during the removal of
    /// the device, or later: `hook` is notified when the driver detaches. Returns `false`, without
    /// a notification, if the driver has detached already.
    fn defer_to_dereg(&self, _hook: Arc<dyn OnDetach>) -> bool {
        true
    }

    /// Returns whether the driver is still to detach, after [`Self::defer_to_dereg`].
    fn is_attached(&self) -> bool {
        false
    }
}

/// The access of a device to one region. Drop the attachment only once the device cannot access the
/// memory.
pub(crate) enum Attachment {
    DmaBuf(DmaBufMr),
    FastReg(FastRegMr),
    /// A dma-buf of the user, for any importing device.
    Exported(Exported),
}

impl Deref for Attachment {
    type Target = dyn DeviceAccess;

    fn deref(&self) -> &Self::Target {
        match self {
            Self::DmaBuf(mr) => mr,
            Self::FastReg(mr) => mr,
            Self::Exported(exported) => exported,
        }
    }
}

impl DerefMut for Attachment {
    fn deref_mut(&mut self) -> &mut Self::Target {
        match self {
            Self::DmaBuf(mr) => mr,
            Self::FastReg(mr) => mr,
            Self::Exported(exported) => exported,
        }
    }
}

impl Attachment {
    /// Stops waiting for an unresponsive, removed device. Returns the attachment if the attachment stays
    /// until the driver detaches, see [`DeviceAccess::defer_to_dereg`], else `None`. Context: may sleep.
    pub(crate) fn into_deferred(self) -> Option<Self> {
        match self {
            // The drop destroys the queue pair. The driver does not report the end of the MR.
            Self::FastReg(_) => None,
            Self::DmaBuf(mut mr) => {
                mr.deferred = true;
                Some(Self::DmaBuf(mr))
            }
            Self::Exported(_) => Some(self),
        }
    }
}
