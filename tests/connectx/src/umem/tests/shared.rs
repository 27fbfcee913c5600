// SPDX-License-Identifier: GPL-2.0

//! Shared receive queues in umems, as UCX makes them by DEVX.

use super::*;
use crate::ifc::{create_rmp_in, destroy_rmp_in, rmpc};

const LIST: u64 = 0;
const CYCLIC: u64 = 1;
const LIST_STRIDING: u64 = 2;
const CYCLIC_STRIDING: u64 = 3;
/// Entries of 32 bytes: the head with the index of the next entry, and one segment.
const LOG_STRIDE: u64 = 5;

impl Setup {
    /// Creates an RMP of 2^`log_size` entries.
    fn rmp(&mut self, place: Where, kind: u64, log_size: u64) -> Result<u32, u8> {
        let mut bytes = input(create_rmp_in::ctx.byte() + rmpc::BYTES, place.user);
        let queue = rmpc::wq.rest_mut(create_rmp_in::ctx.rest_mut(&mut bytes));
        let values = [
            (wq::wq_type, kind),
            (wq::pd, self.pd.into()),
            (wq::log_wq_stride, LOG_STRIDE),
            (wq::log_wq_sz, log_size),
            (wq::wq_umem_valid, 1),
            (wq::wq_umem_id, place.ring.0.into()),
            (wq::wq_umem_offset, place.ring.1),
            (wq::dbr_umem_valid, 1),
            (wq::dbr_umem_id, place.record.0.into()),
            (wq::dbr_addr, place.record.1),
        ];
        set(queue, &values);
        let command = |function: &mut Function, input: &[u8], out: &mut Reply| {
            function.create_srq(op::CREATE_RMP, input, out)
        };
        run(&mut self.function, command, &bytes)
    }

    fn destroy_rmp(&mut self, user: u32, number: u32) -> Result<u32, u8> {
        let mut bytes = input(16, user);
        destroy_rmp_in::rmpn.set(&mut bytes, number.into());
        let command = |function: &mut Function, input: &[u8], _: &mut Reply| {
            function.destroy_srq(op::DESTROY_RMP, input)
        };
        run(&mut self.function, command, &bytes)
    }

    /// Creates a queue pair without a send queue, which receives by the RMP.
    fn receiver(&mut self, place: Where, rmp: u32, cq: u32) -> Result<u32, u8> {
        let mut bytes = input(create_qp_in::pas.byte(), place.user);
        create_qp_in::wq_umem_valid.set(&mut bytes, 1);
        create_qp_in::wq_umem_id.set(&mut bytes, place.ring.0.into());
        let context = create_qp_in::qpc.rest_mut(&mut bytes);
        let values = [
            (qpc::pd, self.pd.into()),
            (qpc::rq_type, 1),
            (qpc::srqn_rmpn_xrqn, rmp.into()),
            (qpc::no_sq, 1),
            (qpc::cqn_snd, cq.into()),
            (qpc::cqn_rcv, cq.into()),
            (qpc::dbr_umem_valid, 1),
            (qpc::dbr_addr, place.record.1),
        ];
        set(context, &values);
        put(context, 228, &place.record.0.to_be_bytes());
        run(&mut self.function, Function::create_qp, &bytes)
    }

    /// Returns the entries that three messages take, from `links` on: the next entry of each.
    fn taken(&mut self, kind: u64, links: [u16; 4]) -> Vec<u16> {
        let place = self.place();
        let cq = self.cq(self.other_ring()).unwrap();
        let rmp = self.rmp(place, kind, 2).unwrap();
        let qpn = self.receiver(place, rmp, cq).unwrap();
        for (n, link) in links.iter().enumerate() {
            let at = SECOND + n as u64 * (1 << LOG_STRIDE);
            let link = link.to_be_bytes();
            self.function.dma.write(at + 2, &link).unwrap();
        }
        let posted = 3u32.to_be_bytes();
        self.function.dma.write(FIRST + 0xff8, &posted).unwrap();
        let mut taken = Vec::new();
        while let Some(receive) = self
            .function
            .next_receive(&self.function.hca.qps[&qpn], None)
        {
            taken.push(receive.index);
            self.function.take_receive(qpn, &receive);
        }
        taken
    }
}

#[test]
fn the_entries_of_a_list_name_the_next_one() {
    assert_eq!(setup().taken(LIST, [2, 3, 1, 0]), [0, 2, 1]);
}

#[test]
fn the_entries_of_a_cyclic_queue_follow_each_other() {
    assert_eq!(setup().taken(CYCLIC, [2, 3, 1, 0]), [0, 1, 2]);
}

#[test]
fn a_striding_queue_is_not_announced() {
    let mut it = setup();
    let place = it.place();
    for kind in [LIST_STRIDING, CYCLIC_STRIDING] {
        assert_eq!(it.rmp(place, kind, 2), Err(BAD_PARAM));
    }
}

#[test]
fn a_shared_queue_must_fit() {
    let mut it = setup();
    let place = it.place();
    // 4096 bytes from 0xfc0 on are all that the umem has there.
    assert!(it.rmp(place, LIST, 7).is_ok());
    assert_eq!(it.rmp(place, LIST, 8), Err(BAD_PARAM));
    let record = (it.umem, 0x1fc0);
    assert_eq!(it.rmp(Where { record, ..place }, LIST, 7), Err(BAD_PARAM));
}

#[test]
fn a_shared_queue_in_use_stays() {
    let mut it = setup();
    let place = it.place();
    let cq = it.cq(it.other_ring()).unwrap();
    let rmp = it.rmp(place, CYCLIC, 2).unwrap();
    assert_eq!(it.destroy_rmp(OTHER, rmp), Err(BAD_RES));
    let qpn = it.receiver(place, rmp, cq).unwrap();
    assert_eq!(it.destroy_rmp(ME, rmp), Err(BAD_RES_STATE));
    it.function.hca.qps.remove(&qpn);
    assert!(it.destroy_rmp(ME, rmp).is_ok());
    assert_eq!(it.destroy_rmp(ME, rmp), Err(BAD_RES));
}
