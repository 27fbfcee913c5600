// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause

//! iopm list, info, nearest, topology: the memory, and its distance from devices.

use crate::{
    pci::{self, Function},
    print::{self, hint, size, Out, Table},
    stack::{open_bar, Adapter, Adapters, Distance, Kind, Memory, Pool},
    sys::{self, cause},
    Status,
};
use anyhow::{bail, Result};
use serde::Serialize;
use std::io;

#[derive(Serialize)]
struct ListedMemory<'a> {
    name: &'a str,
    path: Option<&'a str>,
    kind: &'static str,
    function: &'a str,
    id: String,
    description: String,
    driver: Option<&'a str>,
    size: u64,
    free: u64,
    largest: Option<u64>,
}

impl<'a> From<(&'a Memory, Pool)> for ListedMemory<'a> {
    fn from((memory, pool): (&'a Memory, Pool)) -> Self {
        Self {
            name: &memory.name,
            path: memory.path.as_deref(),
            kind: if memory.kind == Kind::Bar { "bar" } else { "p2pmem" },
            function: &memory.function.name,
            id: memory.function.id(),
            description: memory.function.describe(),
            driver: memory.function.driver.as_deref(),
            size: pool.size,
            free: pool.free,
            largest: pool.largest,
        }
    }
}

#[derive(Serialize)]
struct List<'a> {
    memory: Vec<ListedMemory<'a>>,
}

/// Says that there is no BAR. Returns the exit status.
fn no_bar(of: &str) -> u8 {
    eprintln!("iopm: no BAR{of}{}", hint(&io::ErrorKind::NotFound.into()));
    1
}

/// Reads the sizes of a memory; says why it cannot.
fn pool(memory: &Memory) -> Option<Pool> {
    memory.pool().map_err(|error| say(memory.place(), &error)).ok()
}

fn say(path: &str, error: &io::Error) {
    eprintln!("iopm: {path}: {}{}", cause(error), hint(error));
}

/// Lists the memory.
pub(crate) fn list(json: bool, out: Out<'_>) -> Status {
    let mut all = Memory::find(None);
    all.retain(|memory| memory.kind != Kind::Gpu);
    let known: Vec<_> = all.iter().filter_map(|memory| Some((memory, pool(memory)?))).collect();
    let failed = known.len() < all.len();
    if json {
        print::json(out, &List { memory: known.into_iter().map(ListedMemory::from).collect() })?;
    } else if !all.is_empty() {
        let mut table = Table::new(["MEMORY", ">SIZE", ">FREE", ">LARGEST", "ID", "DEVICE"]);
        for (memory, pool) in &known {
            let function = &memory.function;
            let driver = match (&memory.kind, &function.driver) {
                (Kind::P2p, Some(driver)) => format!(", driver {driver}"),
                _ => String::new(),
            };
            table.row([
                &memory.place(),
                &size(pool.size),
                &size(pool.free),
                &pool.largest.map(size).unwrap_or_default(),
                &function.id(),
                &format_args!("{}{driver}", function.describe()),
            ]);
        }
        table.print(out)?;
    }
    if all.is_empty() {
        return Ok(no_bar(""));
    }
    Ok(failed.into())
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
    let node = sys::line(pci::file(function, "numa_node"));
    let published = sys::number(pci::file(function, "p2pmem/published")).is_some_and(|number| number != 0);
    let (id, name) = known.map_or(("?".into(), "?".into()), |known| (known.id(), known.describe()));
    writeln!(out, "BAR:       {path}")?;
    writeln!(out, "device:    {id}, NUMA node {}", node.as_deref().unwrap_or("?"))?;
    writeln!(out, "name:      {name}")?;
    writeln!(out, "size:      {}\nfree:      {}", attr.size, attr.free)?;
    writeln!(out, "largest:   {}\npage size: {}", attr.largest, attr.page_size)?;
    writeln!(out, "published: {}", if published { "yes" } else { "no" })?;
    Ok(true)
}

/// Shows a BAR, or those of a function.
pub(crate) fn info(what: &str, out: Out<'_>) -> Status {
    if what.starts_with('/') {
        let function = what.strip_prefix("/dev/io_peer_mem/").and_then(|rest| rest.split('/').next());
        return Ok((!info_of(what, function.unwrap_or_default(), out)?).into());
    }
    let function = pci::find(what).unwrap_or_else(|| what.into());
    let mut bars = Memory::find(Some(&function));
    bars.retain(|memory| memory.kind == Kind::Bar);
    let mut status = 0;
    for bar in &bars {
        if !info_of(bar.place(), &bar.function.name, out)? {
            status = 1;
        }
    }
    Ok(if bars.is_empty() { no_bar(&format!(" of {what}")) } else { status })
}

/// Sorts the memory by its distance.
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
    let mut memory = Memory::find(None);
    memory.retain(|memory| memory.kind != Kind::Gpu);
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
    let mut table = Table::new(["DISTANCE", "MEMORY"]);
    for (_, distance, _, place) in rows {
        table.row([&distance.map_or("no way".into(), |distance| distance.to_string()), &place]);
    }
    table.print(out)?;
    Ok(0)
}

#[derive(Serialize)]
struct Pair<'a> {
    memory: &'a str,
    kind: Kind,
    device: &'a str,
    route: Option<&'static str>,
    distance: Option<u64>,
    /// False: the table has a question mark.
    certain: bool,
}

#[derive(Serialize)]
struct Topology<'a> {
    pairs: Vec<Pair<'a>>,
}

fn pair<'a>(memory: &'a Memory, adapter: &'a Adapter) -> (Pair<'a>, String) {
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
    let (name, kind, device) = (&memory.name, memory.kind, &adapter.name);
    (Pair { memory: name, kind, device, route, distance: number, certain }, text)
}

/// Shows the distance and route of each pair: a row for each memory, a column for each adapter.
pub(crate) fn topology(json: bool, out: Out<'_>) -> Status {
    let (adapters, memories) = (Adapters::find().list, Memory::find(None));
    let pairs = |memory| adapters.iter().map(move |adapter| pair(memory, adapter));
    if json {
        let pairs = memories.iter().flat_map(pairs).map(|(pair, _)| pair).collect();
        print::json(out, &Topology { pairs })?;
    } else {
        let names = adapters.iter().map(|adapter| adapter.name.as_str());
        let mut table = Table::new(["MEMORY"].into_iter().chain(names).chain(["KIND"]));
        for memory in &memories {
            let mut row = vec![memory.name.clone()];
            row.extend(pairs(memory).map(|(_, text)| text));
            row.push(memory.kind.to_string());
            table.row_of(row);
        }
        table.print(out)?;
    }
    if adapters.is_empty() || memories.is_empty() {
        eprintln!("iopm: no {}", if adapters.is_empty() { "RDMA device" } else { "memory for RDMA" });
    }
    Ok(0)
}
