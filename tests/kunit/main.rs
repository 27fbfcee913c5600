// SPDX-License-Identifier: GPL-2.0

//! KUnit suites for peer memory: one case for each promise of `include/rdma/ib_peer_mem.h` and of
//! Documentation/client-api.rst.
//!
//! The suites run when this module is loaded, against the loaded `ib_peer_mem` and the kernel's own
//! ib_core, with fakes at both ends: clients ([`client`]) and RDMA devices ([`device`]). A test
//! makes the fakes fail, delay or wait at any step ([`script`]); the fakes check each call. A test
//! waits for its other tasks with a bound ([`sync`]). Suites have the names of their files:
//! `peer_mem_dma_buf_export` is `suites/dma_buf/export.rs`.

use ext::base::snapshot::Published;
use kernel::prelude::*;
use testbed::Testbed;

#[path = "../../rust/mod.rs"]
#[allow(dead_code, unreachable_pub, unused_imports, unused_macros)]
mod shared;

pub(crate) use shared::{
    bindings::{
        self,
        peer, //
    },
    ext, //
};

#[path = "bindings.rs"]
pub mod helpers;

mod client;
mod counters;
mod device;
mod expect;
mod fixture;
#[path = "../importer.rs"]
#[allow(dead_code)]
mod importer;
#[path = "../one_port.rs"]
mod one_port;
mod prelude;
mod script;
mod suites;
mod sync;
mod testbed;
mod user;

module! {
    type: Tests,
    name: "peer_mem_kunit",
    authors: ["The ib_peer_mem authors"],
    description: "KUnit suites for peer memory",
    license: "GPL",
    imports_ns: ["DMA_BUF"],
}

struct Tests {
    _testbed: Published<Testbed>,
}

impl kernel::Module for Tests {
    fn init(_module: &'static ThisModule) -> Result<Self> {
        Ok(Self {
            _testbed: Testbed::install()?,
        })
    }
}
