// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause

//! Device memory on PCI BARs, with the semantics of `ibv_alloc_dm(3)`.
//!
//! The module `io_peer_mem` serves the BARs. `libiopm` is this crate for programs in C:
//! `iopm_alloc_dm(3)`. [`DmaBufRange`] is for allocators of other memory: `iopm_register_dmabuf(3)`.
//! Errors are those of the kernel: the manual pages list them.
//!
//! ```no_run
//! for device in iopm::devices()? {
//!     let bar = device.open()?;
//!     let dm = bar.alloc_dm(&iopm::AllocDmAttr { length: 4096, log_align: 3, zero: true })?;
//!     dm.write_at(b"hello", 8)?;
//!     dm.free_dm()?;
//! }
//! # iopm::Result::Ok(())
//! ```

#![deny(unsafe_code)]
#![cfg_attr(not(test), warn(clippy::unwrap_used, clippy::expect_used, clippy::panic))]

mod context;
mod device;
mod dm;
mod error;
mod named;
#[allow(unsafe_code)]
mod sys;

pub use context::{AllocDmAttr, Context, DeviceAttr, Nearest, Range};
pub use device::{devices, Device, PciAddress};
pub use dm::{Dm, DmAttr};
pub use error::{Error, Result};
pub use named::DmaBufRange;
pub use sys::verbs::{ibv_mr, ibv_pd, Access, Mr};
