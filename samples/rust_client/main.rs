// SPDX-License-Identifier: GPL-2.0

//! A peer memory client in Rust, to copy from.
//!
//! A driver implements [`peer_client::Client`] to make its memory usable for RDMA. The memory of this
//! client is RAM, so that it runs on any machine. A process maps it from `/dev/peer_client_rust` and
//! registers it with `ibv_reg_mr()`.
//!
//! A write to `/sys/kernel/debug/peer_client_rust/invalidate` revokes all memory regions on the
//! pages, as a driver does when its device is removed or its memory moves.
//!
//! Reading order:
//!
//! - [`client`]: the callbacks, which make a driver a client;
//! - [`memory`]: the memory, how its memory regions are revoked, and how a process maps it.
//!
//! All of it is safe Rust. `rust/` holds the unsafe code, and wrong orders of calls do not compile;
//! see `tests/compile_fail/`.

use kernel::{
    debugfs,
    faux, //
};
use prelude::*;

#[path = "../../rust/mod.rs"]
#[allow(dead_code, unreachable_pub, unused_imports, unused_macros)]
mod shared;

pub(crate) use shared::{
    ext,
    peer_client,
    prelude, //
};

use ext::base::{
    chardev,
    compat::faux_device, //
};

mod client;
mod memory;

use self::{
    client::RamClient,
    memory::DeviceMemory, //
};

module! {
    type: Sample,
    name: "peer_client_rust",
    authors: ["The ib_peer_mem authors"],
    description: "A peer memory client in Rust, to copy from",
    license: "GPL",
}

/// Size of the memory in pages: 1 MiB.
const PAGES: usize = 256;

/// Mode of the device node: only the owner may map the memory.
const MODE: u16 = 0o600;

/// The module.
///
/// Unloading drops the fields from first to last, the reverse of their creation, so no `exit`
/// function is needed:
///
/// - debugfs: the drop waits for a running invalidation;
/// - the device node: the memory cannot be mapped any more. Open files and mappings hold the module,
///   so none is left;
/// - the client: memory regions do not hold the module. The remaining ones are revoked through the
///   callbacks of [`RamClient`]. After this drop no callback runs;
/// - the device, and the memory with its last reference.
#[pin_data]
struct Sample {
    #[pin]
    invalidate: debugfs::File<Arc<DeviceMemory>>,
    _dir: debugfs::Dir,
    #[pin]
    node: chardev::Registration<DeviceMemory>,
    /// The client. Without this field the compiler warns: the client would be unregistered at once.
    _client: peer_client::Registration<RamClient>,
    /// The device of this driver, for log lines. Other drivers get theirs from a bus.
    _device: faux::Registration,
}

impl kernel::InPlaceModule for Sample {
    fn init(_module: &'static ThisModule) -> impl PinInit<Self, Error> {
        // Fields are initialized in this order. If one fails, those before it are dropped.
        try_pin_init!(Self {
            _device: faux::Registration::new(c"peer_client_rust", None)?,
            // From here on callbacks may run. If this fails, the core logs the reason.
            _client: peer_client::Registration::new(())?,
            // From here on processes can map the memory, so the client can claim it.
            node <- chardev::Registration::new(
                faux_device(_device),
                CString::try_from_fmt(fmt!("peer_client_rust"))?,
                MODE,
                chardev::AddressSpace::new(c"[peer_client_rust]")?,
                DeviceMemory::new(PAGES)?,
            ),
            _dir: debugfs::Dir::new(c"peer_client_rust"),
            invalidate <- _dir.write_callback_file(
                c"invalidate",
                node.device().clone(),
                &|memory: &Arc<DeviceMemory>, _: &mut _| {
                    memory.invalidate();
                    Ok(())
                },
            ),
        })
    }
}
