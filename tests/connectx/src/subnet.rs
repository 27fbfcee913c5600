// SPDX-License-Identifier: GPL-2.0

//! The InfiniBand subnet: the ports of all functions, as its subnet manager has found them.
//!
//! The manager is a node of its own, without a port that could be seen. By management datagrams (MADs) to
//! its queue pair 1 it tells what it can do, and the path between two GIDs, as `rdma_cm` and the kernel
//! ask. Everything else is refused with a status of the InfiniBand architecture (volume 1, 15.2.3).

use crate::bits::Field;
use crate::fabric::Fabric;
use crate::function::Function;
use crate::{refuse, trace};

/// The LID of the subnet manager; those of the ports are below.
pub const MANAGER_LID: u16 = 0x100;
/// The default prefix of a subnet.
pub const PREFIX: u64 = 0xfe80_0000_0000_0000;
/// The default partition, of which all ports are full members.
pub const FULL_MEMBER: u16 = 0xffff;
/// The length of a MAD.
pub const MAD: usize = 256;

/// The header of a MAD.
mod header {
    use super::Field;

    pub const CLASS: Field = Field::new(8, 8);
    pub const METHOD: Field = Field::new(24, 8);
    pub const STATUS: Field = Field::new(32, 16);
    pub const ATTRIBUTE: Field = Field::new(128, 16);
    pub const COMPONENTS: Field = Field::new(384, 64);
    /// The attribute.
    pub const DATA: Field = Field::new(448, 1600);
}

/// The fields of a path, and those that a request may give.
mod path {
    use super::Field;

    pub const DGID: Field = Field::new(64, 128);
    pub const SGID: Field = Field::new(192, 128);
    pub const DLID: Field = Field::new(320, 16);
    pub const SLID: Field = Field::new(336, 16);
    pub const TRAFFIC_CLASS: Field = Field::new(384, 8);
    /// Reversible, and one path.
    pub const REVERSIBLE: Field = Field::new(392, 8);
    pub const PKEY: Field = Field::new(400, 16);
    /// The MTU, the rate and the lifetime, each after two bits that say "exactly".
    pub const MTU: Field = Field::new(432, 8);
    pub const RATE: Field = Field::new(440, 8);
    pub const LIFETIME: Field = Field::new(448, 8);

    pub const BOTH_GIDS: u64 = 1 << 2 | 1 << 3;
    /// The service, the GIDs, the traffic class, what kind of path, the partition.
    pub const GIVEN: u64 = 0b11 | BOTH_GIDS | 0b1111 << 10;
}

const SUBNET_ADMINISTRATION: u64 = 3;
const GET: u64 = 0x01;
const RESPONSE: u64 = 0x80;
const CLASS_PORT_INFO: u64 = 0x01;
const PATH_RECORD: u64 = 0x35;

/// What an answer says of its request.
pub mod status {
    pub const BAD_ATTRIBUTE: u16 = 0x000c;
    pub const NO_RECORDS: u16 = 0x0300;
    pub const INVALID_GID: u16 = 0x0500;
    pub const TOO_FEW_COMPONENTS: u16 = 0x0600;
}

/// Returns the GID of a GUID in this subnet.
pub fn gid(guid: u64) -> [u8; 16] {
    let mut gid = [0; 16];
    gid[..8].copy_from_slice(&PREFIX.to_be_bytes());
    gid[8..].copy_from_slice(&guid.to_be_bytes());
    gid
}

