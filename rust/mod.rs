// SPDX-License-Identifier: GPL-2.0

//! Rust code shared by the kernel modules of this project.
//!
//! - [`ext`]: safe abstractions over parts of the kernel that the `kernel` crate lacks;
//! - [`peer_client`]: the peer memory client API;
//! - [`prelude`]: what most modules use;
//! - [`uapi`]: the ioctl structures of `include/uapi/`;
//! - [`bindings`]: generated declarations. Only the modules above and the C ABI edge use
//!   [`bindings`].
//!
//! Each kernel module includes this tree at the crate root under the name `shared` and re-exports
//! the items used by the module. A crate uses only a part of the tree, so the root allows dead code.

pub mod bindings;
pub mod ext;
pub mod peer_client;
pub mod prelude;
pub mod uapi;
