// SPDX-License-Identifier: GPL-2.0

//! Declarations generated from `helpers.h`.

#![allow(
    clippy::all,
    clippy::missing_docs_in_private_items,
    clippy::undocumented_unsafe_blocks,
    dead_code,
    improper_ctypes,
    missing_docs,
    unreachable_pub
)]

use kernel::{
    bindings::*,
    ffi, //
};

include!(concat!(
    env!("PEER_MEM_OBJ"),
    "/tests/kunit/helpers_generated.rs"
));
