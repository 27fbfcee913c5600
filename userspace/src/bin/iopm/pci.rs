// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause

//! PCI functions, as sysfs shows them, and the route between two of them.

use crate::prelude::*;
use iopm::PciAddress;

const FUNCTIONS: &str = "/sys/bus/pci/devices";

pub(crate) fn file(function: &str, name: &str) -> PathBuf {
    Path::new(FUNCTIONS).join(function).join(name)
}

/// Parses `[DOMAIN:]BUS:DEVICE.FUNCTION`.
pub(crate) fn parse(text: &str) -> Option<PciAddress> {
    let domain = if text.matches(':').count() == 1 { "0:" } else { "" };
    format!("{domain}{text}").parse().ok()
}

#[derive(Clone, Default)]
pub(crate) struct Bar {
    pub(crate) start: u64,
    /// 0: there is no such BAR.
    pub(crate) size: u64,
    pub(crate) memory: bool,
    pub(crate) prefetchable: bool,
}

#[derive(Clone)]
pub(crate) struct Function {
    /// `0000:03:00.0`
    pub(crate) name: String,
    pub(crate) vendor: u64,
    pub(crate) device: u64,
    pub(crate) class: u64,
    pub(crate) driver: Option<String>,
    pub(crate) bars: Vec<Bar>,
}

impl Function {
    /// Reads a function, if there is one of this name.
    pub(crate) fn read(name: &str) -> Option<Self> {
        let number = |of| sys::number(file(name, of));
        let lines = sys::read(file(name, "resource")).unwrap_or_default();
        Some(Self {
            name: name.into(),
            vendor: number("vendor")?,
            device: number("device").unwrap_or(0),
            class: number("class").unwrap_or(0),
            driver: sys::target(file(name, "driver")),
            bars: lines.lines().take(6).map(|line| read_bar(line).unwrap_or_default()).collect(),
        })
    }

    pub(crate) fn all() -> impl Iterator<Item = Self> {
        sys::names(FUNCTIONS).into_iter().filter_map(|name| Self::read(&name))
    }

    /// Reads the number in a file of the function.
    pub(crate) fn number(&self, name: &str) -> Option<u64> {
        sys::number(file(&self.name, name))
    }

    pub(crate) fn is_of_io_peer_mem(&self) -> bool {
        self.driver.as_deref() == Some("io_peer_mem")
    }

    /// Returns the ids, as `10de:2330`.
    pub(crate) fn id(&self) -> String {
        format!("{:04x}:{:04x}", self.vendor, self.device)
    }

    /// Returns the names of vendor and device, as lspci has them; the ids if they are not known.
    pub(crate) fn describe(&self) -> String {
        let (vendor, device) = (format!("{:04x}  ", self.vendor), format!("\t{:04x}  ", self.device));
        let mut lines = ids().lines().skip_while(|line| !line.starts_with(&vendor));
        let Some(vendor) = lines.next().and_then(|line| line.get(6..)) else { return self.id() };
        let mut lines = lines.take_while(|line| line.is_empty() || line.starts_with(['\t', '#']));
        let known = lines.find_map(|line| line.strip_prefix(&device));
        known.map_or(format!("{vendor} Device {:04x}", self.device), |known| format!("{vendor} {known}"))
    }

    /// Returns whether io_peer_mem uses prefetchable BARs of this class without `bars=`.
    pub(crate) fn is_memory(&self) -> bool {
        self.class >> 16 == 0x05 || (self.vendor, self.device) == (0x1af4, 0x1110)
    }

    /// Returns whether the function is a bridge, which io_peer_mem refuses.
    pub(crate) fn is_bridge(&self) -> bool {
        self.class >> 16 == 0x06
    }

    /// Returns whether this is a GPU of NVIDIA or AMD: display controllers, and accelerators without a
    /// display.
    pub(crate) fn is_gpu(&self) -> bool {
        matches!(self.vendor, 0x10de | 0x1002) && matches!(self.class >> 16, 0x03 | 0x12)
    }
}

/// Reads a line of the file `resource`: start, end, and flags of the kernel's ioport.h.
fn read_bar(line: &str) -> Option<Bar> {
    let numbers: Vec<_> = line.split_whitespace().filter_map(sys::parse).collect();
    let [start, end, flags] = numbers[..] else { return None };
    let size = if end > start { end - start + 1 } else { 0 };
    Some(Bar { start, size, memory: flags & 0x200 != 0, prefetchable: flags & 0x2000 != 0 })
}

/// Returns the names that the package pci.ids has, or of another place of it.
fn ids() -> &'static str {
    static IDS: OnceLock<String> = OnceLock::new();
    let files = ["/usr/share/misc/pci.ids", "/usr/share/hwdata/pci.ids"];
    IDS.get_or_init(|| files.iter().find_map(|file| sys::read(file).ok()).unwrap_or_default())
}

/// Returns the functions in a path of sysfs: the last one, and the bridges above it.
fn parts(path: &Path) -> impl Iterator<Item = &str> {
    path.ancestors().filter_map(|path| path.file_name()?.to_str()).filter(|name| parse(name).is_some())
}

