// SPDX-License-Identifier: GPL-2.0

//! Devices with imports of dma-bufs, in each mode used by drivers.

mod descriptor;
mod export;
mod fatal;
mod mismatch;
