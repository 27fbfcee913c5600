// SPDX-License-Identifier: GPL-2.0

//! The life of the function as a whole, and objects of which the device need only know that
//! they are there.

use crate::ifc::op::*;
use crate::prelude::*;
use Kind::*;

/// Makes the kinds of objects, each with its numbers, and the table of their commands.
macro_rules! kinds {
    ($($kind:ident $create:ident $destroy:ident $at:literal,)*) => {
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
        pub enum Kind { $($kind,)* }
        const KINDS: &[(Kind, u16, u16, usize)] = &[$((Kind::$kind, $create, $destroy, $at),)*];
    };
}

// How a kind is created and destroyed. The number is in the third word of the output of the
// first command; where it is in the input of the second one is here. A UAR is the first of those
// that are allocated together, an SRQ is an RMP.
kinds! {
    Pd ALLOC_PD DEALLOC_PD 8,
    Td ALLOC_TRANSPORT_DOMAIN DEALLOC_TRANSPORT_DOMAIN 8,
    Xrcd ALLOC_XRCD DEALLOC_XRCD 8,
    XrcSrq CREATE_XRC_SRQ DESTROY_XRC_SRQ 8,
    UserContext CREATE_UCTX DESTROY_UCTX 8,
    QCounter ALLOC_Q_COUNTER DEALLOC_Q_COUNTER 8,
    Tis CREATE_TIS DESTROY_TIS 8,
    Tir CREATE_TIR DESTROY_TIR 8,
    Rqt CREATE_RQT DESTROY_RQT 8,
    FlowTable CREATE_FLOW_TABLE DESTROY_FLOW_TABLE 20,
    FlowGroup CREATE_FLOW_GROUP DESTROY_FLOW_GROUP 24,
    Uar ALLOC_UAR DEALLOC_UAR 8,
    Eq CREATE_EQ DESTROY_EQ 8,
    Cq CREATE_CQ DESTROY_CQ 8,
    Qp CREATE_QP DESTROY_QP 8,
    Srq CREATE_RMP DESTROY_RMP 8,
    Sq CREATE_SQ DESTROY_SQ 8,
    Rq CREATE_RQ DESTROY_RQ 8,
    Umem CREATE_UMEM DESTROY_UMEM 8,
}

/// Commands on an object: the number is in the third word; the output is zeros.
const ON_PLAIN: &[(u16, Kind)] = &[(MODIFY_TIR, Tir), (MODIFY_RQT, Rqt)];

/// Commands that have no effect that a driver could see: the output is zeros.
const NO_EFFECT: &[u16] = &[
    ENABLE_HCA,
    SET_ISSI,
    INIT_HCA,
    DISABLE_HCA,
    SET_FLOW_TABLE_ROOT,
    SET_FLOW_TABLE_ENTRY,
    DELETE_FLOW_TABLE_ENTRY,
    MODIFY_FLOW_TABLE,
    MODIFY_HCA_VPORT_CONTEXT,
    QUERY_VPORT_COUNTER,
    QUERY_Q_COUNTER,
    // No page of the driver is wanted.
    QUERY_PAGES,
    // No port is bonded with another one.
    QUERY_LAG,
    // No limit of a shared receive queue has an event.
    MODIFY_RMP,
    ARM_XRC_SRQ,
    QUERY_XRC_SRQ,
];

/// The key that DMA by physical address has, if the driver asks for it; never given out.
pub const RESERVED_LKEY: u32 = 0x300;
/// The key that ends a scatter list.
pub const INVALID_LKEY: u32 = 0x100;
/// The key of memory that reads as zeros and drops what is written.
pub const NULL_MKEY: u32 = 0x200;

/// Objects that another one needs: they are not destroyed before it.
pub type Uses = Vec<(Kind, u32)>;

#[derive(Default)]
pub struct Objects {
    /// With the user context.
    live: BTreeMap<(Kind, u32), (u32, Uses)>,
    /// Log base 2 of the number of UARs that a driver gets at once: of one page of its host.
    pub log_uars: u32,
}

impl Objects {
    pub fn owner(&self, kind: Kind, number: u32) -> Option<u32> {
        self.live.get(&(kind, number)).map(|(uid, _)| *uid)
    }

    /// Fails unless the object is there; as a UAR counts one that is allocated together with it.
    pub fn usable(&self, kind: Kind, number: u32) -> Answer {
        let first = match kind {
            Uar => number >> self.log_uars << self.log_uars,
            _ => number,
        };
        let owner = self.owner(kind, first).map(drop);
        owner.ok_or_else(|| Refusal::missing(kind, number))
    }

    /// Returns how many objects of each kind there are, of the user contexts that `of` accepts, and
    /// in the PDs of these.
    pub fn counts(&self, of: impl Fn(u32) -> bool) -> Vec<String> {
        let in_pd = |(kind, number): &(Kind, u32)| *kind == Pd && self.is_of(&of, *number);
        let mut counts = BTreeMap::new();
        for ((kind, _), (uid, uses)) in &self.live {
            if of(*uid) || uses.iter().any(in_pd) {
                *counts.entry(*kind).or_insert(0) += 1;
            }
        }
        let word = |(kind, count)| format!("{count} {kind:?}");
        counts.iter().map(word).collect()
    }

    /// Returns whether a PD is of a user context that `of` accepts.
    pub fn is_of(&self, of: impl Fn(u32) -> bool, pd: u32) -> bool {
        self.owner(Pd, pd).is_some_and(of)
    }

