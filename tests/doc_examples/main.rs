// SPDX-License-Identifier: GPL-2.0

//! Crate of the documentation examples of `rust/`; see `scripts/checks/doc-examples`.

#[path = "../../rust/mod.rs"]
#[allow(dead_code, unreachable_pub, unused_imports, unused_macros)]
mod shared;

#[allow(unused_imports)]
pub(crate) use shared::{
    ext,
    peer_client,
    uapi, //
};

/// Prefix of log lines, which `module!` defines in a module.
const __LOG_PREFIX: &[u8] = b"doc_examples\0";

/// The examples: one module for each file, one function for each example.
#[allow(
    dead_code,
    missing_docs,
    non_snake_case,
    unreachable_pub,
    unused_imports
)]
pub mod examples {
    include!(concat!(env!("DOC_EXAMPLES"), "/all.rs"));
}
