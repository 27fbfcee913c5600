// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause

//! Checks of the drivers of GPUs, if there is such a GPU or driver.

use super::{Finding, Machine};
use crate::{
    modules::{self, is_loaded},
    stack::{Kind, PEERS},
    sys::{self, Release},
};
use std::process::{Command, Stdio};

const DKMS: &str = "/var/lib/dkms";

/// What to do without a driver of NVIDIA.
fn release_fix(release: &Release) -> String {
    let (major, minor) = release.version;
    format!(
        "install NVIDIA's open kernel modules after ib-peer-mem-dkms, of a release whose notes name Linux \
         {major}.{minor}"
    )
}

/// NVIDIA's modules that DKMS has not installed for the running kernel, with the errors of the build.
pub(super) fn nvidia_dkms(machine: &Machine) -> Vec<Finding> {
    let output = Command::new("dkms")
        .args(["status", "-k", &machine.release.name, "--dkmstree"])
        .arg(sys::path(DKMS))
        .stderr(Stdio::null())
        .output();
    let text = output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default();
    let lines = text.lines().filter(|line| line.starts_with("nvidia"));
    lines.map(|line| dkms_line(line, &machine.release)).collect()
}

/// `line`: NAME/VERSION[, RELEASE, ARCHITECTURE]: STATE
fn dkms_line(line: &str, release: &Release) -> Finding {
    if line.contains(": installed") {
        return Finding::ok(format!("dkms status: {line}"));
    }
    let (module, release_name) = (line.split([',', ':', ' ']).next().unwrap_or(line), &release.name);
    let text = format!("dkms status: {line}: not installed for Linux {release_name}");
    if line.contains(": built") {
        return Finding::fail(text).fix(format!("dkms install {module} -k {release_name}"));
    }
    Finding::fail(text + &build_log(module, release_name)).fix(release_fix(release))
}

/// Returns the compiler's errors and the last lines of the log, if that is of this kernel, which its first
/// line names.
fn build_log(module: &str, release: &str) -> String {
    const SHOWN: usize = 3;
    let log = sys::read(format!("{DKMS}/{module}/build/make.log")).unwrap_or_default();
    let lines: Vec<_> = log.lines().filter(|line| !line.is_empty()).collect();
    if !lines.first().is_some_and(|line| line.contains(release)) {
        return String::new();
    }
    let errors: Vec<_> = lines.iter().copied().filter(|line| line.contains("error:")).collect();
    let tails = [&errors, &lines].map(|lines| &lines[lines.len().saturating_sub(SHOWN)..]);
    let shown = tails
        .into_iter()
        .flatten()
        .map(|line| format!("\n        | {}", line.chars().take(120).collect::<String>()));
    format!("; in make.log:{}", shown.collect::<String>())
}

/// The flavour of NVIDIA's driver, and its client.
pub(super) fn nvidia(machine: &Machine) -> Vec<Finding> {
    let version = sys::line("/proc/driver/nvidia/version");
    let is_there =
        |memory: &crate::stack::Memory| memory.kind == Kind::Gpu && memory.function.vendor == 0x10de;
    let Some(version) = version else {
        let text = "NVIDIA's driver is not loaded";
        let there = machine.memories.iter().any(is_there);
        return there.then(|| Finding::warn(text).fix(release_fix(&machine.release))).into_iter().collect();
    };
    if !version.contains("Open Kernel Module") {
        let text =
            "NVIDIA's closed kernel modules: the kernel refuses the symbols of ib_peer_mem, which are \
                    GPL-only, to a module that depends on them";
        return vec![Finding::fail(text).fix(release_fix(&machine.release))];
    }
    let open = "NVIDIA's open kernel modules (dma-bufs need no nvidia-peermem)";
    vec![Finding::ok(open), peermem(&machine.release)]
}

fn peermem(release: &Release) -> Finding {
    if sys::exists(format!("{PEERS}/nv_mem")) || is_loaded("nvidia_peermem") {
        return Finding::ok("nvidia-peermem is loaded");
    }
    if !modules::is_installed("nvidia-peermem") {
        return Finding::warn("nvidia-peermem is not installed: only dma-bufs reach the GPU's memory");
    }
    let dependencies = sys::read(format!("/lib/modules/{}/modules.dep", release.name)).unwrap_or_default();
    let line = dependencies
        .lines()
        .find(|line| line.split(':').next().is_some_and(|m| m.contains("/nvidia-peermem.ko")));
    if line.is_some_and(|line| line.contains("/ib_peer_mem.ko")) {
        return Finding::fail("nvidia-peermem is not loaded").fix("modprobe nvidia-peermem");
    }
    // Its build looks where MLNX_OFED would have the symbols, and ib-peer-mem-compat puts them there.
    let settings = sys::read("/etc/default/ib-peer-mem").unwrap_or_default();
    let enabled = settings.lines().any(|line| line == "COMPAT=yes");
    let rebuild = "ib-peer-mem-compat rebuild && modprobe nvidia-peermem";
    let text =
        "nvidia-peermem was built without ib_peer_mem's symbols: modprobe answers \"Invalid argument\"";
    Finding::fail(text).fix(if enabled {
        rebuild.into()
    } else {
        format!("ib-peer-mem-compat enable && {rebuild}")
    })
}

/// AMD's driver.
pub(super) fn amd(_: &Machine) -> Vec<Finding> {
    if !is_loaded("amdgpu") {
        return Vec::new();
    }
    vec![if sys::exists(format!("{PEERS}/amdkfd")) {
        Finding::ok("amdgpu is a client")
    } else {
        let text =
            "amdgpu is no client: the kernel's own has dma-bufs only, and AMD's DKMS driver looks for \
                    ib_peer_mem when it is loaded";
        Finding::warn(text).fix("with AMD's DKMS driver: rmmod amdgpu; modprobe amdgpu")
    }]
}
