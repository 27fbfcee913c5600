// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause

//! Checks of the kernel and of the modules.

use super::{
    headers::{architecture, series, Kernels},
    *,
};
use crate::stop::{in_the_way, Stopped};

/// The series of the kernel, and the options that a kernel needs.
pub(super) fn config(machine: &Machine, found: &mut Findings) {
    let release = &machine.release.name;
    if modules::is_loaded("ib_peer_mem") {
        return found.ok(format!("Linux {release} runs ib_peer_mem"));
    }
    let table = Kernels::read();
    if !release.is_empty() && !table.series.contains(&series(&machine.release)) {
        let text =
            format!("Linux {release} is not of {}: DKMS builds no modules for it", table.series.join(", "));
        return found.fail(text, table.with_rust(&machine.release));
    }
    let files = [format!("/boot/config-{release}"), format!("/lib/modules/{release}/config")];
    let Some(config) = files.iter().find_map(|file| sys::read(file).ok()) else {
        return found.unknown(format!("Linux {release}: no /boot/config-{release}"), "");
    };
    let has =
        |option: &str| config.lines().any(|line| matches!(line.strip_prefix(option), Some("=y" | "=m")));
    if !has("CONFIG_RUST") {
        let text = format!("Linux {release} is built without CONFIG_RUST, which the modules need");
        return found.fail(text, table.with_rust(&machine.release));
    }
    for option in ["CONFIG_INFINIBAND_USER_ACCESS", "CONFIG_PCI_P2PDMA", "CONFIG_KPROBES"] {
        if !has(option) {
            found.fail(format!("Linux {release} is built without {option}"), "");
        }
    }
    found.ok(format!("Linux {release} is built with CONFIG_RUST"));
}

/// Lockdown, as with Secure Boot.
pub(super) fn lockdown(_: &Machine, found: &mut Findings) {
    let line = sys::line("/sys/kernel/security/lockdown").unwrap_or_default();
    match line.split_once('[').and_then(|(_, rest)| rest.split_once(']')) {
        None => {}
        Some(("none", _)) => found.ok("the kernel is not locked down"),
        Some((mode, _)) => found.warn(
            format!(
                "the kernel is locked down ({mode}), as with Secure Boot: modules must be signed, and io_peer_mem \
                 binds nothing"
            ),
            "mokutil --sb-state",
        ),
    }
}

/// The IOMMU, by the type of a group: DMA, DMA-FQ, identity.
pub(super) fn iommu(_: &Machine, found: &mut Findings) {
    if sys::entries("/sys/class/iommu").is_empty() {
        return found.ok("no IOMMU is in use");
    }
    match sys::line("/sys/kernel/iommu_groups/0/type").as_deref() {
        Some("identity") => found.ok("the IOMMU passes addresses through (identity)"),
        kind => found.warn(
            format!(
                "the IOMMU translates ({}): traffic between devices may go through the host bridge",
                kind.unwrap_or("type not known")
            ),
            "add iommu=pt to the kernel's command line; then devices of the host can access all of its memory",
        ),
    }
}

/// ib_uverbs, which is the kernel's own.
pub(super) fn uverbs(_: &Machine, found: &mut Findings) {
    if modules::is_builtin("ib_uverbs") {
        found.ok("ib_uverbs is a part of the kernel");
    } else if modules::is_loaded("ib_uverbs") {
        loaded("ib_uverbs", found);
    } else if modules::is_installed("ib_uverbs") {
        found.fail("ib_uverbs is installed, but not loaded", "modprobe ib_uverbs");
    } else {
        let fix = "a kernel with CONFIG_INFINIBAND_USER_ACCESS, as Debian's linux-image-";
        found.fail("ib_uverbs is not installed for the running kernel", fix.to_owned() + architecture());
    }
}

// In no archive: "make deb" builds it.
const INSTALL: &str =
    "apt install ../ib-peer-mem-common_*.deb ../ib-peer-mem-dkms_*.deb, built as README.md says";

