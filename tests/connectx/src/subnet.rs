// SPDX-License-Identifier: GPL-2.0

//! The InfiniBand subnet: the ports of all functions, as its subnet manager has found them.
//!
//! The manager is a node of its own. It has no port that could be seen, only the subnet
//! administration (`sa.rs`), which answers at [`MANAGER_LID`].

use crate::fabric::Fabric;

/// The LID of the subnet manager; those of the ports are below.
pub const MANAGER_LID: u16 = 0x100;
/// The default prefix of a subnet.
pub const PREFIX: u64 = 0xfe80_0000_0000_0000;
/// The GUID at which every port reaches the subnet administration of its subnet.
const ADMINISTRATION_GUID: u64 = 0x0200_0000_0000_0002;
/// The default partition, of which all ports are full members.
pub const FULL_MEMBER: u16 = 0xffff;

/// Returns the GID of a GUID in this subnet.
pub fn gid(guid: u64) -> [u8; 16] {
    let mut gid = [0; 16];
    gid[..8].copy_from_slice(&PREFIX.to_be_bytes());
    gid[8..].copy_from_slice(&guid.to_be_bytes());
    gid
}

/// Returns whether an address is that of the subnet manager: a GID if there is a global route
/// header, else a LID.
pub fn is_manager(grh: bool, to: &[u8; 16], lid: u16) -> bool {
    match grh {
        true => *to == gid(ADMINISTRATION_GUID),
        false => lid == MANAGER_LID,
    }
}

/// Returns the GID that the subnet manager sends from.
pub fn manager_gid() -> [u8; 16] {
    gid(ADMINISTRATION_GUID)
}

/// A port.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Member {
    pub gid: [u8; 16],
    pub lid: u16,
}

/// The ports of the subnet.
pub struct Subnet {
    members: Vec<Member>,
}

impl Subnet {
    /// Creates a subnet of these ports.
    pub fn new(members: Vec<Member>) -> Self {
        Self { members }
    }

    /// Returns the port with this GID.
    pub fn with_gid(&self, gid: &[u8]) -> Option<Member> {
        self.members.iter().copied().find(|port| port.gid == gid)
    }

    /// Returns the port with this LID.
    pub fn with_lid(&self, lid: u16) -> Option<Member> {
        self.members.iter().copied().find(|port| port.lid == lid)
    }
}

impl Fabric {
    /// Returns the subnet as it is now.
    pub fn subnet(&self) -> Subnet {
        let ports = self
            .functions
            .iter()
            .filter(|function| function.alive() && function.port.infiniband)
            .map(|function| Member {
                gid: function.port.gid(0).gid,
                lid: function.port.lid,
            });
        Subnet::new(ports.collect())
    }
}
