// SPDX-License-Identifier: GPL-2.0

//! `/sys/kernel/debug/ib_peer_mem/devices`: which device is served by what.

use crate::registry::Registry;
use kernel::{
    debugfs::{
        Dir,
        File, //
    },
    fmt,
    prelude::*, //
};

/// The folder.
#[pin_data]
pub(crate) struct Devices {
    // Removed in this order.
    #[pin]
    table: File<()>,
    dir: Dir,
}

impl Devices {
    /// Makes it. A kernel without debugfs has none.
    pub(crate) fn new() -> impl PinInit<Self, Error> {
        try_pin_init!(Self {
            dir: Dir::new(c"ib_peer_mem"),
            table <- dir.read_callback_file(c"devices", (), &|(), f| table(f)),
        })
    }
}

/// Prints the table.
fn table(f: &mut fmt::Formatter<'_>) -> fmt::Result {
    writeln!(
        f,
        "{:<16} {:<24} {:<18} can fence",
        "device", "driver", "backend"
    )?;
    let Ok(registry) = Registry::get() else {
        return Ok(());
    };
    registry.each_adapter(|adapter| {
        let (dev, backend) = (adapter.device(), adapter.backend());
        writeln!(
            f,
            "{:<16} {:<24} {:<18} {}",
            dev.name(),
            dev.driver(),
            backend.name(),
            backend.fence_word()
        )
    })
}
