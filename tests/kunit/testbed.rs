// SPDX-License-Identifier: GPL-2.0

//! The fakes of all tests. The fakes live as long as the module.

use crate::{
    client::Slot,
    ext::base::snapshot::{
        Published,
        Snapshot, //
    },
    prelude::*, //
};

/// The memory of the fake clients: what one allocation can have, physically contiguous.
type Memory = [u8; 4 * M as usize];

const SHARED: [(Kind, &CStr); 6] = [
    (Kind::Virtual, c"kunit_sw"),
    (Kind::Dma, c"kunit_hw"),
    (Kind::Importer(Mode::Dynamic), c"kunit_dynamic"),
    (Kind::Importer(Mode::NoPeer2Peer), c"kunit_no_p2p"),
    (Kind::Importer(Mode::Revocable), c"kunit_revocable"),
    (Kind::Importer(Mode::Pinned), c"kunit_pinned"),
];

/// The installed testbed. The C callbacks of the fakes get no pointer to the testbed, so the
/// testbed has a static place.
static TESTBED: Snapshot<Testbed> = Snapshot::new();

/// All fakes, and shared data of the fakes.
#[pin_data]
pub(crate) struct Testbed {
    slots: [Arc<Slot>; SLOTS],
    _memory: KBox<Memory>,
    shared: [Arc<Registered>; SHARED.len()],
    control: Control,
    /// The device made by the current test.
    #[pin]
    temporary: SpinLock<Option<Arc<FakeDevice>>>,
}

impl Testbed {
    /// Makes the testbed, which exists until the result is dropped.
    pub(crate) fn install() -> Result<Published<Self>> {
        Ok(TESTBED.publish(Self::new()?))
    }

    fn new() -> Result<Arc<Self>> {
        let [a, b, c, d, e, f] = SHARED.map(|(kind, name)| Registered::new(name, kind));
        let devices = [a?, b?, c?, d?, e?, f?];
        let memory = KBox::<Memory>::init(pin_init::init_zeroed(), GFP_KERNEL)?;
        // SAFETY: The allocation is in the kernel's own mapping of its memory.
        let phys = unsafe { shared::ext_virt_to_phys(ptr::from_ref(&*memory).cast_mut().cast()) };
        let slot = |i: usize| Slot::new(i, phys + i as u64 * M);
        let slots = [slot(0)?, slot(1)?, slot(2)?];
        let control = Control::open()?;
        Arc::pin_init(
            pin_init!(Self {
                slots,
                _memory: memory,
                shared: devices,
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

    pub(crate) fn control(&self) -> &Control {
        &self.control
    }

    pub(crate) fn device(&self, kind: Kind) -> Result<&Arc<Registered>> {
        let at = SHARED.iter().position(|(k, _)| *k == kind).ok_or(ENODEV)?;
        Ok(&self.shared[at])
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
        self.shared.iter().any(|dev| dev.fake().can_touch(lo, hi))
            || temporary.is_some_and(|t| t.can_touch(lo, hi))
    }
}
