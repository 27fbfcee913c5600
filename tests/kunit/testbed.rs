// SPDX-License-Identifier: GPL-2.0

//! The fakes of all tests. The fakes live as long as the module.

use crate::{
    client::{
        Slot,
        SLOTS, //
    },
    device::{
        FakeDevice,
        Kind,
        Registered, //
    },
    ext::base::snapshot::Snapshot,
    helpers,
    importer::Mode,
    user::Control, //
};
use kernel::{
    new_spinlock,
    prelude::*,
    sync::{
        Arc,
        SpinLock, //
    },
};

/// 2^10 pages of memory for the fake clients.
const ORDER: u32 = 10;

/// The installed testbed. The C callbacks of the fakes get no pointer to the testbed, so the
/// testbed has a static place.
static TESTBED: Snapshot<Testbed> = Snapshot::new();

/// All fakes, and shared data of the fakes.
#[pin_data(PinnedDrop)]
pub(crate) struct Testbed {
    slots: [Arc<Slot>; SLOTS],
    /// Physical address of the memory of clients whose memory has struct pages.
    memory: u64,
    software: Arc<Registered>,
    hardware: Arc<Registered>,
    /// In the order of [`Mode::ALL`].
    importers: [Arc<Registered>; 4],
    control: Control,
    /// The device made by the current test.
    #[pin]
    temporary: SpinLock<Option<Arc<FakeDevice>>>,
}

impl Testbed {
    fn new() -> Result<Arc<Self>> {
        let software = Registered::new(c"kunit_sw", Kind::Virtual)?;
        let hardware = Registered::new(c"kunit_hw", Kind::Dma)?;
        let names = [
            c"kunit_dynamic",
            c"kunit_no_p2p",
            c"kunit_revocable",
            c"kunit_pinned",
        ];
        let [one, two, three, four] =
            core::array::from_fn(|i| Registered::new(names[i], Mode::ALL[i].into()));
        let importers = [one?, two?, three?, four?];
        let slots = [Slot::new(0)?, Slot::new(1)?, Slot::new(2)?];
        let control = Control::open()?;
        // SAFETY: The function has no requirements.
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
                temporary <- new_spinlock!(None, "kunit::Testbed::temporary"),
            }),
            GFP_KERNEL,
        )
    }

    /// Returns the testbed; `ENODEV` while the module is not fully loaded.
    pub(crate) fn get() -> Result<Arc<Self>> {
        TESTBED.load().ok_or(ENODEV)
    }

    /// Returns a client slot; `ENOENT` if there is no such slot.
    pub(crate) fn slot(&self, number: usize) -> Result<&Arc<Slot>> {
        self.slots.get(number).ok_or(ENOENT)
    }

    /// Returns the physical address of the clients' memory.
    pub(crate) fn memory(&self) -> u64 {
        self.memory
    }

    /// Returns `/dev/ib_peer_mem`.
    pub(crate) fn control(&self) -> &Control {
        &self.control
    }

    /// Returns the shared device of the kind.
    pub(crate) fn device(&self, kind: Kind) -> &Arc<Registered> {
        match kind {
            Kind::Virtual => &self.software,
            Kind::Dma | Kind::Pci => &self.hardware,
            Kind::Importer(mode) => {
                let [dynamic, no_peer2peer, revocable, pinned] = &self.importers;
                match mode {
                    Mode::Dynamic => dynamic,
                    Mode::NoPeer2Peer => no_peer2peer,
                    Mode::Revocable => revocable,
                    Mode::Pinned => pinned,
                }
            }
        }
    }

    /// Registers a device for one test. The test may unregister the device.
    pub(crate) fn temporary(&self, kind: Kind) -> Result<Arc<Registered>> {
        let name = match kind {
            Kind::Dma | Kind::Pci => c"kunit_own_hw",
            _ => c"kunit_own",
        };
        let dev = Registered::new(name, kind)?;
        let old = self.temporary.lock().replace(dev.fake().clone());
        drop(old);
        Ok(dev)
    }

    /// Returns whether a device can access memory between these addresses.
    pub(crate) fn can_touch(&self, lo: u64, hi: u64) -> bool {
        let temporary = self.temporary.lock().clone();
        self.software.fake().can_touch(lo, hi)
            || self.hardware.fake().can_touch(lo, hi)
            || self.importers.iter().any(|i| i.fake().can_touch(lo, hi))
            || temporary.is_some_and(|t| t.can_touch(lo, hi))
    }
}

#[pinned_drop]
impl PinnedDrop for Testbed {
    fn drop(self: Pin<&mut Self>) {
        // SAFETY:
        // - The memory is from kt_alloc() with the same order.
        // - No test runs any more, so no MR refers to the memory.
        unsafe { helpers::kt_free(self.memory, ORDER) };
    }
}

/// Keeps the testbed installed. Drop removes the testbed.
pub(crate) struct Installed(());

impl Installed {
    /// Makes the testbed and installs it.
    pub(crate) fn new() -> Result<Self> {
        drop(TESTBED.replace(Some(Testbed::new()?)));
        Ok(Self(()))
    }
}

impl Drop for Installed {
    fn drop(&mut self) {
        drop(TESTBED.replace(None));
    }
}
