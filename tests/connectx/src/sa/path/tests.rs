// SPDX-License-Identifier: GPL-2.0

use super::super::tests::subnet;
use super::*;
use crate::subnet::gid;

const ENDS: u64 = component::SGID | component::DGID;

/// A request for the path from LID 1 to LID 2.
fn request() -> [u8; BYTES] {
    let mut request = [0; BYTES];
    SGID.rest_mut(&mut request)[..16].copy_from_slice(&gid(0x1001));
    DGID.rest_mut(&mut request)[..16].copy_from_slice(&gid(0x1002));
    SLID.set(&mut request, 1);
    DLID.set(&mut request, 2);
    request
}

fn status(given: u64, request: &[u8]) -> u16 {
    record(&subnet(), given, request).map_or_else(|refused| refused.status, |_| 0)
}

/// As the connection manager asks.
#[test]
fn a_path_leads_from_port_to_port() {
    const GIVEN: u64 = ENDS
        | component::SERVICE_ID
        | component::TRAFFIC_CLASS
        | component::PKEY
        | 1 << 11
        | 1 << 12;
    let mut request = request();
    SERVICE_ID.set(&mut request, 0x0106_4567);
    TRAFFIC_CLASS.set(&mut request, 0x20);
    PKEY.set(&mut request, 0x7fff);
    REVERSIBLE.set(&mut request, 1);
    COUNT.set(&mut request, 1);
    let path = record(&subnet(), GIVEN, &request).unwrap();
    assert_eq!(path.len(), BYTES);
    assert_eq!(SGID.slice(&path), gid(0x1001));
    assert_eq!(DGID.slice(&path), gid(0x1002));
    for (field, value) in [
        (SERVICE_ID, 0x0106_4567),
        (TRAFFIC_CLASS, 0x20),
        (SLID, 1),
        (DLID, 2),
        (FLOW_LABEL, 0),
        (REVERSIBLE, 1),
        (PKEY, 0xffff),
        (SERVICE_LEVEL, 0),
        (MTU_VALUE, 5),
        (RATE_VALUE, 16),
        (LIFETIME_VALUE, 18),
    ] {
        assert_eq!(field.get(&path), value);
    }
    // The hop limit.
    assert_eq!(path[47], 0);
}

#[test]
fn the_ends_are_given_by_gid_or_lid() {
    let request = request();
    let by_gid = record(&subnet(), ENDS, &request).unwrap();
    for given in [
        component::SLID | component::DLID,
        component::SGID | component::DLID,
        ENDS | component::SLID | component::DLID,
    ] {
        assert_eq!(record(&subnet(), given, &request).unwrap(), by_gid);
    }
    for given in [0, component::SGID, component::DGID, component::DLID] {
        assert_eq!(status(given, &request), status::TOO_FEW_COMPONENTS);
    }
}

#[test]
fn a_port_that_is_not_there_has_no_path() {
    for end in [SGID, DGID] {
        let mut request = request();
        end.rest_mut(&mut request)[15] = 9;
        assert_eq!(status(ENDS, &request), status::INVALID_GID);
    }
    for (lid, component) in [(SLID, component::SLID), (DLID, component::DLID)] {
        let mut request = request();
        // Of no port, and of the other one.
        for value in [9, lid.get(&request) ^ 3] {
            lid.set(&mut request, value);
            assert_eq!(status(ENDS | component, &request), status::NO_RECORDS);
        }
    }
}

#[test]
fn a_path_is_as_it_is_wanted() {
    use component::*;
    let refused = status::NO_RECORDS;
    let mtu = |how| Some((MTU_SELECTOR, how));
    let lifetime = |how| Some((LIFETIME_SELECTOR, how));
    let rate = |how| Some((RATE_SELECTOR, how));
    for (component, select, field, value, want) in [
        (PKEY, None, super::PKEY, 0x8001, refused),
        (RAW_TRAFFIC, None, super::RAW_TRAFFIC, 1, refused),
        (QOS_CLASS, None, super::QOS_CLASS, 1, refused),
        (SERVICE_LEVEL, None, super::SERVICE_LEVEL, 1, refused),
        (MTU, mtu(0), MTU_VALUE, 4, 0),
        (MTU, mtu(0), MTU_VALUE, 5, refused),
        (MTU, mtu(1), MTU_VALUE, 5, refused),
        (MTU, mtu(2), MTU_VALUE, 5, 0),
        (MTU, mtu(2), MTU_VALUE, 4, refused),
        (MTU, mtu(3), MTU_VALUE, 1, 0),
        (LIFETIME, lifetime(1), LIFETIME_VALUE, 19, 0),
        (LIFETIME, lifetime(1), LIFETIME_VALUE, 18, refused),
        // 120, 28 and 1600 Gb/s: the codes are not in order.
        (RATE, rate(1), RATE_VALUE, 10, 0),
        (RATE, rate(0), RATE_VALUE, 19, 0),
        (RATE, rate(1), RATE_VALUE, 19, refused),
        (RATE, rate(2), RATE_VALUE, 16, 0),
        (RATE, rate(2), RATE_VALUE, 1, status::INVALID),
    ] {
        let mut request = request();
        field.set(&mut request, value);
        if let Some((field, value)) = select {
            field.set(&mut request, value);
        }
        let got = status(ENDS | component, &request);
        assert_eq!(got, want, "component {component:#x}, {value}");
        // What is not given does not count.
        assert_eq!(status(ENDS, &request), 0);
    }
}

#[test]
fn there_are_23_components() {
    for bit in [7, 23, 63] {
        assert_eq!(status(ENDS | 1 << bit, &request()), status::INVALID);
    }
}
