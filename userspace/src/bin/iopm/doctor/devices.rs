// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause

//! Checks of RDMA devices and clients; the last rejections.

use super::*;

/// The port and the backend of each device.
pub(super) fn adapters(machine: &Machine, found: &mut Findings) {
    if machine.adapters.list.is_empty() {
        let text = "there is no RDMA device; software RDMA works without hardware";
        let fix = "rdma link add rxe0 type rxe netdev eth0; or, if what starts the RDMA stack has failed, iopm stop, \
                   start the stack, iopm start";
        found.fail(text, fix);
    }
    for adapter in &machine.adapters.list {
        let name = &adapter.name;
        match sys::line(format!("/sys/class/infiniband/{name}/ports/1/state")) {
            None => {}
            Some(state) if state.contains("ACTIVE") => found.ok(format!("{name}: port 1 is active")),
            Some(state) => found.warn(format!("{name}: port 1 is not active ({state})"), "rdma link"),
        }
        backend(adapter, machine.adapters.backends_known, found);
    }
}

fn backend(adapter: &Adapter, known: bool, found: &mut Findings) {
    let name = format!("{} ({})", adapter.name, adapter.driver.as_deref().unwrap_or("?"));
    match (&adapter.backend, adapter.can_fence.as_deref().unwrap_or("?")) {
        _ if !known && is_loaded("ib_peer_mem") => {
            found.unknown(format!("{}: only root can read its backend", adapter.name), "sudo iopm doctor");
        }
        _ if !known => {}
        (None, _) => found.fail(
            format!(
                "{}: ib_peer_mem does not serve it: its driver cannot import dma-bufs nor pin through ib_core, or the \
                 parameter backend excludes it",
                adapter.name
            ),
            "cat /sys/module/ib_peer_mem/parameters/backend",
        ),
        (Some(backend), "no") => found.warn(
            format!(
                "{name}: served by {backend}; MRs cannot be fenced: clients that require invalidation, as GPU drivers \
                 do, are not asked for it"
            ),
            "",
        ),
        (_, "fatal error") => {
            found.warn(format!("{name}: has reported a fatal error, so memory on it stays pinned; reset it"), "");
        }
        (Some(backend), fence) => found.ok(format!("{name}: hooked, served by {backend}, can fence: {fence}")),
    }
}

/// The counters of the clients, and whether they are drained.
pub(super) fn clients(_: &Machine, found: &mut Findings) {
    if !is_loaded("ib_peer_mem") {
        return;
    }
    let names = sys::entries(PEERS);
    if names.is_empty() {
        let text = "no client is registered: no memory but that of the host, and of mapped dma-bufs, can be \
                    registered (a GPU's client is nvidia-peermem or its own driver)";
        found.warn(text, "iopm bind BDF");
    }
    for entry in names {
        let Client { name, mrs, mrs_ever, invalidations, .. } = Client::read(&entry);
        found.ok(format!(
            "{name}: {mrs} MRs, {mrs_ever} since it was registered, {invalidations} invalidated"
        ));
        if client_number(&entry, "drain") > Some(0) {
            let text = format!("{name} is drained: registrations of its memory fail with EBUSY");
            found.warn(text, format!("iopm drain --end {name}"));
        }
    }
}

/// The last rejections of the core, the oldest first.
pub(super) fn rejections(_: &Machine, found: &mut Findings) {
    const SHOWN: usize = 5;
    if !is_loaded("ib_peer_mem") {
        return;
    }
    let rows = match debugfs("rejections") {
        Ok(rows) => rows,
        Err(error) => {
            let text = format!("only root can read the last rejections: {}", cause(&error));
            return found.unknown(text, "sudo iopm doctor");
        }
    };
    if rows.is_empty() {
        found.ok("no memory was refused since ib_peer_mem was loaded");
    }
    let older = rows.len().saturating_sub(SHOWN);
    for row in &rows[older..] {
        if let [age, pid, process, address, length, device, client, error, cause] = &row[..] {
            let memory = format!("{length} bytes at {address}, device {device}, client {client}");
            found.warn(format!("{age} s ago: {process} (pid {pid}), {memory}: {cause} ({error})"), "");
        }
    }
    if older > 0 {
        let fix = "cat /sys/kernel/debug/ib_peer_mem/rejections";
        found.warn(format!("{older} rejections are older"), fix);
    }
}
