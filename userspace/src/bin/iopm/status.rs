// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause

//! iopm status, regions: what is loaded and registered.

use crate::prelude::*;

#[derive(Serialize)]
struct Module {
    name: &'static str,
    loaded: bool,
    version: Option<String>,
}

/// MRs on mapped dma-bufs of drivers that are no clients.
#[derive(Serialize)]
struct DmaBufs {
    device: String,
    mrs: u64,
    bytes: u64,
    mrs_ever: u64,
}

#[derive(Serialize)]
struct State {
    modules: Vec<Module>,
    #[serde(flatten)]
    adapters: Adapters,
    clients: Vec<Client>,
    /// For root.
    dma_bufs: Option<Vec<DmaBufs>>,
}

fn read() -> State {
    let module = |name| Module {
        name,
        loaded: is_loaded(name),
        version: sys::line(format!("/sys/module/{name}/version")),
    };
    let dma_bufs = |row: Vec<String>| {
        let [device, made, live, bytes] = row.try_into().ok()?;
        let (mrs_ever, mrs, bytes) = (made.parse().ok()?, live.parse().ok()?, bytes.parse().ok()?);
        Some(DmaBufs { device, mrs, bytes, mrs_ever })
    };
    State {
        modules: ["ib_core", "ib_uverbs", "ib_peer_mem", "io_peer_mem"].map(module).into(),
        adapters: Adapters::find(),
        clients: Client::all(),
        dma_bufs: debugfs("dma_bufs").ok().map(|rows| rows.into_iter().filter_map(dma_bufs).collect()),
    }
}

pub(crate) fn status(json: bool, out: Out<'_>) -> Status {
    let state = read();
    let status = (!is_loaded("ib_peer_mem")).into();
    if json {
        print::json(out, &state)?;
        return Ok(status);
    }
    let modules = state.modules.into_iter().map(|Module { name, loaded, version }| {
        let version = version.map_or(String::new(), |version| format!(", version {version}"));
        cells![name, if loaded { format!("loaded{version}") } else { "not loaded".into() }]
    });
    table(out, ["MODULE", "STATE"], modules)?;
    let backend = if state.adapters.backends_known { "none" } else { "? (root only)" };
    let adapters = state.adapters.list.into_iter().map(|adapter| {
        let Adapter { name, function, driver, backend: known, can_fence } = adapter;
        let known = [(function, "software"), (driver, "?"), (known, backend), (can_fence, "?")];
        let known = known.map(|(text, without)| text.unwrap_or(without.into()));
        iter::once(name).chain(known).collect()
    });
    writeln!(out)?;
    table(out, ["RDMA DEVICE", "FUNCTION", "DRIVER", "BACKEND", "CAN FENCE"], adapters)?;
    let clients = state.clients.iter().map(|client| {
        let Client { name, version, mrs, bytes, mrs_ever, invalidations } = client;
        cells![name, version, mrs, size(*bytes), mrs_ever, invalidations]
    });
    writeln!(out)?;
    table(out, ["CLIENT", "VERSION", ">MRS", ">REGISTERED", ">MRS EVER", ">INVALIDATED"], clients)?;
    if let Some(dma_bufs) = state.dma_bufs {
        let row = |of: DmaBufs| cells![of.device, of.mrs, size(of.bytes), of.mrs_ever];
        writeln!(out)?;
        table(out, ["MAPPED DMA-BUFS", ">MRS", ">REGISTERED", ">MRS EVER"], dma_bufs.into_iter().map(row))?;
    }
    Ok(status)
}

pub(crate) fn regions(json: bool, out: Out<'_>) -> Status {
    const HEADS: [&str; 10] =
        [">PID", "PROCESS", "KIND", "CLIENT", "DEVICE", "LKEY", "ADDRESS", ">LENGTH", ">AGE (s)", "STATE"];
    let regions = Region::all();
    let error = regions.as_ref().err().map(io::Error::kind);
    if error == Some(io::ErrorKind::NotFound) && !is_loaded("ib_peer_mem") {
        bail!("ib_peer_mem is not loaded: modprobe ib_peer_mem");
    }
    let regions = regions.at("/sys/kernel/debug/ib_peer_mem/regions (for root, with debugfs mounted)")?;
    if json {
        let object = |region: &Region| {
            let Region { pid, process, kind, client, device, lkey, address, length, age, state } = region;
            let age = age.split('.').next().and_then(sys::parse);
            json!({"pid": sys::parse(pid), "process": process, "kind": kind, "client": client,
                "device": some(device), "lkey": some(lkey), "address": address, "length": length, "age": age,
                "state": state})
        };
        let regions: Vec<_> = regions.iter().map(object).collect();
        print::json(out, &json!({"regions": regions}))?;
    } else {
        let row = |region: Region| {
            let Region { pid, process, kind, client, device, lkey, address, length, age, state } = region;
            vec![pid, process, kind, client, device, lkey, address, size(length), age, state]
        };
        table(out, HEADS, regions.into_iter().map(row))?;
    }
    Ok(0)
}
