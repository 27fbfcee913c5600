// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause

//! What the kernel has: RDMA devices, memory for RDMA, clients of ib_peer_mem.

use crate::prelude::*;
use iopm::Context;

pub(crate) const PEERS: &str = "/sys/kernel/mm/memory_peers";

/// Reads a table of debugfs, which is for root: its rows, without the headings, as columns.
pub(crate) fn debugfs(name: &str) -> io::Result<Vec<Vec<String>>> {
    let text = sys::read(format!("/sys/kernel/debug/ib_peer_mem/{name}"))?;
    let split = |line: &str| line.split('\t').map(str::to_owned).collect();
    Ok(text.lines().skip(1).map(split).collect())
}

/// Returns the columns of a row that are known here: those of a newer module come after them.
pub(crate) fn columns<const N: usize>(mut row: Vec<String>) -> Option<[String; N]> {
    row.truncate(N);
    row.try_into().ok()
}

/// Returns the text unless the kernel has a dash for nothing.
pub(crate) fn some(text: &str) -> Option<String> {
    (!matches!(text, "" | "-")).then(|| text.to_owned())
}

// --- RDMA devices ---

#[derive(Serialize)]
pub(crate) struct Adapter {
    pub(crate) name: String,
    /// None for a software device.
    pub(crate) function: Option<String>,
    pub(crate) driver: Option<String>,
    /// None if ib_peer_mem does not serve it, or if that is not known.
    pub(crate) backend: Option<String>,
    pub(crate) can_fence: Option<String>,
}

pub(crate) struct Adapters {
    /// False: debugfs cannot be read.
    pub(crate) backends_known: bool,
    pub(crate) list: Vec<Adapter>,
}

impl Adapters {
    pub(crate) fn find() -> Self {
        let rows = debugfs("devices");
        let find = |name: String| {
            let function = pci::of_class("infiniband", &name);
            let row = rows.iter().flatten().find(|row| row.first() == Some(&name));
            let column = |i: usize| row.and_then(|row| some(row.get(i)?));
            let of_function = || function.as_deref().and_then(Function::read)?.driver;
            let driver = if row.is_some() { column(1) } else { of_function() };
            Adapter { backend: column(2), can_fence: column(3), name, function, driver }
        };
        Self {
            backends_known: rows.is_ok(),
            list: sys::names("/sys/class/infiniband").into_iter().map(find).collect(),
        }
    }
}

// --- memory ---

/// Whose memory it is.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A BAR of io_peer_mem.
    Bar,
    /// Peer-to-peer memory of another driver: the controller memory buffer of an SSD.
    P2p,
    /// A GPU, whose driver is the client.
    Gpu,
}

impl Kind {
    pub(crate) fn name(self) -> &'static str {
        ["io_peer_mem", "peer-to-peer memory", "GPU"][self as usize]
    }
}

pub(crate) struct Memory {
    pub(crate) kind: Kind,
    /// `0000:05:00.0/bar2`, or the function.
    pub(crate) name: String,
    /// A file to map, if there is one.
    pub(crate) path: Option<String>,
    pub(crate) function: Function,
}

impl Memory {
    pub(crate) fn all() -> Vec<Self> {
        Function::all().flat_map(Self::of).collect()
    }

    /// Returns the memory whose sizes are known: not that of GPUs.
    pub(crate) fn with_sizes() -> Vec<Self> {
        Self::all().into_iter().filter(|memory| memory.kind != Kind::Gpu).collect()
    }

    pub(crate) fn of(function: Function) -> Vec<Self> {
        let name = function.name.clone();
        if function.is_of_io_peer_mem() {
            let bars = sys::names(format!("/dev/io_peer_mem/{name}")).into_iter();
            let memory = |bar| {
                let name = format!("{name}/{bar}");
                let path = Some(format!("/dev/io_peer_mem/{name}"));
                Self { kind: Kind::Bar, name, path, function: function.clone() }
            };
            return bars.map(memory).collect();
        }
        let allocate = pci::file(&name, "p2pmem/allocate");
        if function.number("p2pmem/size") > Some(0) {
            let path = sys::exists(&allocate).then(|| allocate.display().to_string());
            vec![Self { kind: Kind::P2p, name, path, function }]
        } else if function.is_gpu() {
            vec![Self { kind: Kind::Gpu, name, path: None, function }]
        } else {
            Vec::new()
        }
    }

