// SPDX-License-Identifier: GPL-2.0

//! Multicast: which queue pairs of a function get what is sent to a group.

use std::collections::BTreeSet;

use crate::command::{user, Refusal, BAD_PARAM, BAD_RES};
use crate::function::Function;
use crate::ifc::attach_to_mcg_in;
use crate::qp::Service;

/// The number of the queue pair that a multicast datagram is for.
pub const QPN: u32 = 0xff_ffff;
/// How many queue pairs a group can have, as it is announced.
pub const MOST: usize = 16;

/// The queue pairs that are attached to groups.
#[derive(Default)]
pub struct Attached(BTreeSet<([u8; 16], u32)>);

impl Attached {
    /// Returns the queue pairs of a group.
    pub fn to(&self, group: &[u8; 16]) -> Vec<u32> {
        let first = (*group, 0);
        let all = self.0.range(first..).take_while(|(gid, _)| gid == group);
        all.map(|(_, qpn)| *qpn).collect()
    }

    /// Returns whether a queue pair is attached to a group.
    pub fn has(&self, qpn: u32) -> bool {
        self.0.iter().any(|(_, attached)| *attached == qpn)
    }
}

/// Returns whether a GID is that of a group: one of IPv6, or of IPv4 (224.0.0.0/4) as RoCE maps it.
pub fn is_group(gid: &[u8; 16]) -> bool {
    const MAPPED: [u8; 12] = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff];
    gid[0] == 0xff || gid[..12] == MAPPED && gid[12] >> 4 == 0xe
}

impl Function {
    /// ATTACH_TO_MCG.
    pub fn attach_to_group(&mut self, input: &[u8]) -> Result<(), Refusal> {
        let (gid, qpn) = self.group_and_queue(input)?;
        if self.hca.attached.to(&gid).len() >= MOST {
            return Err(Refusal::new(BAD_RES, "the group has all its queue pairs"));
        }
        self.hca.attached.0.insert((gid, qpn));
        Ok(())
    }

    /// DETACH_FROM_MCG.
    pub fn detach_from_group(&mut self, input: &[u8]) -> Result<(), Refusal> {
        let member = self.group_and_queue(input)?;
        match self.hca.attached.0.remove(&member) {
            true => Ok(()),
            false => {
                let why = format!("QP {:#x} is not attached to the group", member.1);
                Err(Refusal::new(BAD_RES, why))
            }
        }
    }

    fn group_and_queue(&self, input: &[u8]) -> Result<([u8; 16], u32), Refusal> {
        let qpn = attach_to_mcg_in::qpn.get32(input);
        let qp = self.qp(qpn, user(input))?;
        if qp.service != Service::Ud {
            let why = format!("QP {qpn:#x} takes no datagrams");
            return Err(Refusal::new(BAD_PARAM, why));
        }
        let mut gid = [0; 16];
        crate::bits::put(&mut gid, 0, attach_to_mcg_in::multicast_gid.rest(input));
        if !is_group(&gid) {
            return Err(Refusal::new(BAD_PARAM, "the GID is of no group"));
        }
        Ok((gid, qpn))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::caps::Features;
    use crate::ifc::destroy_qp_in;
    use crate::qp::tests::queue_pair;

    const GROUP: [u8; 16] = [0xff, 0x12, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1];

    /// A function with a queue pair of each service, 1 for datagrams and 2 for connections.
    fn function() -> Function {
        let mut function = Function::new(0, Features::default());
        for (number, service) in [(1, Service::Ud), (2, Service::Rc), (3, Service::Ud)] {
            let mut qp = queue_pair(service, 1);
            qp.number = number;
            function.hca.qps.insert(number, qp);
        }
        function
    }

    fn input(qpn: u32, gid: &[u8; 16]) -> Vec<u8> {
        let mut input = vec![0; 32];
        attach_to_mcg_in::qpn.set(&mut input, qpn.into());
        attach_to_mcg_in::multicast_gid
            .rest_mut(&mut input)
            .copy_from_slice(gid);
        input
    }

    fn status(outcome: Result<(), Refusal>) -> u8 {
        outcome.map_or_else(|refusal| refusal.status, |_| 0)
    }

    #[test]
    fn a_queue_pair_is_attached_until_it_is_detached() {
        let mut function = function();
        let other = [0xff; 16];
        for (qpn, gid) in [(1, GROUP), (3, GROUP), (3, other)] {
            assert_eq!(status(function.attach_to_group(&input(qpn, &gid))), 0);
        }
        assert_eq!(function.hca.attached.to(&GROUP), [1, 3]);
        assert_eq!(function.hca.attached.to(&other), [3]);
        let mut destroy = vec![0; 16];
        destroy_qp_in::qpn.set(&mut destroy, 1);
        assert_ne!(status(function.destroy_qp(&destroy)), 0);
        assert_eq!(status(function.detach_from_group(&input(1, &GROUP))), 0);
        assert_eq!(
            status(function.detach_from_group(&input(1, &GROUP))),
            BAD_RES
        );
        assert_eq!(function.hca.attached.to(&GROUP), [3]);
        assert_eq!(status(function.destroy_qp(&destroy)), 0);
    }

    #[test]
    fn what_is_no_group_or_takes_no_datagrams_is_refused() {
        let mut function = function();
        let mapped = |first| {
            let mut gid = [0; 16];
            gid[10..13].copy_from_slice(&[0xff, 0xff, first]);
            gid
        };
        for (qpn, gid, want) in [
            (1, mapped(224), 0),
            (1, mapped(240), BAD_PARAM),
            (1, [0xfe; 16], BAD_PARAM),
            (2, GROUP, BAD_PARAM),
            (9, GROUP, BAD_RES),
        ] {
            assert_eq!(status(function.attach_to_group(&input(qpn, &gid))), want);
        }
        let mut full = |qpn: u32| {
            let mut qp = queue_pair(Service::Ud, 1);
            qp.number = qpn;
            function.hca.qps.insert(qpn, qp);
            status(function.attach_to_group(&input(qpn, &GROUP)))
        };
        for qpn in 0..MOST as u32 {
            assert_eq!(full(0x100 + qpn), 0);
        }
        assert_eq!(full(0x200), BAD_RES);
    }
}
