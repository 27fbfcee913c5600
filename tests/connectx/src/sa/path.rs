// SPDX-License-Identifier: GPL-2.0

//! PathRecord: the path from one port to another.
//!
//! All ports are on one switch. So there is one path between two of them, and the question is only
//! whether it is as the request wants it.

use super::{status, Refused};
use crate::bits::Field;
use crate::subnet::{Member, Subnet, FULL_MEMBER};

/// What every path has: an MTU of 4096, 100 Gb/s, a packet that lives for a second.
const MTU: u64 = 5;
const RATE: u64 = 16;
const LIFETIME: u64 = 18;

const BYTES: usize = 64;
const SERVICE_ID: Field = Field::new(0, 64);
const DGID: Field = Field::new(64, 128);
const SGID: Field = Field::new(192, 128);
const DLID: Field = Field::new(320, 16);
const SLID: Field = Field::new(336, 16);
const RAW_TRAFFIC: Field = Field::new(352, 1);
const FLOW_LABEL: Field = Field::new(356, 20);
const TRAFFIC_CLASS: Field = Field::new(384, 8);
const REVERSIBLE: Field = Field::new(392, 1);
const COUNT: Field = Field::new(393, 7);
const PKEY: Field = Field::new(400, 16);
const QOS_CLASS: Field = Field::new(416, 12);
const SERVICE_LEVEL: Field = Field::new(428, 4);
const MTU_SELECTOR: Field = Field::new(432, 2);
const MTU_VALUE: Field = Field::new(434, 6);
const RATE_SELECTOR: Field = Field::new(440, 2);
const RATE_VALUE: Field = Field::new(442, 6);
const LIFETIME_SELECTOR: Field = Field::new(448, 2);
const LIFETIME_VALUE: Field = Field::new(450, 6);

/// The bits of the components that a request gives.
mod component {
    pub const SERVICE_ID: u64 = 0b11;
    pub const DGID: u64 = 1 << 2;
    pub const SGID: u64 = 1 << 3;
    pub const DLID: u64 = 1 << 4;
    pub const SLID: u64 = 1 << 5;
    pub const RAW_TRAFFIC: u64 = 1 << 6;
    pub const FLOW_LABEL: u64 = 1 << 8;
    pub const TRAFFIC_CLASS: u64 = 1 << 10;
    pub const PKEY: u64 = 1 << 13;
    pub const QOS_CLASS: u64 = 1 << 14;
    pub const SERVICE_LEVEL: u64 = 1 << 15;
    pub const MTU: u64 = 0b11 << 16;
    pub const RATE: u64 = 0b11 << 18;
    pub const LIFETIME: u64 = 0b11 << 20;
    /// Bit 7 is a reserved field, and there are 23 components.
    pub const RESERVED: u64 = 1 << 7 | !0 << 23;
}

/// What the two bits before a value mean.
mod selector {
    pub const GREATER: u64 = 0;
    pub const LESS: u64 = 1;
    pub const EXACTLY: u64 = 2;
}

/// The rates by their codes, which are not in order, in units of 0.5 Gb/s.
const RATES: [(u64, u32); 22] = [
    (2, 5),
    (3, 20),
    (4, 60),
    (5, 10),
    (6, 40),
    (7, 80),
    (8, 120),
    (9, 160),
    (10, 240),
    (11, 28),
    (12, 112),
    (13, 224),
    (14, 336),
    (15, 50),
    (16, 200),
    (17, 400),
    (18, 600),
    (19, 56),
    (20, 100),
    (21, 800),
    (22, 1200),
    (23, 1600),
];

/// Returns the rate that a code stands for.
fn speed(code: u64) -> Option<u32> {
    RATES
        .iter()
        .find(|(known, _)| *known == code)
        .map(|(_, speed)| *speed)
}

const NO_PATH: Refused = Refused::new(status::NO_RECORDS, "no path is like this");

