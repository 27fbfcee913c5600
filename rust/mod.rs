// SPDX-License-Identifier: GPL-2.0

//! Rust code that the modules of this project share.
//!
//! - [`ext`]: safe abstractions over parts of the kernel that the `kernel` crate lacks;
//! - [`peer_client`]: the peer memory client API;
//! - [`uapi`]: the ioctl structures of `include/uapi/`;
//! - [`bindings`]: generated declarations. Only the modules above and the C ABI edge name these.
//!
//! Each module includes this tree at its crate root under the name `shared` and re-exports what it
//! uses. A crate uses a part of the tree, so the root allows dead code; `scripts/static pub` finds
//! items that no crate uses. `scripts/doc-examples` compiles the examples of the documentation.

pub mod bindings;
pub mod ext;
pub mod peer_client;
pub mod uapi;
