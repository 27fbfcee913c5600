// SPDX-License-Identifier: GPL-2.0

//! MCMemberRecord: the multicast groups of the subnet, and the ports that are members of them.
//!
//! A group is created by the first join of it, and deleted by the last member that leaves. The
//! group of IPoIB's broadcasts is always there, as of other subnet managers.

use std::collections::BTreeMap;

use super::path::{self, fits, selector, speed};
use super::{status, Refused};
use crate::bits::Field;
use crate::multicast::is_group;
use crate::subnet::{Subnet, FULL_MEMBER};

/// The LIDs of groups.
const FIRST_LID: u16 = 0xc000;
/// How many groups there can be.
const MOST: usize = 256;

const BYTES: usize = 52;
const MGID: Field = Field::new(0, 128);
const PORT_GID: Field = Field::new(128, 128);
const KEY: Field = Field::new(256, 32);
const LID: Field = Field::new(288, 16);
const MTU_SELECTOR: Field = Field::new(304, 2);
const MTU: Field = Field::new(306, 6);
const TRAFFIC_CLASS: Field = Field::new(312, 8);
const PKEY: Field = Field::new(320, 16);
const RATE_SELECTOR: Field = Field::new(336, 2);
const RATE: Field = Field::new(338, 6);
const LIFETIME_SELECTOR: Field = Field::new(344, 2);
const LIFETIME: Field = Field::new(346, 6);
const SERVICE_LEVEL: Field = Field::new(352, 4);
const FLOW_LABEL: Field = Field::new(356, 20);
const HOP_LIMIT: Field = Field::new(376, 8);
const SCOPE: Field = Field::new(384, 4);
const JOIN_STATE: Field = Field::new(388, 4);

/// The bits of the components that a request gives.
mod component {
    pub const MGID: u64 = 1;
    pub const PORT_GID: u64 = 1 << 1;
    pub const KEY: u64 = 1 << 2;
    pub const MTU: u64 = 0b11 << 4;
    pub const TRAFFIC_CLASS: u64 = 1 << 6;
    pub const PKEY: u64 = 1 << 7;
    pub const RATE: u64 = 0b11 << 8;
    pub const LIFETIME: u64 = 0b11 << 10;
    pub const SERVICE_LEVEL: u64 = 1 << 12;
    pub const FLOW_LABEL: u64 = 1 << 13;
    pub const HOP_LIMIT: u64 = 1 << 14;
    pub const JOIN_STATE: u64 = 1 << 16;
    pub const RESERVED: u64 = !0 << 18;
    /// What every request gives.
    pub const MEMBER: u64 = MGID | PORT_GID | JOIN_STATE;
    /// And the first join of a group besides.
    pub const CREATE: u64 = KEY | TRAFFIC_CLASS | PKEY | SERVICE_LEVEL | FLOW_LABEL;
}

/// The bits of the state of a member.
pub mod member {
    /// Sends and receives; the group lives as long as it has such a member.
    pub const FULL: u8 = 1;
    /// Receives.
    pub const NON: u8 = 1 << 1;
}

/// The values that a join has to share with its group, as they are in the record.
const SHARED: [(u64, Field); 6] = [
    (component::KEY, KEY),
    (component::TRAFFIC_CLASS, TRAFFIC_CLASS),
    (component::PKEY, PKEY),
    (component::SERVICE_LEVEL, SERVICE_LEVEL),
    (component::FLOW_LABEL, FLOW_LABEL),
    (component::HOP_LIMIT, HOP_LIMIT),
];

/// One group.
struct Group {
    /// The record, but for its member.
    record: Vec<u8>,
    /// The states of its ports, by GID.
    members: BTreeMap<[u8; 16], u8>,
    permanent: bool,
}

/// All groups, by GID.
pub struct Groups(BTreeMap<[u8; 16], Group>);

impl Default for Groups {
    /// Creates the group of IPoIB's broadcasts in the default partition, with its usual key and
    /// an MTU of 2048.
    fn default() -> Self {
        const BROADCAST: [u8; 16] = [
            0xff, 0x12, 0x40, 0x1b, 0xff, 0xff, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff,
        ];
        const IPOIB_KEY: u64 = 0xb1b;
        const MTU_2048: u64 = 4;
        let mut request = vec![0; BYTES];
        copy(&mut request, MGID, &BROADCAST);
        for (field, value) in [
            (KEY, IPOIB_KEY),
            (MTU_SELECTOR, selector::EXACTLY),
            (MTU, MTU_2048),
            (PKEY, FULL_MEMBER.into()),
        ] {
            field.set(&mut request, value);
        }
        let mut group = Group::new(FIRST_LID, component::MTU, &request);
        group.permanent = true;
        Self([(BROADCAST, group)].into())
    }
}

fn copy(record: &mut [u8], field: Field, gid: &[u8; 16]) {
    field.rest_mut(record)[..16].copy_from_slice(gid);
}

fn gid(record: &[u8], field: Field) -> [u8; 16] {
    let mut gid = [0; 16];
    crate::bits::put(&mut gid, 0, field.slice(record));
    gid
}

impl Group {
    /// Creates a group as a request describes it by the components in `given`.
    fn new(lid: u16, given: u64, request: &[u8]) -> Self {
        let mut record = vec![0; BYTES];
        copy(&mut record, MGID, &gid(request, MGID));
        for (_, field) in SHARED {
            field.set(&mut record, field.get(request));
        }
        for (component, select, field, most) in [
            (component::MTU, MTU_SELECTOR, MTU, path::MTU),
            (component::RATE, RATE_SELECTOR, RATE, path::RATE),
            (
                component::LIFETIME,
                LIFETIME_SELECTOR,
                LIFETIME,
                path::LIFETIME,
            ),
        ] {
            let given = given & component == component;
            let value = match given && select.get(request) == selector::EXACTLY {
                true => field.get(request),
                false => most,
            };
            select.set(&mut record, selector::EXACTLY);
            field.set(&mut record, value);
        }
        LID.set(&mut record, lid.into());
        let scope = record[1] & 0xf;
        SCOPE.set(&mut record, scope.into());
        Self {
            record,
            members: BTreeMap::new(),
            permanent: false,
        }
    }

