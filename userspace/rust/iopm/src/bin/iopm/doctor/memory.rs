// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause

//! Checks of memory, of what the caller may do, and of the routes.

use super::{Finding, Machine};
use crate::{
    modules::is_loaded,
    pci,
    print::size,
    stack::{Adapter, Distance, Kind, Memory, PEERS},
    sys::{self, cause},
};
use rustix::{
    fs::{access, Access},
    process::{geteuid, getrlimit, Resource},
};
use std::io;

/// The memory and its links.
pub(super) fn memory(machine: &Machine) -> Vec<Finding> {
    if machine.memories.is_empty() {
        return vec![Finding::warn("no PCI function offers memory for RDMA").fix("iopm candidates")];
    }
    machine.memories.iter().flat_map(|memory| one(memory).into_iter().chain(link(memory))).collect()
}

fn one(memory: &Memory) -> Vec<Finding> {
    let (function, description) = (&memory.function.name, memory.function.describe());
    match memory.kind {
        Kind::Bar => {
            let mut found =
                vec![Finding::ok(format!("{}: a BAR of io_peer_mem ({description})", memory.name))];
            if sys::number(pci::file(function, "io_peer_mem/drain")).is_some_and(|number| number != 0) {
                let text = format!("{function} is drained: registrations of its memory fail with EBUSY");
                found.push(Finding::warn(text).fix(format!("iopm drain --end {function}")));
            }
            found
        }
        Kind::P2p => {
            let driver = memory.function.driver.as_deref().unwrap_or("its driver");
            let bytes = size(sys::number(pci::file(function, "p2pmem/size")).unwrap_or(0));
            let text = format!("{function}: {bytes} of peer-to-peer memory of {driver} ({description})");
            let mut found = vec![Finding::ok(text)];
            if !sys::exists(format!("{PEERS}/io_peer_mem")) {
                found.push(Finding::warn(format!("{function}: no client serves it")).fix(
                    if is_loaded("io_peer_mem") {
                        "echo 1 >/sys/module/io_peer_mem/parameters/p2pmem"
                    } else {
                        "modprobe io_peer_mem p2pmem=1"
                    },
                ));
            }
            found
        }
        Kind::Gpu => {
            let bars = memory.function.bars.iter().filter(|bar| bar.prefetchable);
            let largest = bars.map(|bar| bar.size).max().unwrap_or(0);
            let bytes = size(largest);
            vec![if largest <= 256 << 20 {
                Finding::warn(format!(
                    "{function}: a GPU ({description}) with a BAR of {bytes}: no more of its memory can be \
                     registered at a time"
                ))
                .fix("enable Above 4G Decoding and Resizable BAR in the firmware")
            } else {
                Finding::ok(format!("{function}: a GPU ({description}), BAR of {bytes}"))
            }]
        }
    }
}

fn link(memory: &Memory) -> Option<Finding> {
    let name = &memory.function.name;
    let number = |file| sys::number(pci::file(name, file));
    let text = |file| sys::line(pci::file(name, file)).unwrap_or_default();
    let (width, widest) = (number("current_link_width")?, number("max_link_width").unwrap_or(0));
    // 255: the function has no link of its own.
    if width == 0 || width > 32 || widest > 32 {
        return None;
    }
    let speed = text("current_link_speed");
    Some(if width < widest {
        Finding::warn(format!("{name}: its link is x{width} of x{widest}, {speed}"))
            .fix("lspci -vv: look for LnkSta")
    } else {
        Finding::ok(format!("{name}: link x{width}, {speed} of {}", text("max_link_speed")))
    })
}

// --- the caller ---

/// Returns whether the caller may read and write a file.
fn may_open(path: &str) -> io::Result<()> {
    Ok(access(sys::path(path), Access::READ_OK | Access::WRITE_OK)?)
}

/// The device files of RDMA devices.
pub(super) fn verbs_nodes(_: &Machine) -> Vec<Finding> {
    let dir = "/dev/infiniband";
    let mut nodes = sys::names(dir);
    nodes.retain(|name| name.starts_with("uverbs"));
    if nodes.iter().any(|name| may_open(&format!("{dir}/{name}")).is_ok()) {
        return vec![Finding::ok("this user may open RDMA devices")];
    }
    let text = "this user may open no /dev/infiniband/uverbs*";
    let some = !nodes.is_empty();
    some.then(|| Finding::fail(text).fix("apt install rdma-core")).into_iter().collect()
}

