// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause

//! Checks of the kernel and of the modules.

use super::{headers::*, *};
use crate::stop;

/// The series of the kernel, and the options that a kernel needs.
pub(super) fn config(machine: &Machine, found: &mut Findings<'_>) {
    let release = &machine.release.name;
    if is_loaded("ib_peer_mem") {
        return ok!(found, "Linux {release} runs ib_peer_mem");
    }
    let table = Kernels::read();
    let fix = table.with_rust(&machine.release);
    if !release.is_empty() && !table.series.contains(&series(&machine.release)) {
        let series = table.series.join(", ");
        return fail!(found, fix, "Linux {release} is not of {series}: DKMS builds no modules for it");
    }
    let files = [format!("/boot/config-{release}"), format!("/lib/modules/{release}/config")];
    let Some(config) = files.iter().find_map(|file| sys::read(file).ok()) else {
        return unknown!(found, "", "Linux {release}: no /boot/config-{release}");
    };
    let lacks =
        |option: &&str| !config.lines().any(|line| matches!(line.strip_prefix(option), Some("=y" | "=m")));
    if lacks(&"CONFIG_RUST") {
        return fail!(found, fix, "Linux {release} is built without CONFIG_RUST, which the modules need");
    }
    let options = ["CONFIG_INFINIBAND_USER_ACCESS", "CONFIG_PCI_P2PDMA", "CONFIG_KPROBES"];
    for option in options.iter().filter(|option| lacks(option)) {
        fail!(found, "", "Linux {release} is built without {option}");
    }
    ok!(found, "Linux {release} is built with CONFIG_RUST");
}

pub(super) fn lockdown(_: &Machine, found: &mut Findings<'_>) {
    let line = sys::line("/sys/kernel/security/lockdown").unwrap_or_default();
    match line.split(['[', ']']).nth(1) {
        None => {}
        Some("none") => ok!(found, "the kernel is not locked down"),
        Some(mode) => {
            let what = "as with Secure Boot: modules must be signed, and io_peer_mem binds nothing";
            warn!(found, "mokutil --sb-state", "the kernel is locked down ({mode}), {what}");
        }
    }
}

/// The IOMMU, by the type of a group: DMA, DMA-FQ, identity.
pub(super) fn iommu(_: &Machine, found: &mut Findings<'_>) {
    if sys::entries("/sys/class/iommu").is_empty() {
        return ok!(found, "no IOMMU is in use");
    }
    let kind = sys::line("/sys/kernel/iommu_groups/0/type").unwrap_or("type not known".into());
    if kind == "identity" {
        return ok!(found, "the IOMMU passes addresses through (identity)");
    }
    let fix =
        "add iommu=pt to the kernel's command line; then devices of the host can access all of its memory";
    let what = "traffic between devices may go through the host bridge";
    warn!(found, fix, "the IOMMU translates ({kind}): {what}");
}

/// ib_uverbs, which is the kernel's own.
pub(super) fn uverbs(_: &Machine, found: &mut Findings<'_>) {
    // Seen by its class where there is no /lib/modules, as in a container.
    if modules::is_builtin("ib_uverbs")
        || !is_loaded("ib_uverbs") && sys::exists("/sys/class/infiniband_verbs")
    {
        ok!(found, "ib_uverbs is a part of the kernel");
    } else if is_loaded("ib_uverbs") {
        loaded("ib_uverbs", found);
    } else if modules::is_installed("ib_uverbs") {
        fail!(found, "modprobe ib_uverbs", "ib_uverbs is installed, but not loaded");
    } else {
        let arch = architecture();
        let fix = format!("a kernel with CONFIG_INFINIBAND_USER_ACCESS, as Debian's linux-image-{arch}");
        fail!(found, fix, "ib_uverbs is not installed for the running kernel");
    }
}

