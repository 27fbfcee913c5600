// SPDX-License-Identifier: GPL-2.0

//! The orchestrator's side of peer-to-peer DMA: who can reach whose memory, and how far it is.
//!
//! C header: [`include/linux/pci-p2pdma.h`](srctree/include/linux/pci-p2pdma.h).

use super::super::{
    bindings::helpers,
    pci::as_raw, //
};
use core::{
    fmt,
    ptr::NonNull, //
};
use kernel::{
    bindings,
    device,
    macros::kunit_tests,
    pci,
    prelude::*,
    sync::aref::ARef, //
};

/// How a function gets at the memory of another one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Route {
    /// Through bridges that both are below, by bus addresses. No IOMMU sees it.
    Bridges,
    /// Through the host bridge, by what the DMA API says.
    HostBridge,
}

/// Why a device cannot get at the memory of a function.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Obstacle {
    /// The device is not a PCI function, and not below one.
    NotPci,
    /// The only way is through a host bridge, and the kernel does not know that it takes it.
    HostBridge,
    /// As above, though bridges lie between the two: they are set to send everything up (ACS).
    Redirected,
}

impl Obstacle {
    /// What to tell people.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::NotPci => "it is not a PCI device",
            Self::HostBridge => "no bridge is above both, and the host bridge is not known to route peer-to-peer traffic",
            Self::Redirected => "a bridge above both redirects to the host bridge (ACS), which is not known to route peer-to-peer traffic",
        }
    }
}

impl fmt::Display for Obstacle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// How far `client` is from `provider`, and by which route: 0 for a function itself, 2 for another
/// one of the same slot, 4 below one switch. `provider` need not have given memory.
///
/// Context: may sleep.
pub fn route(provider: &pci::Device, client: &device::Device) -> Result<(Route, u32), Obstacle> {
    let mut clients = [raw(client)];
    // SAFETY: Both are valid devices, the array has one entry.
    let distance = unsafe {
        bindings::pci_p2pdma_distance_many(as_raw(provider), clients.as_mut_ptr(), 1, false)
    };
    // SAFETY: Both are valid devices.
    let path = unsafe { helpers::ext_pci_path(as_raw(provider), raw(client)) };
    judge(distance, path)
}

/// As [`route`], where the route does not matter.
///
/// Context: may sleep.
pub fn distance(provider: &pci::Device, client: &device::Device) -> Result<u32, Obstacle> {
    route(provider, client).map(|(_, distance)| distance)
}

/// The function nearest to all of `clients` together, of those that have published memory; any of
/// several that are equally near. `None` where there is none that all can reach.
///
/// Context: may sleep.
pub fn find(clients: &[&device::Device]) -> Result<Option<ARef<pci::Device>>> {
    let mut raws = KVec::with_capacity(clients.len(), GFP_KERNEL)?;
    for client in clients {
        raws.push(raw(client), GFP_KERNEL)?;
    }
    let n = raws.len().try_into()?;
    // SAFETY: The array has `n` valid devices.
    let found = unsafe { bindings::pci_p2pmem_find_many(raws.as_mut_ptr(), n) };
    // SAFETY: The function returns a device with a reference, which becomes ours; `pci::Device` is
    // a transparent wrapper.
    Ok(NonNull::new(found).map(|dev| unsafe { ARef::from_raw(dev.cast()) }))
}

/// The `struct device` behind `dev`.
fn raw(dev: &device::Device) -> *mut bindings::device {
    // `device::Device` is a transparent wrapper around an `Opaque<bindings::device>`.
    core::ptr::from_ref(dev).cast_mut().cast()
}

/// Puts together what the kernel says of the distance and what there is on the way.
fn judge(distance: c_int, path: c_int) -> Result<(Route, u32), Obstacle> {
    let path = u32::try_from(path).unwrap_or(helpers::ext_pci_path_kind_EXT_PATH_NONE);
    match (u32::try_from(distance), path) {
        (_, helpers::ext_pci_path_kind_EXT_PATH_NONE) => Err(Obstacle::NotPci),
        (Ok(d), helpers::ext_pci_path_kind_EXT_PATH_BRIDGES) => Ok((Route::Bridges, d)),
        (Ok(d), _) => Ok((Route::HostBridge, d)),
        (Err(_), helpers::ext_pci_path_kind_EXT_PATH_HOST) => Err(Obstacle::HostBridge),
        (Err(_), _) => Err(Obstacle::Redirected),
    }
}

#[cfg(ext_tests)]
#[kunit_tests(ext_p2pdma_route)]
mod tests {
    use super::*;
    use helpers::{
        ext_pci_path_kind_EXT_PATH_BRIDGES as BRIDGES,
        ext_pci_path_kind_EXT_PATH_HOST as HOST,
        ext_pci_path_kind_EXT_PATH_NONE as NONE,
        ext_pci_path_kind_EXT_PATH_REDIRECTED as REDIRECTED, //
    };

    /// The kernel's word decides whether there is a way, and what lies between which one it is.
    #[test]
    fn verdicts() {
        let table = [
            (0, BRIDGES, Ok((Route::Bridges, 0))),
            (4, BRIDGES, Ok((Route::Bridges, 4))),
            (6, REDIRECTED, Ok((Route::HostBridge, 6))),
            (2, HOST, Ok((Route::HostBridge, 2))),
            (-1, HOST, Err(Obstacle::HostBridge)),
            (-1, REDIRECTED, Err(Obstacle::Redirected)),
            (-1, NONE, Err(Obstacle::NotPci)),
        ];
        for (distance, path, want) in table {
            assert!(judge(distance, path as c_int) == want);
        }
    }
}