/// Returns the record of the path that a request describes by the components in `given`.
pub fn record(subnet: &Subnet, given: u64, request: &[u8]) -> Result<Vec<u8>, Refused> {
    // All bits of a component.
    let has = |component: u64| given & component == component;
    if given & component::RESERVED != 0 {
        return Err(Refused::new(status::INVALID, "no such component"));
    }
    let end = |gid: (u64, Field), lid: (u64, Field)| {
        let gid = has(gid.0).then(|| gid.1.slice(request));
        let lid = has(lid.0).then(|| lid.1.get(request) as u16);
        port(subnet, gid, lid)
    };
    let from = end((component::SGID, SGID), (component::SLID, SLID))?;
    let to = end((component::DGID, DGID), (component::DLID, DLID))?;
    // The high bit of a key says what kind of member the port is.
    let same_partition = (PKEY.get(request) as u16 ^ FULL_MEMBER) & 0x7fff == 0;
    if has(component::PKEY) && !same_partition
        || [
            (component::RAW_TRAFFIC, RAW_TRAFFIC),
            (component::QOS_CLASS, QOS_CLASS),
            (component::SERVICE_LEVEL, SERVICE_LEVEL),
        ]
        .iter()
        .any(|(component, field)| has(*component) && field.is_set(request))
    {
        return Err(NO_PATH);
    }
    for (component, select, field, offer) in [
        (component::MTU, MTU_SELECTOR, MTU_VALUE, MTU),
        (
            component::LIFETIME,
            LIFETIME_SELECTOR,
            LIFETIME_VALUE,
            LIFETIME,
        ),
    ] {
        if has(component) && !fits(select.get(request), field.get(request), offer) {
            return Err(NO_PATH);
        }
    }
    if has(component::RATE) {
        let (Some(wanted), Some(offer)) = (speed(RATE_VALUE.get(request)), speed(RATE)) else {
            return Err(Refused::new(status::INVALID, "no such rate"));
        };
        if !fits(RATE_SELECTOR.get(request), wanted, offer) {
            return Err(NO_PATH);
        }
    }
    let mut path = vec![0; BYTES];
    for (component, field) in [
        (component::SERVICE_ID, SERVICE_ID),
        (component::FLOW_LABEL, FLOW_LABEL),
        (component::TRAFFIC_CLASS, TRAFFIC_CLASS),
    ] {
        if has(component) {
            field.set(&mut path, field.get(request));
        }
    }
    DGID.rest_mut(&mut path)[..16].copy_from_slice(&to.gid);
    SGID.rest_mut(&mut path)[..16].copy_from_slice(&from.gid);
    // The hop limit is 0: within the subnet there is no global route header.
    for (field, value) in [
        (DLID, to.lid.into()),
        (SLID, from.lid.into()),
        (REVERSIBLE, 1),
        (COUNT, 1),
        (PKEY, FULL_MEMBER.into()),
        (MTU_SELECTOR, selector::EXACTLY),
        (MTU_VALUE, MTU),
        (RATE_SELECTOR, selector::EXACTLY),
        (RATE_VALUE, RATE),
        (LIFETIME_SELECTOR, selector::EXACTLY),
        (LIFETIME_VALUE, LIFETIME),
    ] {
        field.set(&mut path, value);
    }
    Ok(path)
}

/// Returns the port at one end of the path.
fn port(subnet: &Subnet, gid: Option<&[u8]>, lid: Option<u16>) -> Result<Member, Refused> {
    const UNKNOWN: Refused = Refused::new(status::INVALID_GID, "no port has the GID");
    let by_gid = gid.map(|gid| subnet.with_gid(gid).ok_or(UNKNOWN));
    let by_lid = lid.map(|lid| subnet.with_lid(lid).ok_or(NO_PATH));
    match (by_gid.transpose()?, by_lid.transpose()?) {
        (Some(port), Some(same)) if port != same => Err(NO_PATH),
        (Some(port), _) | (None, Some(port)) => Ok(port),
        (None, None) => Err(Refused::new(
            status::TOO_FEW_COMPONENTS,
            "a path has two ends",
        )),
    }
}

/// Returns whether what is offered is as wanted.
fn fits<T: PartialOrd>(select: u64, wanted: T, offered: T) -> bool {
    match select {
        selector::GREATER => offered > wanted,
        selector::LESS => offered < wanted,
        selector::EXACTLY => offered == wanted,
        // The best one, whatever the value: there is one.
        _ => true,
    }
}

#[cfg(test)]
mod tests;