    /// Returns the file, or the name without one.
    pub(crate) fn place(&self) -> &str {
        self.path.as_deref().unwrap_or(&self.name)
    }

    /// Returns the size, how much is free, and of a BAR, which the caller has to have the permission to open,
    /// the largest free range.
    pub(crate) fn sizes(&self) -> io::Result<(u64, u64, Option<u64>)> {
        if self.kind == Kind::Bar {
            let attr = open_bar(self.place())?.query()?;
            return Ok((attr.size, attr.free, Some(attr.largest)));
        }
        let number = |name| self.function.number(name).unwrap_or(0);
        Ok((number("p2pmem/size"), number("p2pmem/available"), None))
    }

    /// Returns the route from an adapter's function, as the kernel says, if it can be asked.
    pub(crate) fn route(&self, function: &str) -> Option<Route> {
        let mut route = Route::find(&self.function.name, function)?;
        let ask = || open_bar(self.place()).ok()?.nearest(pci::parse(function)?).ok();
        if let Some(nearest) = (self.kind == Kind::Bar).then(ask).flatten() {
            match nearest.distance {
                None => route.way = Way::No,
                Some(_) if route.way == Way::Unknown => route.way = Way::Host,
                Some(_) => {}
            }
            route.distance = nearest.distance.map_or(route.distance, u64::from);
        }
        Some(route)
    }
}

pub(crate) fn open_bar(path: &str) -> io::Result<Context> {
    Ok(Context::open_path(sys::path(path))?)
}

// --- clients ---

#[derive(Serialize)]
pub(crate) struct Client {
    pub(crate) name: String,
    pub(crate) version: String,
    pub(crate) mrs: u64,
    pub(crate) bytes: u64,
    pub(crate) mrs_ever: u64,
    pub(crate) invalidations: u64,
}

pub(crate) fn client_number(client: &OsStr, name: &str) -> Option<u64> {
    sys::number(PathBuf::from(PEERS).join(client).join(name))
}

impl Client {
    /// Reads the counters of a client. They change meanwhile: of two counters the later one, of what has
    /// ended, is read first, or more could have ended than begun.
    pub(crate) fn read(name: &OsStr) -> Self {
        let number = |counter| client_number(name, counter).unwrap_or(0);
        let (ended, ended_bytes) = (number("num_dealloc_mrs"), number("num_dereg_bytes"));
        let mrs_ever = number("num_alloc_mrs");
        Self {
            name: name.to_string_lossy().into_owned(),
            version: sys::line(PathBuf::from(PEERS).join(name).join("version")).unwrap_or_default(),
            mrs: mrs_ever.saturating_sub(ended),
            bytes: number("num_reg_bytes").saturating_sub(ended_bytes),
            mrs_ever,
            invalidations: number("num_free_callbacks"),
        }
    }

    pub(crate) fn all() -> Vec<Self> {
        sys::entries(PEERS).iter().map(|name| Self::read(name)).collect()
    }
}

// --- regions ---

/// A live region or import, as debugfs lists it.
pub(crate) struct Region {
    pub(crate) pid: String,
    pub(crate) process: String,
    pub(crate) kind: String,
    pub(crate) client: String,
    pub(crate) device: String,
    /// Hexadecimal, as the address: 64 bits do not fit into a number of every reader of JSON.
    pub(crate) lkey: String,
    pub(crate) address: String,
    pub(crate) length: u64,
    /// Seconds, with a fraction.
    pub(crate) age: String,
    pub(crate) state: String,
}

impl Region {
    /// Reads the list, which is for root.
    pub(crate) fn all() -> io::Result<Vec<Self>> {
        let parse = |row: Vec<String>| {
            let [pid, process, kind, client, device, lkey, address, length, age, state] = columns(row)?;
            let length = length.parse().ok()?;
            Some(Self { pid, process, kind, client, device, lkey, address, length, age, state })
        };
        Ok(debugfs("regions")?.into_iter().filter_map(parse).collect())
    }
}