/// Returns the function of a device of a class: it is the device, or a parent of it.
pub(crate) fn of_class(class: &str, device: &str) -> Option<String> {
    let path = sys::real(format!("/sys/class/{class}/{device}/device"))?;
    let function = parts(&path).next().filter(|_| !device.contains('/'));
    function.map(str::to_owned)
}

/// Returns the function of an RDMA or network device, or of a PCI address; `None` if there is none, as for
/// a software device.
pub(crate) fn find(device: &str) -> Option<String> {
    match parse(device) {
        Some(address) => Some(address.to_string()).filter(|name| sys::exists(file(name, ""))),
        None => of_class("infiniband", device).or_else(|| of_class("net", device)),
    }
}

/// How the kernel's p2pdma reaches one function from another.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Way {
    /// Only bridges lie between the two: bus addresses.
    Bus,
    /// Through a host bridge that the kernel knows.
    Host,
    /// Through a host bridge: the kernel has a list.
    Unknown,
    /// The kernel says that it supports none.
    No,
}

pub(crate) struct Route {
    pub(crate) way: Way,
    pub(crate) distance: u64,
    /// False: the ACS control cannot be read, which is for root.
    pub(crate) acs_known: bool,
    /// The bridges that redirect, for `pci=disable_acs_redir=`.
    pub(crate) acs: Vec<String>,
}

impl Route {
    /// Finds the route by the topology; `None` if one of the functions does not exist.
    pub(crate) fn find(memory: &str, adapter: &str) -> Option<Self> {
        let (a, b) = (sys::real(file(memory, ""))?, sys::real(file(adapter, ""))?);
        let [a, b] = [&a, &b].map(|path| parts(path).collect::<Vec<_>>());
        let common = a.iter().enumerate().find_map(|(i, name)| Some((i, b.iter().position(|b| b == name)?)));
        let (i, j) = common.unwrap_or((a.len(), b.len()));
        let mut route = Self { way: Way::Bus, distance: (i + j) as u64, acs_known: true, acs: Vec::new() };
        // Without a common bridge, ACS on the way makes no difference.
        let bridges = common.map_or(Vec::new(), |_| [&a[..=i], &b[..j]].concat());
        for bridge in bridges {
            match acs_redirects(bridge) {
                Some(true) => route.acs.push(bridge.to_owned()),
                Some(false) => {}
                None => route.acs_known = false,
            }
        }
        if common.is_none() || !route.acs.is_empty() {
            route.way = if cpu_routes() { Way::Host } else { Way::Unknown };
        }
        Some(route)
    }

    /// Returns the route in a word, and whether it is certain.
    pub(crate) fn word(&self) -> (&'static str, bool) {
        match self.way {
            Way::No => ("none", true),
            Way::Bus => ("bus address", self.acs_known),
            Way::Host => ("host bridge", true),
            Way::Unknown => ("host bridge", false),
        }
    }

    pub(crate) fn distance(&self) -> Option<u64> {
        Some(self.distance).filter(|_| self.way != Way::No)
    }
}

impl fmt::Display for Route {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (way, certain) = self.word();
        match self.distance() {
            None => f.write_str("no way"),
            Some(distance) => write!(f, "{distance} {way}{}", if certain { "" } else { "?" }),
        }
    }
}

/// Returns whether the bridge redirects, or `None` if its configuration space cannot be read.
fn acs_redirects(name: &str) -> Option<bool> {
    const SIZE: usize = 4096;
    const CAPABILITY: u16 = 0x0d;
    // Requests or completions are redirected, or an egress vector decides.
    const REDIRECTS: u16 = (1 << 2) | (1 << 3) | (1 << 5);
    // Without privileges 64 bytes; a conventional function has 256.
    let config = fs::read(sys::path(file(name, "config"))).ok().filter(|config| config.len() >= 256)?;
    let word = |at: usize| Some(u16::from_le_bytes([*config.get(at)?, *config.get(at + 1)?]));
    // 0 ends the list, in which a capability may lead to an earlier one.
    let next = |at: &usize| Some(usize::from((word(at + 2)? >> 4) & !3)).filter(|next| *next >= 0x100);
    let acs = iter::successors(Some(0x100), next).take(SIZE / 8).find(|at| word(*at) == Some(CAPABILITY));
    Some(acs.and_then(|at| word(at + 6)).is_some_and(|control| control & REDIRECTS != 0))
}

/// Of AMD's CPUs the kernel supports all since Zen, family 17h.
fn cpu_routes() -> bool {
    let cpus = sys::read("/proc/cpuinfo").unwrap_or_default();
    let value = |key| cpus.lines().find_map(|line| line.strip_prefix(key)?.trim_start().strip_prefix(": "));
    let family = value("cpu family").and_then(|family| family.parse::<u32>().ok());
    value("vendor_id") == Some("AuthenticAMD") && family >= Some(0x17)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses() {
        assert_eq!(parse("0001:81:1f.7").map(|a| a.to_string()), Some("0001:81:1f.7".into()));
        assert_eq!(parse("3:0.1").map(|a| a.to_string()), Some("0000:03:00.1".into()));
        for wrong in ["rxe0", "100:0.0", "0:20.0", "0:0.8", "0:0.0x", "+0:0.0", "0:0", ""] {
            assert_eq!(parse(wrong), None, "{wrong}");
        }
    }
}
