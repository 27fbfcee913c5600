// SPDX-License-Identifier: GPL-2.0

//! Backends: how a stock driver takes the addresses of a region.

mod choice;
mod dma_buf;
mod fast_reg;

use self::{
    choice::Choice,
    dma_buf::DmaBuf,
    fast_reg::FastReg, //
};
use crate::{
    callbacks::Pages,
    ext::{
        compat::eopnotsupp,
        dma_buf::{
            OnDetach, //
            Revoker,
        },
        params,
        rdma::{
            Device,
            Request,
            UserMr, //
        }, //
    },
    pr_warn_limited,
    range::Range, //
};
use kernel::{
    alloc::AllocError,
    prelude::*,
    sync::Arc, //
};

/// Why a region got no MR.
pub(crate) enum Refusal {
    /// The caller is told.
    Error(Error),
    /// The client cannot serve this device: whoever comes next may.
    Skip(&'static str),
}

impl Refusal {
    /// The access flags are none that an MR of `dev` on peer memory can have.
    fn access(dev: &Device, req: &Request<'_>) -> Self {
        pr_warn_limited!(
            "{}: access {:#x} is not for peer memory\n",
            dev.name(),
            req.access.0
        );
        Self::Error(eopnotsupp())
    }
}

impl From<Error> for Refusal {
    fn from(e: Error) -> Self {
        Self::Error(e)
    }
}

impl From<AllocError> for Refusal {
    fn from(_: AllocError) -> Self {
        Self::Error(ENOMEM)
    }
}

/// What a device is served by.
pub(crate) enum Backend {
    /// A dma-buf that the driver imports.
    DmaBuf(DmaBuf),
    /// A registration by work request.
    FastReg(Arc<FastReg>),
}

/// What the administrator wants for all devices.
fn wanted() -> &'static str {
    params::string(c"backend").map_or("", |text| text.to_str().unwrap_or("?"))
}

impl Backend {
    /// Checks the module parameter.
    pub(crate) fn check_choice() -> Result {
        choice::choose(wanted(), "").map(drop).inspect_err(|_| {
            pr_err!(
                "backend={}: not [DEVICE:]auto|dma_buf|fast_reg|none[,...]\n",
                wanted()
            )
        })
    }

    /// Chooses one. `EOPNOTSUPP` where there is none for the device, or none is wanted.
    pub(crate) fn choose(dev: &Device) -> Result<Self> {
        let choice = choice::choose(wanted(), dev.name())?;
        // Software RDMA copies by CPU, from pages: it has no use for DMA addresses.
        let imports = dev.has_dma_buf() && !dev.is_virt_dma();
        let registers = dev.has_fast_reg() && dev.ib_port().is_some();
        match choice {
            Choice::Auto | Choice::DmaBuf if imports => Ok(Self::DmaBuf(DmaBuf::new(dev))),
            Choice::Auto | Choice::FastReg if registers => Ok(Self::FastReg(FastReg::new(dev)?)),
            _ => Err(eopnotsupp()),
        }
    }

    /// Its name, for people.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::DmaBuf(_) => "dma-buf",
            Self::FastReg(_) => "fast registration",
        }
    }

    /// Can a live MR be taken away from the device, as far as is known?
    pub(crate) fn can_fence(&self) -> bool {
        match self {
            Self::DmaBuf(backend) => backend.can_fence(),
            Self::FastReg(_) => true,
        }
    }

    /// What is known of that, for people.
    pub(crate) fn fence_word(&self) -> &'static str {
        match self {
            Self::DmaBuf(backend) => backend.fence_word(),
            Self::FastReg(_) => "yes",
        }
    }

    /// Makes an MR on `pages`; one that can be fenced, where it must be. May sleep.
    pub(crate) fn register(
        &self,
        req: &Request<'_>,
        range: Range,
        pages: &mut Pages,
        must_fence: bool,
    ) -> Result<(UserMr, Attachment), Refusal> {
        match self {
            Self::DmaBuf(backend) => {
                let (mr, attachment) = backend.register(req, range, pages, must_fence)?;
                Ok((mr, Attachment::DmaBuf(attachment)))
            }
            Self::FastReg(backend) => {
                let (mr, attachment) = backend.register(req, range, pages)?;
                Ok((mr, Attachment::FastReg(attachment)))
            }
        }
    }
}

/// How a device gets at one region. Dropped once the device can no longer.
pub(crate) enum Attachment {
    /// See [`Backend::DmaBuf`].
    DmaBuf(dma_buf::Attachment),
    /// See [`Backend::FastReg`].
    FastReg(fast_reg::Attachment),
    /// A dma-buf that the user has, for whatever device imports it.
    Exported(Revoker),
}

impl Attachment {
    /// Is there a way to make the device stop, other than deregistering the MR?
    pub(crate) fn can_fence(&self) -> bool {
        match self {
            Self::DmaBuf(attachment) => attachment.can_fence(),
            Self::FastReg(_) => true,
            Self::Exported(offered) => offered.can_revoke(),
        }
    }

    /// Makes the device stop using the region and waits until it has. The MR stays the user's,
    /// and answers with errors. May sleep.
    pub(crate) fn fence(&mut self) -> Result {
        match self {
            Self::DmaBuf(attachment) => attachment.fence(),
            Self::FastReg(attachment) => attachment.fence(),
            Self::Exported(offered) => offered.revoke(),
        }
    }

    /// The device goes, and the region, which cannot be fenced, stays until the driver lets go of
    /// it: `hook` is told then. Nobody may deregister the MR during this call.
    pub(crate) fn leave_to_driver(&self, hook: Arc<dyn OnDetach>) {
        match self {
            Self::DmaBuf(attachment) => attachment.leave_to_driver(hook),
            // Can be fenced; and no adapter's to leave.
            Self::FastReg(_) | Self::Exported(_) => {}
        }
    }
}
