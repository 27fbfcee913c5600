// SPDX-License-Identifier: GPL-2.0

//! Who may use what, and what is whose.

use super::*;
use crate::command::SHARED;
use crate::objects::Kind;

#[test]
fn what_another_user_context_owns_is_refused() {
    let mut it = setup();
    let (place, pd) = (it.place(), it.pd);
    let umem = umem(&mut it.function, OTHER, 0, &[FIRST | 3]).unwrap();
    let other = Where {
        user: OTHER,
        ring: (umem, 0),
        record: (umem, 0x800),
        uar: plain(&mut it.function, op::ALLOC_UAR, OTHER, 0).unwrap(),
    };
    let other_pd = plain(&mut it.function, op::ALLOC_PD, OTHER, 0).unwrap();
    let (cq, other_cq) = (it.cq(place).unwrap(), it.cq(other).unwrap());
    let changes: [fn(&mut Where, Where); 3] = [
        |mine, other| mine.ring = other.ring,
        |mine, other| mine.record = other.record,
        |mine, other| mine.uar = other.uar,
    ];
    for change in changes {
        let mut mine = place;
        change(&mut mine, other);
        assert_eq!(it.cq(mine), Err(BAD_RES));
        assert_eq!(it.qp(mine, 0, pd, cq), Err(BAD_RES));
    }
    assert_eq!(it.qp(place, 0, other_pd, cq), Err(BAD_RES));
    assert_eq!(it.qp(place, 0, pd, other_cq), Err(BAD_RES));
    // Not even as a target of XRC, for which the driver checks that.
    assert_eq!(it.qp(place, 3, other_pd, cq), Err(BAD_RES));
    assert_eq!(it.mkey(OTHER, 0xfc0, 0x1000, 12), Err(BAD_RES));
    let qpn = it.qp(place, 0, pd, cq).unwrap();
    let mut query = input(16, OTHER);
    put(&mut query, 8, &qpn.to_be_bytes());
    let query = |it: &mut Setup| run(&mut it.function, Function::query_qp, &query);
    assert_eq!(query(&mut it), Err(BAD_RES));
    assert_eq!(destroy_umem(&mut it.function, ME, umem), Err(BAD_RES));
    // The driver may do all that.
    assert!(it
        .qp(Where { user: 0, ..place }, 0, other_pd, other_cq)
        .is_ok());
}

#[test]
fn queues_without_the_checks_of_domains_are_for_the_driver() {
    let mut it = setup();
    let (place, pd) = (it.place(), it.pd);
    let cq = it.cq(place).unwrap();
    for service in [7, 8, 0xc] {
        assert_eq!(it.qp(place, service, pd, cq), Err(BAD_PARAM));
        assert!(it.qp(Where { user: 0, ..place }, service, pd, cq).is_ok());
    }
}

#[test]
fn what_is_shared_is_for_all() {
    let mut it = setup();
    let counter = plain(&mut it.function, op::ALLOC_PD, SHARED, 0).unwrap();
    let objects = &it.function.hca.objects;
    assert!(objects.usable(Kind::Pd, counter, ME).is_ok());
    assert_eq!(it.function.of_applications().len(), 3);
}

#[test]
fn what_applications_have_is_counted() {
    let mut it = setup();
    let (place, pd) = (it.place(), it.pd);
    let cq = it.cq(place).unwrap();
    it.qp(place, 0, pd, cq).unwrap();
    // Of the driver, in the PD of an application.
    it.qp(Where { user: 0, ..place }, 0, pd, cq).unwrap();
    it.mkey(0, 0xfc0, 0x1000, 12).unwrap();
    let want = [
        "1 memory keys",
        "2 queue pairs",
        "1 completion queues",
        "1 umems",
        "1 protection domains",
        "1 UARs",
    ];
    assert_eq!(it.function.of_applications(), want);
    // The ring is at the start of the second page, the record at the end of the first one.
    let places = it.function.queues_of_applications();
    assert_eq!(places.len(), 2);
    for place in places {
        assert!(
            place.contains(": ring 0x10000 record 0x11ff8 in "),
            "{place}"
        );
    }
}