    /// Creates an object, if those are there that it uses; returns its number.
    pub fn create(&mut self, kind: Kind, uid: u32, uses: Uses) -> Result<u32, Refusal> {
        for (kind, number) in &uses {
            self.usable(*kind, *number)?;
        }
        // All numbers of queues are different.
        let (first, step) = match kind {
            UserContext | QCounter | Eq => (1, 1),
            Uar => (FIRST_UAR, 1 << self.log_uars),
            Qp => (0x100, 1),
            Srq => (0x10_0000, 1),
            Sq => (0x20_0000, 1),
            Rq => (0x30_0000, 1),
            _ => (0x10, 1),
        };
        let mut numbers = (first..).step_by(step);
        let free = numbers.find(|number| self.owner(kind, *number).is_none());
        let number = free.ok_or(Refusal::new(BAD_RES, "no number is left"))?;
        self.live.insert((kind, number), (uid, uses));
        Ok(number)
    }

    fn destroy(&mut self, kind: Kind, number: u32) -> Answer {
        let object = (kind, number);
        if self.live.values().any(|(_, uses)| uses.contains(&object)) {
            fail!(BAD_RES_STATE, "{kind:?} {number:#x} is in use");
        }
        let gone = self.live.remove(&object).map(drop);
        gone.ok_or_else(|| Refusal::missing(kind, number))
    }
}

pub fn find<T>(all: &BTreeMap<u32, T>, kind: Kind, number: u32) -> Result<&T, Refusal> {
    all.get(&number)
        .ok_or_else(|| Refusal::missing(kind, number))
}

impl Function {
    /// Executes a command of the tables above, or one that is about the function as a whole.
    /// Returns `None` if it is not one.
    pub fn basic(&mut self, opcode: u16, input: &[u8], out: &mut [u8]) -> Option<Answer> {
        let number = be32(input, 8) & 0xff_ffff;
        for (kind, create, destroy, at) in KINDS {
            if opcode == *create {
                let made = self.create(*kind, input);
                let answer = |number: u32| put(out, 8, &number.to_be_bytes());
                return Some(made.map(answer));
            }
            if opcode == *destroy {
                return Some(self.destroy(*kind, be32(input, *at) & 0xff_ffff));
            }
        }
        if let Some((_, kind)) = ON_PLAIN.iter().find(|(on, _)| *on == opcode) {
            return Some(self.hca.objects.usable(*kind, number));
        }
        if NO_EFFECT.contains(&opcode) {
            return Some(Ok(()));
        }
        Some(match opcode {
            QUERY_ISSI => {
                // Interface 1 alone: shared receive queues are RMPs.
                query_issi_out::supported_issi_dw0.set(out, 2);
                Ok(())
            }
            QUERY_ADAPTER => {
                let at = query_adapter_out::query_adapter_struct.byte();
                let at = at + query_adapter_param_block::vsd_contd_psid.byte();
                put(out, at, b"EMU0000000001");
                Ok(())
            }
            QUERY_SPECIAL_CONTEXTS => {
                query_special_contexts_out::resd_lkey.set(out, RESERVED_LKEY.into());
                query_special_contexts_out::null_mkey.set(out, NULL_MKEY.into());
                let end = query_special_contexts_out::terminate_scatter_list_mkey;
                end.set(out, INVALID_LKEY.to_be().into());
                Ok(())
            }
            TEARDOWN_HCA => {
                // Profile 0 is the graceful one: the driver has destroyed everything.
                if number == 0 {
                    self.report_objects(true);
                }
                Ok(())
            }
            _ => return None,
        })
    }

    fn create(&mut self, kind: Kind, input: &[u8]) -> Result<u32, Refusal> {
        match kind {
            Eq => self.create_eq(input),
            Cq => self.create_cq(input),
            Qp => self.create_qp(input),
            Srq => self.create_rmp(input),
            Sq | Rq => self.create_ethernet_queue(kind, input),
            Umem => self.create_umem(input),
            _ => self.hca.objects.create(kind, user(input), Uses::new()),
        }
    }

    pub fn destroy(&mut self, kind: Kind, number: u32) -> Answer {
        let hca = &mut self.hca;
        let in_key = match kind {
            Pd => hca.mkeys.used().any(|(_, mkey)| mkey.pd() == number),
            Umem => hca.mkeys.used().any(|(_, mkey)| mkey.umem == Some(number)),
            _ => false,
        };
        if in_key {
            fail!(BAD_RES_STATE, "{kind:?} {number:#x} has memory keys");
        }
        // A driver must not: no command could destroy the objects any more.
        let left = match kind {
            UserContext => self.objects_of(|owner| owner == number),
            _ => Vec::new(),
        };
        if !left.is_empty() {
            let why = format!("user context {number:#x} still has {}", left.join(", "));
            error!(self, "{why}");
            fail!(BAD_RES_STATE, "{why}");
        }
        let hca = &mut self.hca;
        hca.objects.destroy(kind, number)?;
        match kind {
            Eq => drop(hca.eqs.remove(&number)),
            Cq => drop(hca.cqs.remove(&number)),
            Srq => drop(hca.srqs.remove(&number)),
            Sq | Rq => drop(hca.ethernet.remove(&number)),
            Umem => drop(hca.umems.remove(&number)),
            Qp => {
                self.forget_work(number);
                self.hca.qps.remove(&number);
            }
            _ => {}
        }
        Ok(())
    }
}
