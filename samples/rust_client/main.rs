// SPDX-License-Identifier: GPL-2.0

//! A peer memory client in Rust, to copy from.
//!
//! A driver that owns memory which a CPU page walk cannot pin makes it usable for RDMA by
//! implementing [`peer_client::Client`]. The memory here is a few pages of RAM, so that this runs
//! anywhere; a process maps them from `/dev/peer_client_rust` and registers them with
//! `ibv_reg_mr()` like its own.
//!
//! Writing to `/sys/kernel/debug/peer_client_rust/invalidate` takes the pages away from whoever has
//! registered them, as a driver does whose device goes, or which wants to move the memory.
//!
//! Read on in this order:
//!
//! - [`client`]: the callbacks. This is what makes a driver a client;
//! - [`memory`]: the memory, who uses it, and how it is taken away;
//! - [`mod@file`]: how a process maps it. Most drivers have that already.
//!
//! All of it is safe Rust: what could go wrong in memory is in `rust/`, and what could go
//! wrong in the order of things does not compile; see `tests/compile_fail/`.

use kernel::{
    debugfs,
    faux,
    prelude::*,
    str::CString,
    sync::Arc, //
};

#[path = "../../rust/mod.rs"]
#[allow(dead_code, unreachable_pub, unused_imports, unused_macros)]
mod shared;

pub(crate) use shared::{
    ext,
    peer_client, //
};

use ext::{
    chardev,
    compat::faux_device, //
};

mod client;
mod file;
mod memory;

use self::{
    client::RamClient,
    memory::Memory, //
};

module! {
    type: Sample,
    name: "peer_client_rust",
    authors: ["The ib_peer_mem authors"],
    description: "A peer memory client in Rust, to copy from",
    license: "GPL",
}

/// How many pages there are: 1 MiB.
const PAGES: usize = 256;

/// The owner of the device node may map the memory.
const MODE: u16 = 0o600;

/// The module.
///
/// A loaded module is this object; unloading drops its fields, from the first to the last. So they
/// are in the opposite order of how they came to be, and there is no `exit` to get wrong:
///
/// - nobody asks for the memory to be taken away any more (the drop waits for who is doing it);
/// - nobody maps it any more. An open file or a mapping holds the module, so none is left;
/// - the client is unregistered. Memory regions need no mapping and do not hold the module: those
///   that are left are revoked here, by way of [`RamClient`]'s callbacks. Once this drop returns no
///   callback runs, and none will;
/// - the device goes, and with the last reference to it the memory.
#[pin_data]
struct Sample {
    /// `take_away`.
    #[pin]
    take_away: debugfs::File<Arc<Memory>>,
    /// The directory it is in.
    _dir: debugfs::Dir,
    /// The device node.
    #[pin]
    node: chardev::Registration<Memory>,
    /// The client. To forget this field would be a warning: what is not kept is dropped at once.
    _client: peer_client::Registration<RamClient>,
    /// What a driver has from its bus; it gives messages a name.
    _device: faux::Registration,
}

impl kernel::InPlaceModule for Sample {
    fn init(_module: &'static ThisModule) -> impl PinInit<Self, Error> {
        // Initialised in the order in which they are written here. Where one fails, those before
        // it are dropped again.
        try_pin_init!(Self {
            _device: faux::Registration::new(c"peer_client_rust", None)?,
            // The callbacks may be called from here on. The log says why, where this fails.
            _client: peer_client::Registration::new(())?,
            // Nothing can be mapped, and so nothing claimed, before this.
            node <- chardev::Registration::new(
                faux_device(_device),
                CString::try_from_fmt(fmt!("peer_client_rust"))?,
                MODE,
                chardev::AddressSpace::new()?,
                Memory::new(PAGES)?,
            ),
            _dir: debugfs::Dir::new(c"peer_client_rust"),
            take_away <- _dir.write_callback_file(
                c"invalidate",
                node.device().clone(),
                &|memory: &Arc<Memory>, _: &mut _| {
                    memory.take_away();
                    Ok(())
                },
            ),
        })
    }
}
