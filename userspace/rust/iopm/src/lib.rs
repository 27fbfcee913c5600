// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause

//! Device memory on PCI BARs, with the semantics of `ibv_alloc_dm(3)`.
//!
//! See `iopm_alloc_dm(3)` and `iopm_get_device_list(3)` for the C functions. [`DmaBufRange`] is for
//! allocators of other memory: `iopm_register_dmabuf(3)`.
//!
//! ```no_run
//! for device in iopm::devices()? {
//!     let bar = device.open()?;
//!     let dm = bar.alloc_dm(&iopm::AllocDmAttr { length: 4096, log_align: 3, zero: true })?;
//!     dm.write_at(b"hello", 8)?;
//!     dm.free_dm().map_err(iopm::Error::from)?;
//! }
//! # Ok::<(), iopm::Error>(())
//! ```

mod context;
mod device;
mod dm;
mod error;
mod mr;
mod named;

pub use context::{AllocDmAttr, Context, DeviceAttr, Nearest};
pub use device::{devices, Device, PciAddress};
pub use dm::{Busy, Dm, DmAttr};
pub use error::{Error, Result};
pub use iopm_sys::ibv_pd;
pub use mr::{Access, Mr};
pub use named::DmaBufRange;

/// Returns the version of the library.
pub fn version() -> String {
    // SAFETY: The function returns a constant C string.
    let version = unsafe { std::ffi::CStr::from_ptr(iopm_sys::iopm_version()) };
    version.to_string_lossy().into_owned()
}
