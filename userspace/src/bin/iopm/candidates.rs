// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause

//! iopm candidates: which functions have a BAR for io_peer_mem, why not the others, and what uses a function.

use crate::{pci::Bar, prelude::*};
use rustix::fs::{statx, AtFlags, FileType, StatxFlags, CWD};
use std::{collections::HashSet, os::unix::fs::OpenOptionsExt};

/// struct pages for device memory come in sections of this size: 2 MiB with pages of 4 KiB.
pub(crate) fn section_size() -> u64 {
    let page = rustix::param::page_size() as u64;
    // The struct pages, of 64 bytes, of this much memory fill a page.
    (page / 64 * page).max(2 << 20)
}

impl Bar {
    /// Returns whether io_peer_mem can use a BAR: memory, whole sections.
    pub(crate) fn is_usable(&self) -> bool {
        let whole = |number| number != 0 && number % section_size() == 0;
        self.memory && whole(self.size) && whole(self.start)
    }
}

// --- what is in use ---

/// Returns whether a device file is of a disk, and its number: a device has files of several names. The file system
/// is not asked, which may be one that does not answer.
fn device(file: PathBuf) -> Option<(bool, String)> {
    let data = statx(CWD, file, AtFlags::STATX_DONT_SYNC, StatxFlags::TYPE).ok()?;
    let number = format!("{}:{}", data.stx_rdev_major, data.stx_rdev_minor);
    Some((FileType::from_raw_mode(data.stx_mode.into()) == FileType::BlockDevice, number))
}

/// Returns the devices that a process has open, that have swap, or that the NVMe target exports: disks, and
/// controllers as a whole.
fn open_devices() -> &'static HashSet<(bool, String)> {
    static DEVICES: OnceLock<HashSet<(bool, String)>> = OnceLock::new();
    DEVICES.get_or_init(|| {
        let descriptors = sys::processes().flat_map(|pid| sys::files(format!("/proc/{pid}/fd")));
        let swaps = sys::read("/proc/swaps").unwrap_or_default();
        let swaps = swaps.lines().filter_map(|line| Some(line.split_whitespace().next()?.to_owned()));
        let subsystems = sys::files("/sys/kernel/config/nvmet/subsystems".into());
        let exports = subsystems.flat_map(|subsystem| {
            sys::files(format!("{subsystem}/namespaces")).chain([format!("{subsystem}/passthru")])
        });
        let exported = exports
            .filter(|dir| sys::number(format!("{dir}/enable")) == Some(1))
            .filter_map(|dir| sys::line(format!("{dir}/device_path")));
        descriptors.chain(swaps).chain(exported).filter_map(|file| device(sys::path(file))).collect()
    })
}

/// Returns whether the disk is open exclusively: for a file system, in any mount namespace and over several
/// disks, for ZFS, swap, RAID or a database. This opens it for a moment, in which a mount fails.
fn is_exclusive(path: &str) -> bool {
    // CAST: Flags of open(2) are positive.
    let flags = (rustix::fs::OFlags::EXCL | rustix::fs::OFlags::NONBLOCK).bits() as i32;
    let opened = OpenOptions::new().read(true).custom_flags(flags).open(sys::path(path));
    opened.is_err_and(|error| error.kind() == std::io::ErrorKind::ResourceBusy)
}

/// Returns whether the file of a disk, its character device, or the file of a controller is open, or exported.
fn is_open(class: &str, name: &str) -> bool {
    let number = sys::line(format!("/sys/class/{class}/{name}/dev"));
    number.is_some_and(|number| open_devices().contains(&(class == "block", number)))
}

