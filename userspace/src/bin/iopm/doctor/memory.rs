// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause

//! Checks of memory, of what the caller may do, and of the routes.

use super::*;
use crate::stack::Distance;
use rustix::{
    fs::{access, Access},
    process::{geteuid, getrlimit, Resource},
};

/// The memory and its links.
pub(super) fn memory(machine: &Machine, found: &mut Findings) {
    if machine.memories.is_empty() {
        found.warn("no PCI function offers memory for RDMA", "iopm candidates");
    }
    for memory in &machine.memories {
        match memory.kind {
            Kind::Bar => bar(memory, found),
            Kind::P2p => p2p(memory, found),
            Kind::Gpu => gpu(memory, found),
        }
        link(&memory.function.name, found);
    }
}

fn bar(memory: &Memory, found: &mut Findings) {
    let function = &memory.function.name;
    found.ok(format!("{}: a BAR of io_peer_mem ({})", memory.name, memory.function.describe()));
    if sys::number(pci::file(function, "io_peer_mem/drain")) > Some(0) {
        let text = format!("{function} is drained: registrations of its memory fail with EBUSY");
        found.warn(text, format!("iopm drain --end {function}"));
    }
}

fn p2p(memory: &Memory, found: &mut Findings) {
    let (function, description) = (&memory.function.name, memory.function.describe());
    let driver = memory.function.driver.as_deref().unwrap_or("its driver");
    let bytes = size(sys::number(pci::file(function, "p2pmem/size")).unwrap_or(0));
    found.ok(format!("{function}: {bytes} of peer-to-peer memory of {driver} ({description})"));
    if !sys::exists(format!("{PEERS}/io_peer_mem")) {
        let fix = match is_loaded("io_peer_mem") {
            true => "echo 1 >/sys/module/io_peer_mem/parameters/p2pmem",
            false => "modprobe io_peer_mem p2pmem=1",
        };
        found.warn(format!("{function}: no client serves it"), fix);
    }
}

fn gpu(memory: &Memory, found: &mut Findings) {
    let (function, description) = (&memory.function.name, memory.function.describe());
    let bars = memory.function.bars.iter().filter(|bar| bar.prefetchable);
    let largest = bars.map(|bar| bar.size).max().unwrap_or(0);
    let bytes = size(largest);
    if largest > 256 << 20 {
        return found.ok(format!("{function}: a GPU ({description}), BAR of {bytes}"));
    }
    let text = format!(
        "{function}: a GPU ({description}) with a BAR of {bytes}: no more of its memory can be registered at a time"
    );
    found.warn(text, "enable Above 4G Decoding and Resizable BAR in the firmware");
}

fn link(function: &str, found: &mut Findings) {
    let number = |file| sys::number(pci::file(function, file)).unwrap_or(0);
    let text = |file| sys::line(pci::file(function, file)).unwrap_or_default();
    let (width, widest) = (number("current_link_width"), number("max_link_width"));
    let speed = text("current_link_speed");
    // 255: the function has no link of its own.
    if width == 0 || width > 32 || widest > 32 {
    } else if width < widest {
        let text = format!("{function}: its link is x{width} of x{widest}, {speed}");
        found.warn(text, "lspci -vv: look for LnkSta");
    } else {
        found.ok(format!("{function}: link x{width}, {speed} of {}", text("max_link_speed")));
    }
}

// --- the caller ---

/// Returns whether the caller may read and write a file.
fn may_open(path: &str) -> io::Result<()> {
    Ok(access(sys::path(path), Access::READ_OK | Access::WRITE_OK)?)
}

/// The device files of RDMA devices.
pub(super) fn verbs_nodes(_: &Machine, found: &mut Findings) {
    let dir = "/dev/infiniband";
    let mut nodes = sys::names(dir);
    nodes.retain(|name| name.starts_with("uverbs"));
    if nodes.iter().any(|name| may_open(&format!("{dir}/{name}")).is_ok()) {
        found.ok("this user may open RDMA devices");
    } else if !nodes.is_empty() {
        found.fail("this user may open no /dev/infiniband/uverbs*", "apt install rdma-core");
    }
}

