// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause

//! Checks of RDMA devices and clients; the last rejections.

use super::*;

pub(super) fn adapters(machine: &Machine, found: &mut Findings<'_>) {
    if machine.adapters.list.is_empty() {
        let fix = "rdma link add rxe0 type rxe netdev eth0; or, if what starts the RDMA stack has failed, iopm stop, \
                   start the stack, iopm start";
        fail!(found, fix, "there is no RDMA device; software RDMA works without hardware");
    }
    for adapter in &machine.adapters.list {
        let name = &adapter.name;
        match sys::line(format!("/sys/class/infiniband/{name}/ports/1/state")) {
            None => {}
            Some(state) if state.contains("ACTIVE") => ok!(found, "{name}: port 1 is active"),
            Some(state) => warn!(found, "rdma link", "{name}: port 1 is not active ({state})"),
        }
        backend(adapter, machine.adapters.backends_known, found);
    }
}

fn backend(adapter: &Adapter, known: bool, found: &mut Findings<'_>) {
    let name = &adapter.name;
    let Some(backend) = &adapter.backend else {
        if known {
            let why = "its driver cannot import dma-bufs nor pin through ib_core, or the parameter backend excludes it";
            let fix = "cat /sys/module/ib_peer_mem/parameters/backend";
            fail!(found, fix, "{name}: ib_peer_mem does not serve it: {why}");
        } else if is_loaded("ib_peer_mem") {
            unknown!(found, "sudo iopm doctor", "{name}: only root can read its backend");
        }
        return;
    };
    let name = format!("{name} ({})", adapter.driver.as_deref().unwrap_or("?"));
    match adapter.can_fence.as_deref().unwrap_or("?") {
        "no" => {
            let what = "clients that require invalidation, as GPU drivers do, are not asked for it";
            warn!(found, "", "{name}: served by {backend}; MRs cannot be fenced: {what}");
        }
        "fatal error" => {
            warn!(found, "", "{name}: has reported a fatal error, so memory on it stays pinned; reset it");
        }
        fence => ok!(found, "{name}: hooked, served by {backend}, can fence: {fence}"),
    }
}

/// The counters of the clients, and whether they are drained.
pub(super) fn clients(_: &Machine, found: &mut Findings<'_>) {
    if !is_loaded("ib_peer_mem") {
        return;
    }
    let names = sys::entries(PEERS);
    if names.is_empty() {
        let text = "no client is registered: no memory but that of the host, and of mapped dma-bufs, can be \
                    registered (a GPU's client is nvidia-peermem or its own driver)";
        warn!(found, "iopm bind BDF", "{text}");
    }
    for entry in names {
        let Client { name, mrs, mrs_ever, invalidations, .. } = Client::read(&entry);
        ok!(found, "{name}: {mrs} MRs, {mrs_ever} since it was registered, {invalidations} invalidated");
        drained(&name, client_number(&entry, "drain"), found);
    }
}

/// Whether a client or a function is drained, by its file.
pub(super) fn drained(name: &str, drain: Option<u64>, found: &mut Findings<'_>) {
    if drain > Some(0) {
        let fix = format!("iopm drain --end {name}");
        warn!(found, fix, "{name} is drained: registrations of its memory fail with EBUSY");
    }
}

/// The last rejections of the core, the oldest first.
pub(super) fn rejections(_: &Machine, found: &mut Findings<'_>) {
    const SHOWN: usize = 5;
    if !is_loaded("ib_peer_mem") {
        return;
    }
    let rows = match debugfs("rejections") {
        Ok(rows) => rows,
        Err(error) => {
            let why = cause(&error);
            return unknown!(found, "sudo iopm doctor", "only root can read the last rejections: {why}");
        }
    };
    if rows.is_empty() {
        ok!(found, "no memory was rejected since ib_peer_mem was loaded");
    }
    let older = rows.len().saturating_sub(SHOWN);
    for row in &rows[older..] {
        if let [age, pid, process, address, length, device, client, error, cause, ..] = &row[..] {
            let memory = format!("{length} bytes at {address}, device {device}, client {client}");
            warn!(found, "", "{age} s ago: {process} (pid {pid}), {memory}: {cause} ({error})");
        }
    }
    if older > 0 {
        warn!(found, "cat /sys/kernel/debug/ib_peer_mem/rejections", "{older} rejections are older");
    }
}
