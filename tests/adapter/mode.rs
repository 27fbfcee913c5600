// SPDX-License-Identifier: GPL-2.0

//! How a device gets peer memory: the module parameter `modes`.

use crate::{
    ext::base::params,
    importer, //
};
use kernel::prelude::*;

/// How a device imports dma-bufs; `None`: not at all, and all memory is pinned by its address.
pub(crate) type Mode = Option<importer::Mode>;

/// The modes by their names in the parameter. Each is that of stock drivers; the first one is the default.
const MODES: [(&str, Mode); 4] = [
    // As mlx5: a dma-buf that is not pinned; after an invalidation the next access maps it again.
    ("dynamic", Some(importer::Mode::Dynamic)),
    // As irdma: a pinned dma-buf; an invalidation is final.
    ("revocable", Some(importer::Mode::Revocable)),
    // As efa and bnxt_re: a pinned dma-buf that the exporter cannot invalidate.
    ("pinned", Some(importer::Mode::Pinned)),
    // As mlx4, hns and qedr.
    ("va", None),
];

/// Returns the mode of the device with that number: that of its item in the parameter, or of the last
/// one. `EINVAL` if the item is wrong.
pub(crate) fn of_device(number: u32) -> Result<Mode> {
    let text = params::string(c"modes");
    if text.is_empty() {
        return Ok(MODES[0].1);
    }
    let item = text.split(',').take(number as usize + 1).last();
    let found = MODES.iter().find(|(name, _)| Some(*name) == item);
    found.map(|(_, mode)| *mode).ok_or(EINVAL)
}

pub(crate) fn name(mode: Mode) -> &'static str {
    let found = MODES.iter().find(|(_, other)| *other == mode);
    found.map_or("no-peer2peer", |(name, _)| name)
}