/// The files that map memory.
pub(super) fn memory_nodes(machine: &Machine, found: &mut Findings) {
    for memory in &machine.memories {
        let Some(path) = &memory.path else { continue };
        match may_open(path) {
            Ok(()) => found.ok(format!("this user may open {path}")),
            Err(error) if error.kind() != io::ErrorKind::PermissionDenied => {
                found.fail(format!("{path}: {}", cause(&error)), "");
            }
            // udev gives the BARs to the group; the file of other memory is root's.
            Err(_) if memory.kind == Kind::Bar => {
                let fix = "usermod -aG rdma USER; then log in again";
                found.fail(format!("this user may not open {path}"), fix);
            }
            Err(_) => {
                let fix =
                    format!("chgrp rdma {path}; again after each boot and each bind of the driver, which make it anew");
                found.fail(format!("this user may not open {path}"), fix);
            }
        }
    }
}

/// The limit of locked memory.
pub(super) fn locked_memory(_: &Machine, found: &mut Findings) {
    let limit = getrlimit(Resource::Memlock).current.filter(|_| !geteuid().is_root());
    match limit.map(|bytes| bytes >> 10) {
        None => found.ok("ulimit -l does not limit this user"),
        Some(kib) if kib >= 64 << 10 => found.ok(format!("ulimit -l is {kib} KiB")),
        Some(kib) => {
            let text = format!(
                "ulimit -l is {kib} KiB: more host memory cannot be registered; device memory does not count"
            );
            found.warn(text, "ulimit -l unlimited (/etc/security/limits.d)");
        }
    }
}

// --- routes ---

/// The route of each RDMA device to each memory. A pair without a route is no failure: on a machine with
/// several sockets each device has its own memory. A device or a memory that has none is one.
pub(super) fn routes(machine: &Machine, found: &mut Findings) {
    let (adapters, memories) = (&machine.adapters.list, &machine.memories);
    // Of each memory: whether any device has a route to it, or None if no distance is known.
    let mut reached = vec![None; memories.len()];
    let mut alone = Vec::new();
    for Adapter { name, function, .. } in adapters {
        let Some(function) = function else {
            if !memories.is_empty() {
                found.ok(format!("{name}: a software device, for which the CPU copies"));
            }
            continue;
        };
        let mut reaches = None;
        for (memory, reached) in memories.iter().zip(&mut reached) {
            let Some(distance) = Distance::find(memory, function) else { continue };
            route(&format!("{name}, {}", memory.name), &distance, found);
            // Some(true) is the greatest.
            let is_there = Some(!distance.is_none());
            (reaches, *reached) = (reaches.max(is_there), is_there.max(*reached));
        }
        if reaches == Some(false) {
            alone.push((format!("{name}: no route to any memory"), "put memory below its PCIe switch"));
        }
    }
    for (memory, _) in memories.iter().zip(reached).filter(|(_, reached)| *reached == Some(false)) {
        let text = format!("{}: no RDMA device has a route to it", memory.name);
        alone.push((text, "put an RDMA device below its PCIe switch"));
    }
    for (text, fix) in alone {
        found.fail(text, fix);
    }
}

fn route(pair: &str, distance: &Distance, found: &mut Findings) {
    let acs = distance.route.acs.join(";");
    let fix = format!(
        "add pci=disable_acs_redir={acs} to the kernel's command line; then devices below these bridges can access \
         each other without the IOMMU"
    );
    if distance.is_none() && acs.is_empty() {
        let text = format!(
            "{pair}: the kernel supports no route: they share no bridge, and the host bridge is not on its list"
        );
        found.warn(text, "put both below one PCIe switch");
    } else if distance.is_none() {
        found.warn(format!("{pair}: the kernel supports no route: ACS redirects"), fix);
    } else if !acs.is_empty() {
        found.warn(format!("{pair}: distance {distance}, because bridges redirect (ACS)"), fix);
    } else if !distance.route.acs_known {
        let text = format!("{pair}: distance {distance}; only root can read whether bridges redirect (ACS)");
        found.unknown(text, "sudo iopm doctor");
    } else if distance.route.way == pci::Way::Unknown {
        let text = format!("{pair}: distance {distance}: only host bridges on the kernel's list route");
        found.warn(text, "iopm test");
    } else {
        found.ok(format!("{pair}: distance {distance}"));
    }
}
