// SPDX-License-Identifier: GPL-2.0

//! What surrounds each of `cases/*.rs`: the modules that a client needs, and parts of one that
//! most cases do not care about.

#[path = "../../rust/mod.rs"]
#[allow(dead_code, unreachable_pub, unused_imports, unused_macros)]
mod shared;

pub(crate) use shared::{
    ext,
    peer_client, //
};

/// The usual memory: some pages of RAM.
pub mod usual {
    use crate::{
        ext::{
            dma_table::Table,
            ram::{
                Pages,
                PagesTable, //
            }, //
        },
        peer_client::Memory, //
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
        ext::dma_table::Table,
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
