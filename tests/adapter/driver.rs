// SPDX-License-Identifier: GPL-2.0

//! The PCI driver of the `edu` function, which registers the RDMA device.

use crate::{
    device::Adapter,
    engine::Engine,
    ext::base::{
        compat::{
            self,
            CoreDevice,
            PciDriver, //
        },
        pci as ext_pci, //
    },
    files::Files,
    mode::{
        self,
        Mode, //
    },
    ops,
    prelude::*,
    Number, //
};
use kernel::{
    debugfs::Dir,
    dma::{
        Device as _,
        DmaMask, //
    }, //
};

/// QEMU's vendor id, and the device's.
pub(crate) const VENDOR: u16 = 0x1234;
pub(crate) const DEVICE: u16 = 0x11e8;

/// The longest DMA segment: the size of the largest page.
const MAX_SEGMENT: u32 = 2 << 20;

pub(crate) struct EduDriver;

pub(crate) struct Function {
    // Dropped in this order: no command runs while the device is unregistered, which ends the MRs
    // before the BAR is unmapped.
    _files: Files,
    _device: Registered,
}

// The kernel crate has no name for this vendor: the module adds the id when it is loaded.
compat::added_ids!();

impl PciDriver for EduDriver {
    type Data = Function;
    const ID_TABLE: pci::IdTable<()> = &PCI_TABLE;

    fn probe(dev: &CoreDevice<'_>) -> Result<Function> {
        probe(dev)
    }
}

// A device beside others that does not recover, nor do they.
#[vtable]
impl ext_pci::Recovery for EduDriver {}

#[vtable]
impl ext_pci::BindWith for EduDriver {}

fn probe(dev: &CoreDevice<'_>) -> Result<Function> {
    ext_pci::enable_mem(dev)?;
    dev.set_master();
    // SAFETY: The device is being bound: no DMA mapping of it exists yet.
    unsafe {
        dev.dma_set_mask_and_coherent(DmaMask::new::<64>())?;
        dev.dma_set_max_seg_size(MAX_SEGMENT);
    }
    let engine = Engine::new(dev).inspect_err(|e| dev_err!(dev, "no edu device: {:?}\n", e))?;
    let number = Number::take()?;
    let n = number.get();
    let mode = mode::of_device(n)?;
    let dir = Dir::new(&number.name()?);
    let device = Registered::new(dev, number, mode, engine)
        .inspect_err(|e| dev_err!(dev, "cannot register the RDMA device: {:?}\n", e))?;
    let files = Files::new(&dir, &device.adapter)?;
    dev_info!(dev, "edu{}: the mode is {}\n", n, mode::name(mode));
    Ok(Function {
        _files: files,
        _device: device,
    })
}

/// `enum rdma_node_type`, a UAPI value.
const RDMA_NODE_IB_CA: u8 = 1;

/// The C object, with a pointer to ours.
#[repr(C)]
struct Raw {
    ib: rdma::ib_device,
    adapter: *const Adapter,
}

/// Returns our object of a device.
///
/// # Safety
///
/// - `dev` must have been made by [`Registered`].
/// - The result must not be used after the call of the device's operation that uses it.
pub(crate) unsafe fn adapter<'a>(dev: *mut rdma::ib_device) -> &'a Adapter {
    // SAFETY: By the first requirement. `Registered` keeps the object as long as the device.
    unsafe { &*(*dev.cast::<Raw>()).adapter }
}

/// A device that is registered with ib_core. Dropping it unregisters it, which ends its MRs and
/// queues.
///
/// # Invariants
///
/// `raw` was allocated by ib_core; it is registered if `registered` is true.
struct Registered {
    raw: *mut Raw,
    registered: bool,
    adapter: Arc<Adapter>,
    number: Number,
}

// SAFETY: The functions of ib_core that take the device may be called by any thread.
unsafe impl Send for Registered {}

impl Registered {
    /// Creates and registers the RDMA device of `dev`, which is being bound. Context: may sleep.
    fn new(dev: &pci::Device<Bound>, number: Number, mode: Mode, engine: Engine) -> Result<Self> {
        let adapter = Adapter::new(mode, engine)?;
        // SAFETY: The size is that of a structure that begins with an ib_device.
        let raw = unsafe { rdma::_ib_alloc_device(size_of::<Raw>(), &raw mut bindings::init_net) };
        if raw.is_null() {
            return Err(ENOMEM);
        }
        // INVARIANT: Allocated; not registered yet.
        let mut this = Self {
            raw: raw.cast(),
            registered: false,
            adapter,
            number,
        };
        this.register(dev)?;
        Ok(this)
    }

    fn register(&mut self, dev: &pci::Device<Bound>) -> Result {
        let name = self.number.name()?;
        // SAFETY: The PCI function is valid. It outlives the RDMA device, which is unregistered
        // when the function is unbound.
        let parent = unsafe { &raw mut (*ext_pci::as_raw(dev)).dev };
        // SAFETY: Only this object has the device before its registration.
        let raw = unsafe { &mut *self.raw };
        raw.adapter = Arc::as_ptr(&self.adapter);
        raw.ib.node_type = RDMA_NODE_IB_CA;
        raw.ib.phys_port_cnt = 1;
        raw.ib.num_comp_vectors = 1;
        raw.ib.node_guid = u64::from(self.number.get() + 1).to_be();
        raw.ib.__bindgen_anon_1.dev.parent = parent;
        let ops = match self.adapter.mode() {
            Some(_) => &ops::OPS,
            None => &ops::NO_DMA_BUF_OPS,
        };
        // SAFETY: The device is allocated and not registered. The operations are copied.
        unsafe { rdma::ib_set_device_ops(&mut raw.ib, ops) };
        // SAFETY: The device is allocated and not registered; the parent is a PCI device, and set
        // up for DMA.
        to_result(unsafe { rdma::ib_register_device(&mut raw.ib, name.as_char_ptr(), parent) })?;
        // INVARIANT: Just registered.
        self.registered = true;
        Ok(())
    }
}

impl Drop for Registered {
    fn drop(&mut self) {
        if self.registered {
            // SAFETY: By the type invariants the device is registered.
            unsafe { rdma::ib_unregister_device(self.raw.cast()) };
        }
        // SAFETY: By the type invariants the device is allocated; it is not registered any more.
        unsafe { rdma::ib_dealloc_device(self.raw.cast()) };
    }
}
