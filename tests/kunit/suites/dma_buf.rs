// SPDX-License-Identifier: GPL-2.0

//! Devices that import dma-bufs, in each mode that drivers use.

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

/// Devices that can be made to stop.
const REVOCABLE: [Mode; 2] = [Mode::Dynamic, Mode::Revocable];
/// Devices that accept memory without struct pages.
const PEER2PEER: [Mode; 3] = [Mode::Dynamic, Mode::Revocable, Mode::Pinned];