/// Returns whether a disk or partition is mounted, swap, open, or held by another block device (LVM, RAID,
/// dm). `bind`: it is to be bound now, so root also finds out whether it is open exclusively.
fn is_block_in_use(disk: &str, bind: bool) -> bool {
    // In the names of disks, ! stands for the / of the path.
    let path = format!("/dev/{}", disk.replace('!', "/"));
    let number = sys::line(format!("/sys/class/block/{disk}/dev"));
    let mounts = sys::read("/proc/self/mountinfo").unwrap_or_default();
    !sys::entries(format!("/sys/class/block/{disk}/holders")).is_empty()
        || (number.is_some()
            && mounts.lines().any(|line| line.split_whitespace().nth(2) == number.as_deref()))
        || is_open("block", disk)
        || (bind && is_exclusive(&path))
}

/// Returns whether a device of a class is one of the function: it lies below it in sysfs, or is a disk with
/// several controllers (CONFIG_NVME_MULTIPATH), which belongs to the subsystem, and one of them lies there.
fn is_below(class: &str, name: &str, function: &Function) -> bool {
    let lies_below = |path: PathBuf| path.iter().any(|part| part == function.name.as_str());
    let Some(path) = sys::real(format!("/sys/class/{class}/{name}")) else { return false };
    let mut parts = path.iter().skip_while(|part| *part != "nvme-subsystem");
    let Some(subsystem) = parts.nth(1) else { return lies_below(path) };
    // The links to the controllers, nvme0, lead elsewhere; its disks are nvme0n1.
    let links = sys::files(format!("/sys/class/nvme-subsystem/{}", subsystem.to_string_lossy()));
    links
        .filter_map(sys::real)
        .filter(|path| !path.iter().any(|part| part == "nvme-subsystem"))
        .any(lies_below)
}

impl Function {
    /// Returns what uses the function, as a mounted disk or a network interface that is up; `None` if nothing
    /// is known to use it. `bind`: as in [`is_block_in_use`].
    pub(crate) fn user(&self, bind: bool) -> Option<String> {
        let used = |class: &str, name: &str| match class {
            "block" => is_block_in_use(name, bind),
            "nvme" | "nvme-generic" => is_open(class, name),
            // IFF_UP
            "net" => sys::number(format!("/sys/class/net/{name}/flags")).unwrap_or(1) & 1 != 0,
            _ => true,
        };
        ["block", "nvme", "nvme-generic", "net", "drm", "sound", "infiniband"].iter().find_map(|class| {
            let mut names = sys::names(format!("/sys/class/{class}")).into_iter();
            let user = names.find(|name| is_below(class, name, self) && used(class, name));
            user.map(|name| format!("{class} {name}"))
        })
    }
}

/// Returns what to do with the function, or why it cannot be used.
fn verdict(function: &Function, bar: &Bar, number: usize) -> String {
    let force = if function.driver.is_some() { " --force" } else { "" };
    let name = &function.name;
    if function.is_of_io_peer_mem() {
        "bound".into()
    } else if !bar.is_usable() {
        format!("no: not in whole sections of {} MiB", section_size() >> 20)
    } else if let Some(user) = function.user(false) {
        format!("no: in use ({user})")
    } else if function.is_memory() && bar.prefetchable {
        format!("yes: iopm bind {name}{force}")
    } else {
        format!("only if it is memory, not registers: iopm bind {name} --bar {number}{force}")
    }
}

/// Lists the functions with a BAR that is no mere set of registers.
pub(crate) fn candidates(out: Out<'_>) -> Status {
    let mut rows = Vec::new();
    for function in Function::all().filter(|function| !function.is_bridge()) {
        let bars = function.bars.iter().enumerate();
        for (number, bar) in bars.filter(|(_, bar)| bar.memory && bar.size >= 1 << 20) {
            let driver = function.driver.as_deref().unwrap_or("none");
            rows.push(cells![function.name, number, size(bar.size), driver, verdict(&function, bar, number)]);
            rows.push(cells!["", "", "", "", function.describe()]);
        }
    }
    if rows.is_empty() {
        writeln!(out, "no PCI function has a memory BAR of 1 MiB or more")?;
    } else {
        table(out, ["FUNCTION", "BAR", ">SIZE", "DRIVER", "CAN BE USED"], rows)?;
    }
    Ok(0)
}
