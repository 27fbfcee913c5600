// SPDX-License-Identifier: GPL-2.0

//! The PCI driver of the `edu` function.

use crate::{
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
    mode,
    register::Registered,
    Number, //
};
use kernel::{
    debugfs::Dir,
    dma::{
        Device as _,
        DmaMask, //
    },
    pci,
    prelude::*, //
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
    let files = Files::new(&dir, device.adapter())?;
    dev_info!(dev, "edu{}: the mode is {}\n", n, mode::name(mode));
    Ok(Function {
        _files: files,
        _device: device,
    })
}
