// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause

//! iopm list, info, nearest, topology: the memory, and its distance from devices.

use crate::{
    prelude::*,
    stack::{open_bar, Distance, Pool},
};
use iopm::DeviceAttr;

/// Says that there is no BAR. Returns the exit status.
fn no_bar(of: &str) -> u8 {
    complain(format_args!("no BAR{of}{}", hint(&io::ErrorKind::NotFound.into())));
    1
}

fn say(path: &str, error: &io::Error) {
    complain(format_args!("{path}: {}{}", cause(error), hint(error)));
}

/// Returns the members of a memory in JSON.
fn object(memory: &Memory, pool: &Pool) -> Value {
    let Memory { kind, name, path, function } = memory;
    json!({
        "name": name, "path": path, "kind": if *kind == Kind::Bar { "bar" } else { "p2pmem" },
        "function": function.name, "id": function.id(), "description": function.describe(),
        "driver": function.driver, "size": pool.size, "free": pool.free, "largest": pool.largest,
    })
}

/// Lists the memory, and says whose sizes cannot be read.
pub(crate) fn list(json: bool, out: Out<'_>) -> Status {
    let all = Memory::with_sizes();
    let pool = |memory: &Memory| memory.pool().inspect_err(|error| say(memory.place(), error)).ok();
    let known: Vec<_> = all.iter().filter_map(|memory| Some((memory, pool(memory)?))).collect();
    if json {
        let memory: Vec<_> = known.iter().map(|(memory, pool)| object(memory, pool)).collect();
        print::json(out, &json!({"memory": memory}))?;
    } else if !all.is_empty() {
        let rows = known.iter().map(|(memory, pool)| {
            let function = &memory.function;
            let mut device = function.describe();
            if let (Kind::P2p, Some(driver)) = (memory.kind, &function.driver) {
                device += &format!(", driver {driver}");
            }
            let [size, free, largest] = [Some(pool.size), Some(pool.free), pool.largest]
                .map(|bytes| bytes.map(size).unwrap_or_default());
            cells![memory.place(), size, free, largest, function.id(), device]
        });
        table(out, ["MEMORY", ">SIZE", ">FREE", ">LARGEST", "ID", "DEVICE"], rows)?;
    }
    if all.is_empty() {
        return Ok(no_bar(""));
    }
    Ok((known.len() < all.len()).into())
}

/// Shows a BAR. Returns whether it could.
fn info_of(path: &str, function: &str, out: Out<'_>) -> Result<bool> {
    let attr = match open_bar(path).and_then(|bar| Ok(bar.query()?)) {
        Ok(attr) => attr,
        Err(error) => {
            say(path, &error);
            return Ok(false);
        }
    };
    let known = Function::read(function);
    let (id, name) = known.map_or(("?".into(), "?".into()), |known| (known.id(), known.describe()));
    let node = sys::line(pci::file(function, "numa_node")).unwrap_or("?".into());
    let published = sys::number(pci::file(function, "p2pmem/published")) > Some(0);
    let published = if published { "yes" } else { "no" };
    let DeviceAttr { size, free, largest, page_size } = attr;
    writeln!(out, "BAR:       {path}\ndevice:    {id}, NUMA node {node}\nname:      {name}")?;
    writeln!(out, "size:      {size}\nfree:      {free}\nlargest:   {largest}")?;
    writeln!(out, "page size: {page_size}\npublished: {published}")?;
    Ok(true)
}

pub(crate) fn info(what: &str, out: Out<'_>) -> Status {
    if what.starts_with('/') {
        let function = what.strip_prefix("/dev/io_peer_mem/").and_then(|rest| rest.split('/').next());
        return Ok((!info_of(what, function.unwrap_or_default(), out)?).into());
    }
    let function = pci::find(what).unwrap_or_else(|| what.into());
    let mut bars = Function::read(&function).map(Memory::of).unwrap_or_default();
    bars.retain(|memory| memory.kind == Kind::Bar);
    let mut status = 0;
    for bar in &bars {
        if !info_of(bar.place(), &bar.function.name, out)? {
            status = 1;
        }
    }
    Ok(if bars.is_empty() { no_bar(&format!(" of {what}")) } else { status })
}

pub(crate) fn nearest(device: &str, out: Out<'_>) -> Status {
    let Some(function) = pci::find(device) else {
        if let Some(address) = pci::parse(device) {
            bail!("no PCI function {address}");
        }
        bail!(
            "{device} is neither a PCI address nor an RDMA or network device with one\n  (a software device has \
             no distance: the CPU copies)"
        );
    };
    let memory = Memory::with_sizes();
    if memory.is_empty() {
        return Ok(no_bar(""));
    }
    let mut rows: Vec<_> = memory
        .iter()
        .map(|memory| {
            let distance = Distance::find(memory, &function).filter(|distance| !distance.is_none());
            let distance = distance.map(|distance| distance.route.distance);
            (distance.is_none(), distance, &memory.name, memory.place())
        })
        .collect();
    rows.sort();
    let rows = rows.into_iter().map(|(_, distance, _, place)| {
        cells![distance.map_or("no way".into(), |distance| distance.to_string()), place]
    });
    table(out, ["DISTANCE", "MEMORY"], rows)?;
    Ok(0)
}

/// Returns the members of a pair in JSON, and its cell in the table, whose question mark is `certain`.
fn pair(memory: &Memory, adapter: &Adapter) -> (Value, String) {
    let distance = adapter.function.as_deref().map(|function| Distance::find(memory, function));
    let (route, certain, number, text) = match distance {
        None => (Some("CPU copies"), true, None, "CPU copies".into()),
        Some(None) => (None, false, None, "gone".into()),
        Some(Some(distance)) => {
            let (way, certain) = distance.way();
            let number = (!distance.is_none()).then_some(distance.route.distance);
            (Some(way), certain, number, distance.to_string())
        }
    };
    let object = json!({
        "memory": memory.name, "kind": memory.kind.to_string(), "device": adapter.name, "route": route,
        "distance": number, "certain": certain,
    });
    (object, text)
}

/// Shows the distance and route of each pair: a row for each memory, a column for each adapter.
pub(crate) fn topology(json: bool, out: Out<'_>) -> Status {
    let (adapters, memories) = (Adapters::find().list, Memory::all());
    let pairs = |memory| adapters.iter().map(move |adapter| pair(memory, adapter));
    if json {
        let pairs: Vec<_> = memories.iter().flat_map(pairs).map(|(object, _)| object).collect();
        print::json(out, &json!({"pairs": pairs}))?;
    } else {
        let names = adapters.iter().map(|adapter| adapter.name.as_str());
        let rows = memories.iter().map(|memory| {
            let mut row = cells![memory.name];
            row.extend(pairs(memory).map(|(_, text)| text));
            row.push(memory.kind.to_string());
            row
        });
        table(out, ["MEMORY"].into_iter().chain(names).chain(["KIND"]), rows)?;
    }
    if adapters.is_empty() || memories.is_empty() {
        let what = if adapters.is_empty() { "RDMA device" } else { "memory for RDMA" };
        complain(format_args!("no {what}"));
    }
    Ok(0)
}
