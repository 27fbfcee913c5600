// SPDX-License-Identifier: GPL-2.0

//! The PCI driver: binds the configured PCI functions, and creates device nodes for the BARs.
//!
//! [`BarDriver`] is the driver, [`BarFunction`] the driver data of a bound function. The options of
//! a function come from the module parameters, or from a write to the file `bind_with`.

use crate::{
    bar::{
        Bar,
        Revoke, //
    },
    ext::{
        base::{
            chardev::{
                self,
                AddressSpace, //
            },
            compat::{
                self,
                CoreDevice,
                PciDriver, //
            },
            device::name as device_name,
            lockdown,
            pci as ext_pci,
            snapshot::Snapshot,
            sysfs::{
                self,
                Directory, //
            }, //
        },
        p2pdma::{
            self,
            Provider, //
        }, //
    },
    functions::Functions,
    options::{
        self,
        Options, //
    },
    peer_client::Tickets,
    pending::Pending,
    prelude::*,
    select::{
        Choice,
        Identity,
        Properties, //
    },
    service,
    zero::Policy, //
};
use kernel::{
    device::Bound,
    fmt::Write,
    pci, //
};

/// Mode of a device node. A user can allocate a whole BAR, so others have no access.
const MODE: u16 = 0o660;

pub(crate) struct BarDriver;

/// The device node of a BAR. After drop no process or RDMA device uses the BAR.
struct BarNode {
    // Drop order: the node is removed before the BAR is revoked.
    _node: Pin<KBox<chardev::Registration<Bar>>>,
    revoke: Revoke,
}

/// Driver data of a bound function. Dropped before the devres of the device, so that all pages are
/// free when the kernel removes the P2PDMA memory.
pub(crate) struct BarFunction {
    // Drop order: the files are removed, and the BARs are revoked by their tickets, before the client
    // may end.
    _files: Directory<FunctionFiles>,
    bars: KVec<BarNode>,
    _user: service::User,
}

/// The directory `io_peer_mem` of a bound function in sysfs.
struct FunctionFiles {
    /// The tickets of the memory regions on each BAR, and on memory of the function that other
    /// drivers have mapped.
    tickets: KVec<Arc<Tickets>>,
    /// Whether root has stopped registrations. Held while the tickets are changed.
    draining: Pin<KBox<Mutex<bool>>>,
}

impl FunctionFiles {
    fn new(dev: &pci::Device<Bound>, bars: &[BarNode]) -> Result<Self> {
        let mut tickets = KVec::with_capacity(bars.len() + 1, GFP_KERNEL)?;
        for bar in bars {
            tickets.push(bar.revoke.tickets().clone(), GFP_KERNEL)?;
        }
        if let Some(functions) = FUNCTIONS.load() {
            tickets.push(functions.tickets(dev)?, GFP_KERNEL)?;
        }
        let draining = KBox::pin_init(
            new_mutex!(false, "io_peer_mem::FunctionFiles::draining"),
            GFP_KERNEL,
        )?;
        Ok(Self { tickets, draining })
    }

    /// Stops or allows registrations of memory of the function. On return no registration that began
    /// before a stop is left out of [`Tickets::count`].
    fn drain(&self, on: bool) {
        let mut draining = self.draining.lock();
        *draining = on;
        for tickets in &self.tickets {
            tickets.set_draining(on);
        }
    }
}

impl sysfs::Files for FunctionFiles {
    const FILES: &'static [sysfs::File<Self>] = &[
        sysfs::File::writable(
            c"drain",
            |files, text| writeln!(text, "{}", u8::from(*files.draining.lock())),
            |files, text| sysfs::parse_switch(text).map(|on| files.drain(on)),
        ),
        sysfs::File::new(c"mrs", |files, text| {
            let mrs: usize = files.tickets.iter().map(|tickets| tickets.count()).sum();
            writeln!(text, "{mrs}")
        }),
    ];
}

impl Drop for FunctionFiles {
    fn drop(&mut self) {
        // The tickets of other drivers' mappings outlive the binding.
        self.drain(false);
    }
}

/// The functions with memory that mappings of other drivers may contain. Functions of this driver
/// are included, because of `p2pmem/allocate`. The callbacks of a driver get no argument for the
/// object, so the object is a static.
pub(crate) static FUNCTIONS: Snapshot<Functions> = Snapshot::new();

pub(crate) static PENDING: Snapshot<Pending> = Snapshot::new();

// All ids come from the module parameter or `new_id`.
compat::added_ids!();