/// ib_peer_mem, and another module that has the functions of its API.
pub(super) fn core(machine: &Machine, found: &mut Findings<'_>) {
    if let Some(other) = modules::other_exporter() {
        let fix = format!("use {other} alone; or a kernel or a stack without it");
        let whose = format!("owned by {other}: clients register with {other}, which serves them");
        let what = "BARs, names of memory and mapped dma-bufs are not available; ibv_reg_dmabuf_mr(3) is";
        let beside = "ib_peer_mem and io_peer_mem cannot be loaded beside it (\"exports duplicate symbol\")";
        return fail!(found, fix, "the functions of ib_peer_mem are {whose}; {beside}. {what}");
    }
    if let Some(other) = modules::other_installed_exporter() {
        let what = "modprobe loads it for a client, and only one of the two can be loaded";
        let whose = format!("{other}, which exports the functions of ib_peer_mem as well");
        warn!(found, "remove one of them; depmod", "depmod has chosen {whose}: {what}");
    }
    if is_loaded("ib_peer_mem") {
        loaded("ib_peer_mem", found);
    } else if modules::is_installed("ib_peer_mem") {
        let fix = "iopm bind BDF; or the driver of the GPU, as modprobe nvidia-peermem";
        warn!(found, fix, "ib_peer_mem is not loaded: no client needs it yet");
    } else if let Some(why) = why_not_built(machine) {
        fail!(found, "dkms autoinstall, when that is mended", "{why}");
    } else {
        fail!(found, Kernels::read().install(), "ib_peer_mem is not installed for the running kernel");
    }
}

/// Why dkms/kernel-tree could not build the modules, in its words, which may name this command.
fn why_not_built(machine: &Machine) -> Option<String> {
    let why = sys::line(format!("/var/cache/ib-peer-mem/{}/why", machine.release.name))?;
    Some(why.trim_end_matches(" (iopm doctor)").to_owned())
}

/// io_peer_mem, which not every machine needs.
pub(super) fn io_peer_mem(machine: &Machine, found: &mut Findings<'_>) {
    if is_loaded("io_peer_mem") {
        loaded("io_peer_mem", found);
    } else if modules::is_installed("io_peer_mem") {
        ok!(found, "io_peer_mem is not loaded: iopm bind does that, for PCI BARs");
    } else if why_not_built(machine).is_none() {
        warn!(found, Kernels::read().install(), "io_peer_mem, which serves PCI BARs, is not installed");
    }
}

/// What fails when the RDMA stack is stopped, in the words of rmmod(8), and what was unloaded for that.
pub(super) fn stack(_: &Machine, found: &mut Findings<'_>) {
    if let Some(stopped) = stop::Stopped::read() {
        let names = stopped.modules.into_iter().map(|(module, _)| module).collect::<Vec<_>>().join(", ");
        let fix = "after the start of the RDMA stack: iopm start";
        return warn!(found, fix, "\"iopm stop\" has unloaded {names}");
    }
    let holders = modules::holders("ib_core");
    if !holders.iter().any(|holder| holder == "ib_peer_mem") {
        return;
    }
    let (modules, users) = stop::in_the_way();
    let (holders, modules) = (holders.join(" "), modules.join(", "));
    let until = match users.is_empty() {
        true => String::new(),
        false => format!(", once no process uses them:\n        | {}", users.join("\n        | ")),
    };
    let what = format!("to stop the RDMA stack, \"iopm stop\" unloads {modules} first{until}");
    ok!(found, "Module ib_core is in use by: {holders}: {what}");
}

/// Checks a module that is loaded: its signature, and its version. An upgrade does not touch it.
fn loaded(name: &str, found: &mut Findings<'_>) {
    let mut version = sys::line(format!("/sys/module/{name}/version")).unwrap_or_default();
    // That of the module that modprobe would load.
    let output = Command::new("/sbin/modinfo").args(["-F", "version", name]).output();
    let text = output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default();
    // Another root is no machine.
    let installed = text.lines().next().filter(|_| sys::root().is_none() && !version.is_empty());
    if let Some(installed) = installed.filter(|installed| *installed != version) {
        let fix = "reboot; or unload the clients and the modules when iopm regions lists nothing";
        warn!(found, fix, "{name} {version} is loaded, but {installed} is installed");
    }
    if !version.is_empty() {
        version.insert_str(0, ", version ");
    }
    if sys::line(format!("/sys/module/{name}/taint")).is_some_and(|taint| taint.contains('E')) {
        let fix = "mokutil --import /var/lib/dkms/mok.pub";
        warn!(found, fix, "{name} is loaded{version}; it is not signed: Secure Boot would refuse it");
    } else {
        ok!(found, "{name} is loaded{version}");
    }
}
