// SPDX-License-Identifier: GPL-2.0

//! The PCI driver: binds whatever it is told to, and makes its BARs memory that people can map.

use crate::{
    bar::{
        Bar,
        Revoke, //
    },
    ext::{
        chardev::{
            self,
            AddressSpace, //
        },
        compat,
        p2pdma::{
            self,
            Provider, //
        },
        pci as ext_pci, //
    },
    options::Options, //
};
use core::ops::Range;
use kernel::{
    device::{
        Bound,
        Core, //
    },
    pci,
    prelude::*,
    str::CString, //
};

/// A BAR smaller than this is not taken unless it is asked for by number.
const MIN_SIZE: u64 = 2 << 20;

/// Owner and group may map a BAR. Nobody else: what is in it is never cleared.
const MODE: u16 = 0o660;

/// The driver.
pub(crate) struct BarDriver;

/// A BAR that people can open.
///
/// When it is dropped nobody uses it any more.
struct Offered {
    // Dropped in this order: nothing new may be mapped while the BAR is revoked.
    /// The device node.
    _node: Pin<KBox<chardev::Registration<Bar>>>,
    /// What takes the memory back.
    _revoke: Revoke,
}

/// What a bound function has. It is dropped before the device's resources, so that all pages are
/// back when the kernel takes the BARs down.
pub(crate) struct Function {
    /// Its BARs.
    _bars: KVec<Offered>,
}

// By the module parameter or through `new_id`.
compat::added_ids!(BarDriver);

impl pci::Driver for BarDriver {
    type IdInfo = ();
    type Data<'bound> = Function;
    const ID_TABLE: pci::IdTable<Self::IdInfo> = &PCI_TABLE;

    fn probe<'bound>(
        dev: &'bound pci::Device<Core<'_>>,
        _info: compat::NoInfo<'bound>,
    ) -> impl PinInit<Function, Error> + 'bound {
        probe(dev)
    }
}

/// Offers the BARs of `dev` that it shall.
fn probe(dev: &pci::Device<Core<'_>>) -> Result<Function> {
    ext_pci::enable_mem(dev)?;

    let options = Options::get()?;
    let mut bars = KVec::new();
    for index in 0..ext_pci::BARS {
        let bar = ext_pci::Bar::new(dev, index)?;
        let wanted = match options.bars {
            Some(mask) => mask & (1 << index) != 0,
            None => bar.is_mem() && bar.is_prefetchable() && bar.len >= MIN_SIZE,
        };
        if wanted {
            let (offset, size) = options.parts[index as usize].unwrap_or((0, bar.len));
            bars.push(offer(dev, &bar, offset..offset + size)?, GFP_KERNEL)?;
        }
    }
    if bars.is_empty() {
        dev_err!(
            dev,
            "no prefetchable memory BAR of at least 2 MiB; the parameter bars= takes others\n"
        );
        return Err(ENODEV);
    }
    p2pdma::publish(dev);
    Ok(Function { _bars: bars })
}

/// Makes `part` of `bar` memory and gives it a device node.
fn offer(dev: &pci::Device<Bound>, bar: &ext_pci::Bar, part: Range<u64>) -> Result<Offered> {
    let index = bar.index;
    let why = if bar.is_io() {
        "it is I/O space"
    } else if !bar.is_mem() || bar.len == 0 {
        "the function has no such BAR, or it got no address"
    } else if part.end > bar.len {
        "it ends before the range that was asked for"
    } else if ((bar.start + part.start) | (part.end - part.start)) % p2pdma::granularity() != 0 {
        "it is too small or not aligned: struct pages come for 2 MiB at a time"
    } else {
        ""
    };
    if !why.is_empty() {
        dev_err!(dev, "BAR {} cannot be used: {}\n", index, why);
        return Err(EINVAL);
    }
    ext_pci::request_bar(dev, index, c"io_peer_mem")
        .inspect_err(|e| dev_err!(dev, "BAR {} is claimed by another driver: {:?}\n", index, e))?;
    let size = part.end - part.start;
    let memory = Provider::new(dev, bar, part)
        .inspect_err(|e| dev_err!(dev, "BAR {} cannot be made P2PDMA memory: {:?}\n", index, e))?;

    let space = AddressSpace::new()?;
    let bar_object = Bar::new(dev.into(), index, memory)?;
    let revoke = Revoke {
        bar: bar_object.clone(),
        space: space.clone(),
    };
    let name = dev.as_ref().name().to_str().map_err(|_| EINVAL)?;
    let name = CString::try_from_fmt(fmt!("io_peer_mem!{}!bar{}", name, index))?;
    let node = KBox::pin_init(
        chardev::Registration::new(dev.as_ref(), name, MODE, space, bar_object),
        GFP_KERNEL,
    )
    .inspect_err(|e| dev_err!(dev, "BAR {}: no character device: {:?}\n", index, e))?;
    dev_info!(dev, "BAR {}: {} MiB to map\n", index, size >> 20);
    Ok(Offered {
        _node: node,
        _revoke: revoke,
    })
}
