// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause

//! iopm cdi: a specification of the Container Device Interface, for container runtimes.

use crate::{
    stack::{Adapters, Kind, Memory},
    sys,
};
use serde::Serialize;

#[derive(Clone, Serialize)]
struct Node {
    path: String,
    permissions: &'static str,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Edits {
    device_nodes: Vec<Node>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Device {
    name: String,
    container_edits: Edits,
}

impl Device {
    fn new(name: String, device_nodes: Vec<Node>) -> Self {
        Self { name, container_edits: Edits { device_nodes } }
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Specification {
    cdi_version: &'static str,
    kind: &'static str,
    devices: Vec<Device>,
}

fn node(path: String) -> Node {
    Node { path, permissions: "rw" }
}

/// Returns the device file of an RDMA device, /dev/infiniband/uverbsN.
fn verbs_node(device: &str) -> Option<Node> {
    let dir = "/sys/class/infiniband_verbs";
    let is_of = |file: &String| sys::line(format!("{dir}/{file}/ibdev")).as_deref() == Some(device);
    let file = sys::names(dir).into_iter().find(is_of)?;
    Some(format!("/dev/infiniband/{file}")).filter(|path| sys::exists(path)).map(node)
}

/// Returns the text: one device for each BAR and each RDMA device, and "all". A device without a node would
/// make runtimes reject the whole.
pub(crate) fn text() -> anyhow::Result<String> {
    let there = |path: &str| sys::exists(path).then(|| node(path.into()));
    let (control, cm) = (there("/dev/ib_peer_mem"), there("/dev/infiniband/rdma_cm"));
    let with = |node, other: &Option<Node>| [node].into_iter().chain(other.clone()).collect();
    let (mut devices, mut all) = (Vec::new(), Vec::new());
    for memory in Memory::find(None).into_iter().filter(|memory| memory.kind == Kind::Bar) {
        let node = node(memory.place().into());
        all.push(node.clone());
        // Without the slash, which CDI does not allow.
        devices.push(Device::new(memory.name.replace('/', "-"), with(node, &control)));
    }
    for adapter in Adapters::find().list {
        if let Some(node) = verbs_node(&adapter.name) {
            all.push(node.clone());
            devices.push(Device::new(adapter.name, with(node, &cm)));
        }
    }
    all.extend(control.into_iter().chain(cm));
    if !all.is_empty() {
        devices.push(Device::new("all".into(), all));
    }
    // What all supported versions of podman, docker, containerd and CRI-O read.
    let specification = Specification { cdi_version: "0.6.0", kind: "ib-peer-mem/device", devices };
    Ok(serde_json::to_string_pretty(&specification)? + "\n")
}
