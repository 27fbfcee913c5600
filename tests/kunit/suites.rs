// SPDX-License-Identifier: GPL-2.0

//! The suites, by topic.

mod counting;
mod dispatch;
mod dma_buf;
mod failslab;
mod failure;
mod hints;
mod invalidate;
mod races;
mod registration;
mod removal;
mod rereg;
mod tables;
mod unregister;

/// What the suites share.
mod prelude {
    pub(super) use crate::{
        bench::{
            Bench,
            PAGE, //
        },
        check::{
            ensure,
            ensure_eq, //
        },
        client::{
            Client,
            Fault,
            Setup,
            Stage, //
        },
        counters,
        script::Point,
        sync::Task,
        user::{
            self,
            USUAL, //
        }, //
    };
    pub(super) use kernel::{
        prelude::*,
        sync::Arc, //
    };
}