/// The files that map memory.
pub(super) fn memory_nodes(machine: &Machine) -> Vec<Finding> {
    let check = |memory: &Memory| {
        let path = memory.path.as_ref()?;
        Some(match may_open(path) {
            Ok(()) => Finding::ok(format!("this user may open {path}")),
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                // udev gives the BARs to the group; the file of other memory is root's.
                Finding::fail(format!("this user may not open {path}")).fix(if memory.kind == Kind::Bar {
                    "usermod -aG rdma USER; then log in again".into()
                } else {
                    format!("chgrp rdma {path}; again after each boot and each bind of the driver, which make it anew")
                })
            }
            Err(error) => Finding::fail(format!("{path}: {}", cause(&error))),
        })
    };
    machine.memories.iter().filter_map(check).collect()
}

/// The limit of locked memory.
pub(super) fn locked_memory(_: &Machine) -> Vec<Finding> {
    let limit = getrlimit(Resource::Memlock).current;
    vec![match limit.filter(|_| !geteuid().is_root()) {
        None => Finding::ok("ulimit -l does not limit this user"),
        Some(bytes) if bytes < 64 << 20 => Finding::warn(format!(
            "ulimit -l is {} KiB: more host memory cannot be registered; device memory does not count",
            bytes >> 10
        ))
        .fix("ulimit -l unlimited (/etc/security/limits.d)"),
        Some(bytes) => Finding::ok(format!("ulimit -l is {} KiB", bytes >> 10)),
    }]
}

// --- routes ---

/// The route of each RDMA device to each memory. A pair without a route is no failure: on a machine with
/// several sockets each device has its own memory. [`partners`] finds a device or a memory that has none.
pub(super) fn routes(machine: &Machine) -> Vec<Finding> {
    let mut found = Vec::new();
    for adapter in &machine.adapters.list {
        if let Some(function) = &adapter.function {
            found.extend(machine.memories.iter().filter_map(|memory| route(adapter, function, memory)));
        } else if !machine.memories.is_empty() {
            found.push(Finding::ok(format!("{}: a software device, for which the CPU copies", adapter.name)));
        }
    }
    found
}

fn route(adapter: &Adapter, function: &str, memory: &Memory) -> Option<Finding> {
    let distance = Distance::find(memory, function)?;
    let (pair, acs) = (format!("{}, {}", adapter.name, memory.name), distance.route.acs.join(";"));
    let fix = format!(
        "add pci=disable_acs_redir={acs} to the kernel's command line; then devices below these bridges can access \
         each other without the IOMMU"
    );
    Some(match (distance.is_none(), acs.is_empty()) {
        (true, true) => Finding::warn(format!(
            "{pair}: the kernel supports no route: they share no bridge, and the host bridge is not on its list"
        ))
        .fix("put both below one PCIe switch"),
        (true, false) => {
            Finding::warn(format!("{pair}: the kernel supports no route: ACS redirects")).fix(fix)
        }
        (false, false) => {
            Finding::warn(format!("{pair}: distance {distance}, because bridges redirect (ACS)")).fix(fix)
        }
        (false, true) if !distance.route.acs_known => Finding::unknown(format!(
            "{pair}: distance {distance}; only root can read whether bridges redirect (ACS)"
        ))
        .fix("sudo iopm doctor"),
        (false, true) if distance.route.way == pci::Way::Unknown => Finding::warn(format!(
            "{pair}: distance {distance}: only host bridges on the kernel's list route"
        ))
        .fix("iopm test"),
        (false, true) => Finding::ok(format!("{pair}: distance {distance}")),
    })
}

/// RDMA devices and memory without any partner.
pub(super) fn partners(machine: &Machine) -> Vec<Finding> {
    let (adapters, memories) = (&machine.adapters.list, &machine.memories);
    let has_route = |adapter: &Adapter, memory: &Memory| {
        Distance::find(memory, adapter.function.as_deref()?).map(|distance| !distance.is_none())
    };
    // Of the pairs whose distance is known.
    let alone = |pairs: Vec<Option<bool>>| pairs.contains(&Some(false)) && !pairs.contains(&Some(true));
    let adapters_alone = adapters
        .iter()
        .filter(|adapter| alone(memories.iter().map(|memory| has_route(adapter, memory)).collect()));
    let memories_alone = memories
        .iter()
        .filter(|memory| alone(adapters.iter().map(|adapter| has_route(adapter, memory)).collect()));
    adapters_alone
        .map(|adapter| {
            let text = format!("{}: no route to any memory", adapter.name);
            Finding::fail(text).fix("put memory below its PCIe switch")
        })
        .chain(memories_alone.map(|memory| {
            let text = format!("{}: no RDMA device has a route to it", memory.name);
            Finding::fail(text).fix("put an RDMA device below its PCIe switch")
        }))
        .collect()
}
