// SPDX-License-Identifier: GPL-2.0

//! An RDMA adapter for tests: it gets its memory as stock RDMA drivers do, for a device that QEMU
//! emulates.
//!
//! The module creates an RDMA device `edu0`, `edu1`, ... for each `edu` function of QEMU, which is a
//! DMA engine. Processes register host memory and dma-bufs through `ib_uverbs`, and create queues in
//! their memory ([`queue`]), with the functions of ib_core that drivers use ([`umem`]). There is no
//! network: a line written to `/sys/kernel/debug/peer_mem_test_adapter/eduN/dma` accesses the memory
//! ([`command`]) by the device's own DMA ([`engine`]).

use kernel::{
    debugfs,
    new_mutex,
    prelude::*,
    str::CString,
    sync::{
        Arc,
        Mutex, //
    }, //
};

#[path = "../../rust/mod.rs"]
#[allow(dead_code, unreachable_pub, unused_imports, unused_macros)]
mod shared;

pub(crate) use shared::{
    bindings,
    ext, //
};

mod command;
mod cq_entry;
mod device;
mod driver;
mod engine;
mod files;
#[path = "../importer.rs"]
#[allow(dead_code)]
mod importer;
mod memory;
mod mode;
#[path = "../one_port.rs"]
mod one_port;
mod ops;
mod queue;
mod register;
mod umem;

use ext::base::{
    pci,
    snapshot::Snapshot, //
};

module! {
    type: TestAdapter,
    name: "peer_mem_test_adapter",
    authors: ["The ib_peer_mem authors"],
    description: "A test RDMA adapter made of QEMU's edu device",
    license: "GPL",
}

/// The state that all devices share: `probe` gets no argument for it.
static SHARED: Snapshot<Shared> = Snapshot::new();

/// The state that all devices share.
#[pin_data]
pub(crate) struct Shared {
    /// The directory in debugfs.
    dir: debugfs::Dir,
    /// The numbers in use, a bit each.
    #[pin]
    numbers: Mutex<u64>,
}

impl Shared {
    fn new() -> Result<Arc<Self>> {
        Arc::pin_init(
            pin_init!(Self {
                dir: debugfs::Dir::new(c"peer_mem_test_adapter"),
                numbers <- new_mutex!(0, "adapter::Shared::numbers"),
            }),
            GFP_KERNEL,
        )
    }
}

/// The number of a device. Dropping this frees the number.
///
/// # Invariants
///
/// The bit of `number` is set on behalf of this object.
pub(crate) struct Number {
    shared: Arc<Shared>,
    number: u32,
}

impl Number {
    /// Takes the lowest free number, so a function that is bound again is the same device.
    fn take() -> Result<Self> {
        let shared = SHARED.load().ok_or(ENODEV)?;
        let mut numbers = shared.numbers.lock();
        let number = numbers.trailing_ones();
        let bit = 1u64.checked_shl(number).ok_or(ENOSPC)?;
        *numbers |= bit;
        drop(numbers);
        // INVARIANT: The bit was set above.
        Ok(Self { shared, number })
    }

    /// Returns the number.
    fn get(&self) -> u32 {
        self.number
    }

    /// Returns the name of the device.
    fn name(&self) -> Result<CString> {
        CString::try_from_fmt(fmt!("edu{}", self.number))
    }

    /// Creates a directory of that name in debugfs.
    fn dir(&self) -> Result<debugfs::Dir> {
        Ok(self.shared.dir.subdir(&self.name()?))
    }
}

impl Drop for Number {
    fn drop(&mut self) {
        // INVARIANT: The object ends here.
        *self.shared.numbers.lock() &= !(1 << self.number);
    }
}

/// Clears [`SHARED`] when the module is unloaded.
struct ClearShared;

impl Drop for ClearShared {
    fn drop(&mut self) {
        drop(SHARED.replace(None));
    }
}

/// The module.
#[pin_data]
struct TestAdapter {
    // Dropped in this order: the removal of a device uses the shared state.
    /// The PCI driver.
    #[pin]
    driver: pci::Registration<driver::EduDriver>,
    /// The shared state.
    _shared: ClearShared,
}

impl kernel::InPlaceModule for TestAdapter {
    fn init(module: &'static ThisModule) -> impl PinInit<Self, Error> {
        try_pin_init!(Self {
            _shared: {
                drop(SHARED.replace(Some(Shared::new()?)));
                ClearShared
            },
            driver <- pci::Registration::new(<Self as kernel::ModuleMetadata>::NAME, module),
            _: { driver.add_id(driver::VENDOR, driver::DEVICE)? },
        })
    }
}
