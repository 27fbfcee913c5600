// SPDX-License-Identifier: GPL-2.0

use super::*;
use crate::dma::tests::memory;
use crate::dma::{scatter, total};

const PD: u32 = 0x10;
const REQUESTER: Requester = Requester {
    pd: Some(PD),
    qpn: 0x100,
};

/// Returns a context with the given page table: all access, at `start`.
fn mkey(start: u64, len: u64, log_page: u32, table: &[u64]) -> Mkey {
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
    let mut mkey = Mkey::new(&context, 0).unwrap();
    mkey.table = table.iter().flat_map(|entry| entry.to_be_bytes()).collect();
    mkey
}

fn key(index: u32) -> u32 {
    index << 8 | 0x42
}

fn run(
    keys: &Mkeys,
    dma: &Dma,
    key: u32,
    va: u64,
    len: u64,
    access: Access,
    requester: Requester,
) -> Result<Spans, AccessError> {
    let mut spans = Spans::new();
    keys.translate(dma, key, va, len, access, requester, &mut spans)?;
    Ok(spans)
}

/// Two pages, swapped; the range begins and ends inside of them.
fn two_pages() -> (Mkeys, Dma, u32) {
    let dma = memory(0x10000, 0x4000);
    let mut keys = Mkeys::default();
    let index = keys.add(mkey(0x7f00_0123, 0x1800, 12, &[0x12003, 0x10003]));
    (keys, dma, key(index))
}

#[test]
fn an_access_goes_to_the_pages_of_the_table() {
    let (keys, dma, key) = two_pages();
    let spans = run(
        &keys,
        &dma,
        key,
        0x7f00_0123,
        0x1800,
        Access::RemoteWrite,
        REQUESTER,
    )
    .unwrap();
    assert_eq!(total(&spans), 0x1800);
    scatter(&spans, &[7; 0x1800]);
    let mut byte = [0; 2];
    dma.read(0x12122, &mut byte).unwrap();
    assert_eq!(byte, [0, 7]);
    dma.read(0x10922, &mut byte).unwrap();
    assert_eq!(byte, [7, 0]);
}

#[test]
fn bounds_are_checked_to_the_byte() {
    let (keys, dma, key) = two_pages();
    let bad = |va, len| run(&keys, &dma, key, va, len, Access::RemoteRead, REQUESTER).err();
    assert_eq!(bad(0x7f00_0122, 1), Some(AccessError::Bounds));
    assert_eq!(bad(0x7f00_0123, 0x1801), Some(AccessError::Bounds));
    assert_eq!(bad(0x7f00_1922, 1), None);
    assert_eq!(bad(0x7f00_1923, 1), Some(AccessError::Bounds));
    assert_eq!(bad(u64::MAX, 2), Some(AccessError::Bounds));
}

#[test]
fn a_key_is_of_one_domain() {
    let (keys, dma, key) = two_pages();
    let bad = |pd| {
        run(
            &keys,
            &dma,
            key,
            0x7f00_0200,
            8,
            Access::RemoteWrite,
            Requester { pd, qpn: 1 },
        )
        .err()
    };
    assert_eq!(bad(Some(PD + 1)), Some(AccessError::OtherPd));
    assert_eq!(bad(None), None);
}

#[test]
fn a_stale_or_free_key_is_refused() {
    let (mut keys, dma, key) = two_pages();
    let bad = |keys: &Mkeys, key| {
        run(
            keys,
            &dma,
            key,
            0x7f00_0200,
            8,
            Access::RemoteWrite,
            REQUESTER,
        )
        .err()
    };
    assert_eq!(bad(&keys, key ^ 1), Some(AccessError::Stale));
    assert_eq!(bad(&keys, key + 0x100), Some(AccessError::NoKey));
    keys.get_mut(key >> 8).unwrap().free = true;
    assert_eq!(bad(&keys, key), Some(AccessError::Free));
    keys.remove(key >> 8);
    assert_eq!(bad(&keys, key), Some(AccessError::NoKey));
}

#[test]
fn each_permission_is_for_one_access() {
    use Access::*;
    let (mut keys, dma, key) = two_pages();
    for allowed in [LocalRead, LocalWrite, RemoteRead, RemoteWrite, Atomic] {
        let mkey = keys.get_mut(key >> 8).unwrap();
        mkey.local_read = allowed == LocalRead;
        mkey.local_write = allowed == LocalWrite;
        mkey.remote_read = allowed == RemoteRead;
        mkey.remote_write = allowed == RemoteWrite;
        mkey.atomic = allowed == Atomic;
        for access in [LocalRead, LocalWrite, RemoteRead, RemoteWrite, Atomic] {
            let result = run(&keys, &dma, key, 0x7f00_0200, 8, access, REQUESTER);
            let want = if access == allowed {
                None
            } else {
                Some(AccessError::Permission)
            };
            assert_eq!(result.err(), want, "{allowed:?} {access:?}");
        }
    }
}

