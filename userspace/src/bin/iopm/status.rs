// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause

//! iopm status, regions: what is loaded and registered.

use crate::{
    modules::is_loaded,
    print::{self, size, Out, Table},
    stack::{debugfs, Adapters, Client, Region},
    sys::{self, cause},
    Status,
};
use anyhow::bail;
use serde::Serialize;
use serde_json::json;
use std::io;

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

impl State {
    fn read() -> Self {
        let module = |name| Module {
            name,
            loaded: is_loaded(name),
            version: sys::line(format!("/sys/module/{name}/version")),
        };
        let dma_bufs = |row: Vec<String>| {
            let [device, made, live, bytes] = &row[..] else { return None };
            let (mrs_ever, mrs, bytes) = (made.parse().ok()?, live.parse().ok()?, bytes.parse().ok()?);
            Some(DmaBufs { device: device.clone(), mrs, bytes, mrs_ever })
        };
        Self {
            modules: ["ib_core", "ib_uverbs", "ib_peer_mem", "io_peer_mem"].map(module).into(),
            adapters: Adapters::find(),
            clients: Client::all(),
            dma_bufs: debugfs("dma_bufs").ok().map(|rows| rows.into_iter().filter_map(dma_bufs).collect()),
        }
    }

    fn print(&self, out: Out<'_>) -> anyhow::Result<()> {
        let mut table = Table::new(["MODULE", "STATE"]);
        for module in &self.modules {
            let state = match (module.loaded, &module.version) {
                (false, _) => "not loaded".into(),
                (true, Some(version)) => format!("loaded, version {version}"),
                (true, None) => "loaded".into(),
            };
            table.row([&module.name, &state]);
        }
        table.print(out)?;
        let mut table = Table::new(["RDMA DEVICE", "FUNCTION", "DRIVER", "BACKEND", "CAN FENCE"]);
        let unknown = if self.adapters.backends_known { "none" } else { "? (root only)" };
        for adapter in &self.adapters.list {
            table.row([
                &adapter.name,
                &adapter.function.as_deref().unwrap_or("software"),
                &adapter.driver.as_deref().unwrap_or("?"),
                &adapter.backend.as_deref().unwrap_or(unknown),
                &adapter.can_fence.as_deref().unwrap_or("?"),
            ]);
        }
        writeln!(out)?;
        table.print(out)?;
        let mut table = Table::new(["CLIENT", "VERSION", ">MRS", ">REGISTERED", ">MRS EVER", ">INVALIDATED"]);
        for Client { name, version, mrs, bytes, mrs_ever, invalidations } in &self.clients {
            table.row([name, version, mrs, &size(*bytes), mrs_ever, invalidations]);
        }
        writeln!(out)?;
        table.print(out)?;
        if let Some(dma_bufs) = &self.dma_bufs {
            let mut table = Table::new(["MAPPED DMA-BUFS", ">MRS", ">REGISTERED", ">MRS EVER"]);
            for DmaBufs { device, mrs, bytes, mrs_ever } in dma_bufs {
                table.row([device, mrs, &size(*bytes), mrs_ever]);
            }
            writeln!(out)?;
            table.print(out)?;
        }
        Ok(())
    }
}

/// Shows the modules, the devices and the clients.
pub(crate) fn status(json: bool, out: Out<'_>) -> Status {
    let state = State::read();
    if json {
        print::json(out, &state)?;
    } else {
        state.print(out)?;
    }
    Ok((!is_loaded("ib_peer_mem")).into())
}

/// Lists the regions.
pub(crate) fn regions(json: bool, out: Out<'_>) -> Status {
    let regions = match Region::all() {
        Ok(regions) => regions,
        Err(error) if error.kind() == io::ErrorKind::NotFound && !is_loaded("ib_peer_mem") => {
            bail!("ib_peer_mem is not loaded: modprobe ib_peer_mem");
        }
        Err(error) => {
            bail!("/sys/kernel/debug/ib_peer_mem/regions (for root, with debugfs mounted): {}", cause(&error))
        }
    };
    if json {
        print::json(out, &json!({"regions": regions}))?;
        return Ok(0);
    }
    let heads =
        [">PID", "PROCESS", "KIND", "CLIENT", "DEVICE", "LKEY", "ADDRESS", ">LENGTH", ">AGE (s)", "STATE"];
    let mut table = Table::new(heads);
    for r in &regions {
        let or_none = |text: &Option<String>| text.clone().unwrap_or("-".into());
        let (device, lkey) = (or_none(&r.device), or_none(&r.lkey));
        table.row([
            &r.pid,
            &r.process,
            &r.kind,
            &r.client,
            &device,
            &lkey,
            &r.address,
            &size(r.length),
            &r.age,
            &r.state,
        ]);
    }
    table.print(out)?;
    Ok(0)
}
