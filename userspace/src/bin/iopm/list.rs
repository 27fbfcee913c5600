// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause

//! iopm list, info, nearest, topology: the memory, and its distance from devices.

use crate::prelude::*;
use iopm::DeviceAttr;

/// Says that there is no BAR. Returns the exit status.
fn no_bar(of: &str) -> u8 {
    complain(format_args!("no BAR{of}{}", hint(&io::ErrorKind::NotFound.into())));
    1
}

fn say(path: &str, error: &io::Error) {
    complain(format_args!("{path}: {}{}", cause(error), hint(error)));
}

/// Lists the memory, and says whose sizes cannot be read.
pub(crate) fn list(json: bool, out: Out<'_>) -> Status {
    let all = Memory::with_sizes();
    let (mut objects, mut rows) = (Vec::new(), Vec::new());
    for memory in &all {
        let sizes = memory.sizes().inspect_err(|error| say(memory.place(), error));
        let Ok((bytes, free, largest)) = sizes else { continue };
        let Memory { kind, name, path, function } = memory;
        let kind = if *kind == Kind::Bar { "bar" } else { "p2pmem" };
        let other = function.driver.as_ref().filter(|_| kind != "bar");
        let suffix = other.map_or(String::new(), |driver| format!(", driver {driver}"));
        let (id, description) = (function.id(), function.describe());
        objects.push(json!({
            "name": name, "path": path, "kind": kind, "function": function.name, "id": id,
            "description": description, "driver": function.driver, "size": bytes, "free": free, "largest": largest,
        }));
        let largest = largest.map(size).unwrap_or_default();
        rows.push(cells![memory.place(), size(bytes), size(free), largest, id, description + &suffix]);
    }
    let whole = rows.len() == all.len();
    if json {
        print::json(out, &json!({"memory": objects}))?;
    } else if !all.is_empty() {
        table(out, ["MEMORY", ">SIZE", ">FREE", ">LARGEST", "ID", "DEVICE"], rows)?;
    }
    Ok(if all.is_empty() { no_bar("") } else { (!whole).into() })
}

/// Shows a BAR. Returns the exit status.
fn info_of(path: &str, function: &str, out: Out<'_>) -> Status {
    let attr = open_bar(path).and_then(|bar| Ok(bar.query()?)).inspect_err(|error| say(path, error));
    let Ok(DeviceAttr { size, free, largest, page_size }) = attr else { return Ok(1) };
    let known = Function::read(function);
    let (id, name) = known.map_or(("?".into(), "?".into()), |known| (known.id(), known.describe()));
    let node = sys::line(pci::file(function, "numa_node")).unwrap_or("?".into());
    let published = sys::number(pci::file(function, "p2pmem/published")) > Some(0);
    let published = if published { "yes" } else { "no" };
    writeln!(out, "BAR:       {path}\ndevice:    {id}, NUMA node {node}\nname:      {name}")?;
    writeln!(out, "size:      {size}\nfree:      {free}\nlargest:   {largest}")?;
    writeln!(out, "page size: {page_size}\npublished: {published}")?;
    Ok(0)
}

pub(crate) fn info(what: &str, out: Out<'_>) -> Status {
    if what.starts_with('/') {
        let function = what.strip_prefix("/dev/io_peer_mem/").and_then(|rest| rest.split('/').next());
        return info_of(what, function.unwrap_or_default(), out);
    }
    let function = pci::find(what).and_then(|name| Function::read(&name));
    let bars = function.filter(Function::is_of_io_peer_mem).map(Memory::of).unwrap_or_default();
    let mut status = if bars.is_empty() { no_bar(&format!(" of {what}")) } else { 0 };
    for bar in bars {
        status |= info_of(bar.place(), &bar.function.name, out)?;
    }
    Ok(status)
}

pub(crate) fn nearest(device: &str, out: Out<'_>) -> Status {
    let Some(function) = pci::find(device) else {
        if let Some(address) = pci::parse(device) {
            bail!("no PCI function {address}");
        }
        let software = "(a software device has no distance: the CPU copies)";
        bail!("{device} is neither a PCI address nor an RDMA or network device with one\n  {software}");
    };
    let memory = Memory::with_sizes();
    if memory.is_empty() {
        return Ok(no_bar(""));
    }
    let distance = |memory: &Memory| memory.route(&function)?.distance();
    let mut rows: Vec<_> = memory.iter().map(|memory| (distance(memory), memory.place())).collect();
    // What is equally far stays in the order of the names.
    rows.sort_by_key(|(distance, _)| distance.unwrap_or(u64::MAX));
    let rows = rows.into_iter().map(|(distance, place)| {
        cells![distance.map_or("no way".into(), |distance| distance.to_string()), place]
    });
    table(out, ["DISTANCE", "MEMORY"], rows)?;
    Ok(0)
}

/// Returns the members of a pair in JSON, and its cell in the table, whose question mark is `certain`.
fn pair(memory: &Memory, adapter: &Adapter) -> (Value, String) {
    let route = adapter.function.as_deref().map(|function| memory.route(function));
    let distance = route.iter().flatten().find_map(|route| route.distance());
    let (way, certain, text) = match route {
        None => (Some("CPU copies"), true, "CPU copies".into()),
        Some(None) => (None, false, "gone".into()),
        Some(Some(route)) => (Some(route.word().0), route.word().1, route.to_string()),
    };
    let object = json!({
        "memory": memory.name, "kind": memory.kind.name(), "device": adapter.name, "route": way,
        "distance": distance, "certain": certain,
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
            row.push(memory.kind.name().into());
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
