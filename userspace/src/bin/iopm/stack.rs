// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause

//! What the kernel has: RDMA devices, memory for RDMA, clients of ib_peer_mem.

use crate::{
    pci::{Route, Way},
    prelude::*,
};
use iopm::Context;
use serde::{de::Error, Deserializer, Serializer};
use std::{ffi::OsStr, fmt};

/// The clients, a directory each.
pub(crate) const PEERS: &str = "/sys/kernel/mm/memory_peers";

/// Reads a table of debugfs, which is for root: its rows, without the headings, as columns.
pub(crate) fn debugfs(name: &str) -> io::Result<Vec<Vec<String>>> {
    let text = sys::read(format!("/sys/kernel/debug/ib_peer_mem/{name}"))?;
    let split = |line: &str| line.split('\t').map(str::to_owned).collect();
    Ok(text.lines().skip(1).map(split).collect())
}

/// Returns the text unless the kernel has a dash for nothing.
fn some(text: &str) -> Option<String> {
    (!matches!(text, "" | "-")).then(|| text.to_owned())
}

// --- RDMA devices ---

#[derive(Clone, Debug, Serialize)]
pub(crate) struct Adapter {
    pub(crate) name: String,
    /// None for a software device.
    pub(crate) function: Option<String>,
    pub(crate) driver: Option<String>,
    /// None if ib_peer_mem does not serve it, or if that is not known.
    pub(crate) backend: Option<String>,
    pub(crate) can_fence: Option<String>,
}

#[derive(Clone, Debug, Serialize)]
pub(crate) struct Adapters {
    /// False: debugfs cannot be read.
    pub(crate) backends_known: bool,
    #[serde(rename = "devices")]
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
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A BAR of io_peer_mem.
    Bar,
    /// Peer-to-peer memory of another driver: the controller memory buffer of an SSD.
    P2p,
    /// A GPU, whose driver is the client.
    Gpu,
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Bar => "io_peer_mem",
            Self::P2p => "peer-to-peer memory",
            Self::Gpu => "GPU",
        })
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Memory {
    pub(crate) kind: Kind,
    /// `0000:05:00.0/bar2`, or the function.
    pub(crate) name: String,
    /// A file to map, if there is one.
    pub(crate) path: Option<String>,
    pub(crate) function: Function,
}

/// Sizes of memory, in bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pool {
    pub(crate) size: u64,
    pub(crate) free: u64,
    pub(crate) largest: Option<u64>,
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
            let dir = format!("/dev/io_peer_mem/{name}");
            let memory = |bar: String| {
                let (name, path) = (format!("{name}/{bar}"), Some(format!("{dir}/{bar}")));
                Self { kind: Kind::Bar, name, path, function: function.clone() }
            };
            return sys::names(&dir).into_iter().map(memory).collect();
        }
        let (kind, path) = if sys::number(pci::file(&name, "p2pmem/size")) > Some(0) {
            let allocate = pci::file(&name, "p2pmem/allocate");
            (Kind::P2p, sys::exists(&allocate).then(|| allocate.display().to_string()))
        } else if function.is_gpu() {
            (Kind::Gpu, None)
        } else {
            return Vec::new();
        };
        vec![Self { kind, name, path, function }]
    }

    /// Returns the file, or the name without one.
    pub(crate) fn place(&self) -> &str {
        self.path.as_deref().unwrap_or(&self.name)
    }

    fn open(&self) -> io::Result<Context> {
        open_bar(self.place())
    }

    /// Returns the sizes; for a BAR the caller has to have the permission to open it.
    pub(crate) fn pool(&self) -> io::Result<Pool> {
        if self.kind == Kind::Bar {
            let attr = self.open()?.query()?;
            return Ok(Pool { size: attr.size, free: attr.free, largest: Some(attr.largest) });
        }
        let number = |name| sys::number(pci::file(&self.function.name, name)).unwrap_or(0);
        Ok(Pool { size: number("p2pmem/size"), free: number("p2pmem/available"), largest: None })
    }
}

pub(crate) fn open_bar(path: &str) -> io::Result<Context> {
    Ok(Context::open_path(sys::path(path))?)
}

// --- the distance of an adapter's function from memory ---

/// A distance. The route is that of the topology.
#[derive(Clone, Debug)]
pub(crate) struct Distance {
    pub(crate) route: Route,
    /// The answer of the kernel, if it was asked: the distance, if it supports the pair.
    asked: Option<Option<u64>>,
}

impl Distance {
    pub(crate) fn find(memory: &Memory, function: &str) -> Option<Self> {
        let mut route = pci::route(&memory.function.name, function)?;
        let ask = || {
            let nearest = memory.open().ok()?.nearest(pci::parse(function)?).ok()?;
            Some(nearest.distance.map(u64::from))
        };
        let asked = if memory.kind == Kind::Bar { ask() } else { None };
        if let Some(Some(distance)) = asked {
            route.distance = distance;
            if route.way == Way::Unknown {
                route.way = Way::Host;
            }
        }
        Some(Self { route, asked })
    }

    /// Returns whether the kernel says that it supports no route.
    pub(crate) fn is_none(&self) -> bool {
        self.asked == Some(None)
    }

    /// Returns the route in a word, and whether it is certain.
    pub(crate) fn way(&self) -> (&'static str, bool) {
        match self.route.way {
            _ if self.is_none() => ("none", true),
            Way::Bus => ("bus address", self.route.acs_known),
            Way::Host => ("host bridge", true),
            Way::Unknown => ("host bridge", false),
        }
    }
}

impl fmt::Display for Distance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.way() {
            _ if self.is_none() => f.write_str("no way"),
            (way, true) => write!(f, "{} {way}", self.route.distance),
            (way, false) => write!(f, "{} {way}?", self.route.distance),
        }
    }
}

// --- clients ---

#[derive(Clone, Debug, Serialize)]
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
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(crate) struct Region {
    #[serde(deserialize_with = "parse")]
    pub(crate) pid: u64,
    pub(crate) process: String,
    pub(crate) kind: String,
    pub(crate) client: String,
    #[serde(serialize_with = "optional")]
    pub(crate) device: String,
    /// Hexadecimal, as the address: 64 bits do not fit into a number of every reader of JSON.
    #[serde(serialize_with = "optional")]
    pub(crate) lkey: String,
    pub(crate) address: String,
    #[serde(deserialize_with = "parse")]
    pub(crate) length: u64,
    /// Seconds.
    #[serde(serialize_with = "whole")]
    pub(crate) age: String,
    pub(crate) state: String,
}

fn parse<'de, D: Deserializer<'de>>(text: D) -> Result<u64, D::Error> {
    String::deserialize(text)?.parse().map_err(D::Error::custom)
}

fn optional<S: Serializer>(text: &str, serializer: S) -> Result<S::Ok, S::Error> {
    some(text).serialize(serializer)
}

/// Writes the whole seconds of an age.
fn whole<S: Serializer>(age: &str, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_u64(age.split('.').next().and_then(|text| text.parse().ok()).unwrap_or(0))
}

impl Region {
    /// Reads the list, which is for root.
    pub(crate) fn all() -> io::Result<Vec<Self>> {
        let regions = debugfs("regions")?.into_iter();
        Ok(regions.filter_map(|row| serde_json::from_value(json!(row)).ok()).collect())
    }
}
