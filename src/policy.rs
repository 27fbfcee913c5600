// SPDX-License-Identifier: GPL-2.0

//! What an administrator or a process decides: when the clients are asked, and which memory has a
//! name.

pub(crate) mod named;
pub(crate) mod order;