impl PciDriver for BarDriver {
    type Data = BarFunction;
    const ID_TABLE: pci::IdTable<()> = &PCI_TABLE;

    fn probe(dev: &CoreDevice<'_>) -> Result<BarFunction> {
        probe(dev)
    }
}

#[vtable]
impl ext_pci::Recovery for BarDriver {
    fn stop(dev: &pci::Device<Bound>, function: &BarFunction) {
        dev_warn!(
            dev,
            "an error or a reset: its memory is revoked, until it answers again\n"
        );
        if let Some(functions) = FUNCTIONS.load() {
            functions.revoke(dev);
        }
        for bar in function.bars.iter() {
            bar.revoke.now();
        }
    }

    fn resume(dev: &pci::Device<Bound>, function: &BarFunction) {
        if let Some(functions) = FUNCTIONS.load() {
            functions.reopen(dev);
        }
        for bar in function.bars.iter() {
            bar.revoke.undo();
        }
        dev_info!(dev, "has recovered: its memory can be allocated again\n");
    }
}

#[vtable]
impl ext_pci::BindWith for BarDriver {
    /// Binds the function that `text` names, with the options after the name.
    fn bind_with(driver: &ext_pci::Attach<'_>, text: &str) -> Result {
        let Some(((domain, bus, slot), given)) = options::parse_bind(text) else {
            pr_err!("bind_with: {}: not domain:bus:device.function and values of bars, ranges, busmaster, publish, zero\n", text);
            return Err(EINVAL);
        };
        let dev = ext_pci::at(domain, bus, slot).ok_or(ENODEV)?;
        let pending = PENDING.load().ok_or(ENODEV)?;
        let _options = Pending::add(pending, dev.clone(), given)?;
        driver.attach(&dev)
    }
}

/// Binds the functions of the parameter `devices`. If a function cannot be bound, logs the failure
/// and binds the others.
pub(crate) fn bind_devices(
    driver: &ext_pci::Registration<BarDriver>,
) -> Result<KVec<ext_pci::Override>> {
    let mut bound = KVec::new();
    options::for_each_device(|name, (domain, bus, slot)| {
        let Some(dev) = ext_pci::at(domain, bus, slot) else {
            pr_err!("devices: there is no PCI function {}\n", name);
            return Ok(());
        };
        bound.reserve(1, GFP_KERNEL)?;
        match driver.bind(&dev) {
            Err(EEXIST) => {
                pr_err!("devices: {} is not bound: it has a driver_override\n", name)
            }
            Err(e) => return Err(e),
            Ok((set, result)) => {
                bound.push(set, GFP_KERNEL)?;
                match result {
                    Ok(()) => {}
                    Err(EBUSY) => {
                        pr_err!("devices: {} is bound to another driver: unbind it from that, and bind it to io_peer_mem\n", name)
                    }
                    Err(e) => pr_err!("devices: cannot bind {}: {:?}\n", name, e),
                }
            }
        }
        Ok(())
    })?;
    Ok(bound)
}

