// SPDX-License-Identifier: GPL-2.0

use super::*;
use crate::function::tests::function;
use crate::qp::tests::queue_pair;

const PD: u32 = 0x10;
const PAGE: u64 = 0x10000;
const VA: u64 = 0x7f00_0000;

/// A function with one page of memory, the key of a free memory key on it, and the driver's queue pair.
struct Fixture {
    function: Function,
    key: u32,
    qp: Qp,
}

impl Fixture {
    fn done(&mut self, wqe: &Wqe) -> bool {
        self.function.umr(&self.qp, wqe).is_ok()
    }

    fn error(&self, key: u32) -> Option<AccessError> {
        let request = Request {
            key,
            va: VA,
            len: 8,
            access: Access::RemoteWrite,
            requester: Requester {
                pd: Some(PD),
                qpn: 1,
            },
        };
        self.function.translate(&request).err()
    }
}

fn setup() -> Fixture {
    let mut function = function(PAGE, 0x1000);
    let pd = function.hca.objects.create(Kind::Pd, 0, vec![]);
    assert_eq!(pd.unwrap(), PD);
    let mut context = vec![0; mkc::BYTES];
    let values = [
        (mkc::free, 1),
        (mkc::pd, u64::from(PD)),
        (mkc::umr_en, 1),
        (mkc::access_mode_1_0, 1),
        (mkc::qpn, 0xff_ffff),
        (mkc::mkey_7_0, 0x42),
        (mkc::translations_octword_size, 4),
        (mkc::log_page_size, 12),
    ];
    set(&mut context, &values);
    let mkey = Mkey::new(&context).unwrap();
    let key = function.hca.mkeys.add(mkey) << 8 | 0x42;
    let qp = queue_pair(Service::Umr, 0);
    Fixture { function, key, qp }
}

/// Returns a work request with these flags, mask, and list in itself.
fn request(key: u32, flags: u8, mask: u64, context: &[(Field, u64)], list: &[u64]) -> Wqe {
    let mut bytes = vec![0; LIST + (list.len() * 8).next_multiple_of(64)];
    bytes[3] = crate::wqe::opcode::UMR;
    put(&mut bytes, 12, &key.to_be_bytes());
    bytes[CONTROL] = flags | INLINE;
    let octowords = (list.len() / 2).next_multiple_of(4) as u16;
    put(&mut bytes, CONTROL + 4, &octowords.to_be_bytes());
    put(&mut bytes, CONTROL + 8, &mask.to_be_bytes());
    set(&mut bytes[CONTEXT..], context);
    for (n, entry) in list.iter().enumerate() {
        put(&mut bytes, LIST + n * 8, &entry.to_be_bytes());
    }
    Wqe::new(bytes, 0)
}

/// As the driver enables a key: everything at once.
fn enable(key: u32) -> Wqe {
    let mask = mask::LEN | mask::START | mask::PD | mask::KEY | mask::FREE | mask::REMOTE_WRITE;
    let context = [
        (mkc::len, 0x1000),
        (mkc::start_addr, VA),
        (mkc::pd, u64::from(PD)),
        (mkc::mkey_7_0, 0x42),
        (mkc::rw, 1),
    ];
    request(key, CHECK_NOT_FREE, mask, &context, &[PAGE | 3, 0])
}

#[test]
fn the_state_that_the_request_expects_is_checked() {
    let mut t = setup();
    let key = t.key;
    assert!(!t.done(&request(key, CHECK_FREE, 0, &[], &[0, 0])));
    assert!(t.done(&enable(key)));
    assert!(!t.done(&enable(key)));
}

#[test]
fn what_is_not_the_key_is_refused() {
    let mut t = setup();
    let key = t.key;
    assert!(!t.done(&enable(key + 0x100)));
    // A stale key, unless the request sets t.
    assert!(!t.done(&request(key ^ 1, 0, mask::FREE, &[], &[])));
    // More translations than there is room for.
    assert!(!t.done(&request(key, 0, 0, &[], &[PAGE | 3; 16])));
    // A bit of the mask that is not announced.
    assert!(!t.done(&request(key, 0, 1 << 60, &[], &[])));
    // A queue pair of an application, on the key of another one.
    t.qp = queue_pair(Service::Rc, PD + 1);
    assert!(!t.done(&enable(key)));
}

