// SPDX-License-Identifier: GPL-2.0

//! From 7.3 on, a faux registration leads to a device that is bound.

use kernel::{
    device::Bound,
    faux, //
};

/// Uses the feature.
pub fn probe(registration: &faux::Registration) -> &faux::Device<Bound> {
    registration.as_ref()
}