/// ib_peer_mem, and another module that has the functions of its API.
pub(super) fn core(_: &Machine, found: &mut Findings) {
    if let Some(other) = modules::other_exporter() {
        let text = format!(
            "the functions of ib_peer_mem are owned by {other}: clients register with {other}, which serves \
             them; ib_peer_mem and io_peer_mem cannot be loaded beside it (\"exports duplicate symbol\"). BARs, \
             names of memory and mapped dma-bufs are not available; ibv_reg_dmabuf_mr(3) is"
        );
        return found.fail(text, format!("use {other} alone; or a kernel or a stack without it"));
    }
    if let Some(other) = modules::other_installed_exporter() {
        let text = format!(
            "depmod has chosen {other}, which exports the functions of ib_peer_mem as well: modprobe loads it for \
             a client, and only one of the two can be loaded"
        );
        found.warn(text, "remove one of them; depmod");
    }
    if modules::is_loaded("ib_peer_mem") {
        loaded("ib_peer_mem", found);
    } else if modules::is_installed("ib_peer_mem") {
        let fix = "iopm bind BDF; or the driver of the GPU, as modprobe nvidia-peermem";
        found.warn("ib_peer_mem is not loaded: no client needs it yet", fix);
    } else {
        found.fail("ib_peer_mem is not installed for the running kernel", INSTALL);
    }
}

/// io_peer_mem, which not every machine needs.
pub(super) fn io_peer_mem(_: &Machine, found: &mut Findings) {
    if modules::is_loaded("io_peer_mem") {
        loaded("io_peer_mem", found);
    } else if modules::is_installed("io_peer_mem") {
        found.ok("io_peer_mem is not loaded: iopm bind does that, for PCI BARs");
    } else {
        found.warn("io_peer_mem, which serves PCI BARs, is not installed", INSTALL);
    }
}

/// What fails when the RDMA stack is stopped, in the words of rmmod(8), and what was unloaded for that.
pub(super) fn stack(_: &Machine, found: &mut Findings) {
    if let Some(stopped) = Stopped::read() {
        let names: Vec<_> = stopped.modules.into_iter().map(|(module, _)| module).collect();
        let text = format!("\"iopm stop\" has unloaded {}", names.join(", "));
        return found.warn(text, "after the start of the RDMA stack: iopm start");
    }
    let holders = modules::holders("ib_core");
    if !holders.iter().any(|holder| holder == "ib_peer_mem") {
        return;
    }
    let (modules, users) = in_the_way();
    let mut text = format!(
        "Module ib_core is in use by: {}: to stop the RDMA stack, \"iopm stop\" unloads {} first",
        holders.join(" "),
        modules.join(", ")
    );
    if !users.is_empty() {
        text += &format!(", once no process uses them:\n        | {}", users.join("\n        | "));
    }
    found.ok(text);
}

/// Checks a module that is loaded: its signature, and its version. An upgrade does not touch it.
fn loaded(name: &str, found: &mut Findings) {
    let version = sys::line(format!("/sys/module/{name}/version"));
    match (&version, installed_version(name)) {
        (Some(loaded), Some(installed)) if *loaded != installed => found.warn(
            format!("{name} {loaded} is loaded, but {installed} is installed"),
            "reboot; or unload the clients and the modules when iopm regions lists nothing",
        ),
        _ => {}
    }
    let version = version.map_or(String::new(), |version| format!(", version {version}"));
    let taint = sys::line(format!("/sys/module/{name}/taint")).unwrap_or_default();
    if taint.contains('E') {
        let text = format!("{name} is loaded{version}; it is not signed: Secure Boot would refuse it");
        found.warn(text, "mokutil --import /var/lib/dkms/mok.pub");
    } else {
        found.ok(format!("{name} is loaded{version}"));
    }
}

/// Returns the version of the module that modprobe would load; `None` if there is none, or if the root is no
/// machine.
fn installed_version(module: &str) -> Option<String> {
    if sys::root().is_some() {
        return None;
    }
    let output = Command::new("/sbin/modinfo").args(["-F", "version", module]).output().ok()?;
    String::from_utf8(output.stdout).ok()?.lines().next().map(str::to_owned)
}
