// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause

//! Checks of the kernel and of the modules.

use super::{Finding, Machine};
use crate::{modules, sys};
use std::{env::consts::ARCH, process::Command};

/// The options that a kernel needs.
pub(super) fn config(machine: &Machine) -> Vec<Finding> {
    let release = &machine.release.name;
    if modules::is_loaded("ib_peer_mem") {
        return vec![Finding::ok(format!("Linux {release} runs ib_peer_mem"))];
    }
    let files = [format!("/boot/config-{release}"), format!("/lib/modules/{release}/config")];
    let Some(config) = files.iter().find_map(|file| sys::read(file).ok()) else {
        return vec![Finding::unknown(format!("Linux {release}: no /boot/config-{release}"))];
    };
    let has =
        |option: &str| config.lines().any(|line| matches!(line.strip_prefix(option), Some("=y" | "=m")));
    if !has("CONFIG_RUST") {
        let text = format!("Linux {release} is built without CONFIG_RUST, which the modules need");
        return vec![Finding::fail(text).fix(kernel_with_rust())];
    }
    let needed = ["CONFIG_INFINIBAND_USER_ACCESS", "CONFIG_PCI_P2PDMA", "CONFIG_KPROBES"];
    let missing = needed.iter().filter(|option| !has(option));
    let mut found: Vec<_> =
        missing.map(|option| Finding::fail(format!("Linux {release} is built without {option}"))).collect();
    found.push(Finding::ok(format!("Linux {release} is built with CONFIG_RUST")));
    found
}

/// Returns the name that Debian's packages have for this architecture.
fn architecture() -> &'static str {
    match ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}

/// How one gets a kernel with Rust: not every release of Debian has it without backports, or at all.
fn kernel_with_rust() -> String {
    let release = sys::read("/etc/os-release").unwrap_or_default();
    let codename = release.lines().find_map(|line| line.strip_prefix("VERSION_CODENAME="));
    match codename {
        Some("trixie") => format!("apt install -t trixie-backports linux-image-{}", architecture()),
        Some("forky") => format!("apt install linux-image-{}", architecture()),
        _ => "a kernel with CONFIG_RUST, as Debian 13 has in its backports, and Debian 14".into(),
    }
}

/// Lockdown, as with Secure Boot.
pub(super) fn lockdown(_: &Machine) -> Vec<Finding> {
    let line = sys::line("/sys/kernel/security/lockdown").unwrap_or_default();
    let mode = line.split_once('[').and_then(|(_, rest)| rest.split_once(']'));
    match mode {
        None => Vec::new(),
        Some(("none", _)) => vec![Finding::ok("the kernel is not locked down")],
        Some((mode, _)) => vec![Finding::warn(format!(
            "the kernel is locked down ({mode}), as with Secure Boot: modules must be signed, and io_peer_mem \
             binds nothing"
        ))
        .fix("mokutil --sb-state")],
    }
}

/// The IOMMU, by the type of a group: DMA, DMA-FQ, identity.
pub(super) fn iommu(_: &Machine) -> Vec<Finding> {
    if sys::entries("/sys/class/iommu").is_empty() {
        return vec![Finding::ok("no IOMMU is in use")];
    }
    let kind = sys::line("/sys/kernel/iommu_groups/0/type");
    vec![match kind.as_deref() {
        Some("identity") => Finding::ok("the IOMMU passes addresses through (identity)"),
        kind => Finding::warn(format!(
            "the IOMMU translates ({}): traffic between devices may go through the host bridge",
            kind.unwrap_or("type not known")
        ))
        .fix(
            "add iommu=pt to the kernel's command line; then devices of the host can access all of its memory",
        ),
    }]
}

/// ib_uverbs, which is the kernel's own.
pub(super) fn uverbs(_: &Machine) -> Vec<Finding> {
    if modules::is_builtin("ib_uverbs") {
        return vec![Finding::ok("ib_uverbs is a part of the kernel")];
    }
    module("ib_uverbs").unwrap_or_else(|| {
        vec![if modules::is_installed("ib_uverbs") {
            Finding::fail("ib_uverbs is installed, but not loaded").fix("modprobe ib_uverbs")
        } else {
            Finding::fail("ib_uverbs is not installed for the running kernel").fix(format!(
                "a kernel with CONFIG_INFINIBAND_USER_ACCESS, as Debian's linux-image-{}",
                architecture()
            ))
        }]
    })
}

// In no archive: "make deb" builds it.
const INSTALL: &str =
    "apt install ../ib-peer-mem-common_*.deb ../ib-peer-mem-dkms_*.deb, built as README.md says";

/// ib_peer_mem.
pub(super) fn core(_: &Machine) -> Vec<Finding> {
    module("ib_peer_mem").unwrap_or_else(|| {
        vec![if modules::is_installed("ib_peer_mem") {
            Finding::warn("ib_peer_mem is not loaded: no client needs it yet")
                .fix("iopm bind BDF; or the driver of the GPU, as modprobe nvidia-peermem")
        } else {
            Finding::fail("ib_peer_mem is not installed for the running kernel").fix(INSTALL)
        }]
    })
}

/// io_peer_mem, which not every machine needs.
pub(super) fn io_peer_mem(_: &Machine) -> Vec<Finding> {
    module("io_peer_mem").unwrap_or_else(|| {
        vec![if modules::is_installed("io_peer_mem") {
            Finding::ok("io_peer_mem is not loaded: iopm bind does that, for PCI BARs")
        } else {
            Finding::warn("io_peer_mem, which serves PCI BARs, is not installed").fix(INSTALL)
        }]
    })
}

/// Checks a module that is loaded: its signature, and its version. An upgrade does not touch it.
fn module(name: &str) -> Option<Vec<Finding>> {
    if !modules::is_loaded(name) {
        return None;
    }
    let version = sys::line(format!("/sys/module/{name}/version"));
    let mut found = Vec::new();
    if let (Some(loaded), Some(installed)) = (&version, installed_version(name)) {
        if *loaded != installed {
            let fix = "reboot; or unload the clients and the modules when iopm regions lists nothing";
            found.push(
                Finding::warn(format!("{name} {loaded} is loaded, but {installed} is installed")).fix(fix),
            );
        }
    }
    let version = version.map_or(String::new(), |version| format!(", version {version}"));
    let taint = sys::line(format!("/sys/module/{name}/taint")).unwrap_or_default();
    found.push(if taint.contains('E') {
        Finding::warn(format!("{name} is loaded{version}; it is not signed: Secure Boot would refuse it"))
            .fix("mokutil --import /var/lib/dkms/mok.pub")
    } else {
        Finding::ok(format!("{name} is loaded{version}"))
    });
    Some(found)
}

/// Returns the version of the module that modprobe would load; `None` if there is none, or if the root is no
/// machine.
fn installed_version(module: &str) -> Option<String> {
    if sys::root().is_some() {
        return None;
    }
    let output = Command::new("/sbin/modinfo").args(["-F", "version", module]).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    text.lines().next().map(str::to_owned)
}
