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

/// A base address register.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Bar {
    pub(crate) start: u64,
    /// 0: there is no such BAR.
    pub(crate) size: u64,
    pub(crate) memory: bool,
    pub(crate) prefetchable: bool,
}

#[derive(Clone, Debug)]
pub(crate) struct Function {
    /// `0000:03:00.0`
    pub(crate) name: String,
    pub(crate) vendor: u64,
    pub(crate) device: u64,
    pub(crate) class: u64,
    pub(crate) driver: Option<String>,
    pub(crate) bars: [Bar; 6],
}

impl Function {
    /// Reads a function, if there is one of this name.
    pub(crate) fn read(name: &str) -> Option<Self> {
        let number = |of| sys::number(file(name, of)).unwrap_or(0);
        if !sys::exists(file(name, "vendor")) {
            return None;
        }
        let mut bars = [Bar::default(); 6];
        let lines = sys::read(file(name, "resource")).unwrap_or_default();
        for (bar, line) in bars.iter_mut().zip(lines.lines()) {
            *bar = read_bar(line).unwrap_or_default();
        }
        Some(Self {
            name: name.into(),
            vendor: number("vendor"),
            device: number("device"),
            class: number("class"),
            driver: sys::target(file(name, "driver")),
            bars,
        })
    }

    pub(crate) fn all() -> impl Iterator<Item = Self> {
        sys::names(FUNCTIONS).into_iter().filter_map(|name| Self::read(&name))
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
        let Some(vendor) = lines.next().and_then(|line| line.get(6..)) else {
            return self.id();
        };
        match lines
            .take_while(|line| line.is_empty() || line.starts_with(['\t', '#']))
            .find(|line| line.starts_with(&device))
        {
            Some(line) => format!("{vendor} {}", &line[7..]),
            None => format!("{vendor} Device {:04x}", self.device),
        }
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
    let mut numbers =
        line.split_whitespace().map(|text| u64::from_str_radix(text.trim_start_matches("0x"), 16).ok());
    let mut number = || numbers.next().flatten();
    let (start, end, flags) = (number()?, number()?, number()?);
    Some(Bar {
        start,
        size: if end > start { end - start + 1 } else { 0 },
        memory: flags & 0x200 != 0,
        prefetchable: flags & 0x2000 != 0,
    })
}

/// Returns the names that the package pci.ids has, or of another place of it.
fn ids() -> &'static str {
    static IDS: OnceLock<String> = OnceLock::new();
    IDS.get_or_init(|| {
        ["/usr/share/misc/pci.ids", "/usr/share/hwdata/pci.ids"]
            .iter()
            .find_map(|file| sys::read(file).ok())
            .unwrap_or_default()
    })
}

/// Returns the function and the bridges above it in a path of sysfs.
fn parts(path: &Path) -> Vec<String> {
    path.ancestors()
        .filter_map(|path| path.file_name()?.to_str())
        .take_while(|name| parse(name).is_some())
        .map(str::to_owned)
        .collect()
}

/// Returns the function of a device of a class: it is the device, or a parent of it.
pub(crate) fn of_class(class: &str, device: &str) -> Option<String> {
    if device.contains('/') {
        return None;
    }
    let path = sys::real(format!("/sys/class/{class}/{device}/device"))?;
    path.ancestors().find_map(|path| {
        let name = path.file_name()?.to_str()?;
        parse(name).map(|_| name.to_owned())
    })
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
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// Only bridges lie between the two: bus addresses.
    Bus,
    /// Through a host bridge that the kernel knows.
    Host,
    /// Through a host bridge: the kernel has a list.
    Unknown,
}

#[derive(Clone, Debug)]
pub(crate) struct Route {
    pub(crate) way: Way,
    pub(crate) distance: u64,
    /// False: the ACS control cannot be read, which is for root.
    pub(crate) acs_known: bool,
    /// The bridges that redirect, for `pci=disable_acs_redir=`.
    pub(crate) acs: Vec<String>,
}

/// Finds the route; `None` if one of them does not exist.
pub(crate) fn route(memory: &str, adapter: &str) -> Option<Route> {
    let path = |name| sys::real(file(name, "")).map(|path| parts(&path)).filter(|path| !path.is_empty());
    let (a, b) = (path(memory)?, path(adapter)?);
    let host = || if cpu_routes() { Way::Host } else { Way::Unknown };
    let common = a.iter().enumerate().find_map(|(i, name)| Some((i, b.iter().position(|b| b == name)?)));
    // Without a common bridge, ACS on the way makes no difference.
    let Some((i, j)) = common else {
        let distance = (a.len() + b.len()) as u64;
        return Some(Route { way: host(), distance, acs_known: true, acs: Vec::new() });
    };
    let mut route = Route { way: Way::Bus, distance: (i + j) as u64, acs_known: true, acs: Vec::new() };
    for bridge in a[..=i].iter().chain(&b[..j]) {
        match acs_redirects(bridge) {
            Some(true) => route.acs.push(bridge.clone()),
            Some(false) => {}
            None => route.acs_known = false,
        }
    }
    if !route.acs.is_empty() {
        route.way = host();
    }
    Some(route)
}

/// Returns whether the bridge redirects, or `None` if its configuration space cannot be read.
fn acs_redirects(name: &str) -> Option<bool> {
    const SIZE: usize = 4096;
    const CAPABILITY: u16 = 0x0d;
    // Requests or completions are redirected, or an egress vector decides.
    const REDIRECTS: u16 = (1 << 2) | (1 << 3) | (1 << 5);
    let config = fs::read(sys::path(file(name, "config"))).ok()?;
    let word = |at: usize| u16::from_le_bytes([config[at], config[at + 1]]);
    // Without privileges 64 bytes; a conventional function has 256.
    if config.len() < 256 {
        return None;
    }
    let mut at = 0x100;
    for _ in 0..(SIZE - 0x100) / 8 {
        if config.len() < SIZE || !(0x100..=SIZE - 8).contains(&at) {
            break;
        }
        if word(at) == CAPABILITY {
            return Some(word(at + 6) & REDIRECTS != 0);
        }
        at = usize::from((word(at + 2) >> 4) & !3);
    }
    Some(false)
}

/// Of AMD's CPUs the kernel supports all since Zen, family 17h.
fn cpu_routes() -> bool {
    let cpus = sys::read("/proc/cpuinfo").unwrap_or_default();
    let first = cpus.split("\n\n").next().unwrap_or_default();
    let family = first.lines().find_map(|line| {
        let (key, value) = line.split_once(':')?;
        (key.trim() == "cpu family").then(|| value.trim().parse::<u32>().ok())?
    });
    first.contains("AuthenticAMD") && family >= Some(0x17)
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
