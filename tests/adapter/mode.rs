// SPDX-License-Identifier: GPL-2.0

//! How a device gets peer memory: the module parameter `modes`.

use crate::{
    ext::base::params,
    importer, //
};
use kernel::prelude::*;

/// A way to get peer memory; each is that of stock drivers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Mode {
    /// As mlx5: a dma-buf that is not pinned; after an invalidation the next access maps it again.
    Dynamic,
    /// As irdma: a pinned dma-buf; an invalidation is final.
    Revocable,
    /// As efa and bnxt_re: a pinned dma-buf that the exporter cannot invalidate.
    Pinned,
    /// As mlx4, hns and qedr: no import of dma-bufs. All memory is pinned by its address.
    Va,
}

impl Mode {
    /// Returns the name in the parameter.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Dynamic => "dynamic",
            Self::Revocable => "revocable",
            Self::Pinned => "pinned",
            Self::Va => "va",
        }
    }

    fn parse(name: &str) -> Option<Self> {
        [Self::Dynamic, Self::Revocable, Self::Pinned, Self::Va]
            .into_iter()
            .find(|mode| mode.name() == name)
    }

    /// Returns how the device imports dma-bufs, if it does.
    pub(crate) fn importer(self) -> Option<importer::Mode> {
        match self {
            Self::Dynamic => Some(importer::Mode::Dynamic),
            Self::Revocable => Some(importer::Mode::Revocable),
            Self::Pinned => Some(importer::Mode::Pinned),
            Self::Va => None,
        }
    }

    /// Returns the mode of the device with that number: that of its item in the parameter, or of the last
    /// one. `EINVAL` if the item is wrong.
    pub(crate) fn of_device(number: u32) -> Result<Self> {
        let text = params::string(c"modes");
        if text.is_empty() {
            return Ok(Self::Dynamic);
        }
        let item = text.split(',').take(number as usize + 1).last();
        item.and_then(Self::parse).ok_or(EINVAL)
    }
}

/// Returns the name of a way to import dma-bufs.
pub(crate) fn name(mode: importer::Mode) -> &'static str {
    match mode {
        importer::Mode::Dynamic => Mode::Dynamic.name(),
        importer::Mode::NoPeer2Peer => "no-peer2peer",
        importer::Mode::Revocable => Mode::Revocable.name(),
        importer::Mode::Pinned => Mode::Pinned.name(),
    }
}
