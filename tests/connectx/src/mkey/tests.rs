// SPDX-License-Identifier: GPL-2.0

use super::*;
use crate::dma::tests::memory;

pub const PD: u32 = 0x10;
const REQUESTER: Requester = Requester {
    pd: Some(PD),
    qpn: 0x100,
};

/// Returns a key with the given page table: all access, at `start`.
pub fn mkey(start: u64, len: u64, log_page: u32, table: &[u64]) -> Mkey {
    let mut context = vec![0; mkc::BYTES];
    for (field, value) in [
        (mkc::access_mode_1_0, 1),
        (mkc::lr, 1),
        (mkc::lw, 1),
        (mkc::rr, 1),
        (mkc::rw, 1),
        (mkc::a, 1),
        (mkc::qpn, 0xff_ffff),
        (mkc::mkey_7_0, 0x42),
        (mkc::pd, u64::from(PD)),
        (mkc::start_addr, start),
        (mkc::len, len),
        (mkc::log_page_size, u64::from(log_page)),
    ] {
        field.set(&mut context, value);
    }
    let mut mkey = Mkey::new(&context).unwrap();
    mkey.table = table.iter().flat_map(|entry| entry.to_be_bytes()).collect();
    mkey
}

pub fn key(index: u32) -> u32 {
    index << 8 | 0x42
}

/// Keys, of which one is looked at.
struct Fixture {
    keys: Mkeys,
    dma: Dma,
    key: u32,
}

impl Fixture {
    fn translate(&self, key: u32, va: u64, len: u64, access: Access) -> Result<Spans, AccessError> {
        let requester = REQUESTER;
        let request = Request {
            key,
            va,
            len,
            access,
            requester,
        };
        self.keys.translate(&self.dma, &request)
    }

    /// Returns the error of an access of the usual requester by the key.
    fn error(&self, va: u64, len: u64, access: Access) -> Option<AccessError> {
        self.translate(self.key, va, len, access).err()
    }

    fn mkey(&mut self) -> &mut Mkey {
        self.keys.all.get_mut(&(self.key >> 8)).unwrap()
    }
}

/// Two pages, swapped; the range begins and ends inside of them.
fn two_pages() -> Fixture {
    let dma = memory(0x10000, 0x4000);
    let mut keys = Mkeys::default();
    let index = keys.add(mkey(0x7f00_0123, 0x1800, 12, &[0x12003, 0x10003]));
    let key = key(index);
    Fixture { keys, dma, key }
}

#[test]
fn bounds_are_checked_to_the_byte() {
    let t = two_pages();
    let bad = |va, len| t.error(va, len, Access::RemoteRead);
    assert_eq!(bad(0x7f00_0122, 1), Some(AccessError::Bounds));
    assert_eq!(bad(0x7f00_0123, 0x1801), Some(AccessError::Bounds));
    assert_eq!(bad(0x7f00_1922, 1), None);
    assert_eq!(bad(0x7f00_1923, 1), Some(AccessError::Bounds));
    assert_eq!(bad(u64::MAX, 2), Some(AccessError::Bounds));
}

#[test]
fn a_key_of_another_domain_or_a_stale_or_free_one_is_refused() {
    let mut t = two_pages();
    let bad = |t: &Fixture, key, pd| {
        let request = Request {
            key,
            va: 0x7f00_0200,
            len: 8,
            access: Access::RemoteWrite,
            requester: Requester { pd, qpn: 1 },
        };
        t.keys.translate(&t.dma, &request).err()
    };
    let (key, own) = (t.key, Some(PD));
    for (key, pd, want) in [
        (key, own, None),
        (key, None, None),
        (key, Some(PD + 1), Some(AccessError::OtherPd)),
        (key ^ 1, own, Some(AccessError::Stale)),
        (key + 0x100, own, Some(AccessError::NoKey)),
    ] {
        assert_eq!(bad(&t, key, pd), want);
    }
    t.mkey().set(mkc::free, 1);
    assert_eq!(bad(&t, key, own), Some(AccessError::Free));
    t.keys.all.remove(&(key >> 8));
    assert_eq!(bad(&t, key, own), Some(AccessError::NoKey));
}

#[test]
fn each_permission_is_for_one_access() {
    use Access::*;
    let mut t = two_pages();
    for allowed in [LocalRead, LocalWrite, RemoteRead, RemoteWrite, Atomic] {
        let mkey = t.mkey();
        mkey.set(mkc::lr, (allowed == LocalRead).into());
        mkey.set(mkc::lw, (allowed == LocalWrite).into());
        mkey.set(mkc::rr, (allowed == RemoteRead).into());
        mkey.set(mkc::rw, (allowed == RemoteWrite).into());
        mkey.set(mkc::a, (allowed == Atomic).into());
        for access in [LocalRead, LocalWrite, RemoteRead, RemoteWrite, Atomic] {
            let want = (access != allowed).then_some(AccessError::Permission);
            let error = t.error(0x7f00_0200, 8, access);
            assert_eq!(error, want, "{allowed:?} {access:?}");
        }
    }
}

