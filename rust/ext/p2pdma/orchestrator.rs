// SPDX-License-Identifier: GPL-2.0

//! The orchestrator of peer-to-peer DMA: routes and distances between devices.
//!
//! C header: [`include/linux/pci-p2pdma.h`](srctree/include/linux/pci-p2pdma.h).

use crate::shared::{
    ext::base::{
        device::as_raw as device_raw,
        pci::as_raw, //
    },
    prelude::raw::*, //
};

/// How a device reaches the memory of a function.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Route {
    /// Through common upstream bridges, by bus addresses, bypassing the IOMMU.
    Bridges,
    /// Through the host bridge, by addresses of the DMA API.
    HostBridge,
}

/// Why a device cannot reach the memory of a function.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Obstacle {
    /// The device is not a PCI function, and not a descendant of one.
    NotPci,
    /// The only route is through a host bridge that is not on the kernel's allowlist.
    HostBridge,
    /// Common upstream bridges redirect to the host bridge (ACS), which is not on the allowlist.
    Redirected,
}

impl Obstacle {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::NotPci => "it is not a PCI device",
            Self::HostBridge => "no bridge is above both, and the host bridge is not known to route peer-to-peer traffic",
            Self::Redirected => "a bridge above both redirects to the host bridge (ACS), which is not known to route peer-to-peer traffic",
        }
    }
}

/// Returns the route from `client` to `provider` and the distance.
///
/// The distance is 0 for the function itself, 2 for another function of the same slot, 4 below one
/// switch. `provider` need not have registered memory. Context: may sleep.
pub fn route(provider: &pci::Device, client: &device::Device) -> Result<(Route, u32), Obstacle> {
    let mut clients = [device_raw(client)];
    // SAFETY: Both devices are valid while they are borrowed, and the array has one entry.
    let distance = unsafe {
        bindings::pci_p2pdma_distance_many(as_raw(provider), clients.as_mut_ptr(), 1, false)
    };
    // SAFETY: Both devices are valid while they are borrowed.
    let path = unsafe { helpers::ext_pci_path(as_raw(provider), device_raw(client)) };
    judge(distance, path)
}

/// Returns the distance of `client` from `provider`; see [`route`]. Context: may sleep.
pub fn distance(provider: &pci::Device, client: &device::Device) -> Result<u32, Obstacle> {
    route(provider, client).map(|(_, distance)| distance)
}

/// Returns the function with published memory that is nearest to all of `clients` together.
///
/// Returns any function of several at equal distance, and `None` if no function can be reached by
/// all clients. Context: may sleep.
pub fn find(clients: &[&device::Device]) -> Result<Option<ARef<pci::Device>>> {
    let mut raws = KVec::with_capacity(clients.len(), GFP_KERNEL)?;
    for client in clients {
        raws.push(device_raw(client), GFP_KERNEL)?;
    }
    let n = raws.len().try_into()?;
    // SAFETY: The array has `n` devices, and the devices are valid while borrowed.
    let found = unsafe { bindings::pci_p2pmem_find_many(raws.as_mut_ptr(), n) };
    // SAFETY:
    // - The call above returned the device with a reference, and the `ARef` takes the reference
    //   over.
    // - `pci::Device` is a transparent wrapper of `struct pci_dev`.
    Ok(NonNull::new(found).map(|dev| unsafe { ARef::from_raw(dev.cast()) }))
}

/// Combines the kernel's distance with the path.
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
#[kunit_tests(ext_orchestrator)]
mod tests {
    use super::*;
    use helpers::{
        ext_pci_path_kind_EXT_PATH_BRIDGES as BRIDGES,
        ext_pci_path_kind_EXT_PATH_HOST as HOST,
        ext_pci_path_kind_EXT_PATH_NONE as NONE,
        ext_pci_path_kind_EXT_PATH_REDIRECTED as REDIRECTED, //
    };

    /// The distance decides whether there is a route, and the path which one it is.
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
            // CAST: The constants are less than 4.
            assert!(judge(distance, path as c_int) == want);
        }
    }
}
