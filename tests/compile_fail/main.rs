// SPDX-License-Identifier: GPL-2.0

//! The crate around each of `cases/*.rs`: the modules that a client needs, and a client that each
//! case changes in one place.

#[path = "../../rust/mod.rs"]
#[allow(dead_code, unreachable_pub, unused_imports, unused_macros)]
mod shared;

pub(crate) use shared::{
    ext,
    peer_client, //
};

/// The memory of most cases: a page of RAM.
pub mod usual {
    use crate::{
        ext::base::{
            ram::{
                Pages,
                Part, //
            },
            sg::{
                Owned,
                PageTable,
                Table, //
            }, //
        },
        peer_client::Memory, //
    };
    use kernel::{
        device,
        prelude::*,
        sync::Arc, //
    };

    /// Pages that a device may access.
    pub struct PinnedPages(pub PageTable<Part>);

    impl Memory for PinnedPages {
        fn table(&self) -> &Table<Owned> {
            self.0.table()
        }

        fn map(&mut self, dev: &device::Device) -> Result {
            self.0.map(dev)
        }

        fn unmap(&mut self) {
            self.0.unmap();
        }
    }

    /// Returns a new page.
    pub fn pin() -> Result<PinnedPages> {
        let pages = Arc::new(Pages::new(1)?, GFP_KERNEL)?;
        Ok(PinnedPages(Pages::table(&pages, 0..1)?))
    }
}

/// Expands to the first of its arguments that is given.
#[allow(unused_macros)]
macro_rules! first {
    (, $default:expr) => {
        $default
    };
    ($given:expr, $default:expr) => {
        $given
    };
    (type, $default:ty) => {
        $default
    };
    (type $given:ty, $default:ty) => {
        $given
    };
}

/// Declares the client `$name`, without a slot, and `register()`, which registers it.
///
/// A case replaces single items of the trait: the types, the name, the value that `acquire` claims
/// the range with, and the body of `get_pages`, as a closure of the region.
#[allow(unused_macros)]
macro_rules! client {
    (
        $name:ident
        $(, NAME = $text:expr)?
        $(, Data = $data:ty)?
        $(, Region = $region:ty)?
        $(, Memory = $memory:ty)?
        $(, acquire = $claimed:expr)?
        $(, get_pages = |$arg:ident| $pages:block)?
    ) => {
        /// The client.
        pub struct $name;

        impl Client for $name {
            const NAME: &'static CStr = first!($($text)?, c"mine");
            const VERSION: &'static CStr = c"1.0";

            type Data = first!(type $($data)?, ());
            type Region = first!(type $($region)?, ());
            type Memory = first!(type $($memory)?, PinnedPages);

            fn acquire(_: &Self::Data, _: VaRange) -> Result<Option<Self::Region>> {
                Ok(Some(first!($($claimed)?, Default::default())))
            }

            fn get_pages(
                _: &Self::Data,
                _region: &Self::Region,
                _: VaRange,
                _: bool,
                _: Ticket,
            ) -> Result<Self::Memory> {
                first!($({
                    let $arg = _region;
                    $pages
                })?, pin())
            }
        }

        /// Registers the client.
        pub fn register() -> Result<Registration<$name>> {
            Registration::new(Default::default())
        }
    };
}

/// The case: one file of `cases/`.
pub mod case {
    #[allow(unused_imports)]
    use crate::{
        ext::base::sg::{
            Owned,
            Segment,
            Table, //
        },
        peer_client::*,
        peer_client_slot,
        usual::*, //
    };
    #[allow(unused_imports)]
    use core::cell::Cell;
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
