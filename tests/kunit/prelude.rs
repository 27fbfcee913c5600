// SPDX-License-Identifier: GPL-2.0

//! The vocabulary of the fakes and the suites.

pub(crate) use crate::{
    bindings::{
        helpers as shared,
        rdma, //
    },
    client::*,
    counters,
    device::*,
    expect::{
        diagnostic,
        ensure,
        ensure_eq, //
    },
    fixture::*,
    helpers,
    importer::Mode,
    peer,
    script::*,
    shared::prelude::*,
    sync::*,
    testbed::Testbed,
    user::{
        self,
        *, //
    }, //
};
pub(crate) use kernel::bindings;

// Sizes of memory, in bytes, which grow with the pages of the kernel.
// CAST: `PAGE_SIZE` is less than 2^32.
pub(crate) const PAGE: u64 = PAGE_SIZE as u64;
/// 1 KiB with pages of 4 KiB.
pub(crate) const K: u64 = PAGE / 4;
/// 1 MiB with pages of 4 KiB.
pub(crate) const M: u64 = 256 * PAGE;
