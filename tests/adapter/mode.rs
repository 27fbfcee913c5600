// SPDX-License-Identifier: GPL-2.0

//! How a device gets peer memory: the module parameter `modes`.

use crate::{
    ext::base::params,
    importer, //
};
use kernel::{
    prelude::*,
    sync::SetOnce, //
};

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

    fn parse(name: &[u8]) -> Option<Self> {
        [Self::Dynamic, Self::Revocable, Self::Pinned, Self::Va]
            .into_iter()
            .find(|mode| mode.name().as_bytes() == name)
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

    /// Returns the mode of the device with that number.
    pub(crate) fn of_device(number: u32) -> Self {
        MODES
            .copy()
            .map_or(Self::Dynamic, |modes| modes.get(number))
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

/// The longest list that is accepted.
const MAX_MODES: usize = 16;

/// The modes of the first devices; the last mode is that of all other devices.
#[derive(Clone, Copy)]
struct Modes {
    list: [Mode; MAX_MODES],
    len: usize,
}

impl Modes {
    fn parse(text: &[u8]) -> Option<Self> {
        let mut modes = Self {
            list: [Mode::Dynamic; MAX_MODES],
            len: 0,
        };
        for name in text
            .strip_suffix(b"\n")
            .unwrap_or(text)
            .split(|&c| c == b',')
        {
            *modes.list.get_mut(modes.len)? = Mode::parse(name)?;
            modes.len += 1;
        }
        Some(modes)
    }

    fn get(&self, number: u32) -> Mode {
        let last = self.len.saturating_sub(1);
        self.list[(number as usize).min(last)]
    }
}

/// Set once, by [`read`].
static MODES: SetOnce<Modes> = SetOnce::new();

/// Reads the parameter. `EINVAL`, and a line in the log, if it is wrong.
pub(crate) fn read() -> Result {
    let text = params::string(c"modes");
    if text.is_empty() {
        return Ok(());
    }
    let modes = Modes::parse(text.as_bytes()).ok_or_else(|| {
        pr_err!("modes: must be a list of dynamic, revocable, pinned or va, separated by commas\n");
        EINVAL
    })?;
    MODES.populate(modes);
    Ok(())
}
