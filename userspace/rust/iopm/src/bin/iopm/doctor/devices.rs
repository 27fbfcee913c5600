// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause

//! Checks of RDMA devices and clients; the last rejections.

use super::{Finding, Machine};
use crate::{
    modules::is_loaded,
    stack::{client_number, debugfs, Adapter, Client, PEERS},
    sys::{self, cause},
};

/// The port and the backend of each device.
pub(super) fn adapters(machine: &Machine) -> Vec<Finding> {
    let adapters = &machine.adapters;
    if adapters.list.is_empty() {
        let text = "there is no RDMA device; software RDMA works without hardware";
        return vec![Finding::fail(text).fix("rdma link add rxe0 type rxe netdev eth0")];
    }
    let both = |adapter| [port(adapter), backend(adapter, adapters.backends_known)];
    adapters.list.iter().flat_map(both).flatten().collect()
}

fn port(adapter: &Adapter) -> Option<Finding> {
    let name = &adapter.name;
    let state = sys::line(format!("/sys/class/infiniband/{name}/ports/1/state"))?;
    Some(if state.contains("ACTIVE") {
        Finding::ok(format!("{name}: port 1 is active"))
    } else {
        Finding::warn(format!("{name}: port 1 is not active ({state})")).fix("rdma link")
    })
}

fn backend(adapter: &Adapter, known: bool) -> Option<Finding> {
    let (name, driver) = (&adapter.name, adapter.driver.as_deref().unwrap_or("?"));
    if !known {
        let text = format!("{name}: only root can read its backend");
        return is_loaded("ib_peer_mem").then(|| Finding::unknown(text).fix("sudo iopm doctor"));
    }
    let Some(backend) = &adapter.backend else {
        let text = format!(
            "{name}: ib_peer_mem does not serve it: its driver cannot import dma-bufs nor pin through ib_core, or \
             the parameter backend excludes it"
        );
        return Some(Finding::fail(text).fix("cat /sys/module/ib_peer_mem/parameters/backend"));
    };
    Some(match adapter.can_fence.as_deref().unwrap_or("?") {
        "no" => Finding::warn(format!(
            "{name} ({driver}): served by {backend}; MRs cannot be fenced: clients that require invalidation, as \
             GPU drivers do, are not asked for it"
        )),
        "fatal error" => Finding::warn(format!(
            "{name} ({driver}): has reported a fatal error, so memory on it stays pinned; reset it"
        )),
        fence => Finding::ok(format!("{name} ({driver}): hooked, served by {backend}, can fence: {fence}")),
    })
}

/// The counters of the clients, and whether they are drained.
pub(super) fn clients(_: &Machine) -> Vec<Finding> {
    if !is_loaded("ib_peer_mem") {
        return Vec::new();
    }
    let names = sys::entries(PEERS);
    if names.is_empty() {
        let text = "no client is registered: no memory but that of the host, and of mapped dma-bufs, can be \
                    registered (a GPU's client is nvidia-peermem or its own driver)";
        return vec![Finding::warn(text).fix("iopm bind BDF")];
    }
    let mut found = Vec::new();
    for entry in names {
        let Client { name, mrs, mrs_ever, invalidations, .. } = Client::read(&entry);
        found.push(Finding::ok(format!(
            "{name}: {mrs} MRs, {mrs_ever} since it was registered, {invalidations} invalidated"
        )));
        if client_number(&entry, "drain").is_some_and(|number| number != 0) {
            let text = format!("{name} is drained: registrations of its memory fail with EBUSY");
            found.push(Finding::warn(text).fix(format!("iopm drain --end {name}")));
        }
    }
    found
}

/// The last rejections of the core.
pub(super) fn rejections(_: &Machine) -> Vec<Finding> {
    const SHOWN: usize = 5;
    if !is_loaded("ib_peer_mem") {
        return Vec::new();
    }
    // The oldest one comes first.
    let rows = match debugfs("rejections") {
        Ok(rows) => rows,
        Err(error) => {
            let text = format!("only root can read the last rejections: {}", cause(&error));
            return vec![Finding::unknown(text).fix("sudo iopm doctor")];
        }
    };
    if rows.is_empty() {
        return vec![Finding::ok("no memory was refused since ib_peer_mem was loaded")];
    }
    let older = rows.len().saturating_sub(SHOWN);
    let mut found: Vec<_> = rows[older..]
        .iter()
        .filter_map(|row| {
            let [age, pid, process, address, length, device, client, error, cause] = &row[..] else {
                return None;
            };
            Some(Finding::warn(format!(
                "{age} s ago: {process} (pid {pid}), {length} bytes at {address}, device {device}, client {client}: \
                 {cause} ({error})"
            )))
        })
        .collect();
    if older > 0 {
        let fix = "cat /sys/kernel/debug/ib_peer_mem/rejections";
        found.push(Finding::warn(format!("{older} rejections are older")).fix(fix));
    }
    found
}
