// SPDX-License-Identifier: GPL-2.0

//! Queues of user contexts in umems, made by commands as an application gives them.

use super::*;
use crate::command::tests::execute;
use crate::function::tests::function;

const ME: u32 = 7;
/// Two pages of memory, which the umem has in the opposite order.
const FIRST: u64 = 0x11000;
const SECOND: u64 = 0x10000;
const EQ_PAGE: u64 = 0x12000;
/// Where the umem begins in its first page.
const OFFSET: u64 = 0x40;

fn umem(function: &mut Function, offset: u64, list: &[u64]) -> Result<u32, u8> {
    execute(function, (op::CREATE_UMEM, ME), |input| {
        let context = create_umem_in::umem.rest_mut(input);
        umem::num_of_mtt.set(context, list.len() as u64);
        umem::page_offset.set(context, offset);
        for (n, entry) in list.iter().enumerate() {
            put(context, LIST + n * 8, &entry.to_be_bytes());
        }
    })
}

/// What a user context needs for queues.
struct Setup {
    function: Function,
    eq: u32,
    uar: u32,
    pd: u32,
    umem: u32,
}

fn setup() -> Setup {
    let mut function = function(SECOND, 0x3000);
    let eq = execute(&mut function, (op::CREATE_EQ, 0), |input| {
        let context = create_eq_in::eq_context_entry.rest_mut(input);
        eqc::log_eq_size.set(context, 4);
        put(input, create_eq_in::pas.byte(), &EQ_PAGE.to_be_bytes());
    });
    Setup {
        eq: eq.unwrap(),
        uar: execute(&mut function, (op::ALLOC_UAR, ME), |_| ()).unwrap(),
        pd: execute(&mut function, (op::ALLOC_PD, ME), |_| ()).unwrap(),
        umem: umem(&mut function, OFFSET, &[FIRST | 3, SECOND | 3]).unwrap(),
        function,
    }
}

/// Where an application wants a queue: the umem of the ring and of the doorbell record, and the
/// offsets.
#[derive(Clone, Copy)]
struct Where {
    user: u32,
    ring: (u32, u64),
    record: (u32, u64),
    uar: u32,
}

impl Setup {
    /// The ring at the start of the second page, the record at the end of the first one.
    fn place(&self) -> Where {
        Where {
            user: ME,
            ring: (self.umem, 0xfc0),
            record: (self.umem, 0xfb8),
            uar: self.uar,
        }
    }

    fn cq(&mut self, place: Where) -> Result<u32, u8> {
        let eq = self.eq.into();
        execute(&mut self.function, (op::CREATE_CQ, place.user), |input| {
            create_cq_in::cq_umem_valid.set(input, 1);
            put(input, 80, &place.ring.1.to_be_bytes());
            put(input, 88, &place.ring.0.to_be_bytes());
            let context = create_cq_in::cq_context.rest_mut(input);
            let values = [
                (cqc::dbr_umem_valid, 1),
                (cqc::log_cq_size, 2),
                (cqc::uar_page, place.uar.into()),
                (cqc::c_eqn_or_apu_element, eq),
                (cqc::dbr_addr, place.record.1),
            ];
            set(context, &values);
            put(context, 4, &place.record.0.to_be_bytes());
        })
    }

    fn qp(&mut self, place: Where, cq: u32) -> Result<u32, u8> {
        let pd = self.pd.into();
        execute(&mut self.function, (op::CREATE_QP, place.user), |input| {
            let values = [
                (create_qp_in::wq_umem_valid, 1),
                (create_qp_in::wq_umem_id, place.ring.0.into()),
                (create_qp_in::wq_umem_offset, place.ring.1),
            ];
            set(input, &values);
            let context = create_qp_in::qpc.rest_mut(input);
            let values = [
                (qpc::pd, pd),
                (qpc::rq_type, 3),
                (qpc::log_sq_size, 2),
                (qpc::uar_page, place.uar.into()),
                (qpc::cqn_snd, cq.into()),
                (qpc::cqn_rcv, cq.into()),
                (qpc::dbr_umem_valid, 1),
                (qpc::dbr_addr, place.record.1),
            ];
            set(context, &values);
            put(context, 228, &place.record.0.to_be_bytes());
        })
    }

