// SPDX-License-Identifier: GPL-2.0

use super::super::tests::subnet;
use super::*;

const BROADCAST: [u8; 16] = [
    0xff, 0x12, 0x40, 0x1b, 0xff, 0xff, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff,
];
/// What IPoIB gives for groups other than that.
const IPOIB: u64 =
    component::MEMBER | component::CREATE | component::MTU | component::RATE | component::HOP_LIMIT;

fn port(lid: u16) -> [u8; 16] {
    subnet().with_lid(lid).unwrap().gid
}

/// A request for a port of the group with this last byte, as IPoIB makes it.
fn request(group: u8, lid: u16, state: u8) -> Vec<u8> {
    let mut request = vec![0; BYTES];
    let mut mgid = BROADCAST;
    mgid[15] = group;
    copy(&mut request, MGID, &mgid);
    copy(&mut request, PORT_GID, &port(lid));
    for (field, value) in [
        (KEY, 0xb1b),
        (MTU_SELECTOR, selector::EXACTLY),
        (MTU, 4),
        (RATE_SELECTOR, selector::EXACTLY),
        (RATE, path::RATE),
        (PKEY, 0xffff),
        (JOIN_STATE, state.into()),
    ] {
        field.set(&mut request, value);
    }
    request
}

fn status(outcome: Result<Vec<u8>, Refused>) -> u16 {
    outcome.map_or_else(|refused| refused.status, |_| 0)
}

#[test]
fn the_group_of_broadcasts_is_there() {
    let mut groups = Groups::default();
    let joined = groups
        .join(
            &subnet(),
            component::MEMBER | component::PKEY,
            &request(0xff, 1, member::FULL),
        )
        .unwrap();
    assert_eq!(joined.len(), BYTES);
    assert_eq!(gid(&joined, MGID), BROADCAST);
    assert_eq!(gid(&joined, PORT_GID), port(1));
    for (field, value) in [
        (KEY, 0xb1b),
        (LID, 0xc000),
        (MTU, 4),
        (RATE, 16),
        (PKEY, 0xffff),
        (SCOPE, 2),
        (JOIN_STATE, 1),
    ] {
        assert_eq!(field.get(&joined), value);
    }
    assert!(groups.receives(&BROADCAST, &port(1)));
    assert!(!groups.receives(&BROADCAST, &port(2)));
    let left = groups.leave(component::MEMBER, &request(0xff, 1, member::FULL));
    assert_eq!(JOIN_STATE.get(&left.unwrap()), 0);
    assert!(!groups.receives(&BROADCAST, &port(1)));
    // It stays.
    let again = request(0xff, 2, member::FULL);
    assert_eq!(status(groups.join(&subnet(), component::MEMBER, &again)), 0);
}

#[test]
fn a_group_lives_from_its_first_full_member_to_the_last_one() {
    let mut groups = Groups::default();
    let join = |groups: &mut Groups, given, lid, state| {
        groups.join(&subnet(), given, &request(1, lid, state))
    };
    let few = join(&mut groups, component::MEMBER, 1, member::FULL);
    assert_eq!(status(few), status::TOO_FEW_COMPONENTS);
    let non = join(&mut groups, IPOIB, 1, member::NON);
    assert_eq!(status(non), status::INVALID);
    let first = join(&mut groups, IPOIB, 1, member::FULL).unwrap();
    assert_eq!(LID.get(&first), 0xc001);
    let second = join(&mut groups, component::MEMBER, 2, member::NON).unwrap();
    assert_eq!(LID.get(&second), 0xc001);
    let more = join(&mut groups, component::MEMBER, 2, member::FULL).unwrap();
    assert_eq!(JOIN_STATE.get(&more), 3);
    for (lid, state, want) in [
        (1, member::FULL, 0),
        // No longer a member; never one like this.
        (1, member::FULL, status::INVALID),
        (2, 4, status::INVALID),
        (2, member::FULL, 0),
        // The group is deleted, with those who only receive.
        (2, member::NON, status::INVALID),
    ] {
        let left = groups.leave(component::MEMBER, &request(1, lid, state));
        assert_eq!(status(left), want);
    }
}

#[test]
fn a_join_is_of_the_group_as_it_is() {
    let mut groups = Groups::default();
    for (field, value) in [
        (KEY, 0xb1c),
        (MTU, 5),
        (RATE, 3),
        (RATE, 0),
        (PKEY, 0x8001),
        (SERVICE_LEVEL, 1),
        (FLOW_LABEL, 1),
        (TRAFFIC_CLASS, 1),
        (HOP_LIMIT, 1),
    ] {
        let mut request = request(0xff, 1, member::FULL);
        field.set(&mut request, value);
        let joined = groups.join(&subnet(), IPOIB, &request);
        assert_eq!(status(joined), status::INVALID, "{value}");
    }
    assert!(!groups.receives(&BROADCAST, &port(1)));
}

#[test]
fn what_no_port_can_have_is_no_group() {
    let mut groups = Groups::default();
    for (field, value) in [(MTU, 6), (RATE, 17), (RATE, 1), (PKEY, 0x8001)] {
        let mut request = request(1, 1, member::FULL);
        field.set(&mut request, value);
        let joined = groups.join(&subnet(), IPOIB, &request);
        assert_eq!(status(joined), status::INVALID, "{value}");
    }
    let good = request(1, 1, member::FULL);
    assert_eq!(status(groups.join(&subnet(), IPOIB, &good)), 0);
}

#[test]
fn a_member_is_a_port_and_a_group_is_one() {
    let mut groups = Groups::default();
    let mut stranger = request(0xff, 1, member::FULL);
    PORT_GID.rest_mut(&mut stranger)[15] = 9;
    let mut unicast = request(0xff, 1, member::FULL);
    MGID.rest_mut(&mut unicast)[0] = 0xfe;
    let nothing = request(0xff, 1, 0);
    for bad in [&stranger, &unicast, &nothing] {
        let joined = groups.join(&subnet(), component::MEMBER, bad);
        assert_eq!(status(joined), status::INVALID);
        let left = groups.leave(component::MEMBER, bad);
        assert_eq!(status(left), status::INVALID);
    }
    let good = request(0xff, 1, member::FULL);
    for missing in [component::MGID, component::PORT_GID, component::JOIN_STATE] {
        let given = component::MEMBER & !missing;
        let want = status::TOO_FEW_COMPONENTS;
        assert_eq!(status(groups.join(&subnet(), given, &good)), want);
        assert_eq!(status(groups.leave(given, &good)), want);
    }
    let given = component::MEMBER | 1 << 18;
    assert_eq!(
        status(groups.join(&subnet(), given, &good)),
        status::INVALID
    );
}
