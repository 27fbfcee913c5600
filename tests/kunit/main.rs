// SPDX-License-Identifier: GPL-2.0

//! KUnit suites for peer memory: the promises of `include/rdma/ib_peer_mem.h` and of
//! Documentation/client-api.rst, each as a case of its own.
//!
//! They run as this module is loaded, against the loaded `ib_peer_mem` and the kernel's own
//! ib_core, with fakes at both ends: clients ([`client`]) and RDMA devices ([`device`]). Both can
//! be told to fail, to be slow or to wait at any step ([`script`]); both check at each step what
//! they are called for. A task of a test waits for another one with a bound ([`sync`]).

use kernel::{
    new_spinlock,
    prelude::*,
    sync::{
        Arc,
        SpinLock, //
    },
};

#[path = "../../rust/mod.rs"]
#[allow(dead_code, unreachable_pub, unused_imports, unused_macros)]
mod shared;

pub(crate) use shared::{
    bindings::{
        self,
        peer, //
    },
    ext, //
};

#[path = "bindings.rs"]
pub mod helpers;

mod bench;
mod check;
mod client;
mod counters;
mod device;
#[path = "../one_port.rs"]
mod one_port;
mod script;
mod suites;
mod sync;
mod user;

use client::{
    Slot,
    SLOTS, //
};
use device::{
    FakeDevice,
    Kind,
    Registered, //
};
use ext::snapshot::Snapshot;

module! {
    type: Tests,
    name: "peer_mem_kunit",
    authors: ["The ib_peer_mem authors"],
    description: "KUnit suites for peer memory",
    license: "GPL",
    imports_ns: ["DMA_BUF"],
}

/// Pages of the fake clients' memory: 2^10.
const ORDER: u32 = 10;

/// What the fakes are in: they are found from C callbacks that say nothing about where they are.
static WORLD: Snapshot<World> = Snapshot::new();

/// All fakes.
#[pin_data(PinnedDrop)]
pub(crate) struct World {
    slots: [Pin<KBox<Slot>>; SLOTS],
    /// Real memory, for clients whose memory has struct pages.
    memory: u64,
    software: Arc<Registered>,
    hardware: Arc<Registered>,
    /// In the order of [`Kind::IMPORTERS`].
    importers: [Arc<Registered>; 4],
    /// The core's device for user space.
    control: user::Control,
    /// Devices that a test has made for itself.
    #[pin]
    guests: SpinLock<[Option<Arc<FakeDevice>>; 2]>,
}

impl World {
    fn new() -> Result<Arc<Self>> {
        let software = Registered::new(c"kunit_sw", Kind::Virtual)?;
        let hardware = Registered::new(c"kunit_hw", Kind::Dma)?;
        let [one, two, three, four] = Kind::IMPORTERS;
        let importers = [
            Registered::new(c"kunit_dynamic", one)?,
            Registered::new(c"kunit_revocable", two)?,
            Registered::new(c"kunit_pinned", three)?,
            Registered::new(c"kunit_local", four)?,
        ];
        let slots = [Slot::new(0)?, Slot::new(1)?, Slot::new(2)?];
        let control = user::Control::open()?;
        // SAFETY: Just an allocation.
        let memory = unsafe { helpers::kt_alloc(ORDER) };
        if memory == 0 {
            return Err(ENOMEM);
        }
        Arc::pin_init(
            pin_init!(Self {
                slots,
                memory,
                software,
                hardware,
                importers,
                control,
                guests <- new_spinlock!([None, None], "kunit::World::guests"),
            }),
            GFP_KERNEL,
        )
    }

    /// The world, while the module is loaded.
    pub(crate) fn get() -> Result<Arc<Self>> {
        WORLD.load().ok_or(ENODEV)
    }

    pub(crate) fn slot(&self, number: usize) -> Result<&Slot> {
        self.slots.get(number).map(|s| &**s).ok_or(ENOENT)
    }

    pub(crate) fn memory(&self) -> u64 {
        self.memory
    }

    /// `/dev/ib_peer_mem`.
    pub(crate) fn control(&self) -> &user::Control {
        &self.control
    }

    /// A device as software RDMA is.
    pub(crate) fn software(&self) -> Result<Arc<Registered>> {
        Ok(self.software.clone())
    }

    /// A device that does DMA.
    pub(crate) fn hardware(&self) -> Result<Arc<Registered>> {
        Ok(self.hardware.clone())
    }

    /// A device that imports dma-bufs.
    pub(crate) fn importer(&self, kind: Kind) -> Result<Arc<Registered>> {
        let i = Kind::IMPORTERS.iter().position(|k| *k == kind);
        Ok(self.importers[i.ok_or(ENODEV)?].clone())
    }

    /// A device for one test, which may take it away.
    pub(crate) fn guest(&self, kind: Kind) -> Result<Arc<Registered>> {
        let dev = Registered::new(c"kunit_guest", kind)?;
        let mut guests = self.guests.lock();
        let old = guests[0].replace(dev.fake().clone());
        drop(guests);
        drop(old);
        Ok(dev)
    }

    /// Could any adapter touch memory between these two addresses?
    pub(crate) fn can_touch(&self, lo: u64, hi: u64) -> bool {
        let guest = self.guests.lock()[0].clone();
        self.software.fake().can_touch(lo, hi)
            || self.hardware.fake().can_touch(lo, hi)
            || self.importers.iter().any(|i| i.fake().can_touch(lo, hi))
            || guest.is_some_and(|g| g.can_touch(lo, hi))
    }
}

#[pinned_drop]
impl PinnedDrop for World {
    fn drop(self: Pin<&mut Self>) {
        // SAFETY: It is from kt_alloc(), and no MR is on it: no test is running.
        unsafe { helpers::kt_free(self.memory, ORDER) };
    }
}

/// The module.
struct Tests;

impl kernel::Module for Tests {
    fn init(_module: &'static ThisModule) -> Result<Self> {
        drop(WORLD.replace(Some(World::new()?)));
        Ok(Self)
    }
}

impl Drop for Tests {
    fn drop(&mut self) {
        drop(WORLD.replace(None));
    }
}
