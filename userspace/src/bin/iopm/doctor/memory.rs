// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause

//! Checks of memory, of what the caller may do, and of the routes.

use super::{devices::drained, *};
use rustix::fs::{access, Access};
use rustix::process::{geteuid, getrlimit, Resource};

pub(super) fn memory(machine: &Machine, found: &mut Findings<'_>) {
    if machine.memories.is_empty() {
        warn!(found, "iopm candidates", "no PCI function offers memory for RDMA");
    }
    for Memory { kind, name, function, .. } in &machine.memories {
        let description = function.describe();
        match kind {
            Kind::Bar => {
                ok!(found, "{name}: a BAR of io_peer_mem ({description})");
                drained(&function.name, function.number("io_peer_mem/drain"), found);
            }
            Kind::P2p => {
                let driver = function.driver.as_deref().unwrap_or("its driver");
                let bytes = size(function.number("p2pmem/size").unwrap_or(0));
                ok!(found, "{name}: {bytes} of peer-to-peer memory of {driver} ({description})");
                if !sys::exists(format!("{PEERS}/io_peer_mem")) {
                    let fix = match is_loaded("io_peer_mem") {
                        true => "echo 1 >/sys/module/io_peer_mem/parameters/p2pmem",
                        false => "modprobe io_peer_mem p2pmem=1",
                    };
                    warn!(found, fix, "{name}: no client serves it");
                }
            }
            Kind::Gpu => {
                let bars = function.bars.iter().filter(|bar| bar.prefetchable);
                let largest = bars.map(|bar| bar.size).max().unwrap_or(0);
                let (bytes, what) = (size(largest), "no more of its memory can be registered at a time");
                let fix = "enable Above 4G Decoding and Resizable BAR in the firmware";
                match largest > 256 << 20 {
                    true => ok!(found, "{name}: a GPU ({description}), BAR of {bytes}"),
                    false => warn!(found, fix, "{name}: a GPU ({description}) with a BAR of {bytes}: {what}"),
                }
            }
        }
        link(function, found);
    }
}

fn link(of: &Function, found: &mut Findings<'_>) {
    let text = |file| sys::line(pci::file(&of.name, file)).unwrap_or_default();
    let [width, widest] = ["current_link_width", "max_link_width"].map(|file| of.number(file).unwrap_or(0));
    let (name, speed, fastest) = (&of.name, text("current_link_speed"), text("max_link_speed"));
    // 255: the function has no link of its own.
    if width == 0 || width > 32 || widest > 32 {
    } else if width < widest {
        warn!(found, "lspci -vv: look for LnkSta", "{name}: its link is x{width} of x{widest}, {speed}");
    } else {
        ok!(found, "{name}: link x{width}, {speed} of {fastest}");
    }
}

// --- the caller ---

fn may_open(path: &str) -> io::Result<()> {
    Ok(access(sys::path(path), Access::READ_OK | Access::WRITE_OK)?)
}

pub(super) fn verbs_nodes(_: &Machine, found: &mut Findings<'_>) {
    let mut nodes: Vec<_> = sys::files("/dev/infiniband".into()).collect();
    nodes.retain(|path| path.starts_with("/dev/infiniband/uverbs"));
    if nodes.iter().any(|path| may_open(path).is_ok()) {
        ok!(found, "this user may open RDMA devices");
    } else if !nodes.is_empty() {
        fail!(found, "apt install rdma-core", "this user may open no /dev/infiniband/uverbs*");
    }
}

pub(super) fn memory_nodes(machine: &Machine, found: &mut Findings<'_>) {
    for memory in &machine.memories {
        let Some(path) = &memory.path else { continue };
        // udev gives the BARs to the group; the file of other memory is root's.
        let again = "again after each boot and each bind of the driver, which make it anew";
        let fix = match memory.kind {
            Kind::Bar => "usermod -aG rdma USER; then log in again".into(),
            _ => format!("chgrp rdma {path}; {again}"),
        };
        match may_open(path) {
            Ok(()) => ok!(found, "this user may open {path}"),
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                fail!(found, fix, "this user may not open {path}");
            }
            Err(error) => fail!(found, "", "{path}: {}", cause(&error)),
        }
    }
}

pub(super) fn locked_memory(_: &Machine, found: &mut Findings<'_>) {
    let limit = getrlimit(Resource::Memlock).current.filter(|_| !geteuid().is_root());
    match limit.map(|bytes| bytes >> 10) {
        None => ok!(found, "ulimit -l does not limit this user"),
        Some(kib) if kib >= 64 << 10 => ok!(found, "ulimit -l is {kib} KiB"),
        Some(kib) => {
            let what = "more host memory cannot be registered; device memory does not count";
            warn!(found, "ulimit -l unlimited (/etc/security/limits.d)", "ulimit -l is {kib} KiB: {what}");
        }
    }
}

// --- routes ---

/// The route of each RDMA device to each memory. A pair without a route is no failure: on a machine with
/// several sockets each device has its own memory. A device or a memory that has none is one.
pub(super) fn routes(machine: &Machine, found: &mut Findings<'_>) {
    let (adapters, memories) = (&machine.adapters.list, &machine.memories);
    // Of each device and each memory: whether it has a route. Those are left out of which no distance is known.
    let (mut devices, mut reached) = (BTreeMap::new(), BTreeMap::new());
    for Adapter { name, function, .. } in adapters.iter().filter(|_| !memories.is_empty()) {
        let Some(function) = function else {
            ok!(found, "{name}: a software device, for which the CPU copies");
            continue;
        };
        for memory in memories {
            let Some(route) = memory.route(function) else { continue };
            pair(&format!("{name}, {}", memory.name), &route, found);
            *devices.entry(name).or_insert(false) |= route.way != Way::No;
            *reached.entry(&memory.name).or_insert(false) |= route.way != Way::No;
        }
    }
    for (name, _) in devices.into_iter().filter(|(_, reaches)| !reaches) {
        fail!(found, "put memory below its PCIe switch", "{name}: no route to any memory");
    }
    for (name, _) in reached.into_iter().filter(|(_, is_reached)| !is_reached) {
        fail!(found, "put an RDMA device below its PCIe switch", "{name}: no RDMA device has a route to it");
    }
}

fn pair(pair: &str, route: &Route, found: &mut Findings<'_>) {
    let acs = route.acs.join(";");
    let then = "then devices below these bridges can access each other without the IOMMU";
    let fix = format!("add pci=disable_acs_redir={acs} to the kernel's command line; {then}");
    match route.way {
        Way::No if acs.is_empty() => {
            let what = "they share no bridge, and the host bridge is not on its list";
            warn!(found, "put both below one PCIe switch", "{pair}: the kernel supports no route: {what}");
        }
        Way::No => warn!(found, fix, "{pair}: the kernel supports no route: ACS redirects"),
        _ if !acs.is_empty() => {
            warn!(found, fix, "{pair}: distance {route}, because bridges redirect (ACS)");
        }
        _ if !route.acs_known => {
            let what = "only root can read whether bridges redirect (ACS)";
            unknown!(found, "sudo iopm doctor", "{pair}: distance {route}; {what}");
        }
        Way::Unknown => {
            let what = "only host bridges on the kernel's list route";
            warn!(found, "iopm test", "{pair}: distance {route}: {what}");
        }
        _ => ok!(found, "{pair}: distance {route}"),
    }
}
