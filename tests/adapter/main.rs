// SPDX-License-Identifier: GPL-2.0

//! An RDMA adapter for tests: it gets its memory as stock RDMA drivers do, for a device that QEMU
//! emulates.
//!
//! The module creates an RDMA device `edu0`, `edu1`, ... for each `edu` function of QEMU, which is a
//! DMA engine. Processes register host memory and dma-bufs through `ib_uverbs`, and create queues in
//! their memory ([`queue`]), with the functions of ib_core that drivers use ([`umem`]). There is no
//! network: a line written to `/sys/kernel/debug/eduN/dma` accesses the memory ([`files`])
//! by the device's own DMA ([`engine`]).

use prelude::*;

#[path = "../../rust/mod.rs"]
#[allow(dead_code, unreachable_pub, unused_imports, unused_macros)]
mod shared;

pub(crate) use shared::{
    bindings,
    ext,
    prelude::raw as prelude, //
};

mod cq_entry;
mod device;
mod driver;
mod engine;
mod files;
#[path = "../importer.rs"]
#[allow(dead_code)]
mod importer;
mod mode;
#[path = "../one_port.rs"]
mod one_port;
mod ops;
mod queue;
mod umem;

use ext::base::pci;

module! {
    type: TestAdapter,
    name: "peer_mem_test_adapter",
    authors: ["The ib_peer_mem authors"],
    description: "A test RDMA adapter made of QEMU's edu device",
    license: "GPL",
}

/// The numbers in use, a bit each.
static NUMBERS: Atomic<u64> = Atomic::new(0);

/// Replaces the numbers in use by what `new` makes of them. Returns the old ones.
fn update(new: impl Fn(u64) -> Result<u64>) -> Result<u64> {
    loop {
        let old = NUMBERS.load(Relaxed);
        if NUMBERS.cmpxchg(old, new(old)?, Full).is_ok() {
            return Ok(old);
        }
    }
}

/// The number of a device. Dropping this frees the number.
///
/// # Invariants
///
/// The bit of the number is set on behalf of this object.
pub(crate) struct Number(u32);

impl Number {
    /// Takes the lowest free number, so a function that is bound again is the same device.
    fn take() -> Result<Self> {
        let bit = |used: u64| 1u64.checked_shl(used.trailing_ones()).ok_or(ENOSPC);
        let used = update(|used| Ok(used | bit(used)?))?;
        // INVARIANT: The bit was set above.
        Ok(Self(used.trailing_ones()))
    }

    fn get(&self) -> u32 {
        self.0
    }

    fn name(&self) -> Result<CString> {
        CString::try_from_fmt(fmt!("edu{}", self.0))
    }
}

impl Drop for Number {
    fn drop(&mut self) {
        // INVARIANT: The object ends here.
        let _ = update(|used| Ok(used & !(1 << self.0)));
    }
}

#[pin_data]
struct TestAdapter {
    #[pin]
    driver: pci::Registration<driver::EduDriver>,
}

impl kernel::InPlaceModule for TestAdapter {
    fn init(module: &'static ThisModule) -> impl PinInit<Self, Error> {
        try_pin_init!(Self {
            driver <- pci::Registration::new(<Self as kernel::ModuleMetadata>::NAME, module),
            _: { driver.add_id(driver::VENDOR, driver::DEVICE)? },
        })
    }
}
