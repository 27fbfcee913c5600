// SPDX-License-Identifier: GPL-2.0

//! Data structures that several modules use. They know neither clients nor devices.

pub(crate) mod hint;
pub(crate) mod index;
pub(crate) mod lifecycle;
pub(crate) mod range;