impl Fabric {
    /// Returns the answer of the subnet manager to a MAD of function `f`. Fails with a reason if there is
    /// none.
    pub fn administer(&self, f: usize, request: &[u8]) -> Result<[u8; MAD], &'static str> {
        let mut mad: [u8; MAD] = request
            .try_into()
            .map_err(|_| "a MAD does not have this length")?;
        let (method, attribute) = (header::METHOD.get(&mad), header::ATTRIBUTE.get(&mad));
        if header::CLASS.get(&mad) != SUBNET_ADMINISTRATION || method & RESPONSE != 0 {
            return Err("it is no request to the subnet administration");
        }
        let given = header::COMPONENTS.get(&mad);
        let record = match (method, attribute) {
            // Versions; nothing that is optional; an answer takes up to a second.
            (GET, CLASS_PORT_INFO) => Ok(vec![1, 2, 0, 0, 0, 0, 0, 18]),
            (GET, PATH_RECORD) => self.path_record(given, header::DATA.rest(&mad)),
            _ => Err((status::BAD_ATTRIBUTE, "no such method of the attribute")),
        };
        let asked =
            format!("fn{f}: method {method:#x}, attribute {attribute:#x}, given {given:#x}");
        header::METHOD.set(&mut mad, method | RESPONSE);
        match record {
            Ok(record) => {
                trace!(1, "subnet manager: {asked}");
                let data = header::DATA.rest_mut(&mut mad);
                data.fill(0);
                data[..record.len()].copy_from_slice(&record);
            }
            // The attribute is that of the request.
            Err((status, why)) => {
                refuse!("subnet manager: {asked}: status {status:#x}, {why}");
                header::STATUS.set(&mut mad, status.into());
            }
        }
        Ok(mad)
    }

    /// Returns the record of the path between two ports. All ports are on one switch, so there is one path.
    fn path_record(&self, given: u64, request: &[u8]) -> Result<Vec<u8>, (u16, &'static str)> {
        if given & path::BOTH_GIDS != path::BOTH_GIDS {
            return Err((status::TOO_FEW_COMPONENTS, "a path has two ends"));
        }
        if given & !path::GIVEN != 0 {
            return Err((status::NO_RECORDS, "paths are found by their ends"));
        }
        let lid = |gid: Field| {
            let is_it = |function: &&Function| {
                let port = &function.port;
                function.alive() && port.infiniband && port.gid(0).gid == *gid.slice(request)
            };
            let function = self.functions.iter().find(is_it);
            function.map(|function| u64::from(function.port.lid))
        };
        let (Some(from), Some(to)) = (lid(path::SGID), lid(path::DGID)) else {
            return Err((status::INVALID_GID, "no port has the GID"));
        };
        const EXACTLY: u64 = 2 << 6;
        let mut record = request[..64].to_vec();
        // No flow label, and a hop limit of 0: within the subnet there is no global route header.
        record[44..].fill(0);
        for (field, value) in [
            (path::DLID, to),
            (path::SLID, from),
            (path::TRAFFIC_CLASS, path::TRAFFIC_CLASS.get(request)),
            (path::REVERSIBLE, 0x81),
            (path::PKEY, FULL_MEMBER.into()),
            // 4096 bytes, 100 Gb/s, a second.
            (path::MTU, EXACTLY | 5),
            (path::RATE, EXACTLY | 16),
            (path::LIFETIME, EXACTLY | 18),
        ] {
            field.set(&mut record, value);
        }
        Ok(record)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bits::be16;
    use crate::caps::Features;

    /// A request of the first of two ports, for the path to the other one.
    fn request() -> (Fabric, [u8; MAD]) {
        let features = Features {
            infiniband: true,
            ..Features::default()
        };
        let fabric = Fabric::new((0..2).map(|id| Function::new(id, features)).collect());
        let mut mad = [0; MAD];
        mad[..4].copy_from_slice(&[1, 3, 2, 1]);
        header::ATTRIBUTE.set(&mut mad, PATH_RECORD);
        header::COMPONENTS.set(&mut mad, path::GIVEN);
        let data = header::DATA.rest_mut(&mut mad);
        data[..8].fill(0x67);
        path::TRAFFIC_CLASS.set(data, 0x20);
        for (field, f) in [(path::DGID, 1), (path::SGID, 0)] {
            field.rest_mut(data)[..16].copy_from_slice(&fabric.functions[f].port.gid(0).gid);
        }
        (fabric, mad)
    }

    fn status_of(fabric: &Fabric, mad: &[u8]) -> u16 {
        be16(&fabric.administer(0, mad).unwrap(), 4)
    }

    #[test]
    fn a_path_leads_from_port_to_port() {
        let (fabric, request) = request();
        let mad = fabric.administer(0, &request).unwrap();
        let record = header::DATA.rest(&mad);
        assert_eq!((mad[3], be16(&mad, 4)), (0x81, 0));
        // The service and the GIDs.
        assert_eq!(record[..40], header::DATA.rest(&request)[..40]);
        let rest = [
            0, 2, 0, 1, 0, 0, 0, 0, 0x20, 0x81, 0xff, 0xff, 0, 0, 0x85, 0x90, 0x92,
        ];
        assert_eq!(record[40..57], rest);
    }

    #[test]
    fn what_is_not_served_is_refused_with_its_status() {
        let (mut fabric, good) = request();
        for (field, value, status) in [
            (header::METHOD, 0x12, status::BAD_ATTRIBUTE),
            (header::ATTRIBUTE, 0x38, status::BAD_ATTRIBUTE),
            (header::COMPONENTS, 1 << 2, status::TOO_FEW_COMPONENTS),
            (
                header::COMPONENTS,
                path::GIVEN | 1 << 16,
                status::NO_RECORDS,
            ),
        ] {
            let mut bad = good;
            field.set(&mut bad, value);
            assert_eq!(status_of(&fabric, &bad), status, "{value:#x}");
        }
        fabric.functions[1].set_dead(true);
        assert_eq!(status_of(&fabric, &good), status::INVALID_GID);
    }

    #[test]
    fn what_is_no_request_gets_no_answer() {
        let (fabric, good) = request();
        assert!(fabric.administer(0, &good[1..]).is_err());
        // The connection manager's; an answer.
        for (field, value) in [(header::CLASS, 7), (header::METHOD, GET | RESPONSE)] {
            let mut bad = good;
            field.set(&mut bad, value);
            assert!(fabric.administer(0, &bad).is_err());
        }
    }
}
