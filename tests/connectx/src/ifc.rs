// SPDX-License-Identifier: GPL-2.0

//! The layouts of commands and contexts: generated, see `layouts.py`.

#![allow(
    dead_code,
    missing_docs,
    non_upper_case_globals,
    clippy::upper_case_acronyms
)]

pub use crate::bits::Field;

include!(env!("CONNECTX_LAYOUTS"));
