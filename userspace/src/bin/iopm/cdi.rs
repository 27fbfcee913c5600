// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause

//! iopm cdi: a specification of the Container Device Interface, for container runtimes.

use crate::prelude::*;

/// Returns a device with these files, as far as there are any.
fn device(name: &str, nodes: &[&Option<String>]) -> Value {
    let node = |path: &String| json!({"path": path, "permissions": "rw"});
    let nodes: Vec<_> = nodes.iter().copied().flatten().map(node).collect();
    json!({"name": name, "containerEdits": {"deviceNodes": nodes}})
}

/// Returns the device that gives a container the library for the memory of NVIDIA's GPUs, if there is such a
/// GPU. Its name there is that of no architecture. Who starts the container sets LD_PRELOAD for programs with
/// glibc: an image may have another C library, in which no program would run, or an LD_PRELOAD of its own.
fn gpu(control: &Option<String>) -> Option<Value> {
    const IN_CONTAINER: &str = "/usr/lib/iopm/libiopm-gpu.so";
    let library = gpu::library().filter(|_| sys::exists("/proc/driver/nvidia/version"))?;
    let mut gpu = device("gpu", &[control]);
    let mount = json!({"hostPath": library, "containerPath": IN_CONTAINER,
        "options": ["ro", "nosuid", "nodev", "bind"]});
    gpu["containerEdits"]["mounts"] = json!([mount]);
    Some(gpu)
}

/// Returns the device file of an RDMA device, /dev/infiniband/uverbsN.
fn verbs_node(device: &str) -> Option<String> {
    let dir = "/sys/class/infiniband_verbs";
    let is_of = |file: &String| sys::line(format!("{dir}/{file}/ibdev")).as_deref() == Some(device);
    let file = sys::names(dir).into_iter().find(is_of)?;
    Some(format!("/dev/infiniband/{file}")).filter(|path| sys::exists(path))
}

/// Returns the text: one device for each BAR and each RDMA device, "all", and "gpu". A device without edits
/// would make runtimes reject the whole.
pub(crate) fn text() -> anyhow::Result<String> {
    let [control, cm] = ["/dev/ib_peer_mem", "/dev/infiniband/rdma_cm"]
        .map(|path| sys::exists(path).then(|| path.to_owned()));
    // The specification is on stdout.
    if let Some(other) = modules::other_exporter() {
        complain(format!(
            "the functions of ib_peer_mem are owned by {other}: no BARs, and no /dev/ib_peer_mem"
        ));
    }
    let (mut devices, mut all) = (Vec::new(), Vec::new());
    for memory in Memory::all().into_iter().filter(|memory| memory.kind == Kind::Bar) {
        // Without the slash, which CDI does not allow.
        devices.push(device(&memory.name.replace('/', "-"), &[&memory.path, &control]));
        all.push(memory.path);
    }
    for adapter in Adapters::find().list {
        let node = verbs_node(&adapter.name);
        if node.is_some() {
            devices.push(device(&adapter.name, &[&node, &cm]));
            all.push(node);
        }
    }
    let gpu = gpu(&control);
    all.extend([control, cm]);
    if all.iter().any(Option::is_some) {
        devices.push(device("all", &all.iter().collect::<Vec<_>>()));
    }
    devices.extend(gpu);
    // What all supported versions of podman, docker, containerd and CRI-O read.
    let specification = json!({"cdiVersion": "0.6.0", "kind": "ib-peer-mem/device", "devices": devices});
    Ok(serde_json::to_string_pretty(&specification)? + "\n")
}
