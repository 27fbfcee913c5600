// SPDX-License-Identifier: GPL-2.0

//! The suites. A suite has the name of the file.

mod bounds;
mod choice;
mod common;
mod counters;
mod dispatch;
mod dma_buf;
mod failslab;
mod failure;
mod hints;
mod host_first;
mod interposers;
mod invalidate;
mod races;
mod registration;
mod removal;
mod rereg;
mod tables;
mod unmap_watch;
mod unregister;

/// The vocabulary of all suites.
mod prelude {
    pub(super) use super::common;
    pub(super) use crate::{
        client::{
            Client,
            Fault,
            Quirk,
            Setup,
            Stage, //
        },
        counters,
        device::Kind,
        expect::{
            diagnostic,
            ensure,
            ensure_eq, //
        },
        fixture::{
            bare_removal,
            deregistration,
            each,
            fitting,
            invalidation,
            is_unsupported,
            live,
            live_on,
            live_temporary,
            removal,
            undone_once,
            unregistration,
            with_client,
            with_rival,
            Fixture, //
        },
        importer::Mode,
        script::Point,
        sizes::{
            K,
            M,
            PAGE, //
        },
        sync::{
            Task,
            Wait, //
        },
        user::{
            self,
            USUAL, //
        },
        waits::Waits, //
    };
    pub(super) use kernel::{
        prelude::*,
        sync::Arc, //
    };
}
