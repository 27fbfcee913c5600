// SPDX-License-Identifier: GPL-2.0

//! What surrounds each of `cases/*.rs`: the modules that a client needs, and parts of one that
//! most cases do not care about.

#[path = "../../rust/bindings_mm.rs"]
pub mod bindings_mm;
#[path = "../../rust/bindings_peer.rs"]
pub mod bindings_peer;
#[path = "../../rust/dma_table.rs"]
pub mod dma_table;
#[path = "../../rust/peer_client.rs"]
pub mod peer_client;
#[path = "../../rust/ram.rs"]
pub mod ram;

/// The usual memory: some pages of RAM.
pub mod usual {
    use crate::{
        dma_table::Table,
        peer_client::Memory,
        ram::{
            Pages,
            PagesTable, //
        }, //
    };
    use kernel::{
        device,
        prelude::*,
        sync::Arc, //
    };

    /// Pages that an adapter may use.
    pub struct Lent(pub PagesTable);

    impl Memory for Lent {
        fn table(&self) -> &Table {
            self.0.table()
        }

        fn map(&mut self, dev: &device::Device) -> Result {
            self.0.map(dev)
        }

        fn unmap(&mut self) {
            self.0.unmap();
        }
    }

    /// A new page.
    pub fn lend() -> Result<Lent> {
        let pages = Arc::new(Pages::new(1)?, GFP_KERNEL)?;
        Ok(Lent(Pages::table(&pages, 0..1)?))
    }
}

/// The case: one file of `cases/`.
pub mod case {
    #[allow(unused_imports)]
    use crate::{
        dma_table::Table,
        peer_client::{
            Client,
            Memory,
            Range,
            Registration,
            Ticket, //
        },
        peer_client_slot,
        usual::{
            lend,
            Lent, //
        }, //
    };
    #[allow(unused_imports)]
    use kernel::{
        device,
        prelude::*,
        sync::{
            Arc,
            Mutex, //
        }, //
    };

    include!(env!("CASE"));
}