    fn mkey(&mut self, offset: u64, len: u64, log_page: u64) -> Result<u32, u8> {
        let (umem, pd) = (self.umem, self.pd.into());
        execute(&mut self.function, (op::CREATE_MKEY, ME), |input| {
            create_mkey_in::mkey_umem_valid.set(input, 1);
            put(input, 100, &umem.to_be_bytes());
            put(input, 104, &offset.to_be_bytes());
            let context = create_mkey_in::memory_key_mkey_entry.rest_mut(input);
            let values = [
                (mkc::access_mode_1_0, 1),
                (mkc::pd, pd),
                (mkc::qpn, 0xff_ffff),
                (mkc::translations_octword_size, 4),
                (mkc::len, len),
                (mkc::log_page_size, log_page),
            ];
            set(context, &values);
        })
    }

    fn destroy_umem(&mut self, id: u32) -> Option<u8> {
        self.function
            .destroy(Kind::Umem, id)
            .err()
            .map(|refusal| refusal.status)
    }

    fn read(&self, at: u64, len: usize) -> Vec<u8> {
        let mut bytes = vec![0; len];
        self.function.dma.read(at, &mut bytes).unwrap();
        bytes
    }
}

#[test]
fn a_completion_goes_to_the_page_that_the_umem_has_there() {
    let mut it = setup();
    let cq = it.cq(it.place()).unwrap();
    let cqe = Cqe {
        opcode: completion::REQUEST,
        qpn: 0x123,
        ..Cqe::default()
    };
    // Four fill the queue. The consumer index is at the end of the first page.
    for _ in 0..4 {
        it.function.complete(cq, &cqe);
    }
    assert_eq!(be32(&it.read(SECOND + 56, 4), 0), 0x123);
    let index = 1u32.to_be_bytes();
    it.function.dma.write(FIRST + 0xff8, &index).unwrap();
    it.function.complete(cq, &cqe);
    assert_eq!(it.read(SECOND + 63, 1)[0] & 1, 1);
    // It was read: without it the next one is an overrun.
    it.function.complete(cq, &cqe);
    assert_eq!(it.read(SECOND + 64 + 63, 1)[0] & 1, 0);
}

#[test]
fn a_completion_queue_is_armed_by_its_doorbell_record_as_well() {
    const ANY: u32 = 1 << 28;
    const SOLICITED: u32 = 1 << 28 | 1 << 24;
    let mut it = setup();
    let place = it.place();
    let cq = it.cq(place).unwrap();
    let cqe = Cqe {
        opcode: completion::REQUEST,
        ..Cqe::default()
    };
    it.function.complete(cq, &cqe);
    let mut events = 0;
    for (record, doorbell, fires) in [
        (0, ANY, false),
        (2 << 28, ANY, false),
        (SOLICITED, ANY, false),
        (ANY, SOLICITED, false),
        (ANY, ANY, true),
        // The consumer index of the record may be newer.
        (ANY | 1, ANY, true),
    ] {
        let bytes = u32::to_be_bytes(record);
        it.function.dma.write(FIRST + 0xffc, &bytes).unwrap();
        it.function.arm_cq(place.uar, doorbell, cq);
        // Entries of 64 bytes; the number of the queue is in the last word of their data.
        let entry = it.read(EQ_PAGE + events * 64 + 32 + 24, 4);
        assert_eq!(be32(&entry, 0) == cq, fires, "{record:#x} {doorbell:#x}");
        events += u64::from(fires);
    }
}

#[test]
fn a_queue_is_rung_by_its_own_uar() {
    let mut it = setup();
    let place = it.place();
    let second = execute(&mut it.function, (op::ALLOC_UAR, ME), |_| ()).unwrap();
    let cq = it.cq(place).unwrap();
    assert_eq!(it.qp(place, cq + 1), Err(BAD_RES));
    let qpn = it.qp(place, cq).unwrap();
    it.function.send_doorbell(second, qpn);
    assert!(it.function.hca.ready.is_empty());
    it.function.send_doorbell(place.uar, qpn);
    assert_eq!(it.function.hca.ready, [qpn]);
}

