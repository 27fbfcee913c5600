// SPDX-License-Identifier: GPL-2.0

//! Peer memory core.

use kernel::prelude::*;

#[path = "../rust/bindings.rs"]
pub mod bindings;

module! {
    type: PeerMem,
    name: "ib_peer_mem",
    authors: ["The ib_peer_mem authors"],
    description: "Peer memory for RDMA on an unmodified kernel",
    license: "GPL",
}

/// The module.
struct PeerMem;

impl kernel::Module for PeerMem {
    fn init(_module: &'static ThisModule) -> Result<Self> {
        Ok(Self)
    }
}