/// What CREATE_MKEY would not take either.
#[test]
fn a_key_is_enabled_only_as_it_could_be_made() {
    let mut t = setup();
    let key = t.key;
    let with = |change: &[(Field, u64)]| {
        let mut wqe = enable(key);
        let more = mask::PAGE_SIZE | mask::QPN;
        let mask = be64(&wqe.bytes, CONTROL + 8) | more;
        put(&mut wqe.bytes, CONTROL + 8, &mask.to_be_bytes());
        let usual = [(mkc::log_page_size, 12), (mkc::qpn, 0xff_ffff)];
        set(&mut wqe.bytes[CONTEXT..], &usual);
        set(&mut wqe.bytes[CONTEXT..], change);
        wqe
    };
    for change in [
        (mkc::pd, u64::from(PD) + 1),
        (mkc::qpn, 0x123),
        (mkc::log_page_size, 11),
        (mkc::log_page_size, 32),
        // The table has room for eight pages.
        (mkc::len, 0x8001),
    ] {
        assert!(!t.done(&with(&[change])), "{}", change.1);
        // It is as it was.
        assert_eq!(t.error(key), Some(AccessError::Free));
    }
    assert!(t.done(&with(&[(mkc::len, 0x8000)])));
    assert_eq!(t.error(key), None);
}

/// A window of type 2 is for the queue pair that has bound it, as are its invalidations.
#[test]
fn a_key_of_one_queue_pair_is_invalidated_by_that_one() {
    let mut t = setup();
    let key = t.key;
    assert!(t.done(&enable(key)));
    let mkey = t.function.hca.mkeys.all.get_mut(&(key >> 8)).unwrap();
    mkey.set(mkc::qpn, 1);
    let free = |key| request(key, CHECK_QPN, mask::FREE, &[(mkc::free, 1)], &[]);
    t.qp = queue_pair(Service::Rc, PD);
    let mut other = queue_pair(Service::Rc, PD);
    other.number = 2;
    let by_other = t.function.invalidate(&other, key);
    assert_eq!(by_other, Err(AccessError::OtherQp));
    let without = t.function.invalidate(&t.qp, key);
    assert_eq!(without, Err(AccessError::Permission));
    let mkey = t.function.hca.mkeys.all.get_mut(&(key >> 8)).unwrap();
    mkey.set(mkc::en_rinval, 1);
    assert_eq!(t.error(key), None);
    std::mem::swap(&mut t.qp, &mut other);
    assert!(!t.done(&free(key)));
    std::mem::swap(&mut t.qp, &mut other);
    assert!(t.done(&free(key)));
    assert_eq!(t.error(key), Some(AccessError::Free));
}

#[test]
fn translations_are_copied_in_units_of_64_bytes() {
    let mut t = setup();
    let key = t.key;
    for (octowords, offset, ok) in [(4, 0, true), (3, 0, false), (0, 2, false), (0, 0, true)] {
        let mut wqe = request(key, OFFSET, 0, &[], &[0; 8]);
        put(&mut wqe.bytes, CONTROL + 4, &u16::to_be_bytes(octowords));
        put(&mut wqe.bytes, CONTROL + 6, &u16::to_be_bytes(offset));
        let done = t.done(&wqe);
        assert_eq!(done, ok, "{octowords} {offset}");
    }
}

#[test]
fn a_new_low_byte_makes_the_old_key_stale() {
    let mut t = setup();
    let key = t.key;
    assert!(t.done(&enable(key)));
    let name = (mkc::mkey_7_0, u64::from((key ^ 1) as u8));
    let renamed = request(key ^ 1, 0, mask::KEY, &[name], &[]);
    assert!(t.done(&renamed));
    assert_eq!(t.error(key), Some(AccessError::Stale));
    assert_eq!(t.error(key ^ 1), None);
}
