// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause

//! Checks of the drivers of GPUs, if there is such a GPU or driver.

use super::*;
use crate::gpu::LIBRARY;

const DKMS: &str = "/var/lib/dkms";

/// What to do without a driver of NVIDIA.
fn release_fix(release: &Release) -> String {
    let notes = format!("a release whose notes name Linux {}", headers::series(release));
    format!("install NVIDIA's open kernel modules after ib-peer-mem-dkms, of {notes}")
}

/// NVIDIA's modules that DKMS has not installed for the running kernel, with the errors of the build. A line:
/// NAME/VERSION[, RELEASE, ARCHITECTURE]: STATE
pub(super) fn nvidia_dkms(machine: &Machine, found: &mut Findings<'_>) {
    let release = &machine.release.name;
    let output = Command::new("dkms")
        .args(["status", "-k", release, "--dkmstree"])
        .arg(sys::path(DKMS))
        .stderr(Stdio::null())
        .output();
    let text = output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default();
    for line in text.lines().filter(|line| line.starts_with("nvidia")) {
        let module = line.split([',', ':', ' ']).next().unwrap_or(line);
        if line.contains(": installed") {
            ok!(found, "dkms status: {line}");
            continue;
        }
        let (fix, log) = match line.contains(": built") {
            true => (format!("dkms install {module} -k {release}"), String::new()),
            false => (release_fix(&machine.release), build_log(module, release)),
        };
        fail!(found, fix, "dkms status: {line}: not installed for Linux {release}{log}");
    }
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
    let last = [&errors, &lines].map(|lines| lines[lines.len().saturating_sub(SHOWN)..].iter());
    let last = last.into_iter().flatten().map(|line| format!("\n        | {line:.120}"));
    iter::once("; in make.log:".into()).chain(last).collect()
}

pub(super) fn nvidia(machine: &Machine, found: &mut Findings<'_>) {
    let fix = release_fix(&machine.release);
    let is_there = |memory: &Memory| memory.kind == Kind::Gpu && memory.function.vendor == 0x10de;
    match sys::line("/proc/driver/nvidia/version") {
        None if !machine.memories.iter().any(is_there) => {}
        None => warn!(found, fix, "NVIDIA's driver is not loaded"),
        Some(version) if version.contains("Open Kernel Module") => {
            ok!(found, "NVIDIA's open kernel modules (dma-bufs need no nvidia-peermem)");
            by_address(found);
            peermem(found);
        }
        Some(_) => {
            let what = "which are GPL-only, to a module that depends on them";
            let text = "NVIDIA's closed kernel modules: the kernel refuses the symbols of ib_peer_mem";
            fail!(found, fix, "{text}, {what}");
        }
    }
}

fn by_address(found: &mut Findings<'_>) {
    if gpu::library().is_none() {
        return warn!(found, "install iopm", "without {LIBRARY} memory by address needs nvidia-peermem");
    }
    let by = match sys::exists("/dev/ib_peer_mem") {
        true => "",
        false => ", in the program itself, as there is no /dev/ib_peer_mem",
    };
    ok!(found, "iopm gpu PROGRAM registers memory by address, with {LIBRARY}{by}");
    let processes = gpu::processes(LIBRARY).join(", ");
    if !processes.is_empty() {
        ok!(found, "with it run the processes {processes}");
    }
}

fn peermem(found: &mut Findings<'_>) {
    if sys::exists(format!("{PEERS}/nv_mem")) || is_loaded("nvidia_peermem") {
        ok!(found, "nvidia-peermem is loaded");
    } else if !modules::is_installed("nvidia-peermem") {
        let what = "without iopm gpu only dma-bufs reach the GPU's memory";
        warn!(found, "", "nvidia-peermem is not installed: {what}");
    } else if modules::depends_on("nvidia-peermem", "ib_peer_mem") {
        fail!(found, "modprobe nvidia-peermem", "nvidia-peermem is not loaded");
    } else {
        // Its build looks where MLNX_OFED would have the symbols, and ib-peer-mem-compat puts them there.
        let settings = sys::read("/etc/default/ib-peer-mem").unwrap_or_default();
        let enabled = settings.lines().any(|line| line == "COMPAT=yes");
        let enable = if enabled { "" } else { "ib-peer-mem-compat enable && " };
        let fix = format!("{enable}ib-peer-mem-compat rebuild && modprobe nvidia-peermem");
        let what = "modprobe answers \"Invalid argument\"";
        fail!(found, fix, "nvidia-peermem was built without ib_peer_mem's symbols: {what}");
    }
}

pub(super) fn amd(_: &Machine, found: &mut Findings<'_>) {
    if !is_loaded("amdgpu") {
    } else if sys::exists(format!("{PEERS}/amdkfd")) {
        ok!(found, "amdgpu is a client");
    } else {
        let what = "the kernel's own has dma-bufs only, and AMD's DKMS driver looks for ib_peer_mem when it is loaded";
        warn!(found, "with AMD's DKMS driver: rmmod amdgpu; modprobe amdgpu", "amdgpu is no client: {what}");
    }
}