    /// Returns whether the group is as a join wants it.
    fn matches(&self, given: u64, request: &[u8]) -> bool {
        let has = |component: u64| given & component == component;
        let value = |field: Field| (field.get(request), field.get(&self.record));
        SHARED.iter().all(|(component, field)| {
            let (wanted, have) = value(*field);
            !has(*component) || wanted == have
        }) && [
            (component::MTU, MTU_SELECTOR, MTU),
            (component::LIFETIME, LIFETIME_SELECTOR, LIFETIME),
        ]
        .iter()
        .all(|(component, select, field)| {
            let (wanted, have) = value(*field);
            !has(*component) || fits(select.get(request), wanted, have)
        }) && (!has(component::RATE) || {
            let (wanted, have) = value(RATE);
            match (speed(wanted), speed(have)) {
                (Some(wanted), Some(have)) => fits(RATE_SELECTOR.get(request), wanted, have),
                _ => false,
            }
        })
    }

    /// Returns the record of one member.
    fn record(&self, port: &[u8; 16], state: u8) -> Vec<u8> {
        let mut record = self.record.clone();
        copy(&mut record, PORT_GID, port);
        JOIN_STATE.set(&mut record, state.into());
        record
    }
}

const INVALID: Refused = Refused::new(status::INVALID, "the group or the port is not so");

impl Groups {
    /// Returns whether a port gets what is sent to a group.
    pub fn receives(&self, group: &[u8; 16], port: &[u8; 16]) -> bool {
        let state = self.0.get(group).and_then(|group| group.members.get(port));
        state.is_some_and(|state| state & (member::FULL | member::NON) != 0)
    }

    /// Makes a port a member of a group, which is created if it is not there. Returns the record.
    pub fn join(
        &mut self,
        subnet: &Subnet,
        given: u64,
        request: &[u8],
    ) -> Result<Vec<u8>, Refused> {
        let (mgid, port, state) = asked(given, request)?;
        if subnet.with_gid(&port).is_none() {
            return Err(INVALID);
        }
        if !self.0.contains_key(&mgid) {
            self.create(&mgid, given, state, request)?;
        }
        let Some(group) = self.0.get_mut(&mgid) else {
            return Err(INVALID);
        };
        if !group.matches(given, request) {
            return Err(Refused::new(status::INVALID, "the group is another one"));
        }
        let states = group.members.entry(port).or_insert(0);
        *states |= state;
        let states = *states;
        Ok(group.record(&port, states))
    }

    fn create(
        &mut self,
        mgid: &[u8; 16],
        given: u64,
        state: u8,
        request: &[u8],
    ) -> Result<(), Refused> {
        if given & component::CREATE != component::CREATE {
            return Err(Refused::new(
                status::TOO_FEW_COMPONENTS,
                "the group is not there, and the request does not describe it",
            ));
        }
        if state & member::FULL == 0 {
            return Err(Refused::new(
                status::INVALID,
                "only a full member creates a group",
            ));
        }
        let used = |lid: u16| {
            let mut groups = self.0.values();
            groups.any(|group| LID.get(&group.record) == u64::from(lid))
        };
        let lid = (FIRST_LID..).take(MOST).find(|lid| !used(*lid));
        let lid = lid.ok_or(Refused::new(status::NO_RESOURCES, "no LID is left"))?;
        let group = Group::new(lid, given, request);
        // As the ports are.
        if !group.matches(given, request)
            || PKEY.get(request) != u64::from(FULL_MEMBER)
            || MTU.get(&group.record) > path::MTU
            || speed(RATE.get(&group.record)) > speed(path::RATE)
        {
            return Err(Refused::new(status::INVALID, "no port can be in the group"));
        }
        self.0.insert(*mgid, group);
        Ok(())
    }

    /// Ends what a port is in a group. Returns the record as it is then.
    pub fn leave(&mut self, given: u64, request: &[u8]) -> Result<Vec<u8>, Refused> {
        let (mgid, port, state) = asked(given, request)?;
        let group = self.0.get_mut(&mgid).ok_or(INVALID)?;
        let states = group.members.get_mut(&port).ok_or(INVALID)?;
        if *states & state != state {
            return Err(INVALID);
        }
        *states &= !state;
        let left = *states;
        if left == 0 {
            group.members.remove(&port);
        }
        let record = group.record(&port, left);
        let full = |states: &u8| states & member::FULL != 0;
        if !group.permanent && !group.members.values().any(full) {
            self.0.remove(&mgid);
        }
        Ok(record)
    }
}

/// Returns the group, the port, and what the port is to be, or no longer.
fn asked(given: u64, request: &[u8]) -> Result<([u8; 16], [u8; 16], u8), Refused> {
    if given & component::RESERVED != 0 {
        return Err(Refused::new(status::INVALID, "no such component"));
    }
    if given & component::MEMBER != component::MEMBER {
        return Err(Refused::new(
            status::TOO_FEW_COMPONENTS,
            "no group, no port or no state",
        ));
    }
    let mgid = gid(request, MGID);
    let state = JOIN_STATE.get(request) as u8;
    if !is_group(&mgid) || state == 0 {
        return Err(INVALID);
    }
    Ok((mgid, gid(request, PORT_GID), state))
}

#[cfg(test)]
mod tests;