#[test]
fn a_zapped_entry_is_a_page_fault() {
    let (mut keys, dma, key) = two_pages();
    keys.get_mut(key >> 8).unwrap().table[8..16].fill(0);
    let result = |va, len| run(&keys, &dma, key, va, len, Access::RemoteWrite, REQUESTER).err();
    assert_eq!(result(0x7f00_0123, 8), None);
    assert_eq!(
        result(0x7f00_0ff8, 16),
        Some(AccessError::NotPresent {
            key,
            va: 0x7f00_1000
        })
    );
}

#[test]
fn an_address_that_is_not_aligned_to_its_page_is_an_error() {
    let (mut keys, dma, key) = two_pages();
    let before = crate::log::errors();
    keys.get_mut(key >> 8).unwrap().table[6] = 0x24;
    let result = run(
        &keys,
        &dma,
        key,
        0x7f00_0123,
        8,
        Access::RemoteRead,
        REQUESTER,
    )
    .err();
    assert_eq!(result, Some(AccessError::Alignment));
    assert!(crate::log::errors() > before);
}

#[test]
fn a_page_that_is_not_mapped_is_a_fault_of_the_dma() {
    let (keys, dma, key) = two_pages();
    dma.unmap_all();
    let result = run(
        &keys,
        &dma,
        key,
        0x7f00_0123,
        8,
        Access::RemoteWrite,
        REQUESTER,
    )
    .err();
    assert_eq!(result, Some(AccessError::Unmapped(0x12123)));
}

#[test]
fn lists_of_keys_are_followed_but_not_for_ever() {
    let (mut keys, dma, inner) = two_pages();
    let mut list = mkey(0, 0x30, 0, &[]);
    list.mode = Mode::Ranges;
    for (va, len) in [(0x7f00_0200u64, 0x10u32), (0x7f00_0123, 0x20)] {
        list.table.extend(len.to_be_bytes());
        list.table.extend(inner.to_be_bytes());
        list.table.extend(va.to_be_bytes());
    }
    let list = key(keys.add(list));
    let spans = run(&keys, &dma, list, 0x8, 0x18, Access::RemoteRead, REQUESTER).unwrap();
    assert_eq!(total(&spans), 0x18);
    assert_eq!(spans.len(), 2);
    assert_eq!(
        run(&keys, &dma, list, 0x8, 0x30, Access::RemoteRead, REQUESTER).err(),
        Some(AccessError::Bounds)
    );
    // One that refers to itself.
    let mut ring = mkey(0, 0x1000, 0, &[]);
    ring.mode = Mode::Ranges;
    let ring = key(keys.add(ring));
    let table = [0x1000u32.to_be_bytes(), ring.to_be_bytes(), [0; 4], [0; 4]].concat();
    keys.get_mut(ring >> 8).unwrap().table = table;
    assert_eq!(
        run(&keys, &dma, ring, 0, 8, Access::RemoteRead, REQUESTER).err(),
        Some(AccessError::Indirection)
    );
}

#[test]
fn an_index_is_not_given_out_again_at_once() {
    let mut keys = Mkeys::default();
    let first = keys.add(mkey(0, 1, 12, &[]));
    keys.remove(first);
    assert_ne!(keys.add(mkey(0, 1, 12, &[])), first);
}

#[test]
fn a_description_of_places_has_no_addresses() {
    let (mut keys, dma, key) = two_pages();
    let of = |keys: &mut Mkeys| keys.get_mut(key >> 8).unwrap().describe(Some(&dma));
    let before = of(&mut keys);
    assert!(before.contains("+0x2003*1 "), "{before}");
    assert!(before.ends_with("+0x3*1"), "{before}");
    // The next page is elsewhere in the same memory: one run, of another length.
    keys.get_mut(key >> 8).unwrap().table[8..].copy_from_slice(&0x13003u64.to_be_bytes());
    assert!(of(&mut keys).ends_with("+0x2003*2"));
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
    assert_eq!(of(|mkey| mkey.variant = 1), same);
    let changes: [fn(&mut Mkey); 12] = [
        |mkey| mkey.start += 1,
        |mkey| mkey.len += 1,
        |mkey| mkey.log_page = 13,
        |mkey| mkey.table.rotate_left(8),
        |mkey| mkey.table[6] = 0x30,
        |mkey| mkey.local_read = false,
        |mkey| mkey.local_write = false,
        |mkey| mkey.remote_read = false,
        |mkey| mkey.remote_write = false,
        |mkey| mkey.atomic = false,
        |mkey| mkey.relaxed_read = true,
        |mkey| mkey.relaxed_write = true,
    ];
    for (n, change) in changes.into_iter().enumerate() {
        assert_ne!(of(change), same, "change {n}");
    }
}
