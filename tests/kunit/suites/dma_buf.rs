// SPDX-License-Identifier: GPL-2.0

//! Devices with imports of dma-bufs, in each mode used by drivers.

mod access;
mod descriptor;
mod export;
mod failed;
mod fatal;
mod import;
mod mismatch;
mod races;
mod removal;
mod rereg;
mod revoke;

use super::prelude::*;

/// Devices with revocable MRs.
const REVOCABLE: [Mode; 2] = [Mode::Dynamic, Mode::Revocable];
/// Devices with imports of memory without struct pages.
const PEER2PEER: [Mode; 3] = [Mode::Dynamic, Mode::Revocable, Mode::Pinned];