#[test]
fn a_queue_must_fit_and_be_aligned() {
    let mut it = setup();
    let (place, id) = (it.place(), it.umem);
    // Four completions are 256 bytes, a record has 8; the umem has 8192 - 64.
    for (ring, record, want) in [
        (0x1fc0 - 0x100, 0xfb8, Ok(())),
        (0x1fc0 - 0xc0, 0xfb8, Err(BAD_PARAM)),
        (0x20, 0xfb8, Err(BAD_PARAM)),
        (1 << 40, 0xfb8, Err(BAD_PARAM)),
        (u64::MAX - 63, 0xfb8, Err(BAD_PARAM)),
        (0xfc0, 0x1fb8, Ok(())),
        (0xfc0, 0x1fc0, Err(BAD_PARAM)),
        (0xfc0, 0x1fbc, Err(BAD_PARAM)),
        (0xfc0, u64::MAX - 7, Err(BAD_PARAM)),
    ] {
        let (ring, record) = ((id, ring), (id, record));
        let made = it.cq(Where {
            ring,
            record,
            ..place
        });
        assert_eq!(made.map(drop), want, "{ring:x?} {record:x?}");
    }
}

#[test]
fn a_umem_has_as_many_pages_as_it_says() {
    let mut it = setup();
    let f = &mut it.function;
    assert_eq!(umem(f, 0, &[]), Err(BAD_PARAM));
    assert_eq!(umem(f, 0x1000, &[FIRST | 3]), Err(BAD_PARAM));
    let short = |input: &mut [u8]| {
        umem::num_of_mtt.set(create_umem_in::umem.rest_mut(input), 1024);
    };
    assert_eq!(execute(f, (op::CREATE_UMEM, ME), short), Err(BAD_PARAM));
}

#[test]
fn a_completion_queue_is_in_writable_memory() {
    let mut it = setup();
    let place = it.place();
    let id = umem(&mut it.function, 0, &[FIRST | 3, SECOND | 1]).unwrap();
    let ring = (id, 0);
    assert_eq!(it.cq(Where { ring, ..place }), Err(BAD_PARAM));
    // A doorbell record is only read, and so is a send queue.
    let cq = it.cq(Where {
        record: ring,
        ..place
    });
    let cq = cq.unwrap();
    assert!(it.qp(Where { ring, ..place }, cq).is_ok());
}

#[test]
fn a_umem_in_use_stays() {
    let mut it = setup();
    let id = it.umem;
    let cq = it.cq(it.place()).unwrap();
    assert_eq!(it.destroy_umem(id), Some(BAD_RES_STATE));
    assert!(it.function.destroy(Kind::Cq, cq).is_ok());
    let key = it.mkey(0xfc0, 0x1000, 12).unwrap();
    assert_eq!(it.destroy_umem(id), Some(BAD_RES_STATE));
    it.function.hca.mkeys.all.remove(&key);
    assert_eq!(it.destroy_umem(id), None);
    assert_eq!(it.destroy_umem(id), Some(BAD_RES));
}

#[test]
fn a_key_on_a_umem_is_within_it() {
    let mut it = setup();
    let key = it.mkey(0xfc0, 0x1000, 12).unwrap();
    let table = &it.function.hca.mkeys.all.get_mut(&key).unwrap().table;
    assert_eq!(table[..], (SECOND | 3).to_be_bytes());
    for (offset, len, log_page) in [
        (0xfc0, 0x2000, 12),
        (0xfc0, u64::MAX, 12),
        (0xfc0, u64::MAX, 63),
        (0, 0x1000, 12),
        (0, 0x1000, 13),
    ] {
        let made = it.mkey(offset, len, log_page);
        assert_eq!(made, Err(BAD_PARAM), "{offset:#x} {len:#x} {log_page}");
    }
    // The umem has smaller pages, of which the second one can be anywhere.
    it.umem = umem(&mut it.function, 0, &[SECOND | 3, EQ_PAGE | 3]).unwrap();
    assert!(it.mkey(0, 0x2000, 12).is_ok());
    assert_eq!(it.mkey(0, 0x2000, 13), Err(BAD_PARAM));
}

#[test]
fn what_applications_have_is_counted() {
    let mut it = setup();
    let place = it.place();
    let cq = it.cq(place).unwrap();
    it.qp(place, cq).unwrap();
    // Of the driver, in the PD of an application.
    it.qp(Where { user: 0, ..place }, cq).unwrap();
    it.mkey(0xfc0, 0x1000, 12).unwrap();
    // Of all applications.
    execute(&mut it.function, (op::ALLOC_PD, 0xffff), |_| ()).unwrap();
    let want = ["1 memory keys", "1 Pd", "1 Uar", "1 Cq", "2 Qp", "1 Umem"];
    assert_eq!(it.function.objects_of(is_application), want);
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