#[test]
fn a_zapped_entry_is_a_page_fault() {
    let mut t = two_pages();
    t.mkey().table[8..16].fill(0);
    assert_eq!(t.error(0x7f00_0123, 8, Access::RemoteWrite), None);
    let (key, va) = (t.key, 0x7f00_1000);
    let fault = t.error(0x7f00_0ff8, 16, Access::RemoteWrite);
    assert_eq!(fault, Some(AccessError::NotPresent { key, va }));
}

#[test]
fn an_address_that_is_not_aligned_to_its_page_is_an_error() {
    let mut t = two_pages();
    let before = crate::log::errors();
    t.mkey().table[6] = 0x24;
    let error = t.error(0x7f00_0123, 8, Access::RemoteRead);
    assert_eq!(error, Some(AccessError::Alignment));
    assert!(crate::log::errors() > before);
}

#[test]
fn a_page_that_is_not_mapped_is_a_fault_of_the_dma() {
    let t = two_pages();
    t.dma.unmap_all();
    let error = t.error(0x7f00_0123, 8, Access::RemoteWrite);
    assert_eq!(error, Some(AccessError::Unmapped(0x12123)));
}

#[test]
fn lists_of_keys_are_followed_but_not_for_ever() {
    let mut t = two_pages();
    let mut list = mkey(0, 0x30, 0, &[]);
    list.mode = Mode::Ranges;
    for (va, len) in [(0x7f00_0200u64, 0x10u32), (0x7f00_0123, 0x20)] {
        list.table.extend(len.to_be_bytes());
        list.table.extend(t.key.to_be_bytes());
        list.table.extend(va.to_be_bytes());
    }
    t.key = key(t.keys.add(list));
    let spans = t.translate(t.key, 0x8, 0x18, Access::RemoteRead);
    let spans = spans.unwrap();
    assert_eq!(total(&spans), 0x18);
    assert_eq!(spans.len(), 2);
    let error = t.error(0x8, 0x30, Access::RemoteRead);
    assert_eq!(error, Some(AccessError::Bounds));
    // One that refers to itself.
    let mut ring = mkey(0, 0x1000, 0, &[]);
    ring.mode = Mode::Ranges;
    let ring = key(t.keys.add(ring));
    t.key = ring;
    t.mkey().table = [0x1000u32.to_be_bytes(), ring.to_be_bytes(), [0; 4], [0; 4]].concat();
    let error = t.error(0, 8, Access::RemoteRead);
    assert_eq!(error, Some(AccessError::Indirection));
}

#[test]
fn an_index_is_given_out_again_at_once() {
    let mut keys = Mkeys::default();
    let mut new = || keys.add(mkey(0, 1, 12, &[]));
    let (first, second) = (new(), new());
    assert_ne!(first, second);
    keys.all.remove(&first);
    assert_eq!(keys.add(mkey(0, 1, 12, &[])), first);
}

#[test]
fn a_description_of_places_has_no_addresses() {
    let mut t = two_pages();
    let of = |t: &Fixture| t.keys.all[&(t.key >> 8)].describe(Some(&t.dma));
    let before = of(&t);
    assert!(before.contains("+0x2003*1 "), "{before}");
    assert!(before.ends_with("+0x3*1"), "{before}");
    // The next page is elsewhere in the same memory: one run, of another length.
    t.mkey().table[8..].copy_from_slice(&0x13003u64.to_be_bytes());
    assert!(of(&t).ends_with("+0x2003*2"));
}

/// Tests in the guest compare translations by their descriptions.
#[test]
fn a_description_differs_if_the_translation_does() {
    let of = |change: fn(&mut Mkey)| {
        let mut mkey = mkey(0x7f00_0123, 0x1800, 12, &[0x12003, 0x10003]);
        change(&mut mkey);
        mkey.describe(None)
    };
    let same = of(|_| {});
    assert_eq!(of(|mkey| mkey.set(mkc::mkey_7_0, 1)), same);
    let changes: [fn(&mut Mkey); 12] = [
        |mkey| mkey.set(mkc::start_addr, mkey.start() + 1),
        |mkey| mkey.set(mkc::len, mkey.len() + 1),
        |mkey| mkey.set(mkc::log_page_size, 13),
        |mkey| mkey.table.rotate_left(8),
        |mkey| mkey.table[6] = 0x30,
        |mkey| mkey.set(mkc::lr, 0),
        |mkey| mkey.set(mkc::lw, 0),
        |mkey| mkey.set(mkc::rr, 0),
        |mkey| mkey.set(mkc::rw, 0),
        |mkey| mkey.set(mkc::a, 0),
        |mkey| mkey.set(mkc::relaxed_ordering_read, 1),
        |mkey| mkey.set(mkc::relaxed_ordering_write, 1),
    ];
    for (n, change) in changes.into_iter().enumerate() {
        assert_ne!(of(change), same, "change {n}");
    }
}
