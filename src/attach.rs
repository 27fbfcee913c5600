// SPDX-License-Identifier: GPL-2.0

//! Backends: how a stock driver takes the addresses of a region.

mod fast_reg;

use self::fast_reg::FastReg;
use crate::{
    callbacks::Pages,
    range::Range,
    rdma::{
        Device,
        Request,
        UserMr, //
    },
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
    /// A registration by work request.
    FastReg(Arc<FastReg>),
}

impl Backend {
    /// Chooses one. `EOPNOTSUPP` where there is none for the device.
    pub(crate) fn choose(dev: &Device) -> Result<Self> {
        if dev.has_fast_reg() && dev.ib_port().is_some() {
            Ok(Self::FastReg(FastReg::new(dev)?))
        } else {
            Err(crate::errno::eopnotsupp())
        }
    }

    /// Its name, for people.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::FastReg(_) => "fast registration",
        }
    }

    /// Can a live MR be taken away from the device?
    pub(crate) fn can_fence(&self) -> bool {
        match self {
            Self::FastReg(_) => true,
        }
    }

    /// Makes an MR on `pages`. May sleep.
    pub(crate) fn register(
        &self,
        req: &Request<'_>,
        range: Range,
        pages: &mut Pages,
    ) -> Result<(UserMr, Attachment), Refusal> {
        match self {
            Self::FastReg(backend) => {
                let (mr, attachment) = backend.register(req, range, pages)?;
                Ok((mr, Attachment::FastReg(attachment)))
            }
        }
    }
}

/// How a device gets at one region. Dropped once the device can no longer.
pub(crate) enum Attachment {
    /// See [`Backend::FastReg`].
    FastReg(fast_reg::Attachment),
}

impl Attachment {
    /// Makes the device stop using the region and waits until it has. The MR stays the user's,
    /// and answers with errors. May sleep.
    pub(crate) fn fence(&mut self) -> Result {
        match self {
            Self::FastReg(attachment) => attachment.fence(),
        }
    }
}
