// SPDX-License-Identifier: GPL-2.0

//! What a queue pair takes, and the way to the subnet manager and back.

use super::*;
use crate::bits::be16;
use crate::caps::Features;
use crate::qp::tests::queue_pair;
use crate::qp::State;

/// Two InfiniBand ports.
fn fabric() -> Fabric {
    let features = Features {
        infiniband: true,
        ..Features::default()
    };
    Fabric::new((0..2).map(|id| Function::new(id, features)).collect())
}

/// The address vector of a datagram to the subnet manager.
fn manager(grh: bool) -> Address {
    let mut segment = [0; 48];
    segment[8..12].copy_from_slice(&(0x8000_0000 | QP1).to_be_bytes());
    segment[14..16].copy_from_slice(&subnet::MANAGER_LID.to_be_bytes());
    if grh {
        segment[28] = 0x40;
        segment[32..48].copy_from_slice(&subnet::manager_gid());
    }
    Address::new(&segment, true)
}

/// A request for the path from the port of function `f` to that of the other one.
fn request(fabric: &Fabric, f: usize) -> [u8; subnet::MAD] {
    let mut mad = [0; subnet::MAD];
    mad[..4].copy_from_slice(&[1, 3, 2, 1]);
    mad[17] = 0x35;
    // The GIDs.
    mad[55] = 0b1100;
    for (at, f) in [(64, 1 - f), (80, f)] {
        mad[at..at + 16].copy_from_slice(&fabric.functions[f].port.gid(0).gid);
    }
    mad
}

#[test]
fn an_answer_of_the_subnet_manager_comes_from_its_address() {
    let fabric = fabric();
    for grh in [false, true] {
        let address = manager(grh);
        assert!(subnet::is_manager(address.grh, &address.gid, address.lid));
        let request = request(&fabric, 1);
        let answer = fabric.ask_manager(1, &address, QP1_KEY, &request).unwrap();
        assert_eq!((answer.qpn, answer.key), (QP1, QP1_KEY));
        assert_eq!(answer.cqe.slid, subnet::MANAGER_LID);
        assert_eq!(answer.cqe.flags_source, QP1);
        assert_eq!(answer.payload[3], 0x81);
        // The LIDs of the path.
        assert_eq!(be16(&answer.payload, 96), 1);
        assert_eq!(be16(&answer.payload, 98), 2);
        assert_eq!(answer.grh.is_some(), grh);
        if let Some(header) = answer.grh {
            assert_eq!(header[8..24], subnet::manager_gid());
            assert_eq!(header[24..], fabric.functions[1].port.gid(0).gid);
        }
    }
}

#[test]
fn the_subnet_manager_has_one_queue_pair_and_one_key() {
    let fabric = fabric();
    let request = request(&fabric, 0);
    let mut other = manager(false);
    other.qpn = 2;
    assert!(fabric.ask_manager(0, &other, QP1_KEY, &request).is_err());
    let address = manager(false);
    assert!(fabric.ask_manager(0, &address, 0, &request).is_err());
    assert!(fabric
        .ask_manager(0, &address, QP1_KEY, &request[1..])
        .is_err());
}

#[test]
fn another_key_is_dropped() {
    let mut fabric = fabric();
    let function = &mut fabric.functions[0];
    for (number, service, key) in [(7, Service::Qp1, QP1_KEY), (8, Service::Ud, 0x1234)] {
        let mut qp = queue_pair(service, 1);
        qp.number = number;
        qp.state = State::Rts;
        qpc::q_key.set(&mut qp.context, 0x1234);
        function.hca.qps.insert(number, qp);
        let number = if service == Service::Qp1 { QP1 } else { number };
        let mut fate = |key| {
            let message = Arrived {
                qpn: number,
                key,
                grh: None,
                payload: vec![0; 4],
                cqe: Cqe::default(),
            };
            match function.receive_datagram(message) {
                Fate::Dropped(why) => why,
                _ => "",
            }
        };
        assert_eq!(fate(key + 1), "another key");
        // It has no receive queue.
        assert_eq!(fate(key), "no receive is posted");
    }
}
