// SPDX-License-Identifier: GPL-2.0

//! Sizes of memory, in bytes, which grow with the pages of the kernel.

use kernel::page::PAGE_SIZE;

// CAST: `PAGE_SIZE` is less than 2^32.
pub(crate) const PAGE: u64 = PAGE_SIZE as u64;
/// A quarter of a page: 1 KiB with pages of 4 KiB.
pub(crate) const K: u64 = PAGE / 4;
/// 256 pages: 1 MiB with pages of 4 KiB.
pub(crate) const M: u64 = 256 * PAGE;
