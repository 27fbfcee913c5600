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

    fn print(&self, out: Out<'_>) -> Result<()> {
        let modules = self.modules.iter().map(|module| {
            let state = match (module.loaded, &module.version) {
                (false, _) => "not loaded".into(),
                (true, Some(version)) => format!("loaded, version {version}"),
                (true, None) => "loaded".into(),
            };
            cells![module.name, state]
        });
        table(out, ["MODULE", "STATE"], modules)?;
        let unknown = if self.adapters.backends_known { "none" } else { "? (root only)" };
        let adapters = self.adapters.list.iter().map(|adapter| {
            cells![
                adapter.name,
                adapter.function.as_deref().unwrap_or("software"),
                adapter.driver.as_deref().unwrap_or("?"),
                adapter.backend.as_deref().unwrap_or(unknown),
                adapter.can_fence.as_deref().unwrap_or("?"),
            ]
        });
        writeln!(out)?;
        table(out, ["RDMA DEVICE", "FUNCTION", "DRIVER", "BACKEND", "CAN FENCE"], adapters)?;
        let clients = self.clients.iter().map(|client| {
            let Client { name, version, mrs, bytes, mrs_ever, invalidations } = client;
            cells![name, version, mrs, size(*bytes), mrs_ever, invalidations]
        });
        writeln!(out)?;
        table(out, ["CLIENT", "VERSION", ">MRS", ">REGISTERED", ">MRS EVER", ">INVALIDATED"], clients)?;
        if let Some(dma_bufs) = &self.dma_bufs {
            let rows = dma_bufs
                .iter()
                .map(|DmaBufs { device, mrs, bytes, mrs_ever }| cells![device, mrs, size(*bytes), mrs_ever]);
            writeln!(out)?;
            table(out, ["MAPPED DMA-BUFS", ">MRS", ">REGISTERED", ">MRS EVER"], rows)?;
        }
        Ok(())
    }
}

pub(crate) fn status(json: bool, out: Out<'_>) -> Status {
    let state = State::read();
    if json {
        print::json(out, &state)?;
    } else {
        state.print(out)?;
    }
    Ok((!is_loaded("ib_peer_mem")).into())
}

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
    let rows = regions.iter().map(|region| {
        let Region { pid, process, kind, client, device, lkey, address, length, age, state } = region;
        cells![pid, process, kind, client, device, lkey, address, size(*length), age, state]
    });
    table(out, heads, rows)?;
    Ok(0)
}
