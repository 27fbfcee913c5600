// SPDX-License-Identifier: GPL-2.0

//! What a queue pair takes.

use super::*;
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
            function.receive_datagram(message).unwrap_err()
        };
        assert_eq!(fate(key + 1), "another key");
        // It has no receive queue.
        assert_eq!(fate(key), "no receive is posted");
    }
}
