// SPDX-License-Identifier: GPL-2.0

//! Declarations generated from `rust/helpers/mm.h` and the few kernel functions that [`kernel::bindings`] lacks.
//!
//! Only the abstractions in `rust/` name these.

#![allow(
    clippy::all,
    clippy::as_underscore,
    clippy::cast_lossless,
    clippy::missing_docs_in_private_items,
    clippy::ptr_as_ptr,
    clippy::ref_as_ptr,
    clippy::undocumented_unsafe_blocks,
    dead_code,
    improper_ctypes,
    missing_docs,
    non_camel_case_types,
    non_snake_case,
    non_upper_case_globals,
    unreachable_pub,
    unsafe_op_in_unsafe_fn
)]

use kernel::{
    bindings::*,
    ffi, //
};
use pin_init::MaybeZeroable;

include!(concat!(
    env!("PEER_MEM_OBJ"),
    "/rust/bindings/mm_generated.rs"
));
