// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause

//! iopm status, regions: what is loaded and registered.

use crate::prelude::*;

pub(crate) fn status(json: bool, out: Out<'_>) -> Status {
    let module = |name: &str| {
        let (loaded, version) = (is_loaded(name), sys::line(format!("/sys/module/{name}/version")));
        let object = json!({"name": name, "loaded": loaded, "version": version});
        let version = version.map_or(String::new(), |version| format!(", version {version}"));
        (object, cells![name, if loaded { format!("loaded{version}") } else { "not loaded".into() }])
    };
    // MRs on mapped dma-bufs of drivers that are no clients.
    let dma_buf = |row: Vec<String>| {
        let [device, numbers @ ..] = columns::<4>(row)?;
        let [mrs_ever, mrs, bytes] = numbers.map(|number| sys::parse(&number));
        let object = json!({"device": device, "mrs": mrs, "bytes": bytes, "mrs_ever": mrs_ever});
        Some((object, cells![device, mrs?, size(bytes?), mrs_ever?]))
    };
    let names = ["ib_core", "ib_uverbs", "ib_peer_mem", "io_peer_mem"];
    let (modules, module_rows): (Vec<_>, Vec<_>) = names.map(module).into_iter().unzip();
    let (Adapters { backends_known, list: devices }, clients) = (Adapters::find(), Client::all());
    // For root.
    let dma_bufs = debugfs("dma_bufs").ok();
    let dma_bufs: Option<(Vec<_>, Vec<_>)> =
        dma_bufs.map(|rows| rows.into_iter().filter_map(dma_buf).unzip());
    let status = (!is_loaded("ib_peer_mem")).into();
    if json {
        let dma_bufs = dma_bufs.map(|(objects, _)| objects);
        print::json(
            out,
            &json!({"modules": modules, "backends_known": backends_known, "devices": devices,
            "clients": clients, "dma_bufs": dma_bufs}),
        )?;
        return Ok(status);
    }
    table(out, ["MODULE", "STATE"], module_rows)?;
    let backend = if backends_known { "none" } else { "? (root only)" };
    let adapters = devices.into_iter().map(|adapter| {
        let Adapter { name, function, driver, backend: known, can_fence } = adapter;
        let known = [(function, "software"), (driver, "?"), (known, backend), (can_fence, "?")];
        let known = known.map(|(text, without)| text.unwrap_or(without.into()));
        iter::once(name).chain(known).collect()
    });
    writeln!(out)?;
    table(out, ["RDMA DEVICE", "FUNCTION", "DRIVER", "BACKEND", "CAN FENCE"], adapters)?;
    let clients = clients.iter().map(|client| {
        let Client { name, version, mrs, bytes, mrs_ever, invalidations } = client;
        cells![name, version, mrs, size(*bytes), mrs_ever, invalidations]
    });
    writeln!(out)?;
    table(out, ["CLIENT", "VERSION", ">MRS", ">REGISTERED", ">MRS EVER", ">INVALIDATED"], clients)?;
    if let Some((_, rows)) = dma_bufs {
        writeln!(out)?;
        table(out, ["MAPPED DMA-BUFS", ">MRS", ">REGISTERED", ">MRS EVER"], rows)?;
    }
    Ok(status)
}

pub(crate) fn regions(json: bool, out: Out<'_>) -> Status {
    const HEADS: [&str; 10] =
        [">PID", "PROCESS", "KIND", "CLIENT", "DEVICE", "LKEY", "ADDRESS", ">LENGTH", ">AGE (s)", "STATE"];
    let regions = Region::all();
    let is_missing = regions.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::NotFound);
    ensure!(!is_missing || is_loaded("ib_peer_mem"), "ib_peer_mem is not loaded: modprobe ib_peer_mem");
    let regions = regions.at("/sys/kernel/debug/ib_peer_mem/regions (for root, with debugfs mounted)")?;
    let (mut objects, mut rows) = (Vec::new(), Vec::new());
    for Region { pid, process, kind, client, device, lkey, address, length, age, state } in regions {
        let seconds = age.split('.').next().and_then(sys::parse);
        objects.push(json!({"pid": sys::parse(&pid), "process": process, "kind": kind, "client": client,
            "device": some(&device), "lkey": some(&lkey), "address": address, "length": length, "age": seconds,
            "state": state}));
        rows.push(vec![pid, process, kind, client, device, lkey, address, size(length), age, state]);
    }
    if json {
        print::json(out, &json!({"regions": objects}))?;
    } else {
        table(out, HEADS, rows)?;
    }
    Ok(0)
}
