// SPDX-License-Identifier: GPL-2.0

//! What debugfs and sysfs print: counters, the live regions, and what happened last.

pub(crate) mod listing;
pub(crate) mod recent;
pub(crate) mod rejections;
pub(crate) mod revocations;
pub(crate) mod stats;