fn probe(dev: &CoreDevice<'_>) -> Result<BarFunction> {
    if ext_pci::is_bridge(dev) {
        dev_err!(dev, "cannot be used: it is a bridge\n");
        return Err(ENODEV);
    }
    lockdown::pci_access().inspect_err(|_| {
        dev_err!(
            dev,
            "cannot be used: the kernel is locked down, so that processes cannot access BARs\n"
        )
    })?;
    let given = PENDING.load().map(|pending| pending.of(dev));
    let options = Options::get(given.unwrap_or_default())?;
    ext_pci::enable_mem(dev)?;
    if !options.busmaster {
        ext_pci::clear_master(dev);
    }
    if !ext_pci::answers(dev) {
        dev_err!(
            dev,
            "cannot be used: it does not answer at the addresses of its BARs; reset it, or remove it and rescan the bus\n"
        );
        return Err(EIO);
    }
    // The saved state has memory space enabled. Bus mastering is disabled unless `busmaster` is
    // set.
    ext_pci::save_state(dev);

    let identity = Identity {
        class: dev.pci_class().as_raw(),
        id: (dev.vendor_id().as_raw(), dev.device_id()),
    };
    let mut chosen = KVec::new();
    for index in 0..ext_pci::BARS {
        let bar = ext_pci::Bar::new(dev, index)?;
        let properties = Properties {
            index,
            prefetchable: bar.is_mem() && bar.is_prefetchable(),
            len: bar.size(),
        };
        match identity.choose(options.bars, p2pdma::granularity(), properties) {
            Choice::Use => {
                let (offset, size) = options.parts[index as usize].unwrap_or((0, bar.size()));
                let part = offset..offset + size;
                if let Some(why) = unusable(&bar, &part) {
                    dev_err!(dev, "BAR {} cannot be used: {}\n", index, why);
                    return Err(EINVAL);
                }
                chosen.push((bar, part, properties), GFP_KERNEL)?;
            }
            Choice::Registers => dev_warn!(
                dev,
                "BAR {} is not used: in a function of class {:#08x} it may have registers, by which a process can access all host memory; bars={} uses it\n",
                index,
                identity.class,
                index
            ),
            Choice::Skip => {}
        }
    }
    if chosen.is_empty() {
        dev_err!(
            dev,
            "no prefetchable memory BAR of at least {} MiB is used; bars= selects other BARs\n",
            p2pdma::granularity() >> 20
        );
        return Err(ENODEV);
    }
    // Before processes can map anything.
    let user = service::User::new()?;
    let function = p2pdma::Function::new(dev)?;
    let mut bars = KVec::new();
    for (bar, part, _) in &chosen {
        let zero = options.zero[bar.index() as usize];
        bars.push(
            create_node(dev, &function, bar, part.clone(), zero)?,
            GFP_KERNEL,
        )?;
    }
    let used = chosen.iter().map(|(_, _, properties)| *properties);
    if options.publish.unwrap_or_else(|| identity.publishes(used)) {
        p2pdma::publish(dev);
        // nvmet-rdma maps published memory by dma_map_sg().
        if compat::LEAVES_BARS_UNMAPPED {
            dev_warn!(
                dev,
                "this kernel gives an adapter behind a host bridge wrong addresses of published memory: keep it from the NVMe target (p2pmem), or set publish=0\n"
            );
        }
    }
    let files = FunctionFiles::new(dev, &bars)?;
    Ok(BarFunction {
        _files: Directory::in_device(dev.as_ref(), c"io_peer_mem", files)?,
        bars,
        _user: user,
    })
}

/// Returns the reason why `part` of `bar` cannot be P2PDMA memory, or `None` if there is no reason.
fn unusable(bar: &ext_pci::Bar, part: &Range<u64>) -> Option<&'static str> {
    if bar.is_io() {
        Some("it is I/O space")
    } else if !bar.is_mem() || bar.size() == 0 {
        Some("the function has no such BAR, or no address is assigned to it")
    } else if part.end > bar.size() {
        Some("it ends before the range of ranges=")
    } else if ((bar.start() + part.start) | (part.end - part.start)) % p2pdma::granularity() != 0 {
        Some(
            "it is too small or not aligned: P2PDMA memory needs multiples of 2 MiB, or of more if \
             pages are larger than 4 KiB",
        )
    } else {
        None
    }
}

fn create_node(
    dev: &pci::Device<Bound>,
    function: &Arc<p2pdma::Function>,
    bar: &ext_pci::Bar,
    part: Range<u64>,
    zero: Policy,
) -> Result<BarNode> {
    let index = bar.index();
    ext_pci::request_bar(dev, index, c"io_peer_mem")
        .inspect_err(|e| dev_err!(dev, "BAR {} is claimed by another driver: {:?}\n", index, e))?;
    let size = part.end - part.start;
    let memory = Provider::new(function, dev, index, part)
        .inspect_err(|e| dev_err!(dev, "BAR {} cannot be made P2PDMA memory: {:?}\n", index, e))?;

    let space = AddressSpace::new(c"[io_peer_mem]")?;
    let bar = Bar::new(dev.into(), index, memory, zero)?;
    let revoke = Revoke::new(bar.clone(), space.clone());
    let name = device_name(dev.as_ref()).to_str().map_err(|_| EINVAL)?;
    let name = CString::try_from_fmt(fmt!("io_peer_mem!{}!bar{}", name, index))?;
    let node = KBox::pin_init(
        chardev::Registration::new(dev.as_ref(), name, MODE, space, bar),
        GFP_KERNEL,
    )
    .inspect_err(|e| {
        dev_err!(
            dev,
            "BAR {}: cannot create the character device: {:?}\n",
            index,
            e
        )
    })?;
    dev_info!(dev, "BAR {}: {} MiB to map\n", index, size >> 20);
    Ok(BarNode {
        _node: node,
        revoke,
    })
}
