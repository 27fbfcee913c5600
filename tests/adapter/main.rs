// SPDX-License-Identifier: GPL-2.0

//! An RDMA adapter for tests: a stock RDMA driver in all that matters to peer memory, for a device
//! that an emulator has.
//!
//! It makes an RDMA device `edu0`, `edu1`, ... of each of QEMU's `edu` functions, which are DMA
//! engines. There are no queue pairs: the device only registers memory, host memory and dma-bufs,
//! through `ib_uverbs` and by the very functions of ib_core that adapters' drivers use ([`umem`]).
//! Instead of the network a line written to `/sys/kernel/debug/peer_mem_test_adapter/eduN/dma`
//! has it access an MR ([`command`]), which is then done by the device's own DMA ([`engine`]).

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
mod device;
mod driver;
mod engine;
mod files;
mod memory;
mod mode;
#[path = "../one_port.rs"]
mod one_port;
mod ops;
mod register;
mod umem;

use ext::{
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

/// What all devices share; `probe` has no other way to it.
static SHARED: Snapshot<Shared> = Snapshot::new();

/// What all devices share.
#[pin_data]
pub(crate) struct Shared {
    /// The folder in debugfs.
    dir: debugfs::Dir,
    /// The numbers that are taken, a bit each.
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

/// The number of a device, until it is dropped.
///
/// # Invariants
///
/// The bit of `number` is set, on behalf of this object.
pub(crate) struct Number {
    shared: Arc<Shared>,
    number: u32,
}

impl Number {
    /// The lowest one that is free, so that a function that is bound again is the same device.
    fn take() -> Result<Self> {
        let shared = SHARED.load().ok_or(ENODEV)?;
        let mut numbers = shared.numbers.lock();
        let number = numbers.trailing_ones();
        let bit = 1u64.checked_shl(number).ok_or(ENOSPC)?;
        *numbers |= bit;
        drop(numbers);
        // INVARIANT: Just set, by us.
        Ok(Self { shared, number })
    }

    /// The number.
    fn get(&self) -> u32 {
        self.number
    }

    /// The name of the device that has it.
    fn name(&self) -> Result<CString> {
        CString::try_from_fmt(fmt!("edu{}", self.number))
    }

    /// A folder of that name in debugfs.
    fn dir(&self) -> Result<debugfs::Dir> {
        Ok(self.shared.dir.subdir(&self.name()?))
    }
}

impl Drop for Number {
    fn drop(&mut self) {
        // INVARIANT: From here on it is free.
        *self.shared.numbers.lock() &= !(1 << self.number);
    }
}

/// Takes [`SHARED`] down with the module.
struct ClearShared;

impl Drop for ClearShared {
    fn drop(&mut self) {
        drop(SHARED.replace(None));
    }
}

/// The module.
#[pin_data]
struct TestAdapter {
    // Dropped in this order: a device that goes uses what is shared.
    /// The PCI driver.
    #[pin]
    driver: pci::Registration<driver::EduDriver>,
    /// What all devices share.
    _shared: ClearShared,
}

impl kernel::InPlaceModule for TestAdapter {
    fn init(module: &'static ThisModule) -> impl PinInit<Self, Error> {
        try_pin_init!(Self {
            _: { mode::read()? },
            _shared: {
                drop(SHARED.replace(Some(Shared::new()?)));
                ClearShared
            },
            driver <- pci::Registration::new(<Self as kernel::ModuleMetadata>::NAME, module),
            _: { driver.add_id(driver::VENDOR, driver::DEVICE)? },
        })
    }
}
