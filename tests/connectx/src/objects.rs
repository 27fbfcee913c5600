// SPDX-License-Identifier: GPL-2.0

//! The life of the function as a whole, and objects of which the device need only know that
//! they are there.

use std::collections::BTreeMap;

use crate::bits::be32;
use crate::command::{user, Refusal, Reply, BAD_RES};
use crate::config::BAR0_SIZE;
use crate::error;
use crate::function::{Function, FIRST_UAR};
use crate::ifc::op::*;
use crate::ifc::{
    query_adapter_out, query_adapter_param_block, query_issi_out,
    query_special_contexts_out as special,
};
use Kind::*;

/// What gets a number; a kind has numbers of its own.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Kind {
    Pd,
    Td,
    Xrcd,
    XrcSrq,
    UserContext,
    QCounter,
    Tis,
    Tir,
    Rqt,
    FlowTable,
    FlowGroup,
    /// The first of those that are allocated together.
    Uar,
}

/// How a kind is created and destroyed. The number is in the third word of the output of the
/// first command; where it is in the input of the second one is here.
const PLAIN: &[(Kind, u16, u16, usize)] = &[
    (Pd, ALLOC_PD, DEALLOC_PD, 8),
    (Td, ALLOC_TRANSPORT_DOMAIN, DEALLOC_TRANSPORT_DOMAIN, 8),
    (Xrcd, ALLOC_XRCD, DEALLOC_XRCD, 8),
    (XrcSrq, CREATE_XRC_SRQ, DESTROY_XRC_SRQ, 8),
    (UserContext, CREATE_UCTX, DESTROY_UCTX, 8),
    (QCounter, ALLOC_Q_COUNTER, DEALLOC_Q_COUNTER, 8),
    (Tis, CREATE_TIS, DESTROY_TIS, 8),
    (Tir, CREATE_TIR, DESTROY_TIR, 8),
    (Rqt, CREATE_RQT, DESTROY_RQT, 8),
    (FlowTable, CREATE_FLOW_TABLE, DESTROY_FLOW_TABLE, 20),
    (FlowGroup, CREATE_FLOW_GROUP, DESTROY_FLOW_GROUP, 24),
];

/// Commands on such an object: the number is in the third word; the output is zeros.
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

#[derive(Default)]
pub struct Objects {
    live: BTreeMap<(Kind, u32), u32>,
    /// Log base 2 of the number of UARs that a driver gets at once: of one page of its host.
    log_uars: u32,
}

impl Objects {
    pub fn owner(&self, kind: Kind, number: u32) -> Option<u32> {
        self.live.get(&(kind, number)).copied()
    }

    pub fn usable(&self, kind: Kind, number: u32) -> Result<(), Refusal> {
        let owner = self.owner(kind, number).map(drop);
        owner.ok_or_else(|| Refusal::missing(&format!("{kind:?}"), number))
    }

    /// Fails unless a UAR is allocated, or one that is allocated together with it.
    pub fn usable_uar(&self, page: u32) -> Result<(), Refusal> {
        self.usable(Uar, page >> self.log_uars << self.log_uars)
    }

    /// Sets how many UARs a driver gets at once, as a log base 2.
    pub fn set_log_uars(&mut self, log: u32) {
        self.log_uars = log;
    }

    /// Returns how many objects of each kind there are, of the user contexts that `of` accepts.
    pub fn counts(&self, of: impl Fn(u32) -> bool) -> Vec<String> {
        let mut counts = BTreeMap::new();
        for ((kind, _), _) in self.live.iter().filter(|(_, owner)| of(**owner)) {
            *counts.entry(*kind).or_insert(0) += 1;
        }
        let word = |(kind, count)| format!("{count} {kind:?}");
        counts.iter().map(word).collect()
    }

    fn create(&mut self, kind: Kind, uid: u32) -> u32 {
        let first = match kind {
            UserContext | QCounter => 1,
            _ => 0x10,
        };
        let number = lowest_free(first, |number| self.live.contains_key(&(kind, number)));
        self.live.insert((kind, number), uid);
        number
    }

    fn destroy(&mut self, kind: Kind, number: u32) -> Result<(), Refusal> {
        self.usable(kind, number)?;
        self.live.remove(&(kind, number));
        Ok(())
    }
}

/// Returns the lowest number that is not used: numbers are given out again at once.
pub fn lowest_free(first: u32, used: impl Fn(u32) -> bool) -> u32 {
    (first..).find(|number| !used(*number)).unwrap_or(first)
}

impl Function {
    pub fn queue_number(&self) -> u32 {
        let hca = &self.hca;
        lowest_free(0x100, |n| {
            hca.qps.contains_key(&n) || hca.srqs.contains_key(&n) || hca.ethernet.contains_key(&n)
        })
    }

    /// Executes a command of the tables above, or one that is about the function as a whole.
    /// Returns `None` if it is not one.
    pub fn basic_command(
        &mut self,
        opcode: u16,
        input: &[u8],
        out: &mut Reply,
    ) -> Option<Result<(), Refusal>> {
        let (uid, number) = (user(input), be32(input, 8) & 0xff_ffff);
        for (kind, create, destroy, at) in PLAIN {
            if opcode == *create {
                let number = self.hca.objects.create(*kind, uid);
                out.put(8, &number.to_be_bytes());
                return Some(Ok(()));
            }
            if opcode == *destroy {
                return Some(self.destroy_plain(*kind, be32(input, *at) & 0xff_ffff));
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
                out.set(query_issi_out::supported_issi_dw0, 2);
                Ok(())
            }
            QUERY_ADAPTER => {
                let at = query_adapter_out::query_adapter_struct.byte();
                let at = at + query_adapter_param_block::vsd_contd_psid.byte();
                out.put(at, b"EMU0000000001");
                Ok(())
            }
            QUERY_SPECIAL_CONTEXTS => {
                out.set(special::resd_lkey, RESERVED_LKEY.into());
                out.set(special::null_mkey, NULL_MKEY.into());
                let end = special::terminate_scatter_list_mkey;
                out.set(end, INVALID_LKEY.to_be().into());
                Ok(())
            }
            TEARDOWN_HCA => {
                // Profile 0 is the graceful one: the driver has destroyed everything.
                if number == 0 {
                    self.report_objects(true);
                }
                Ok(())
            }
            ALLOC_UAR => self.alloc_uar(uid, out),
            DEALLOC_UAR => self.hca.objects.destroy(Uar, number),
            _ => return None,
        })
    }

    fn destroy_plain(&mut self, kind: Kind, number: u32) -> Result<(), Refusal> {
        if kind == Pd && self.pd_in_use(number) {
            return Err(Refusal::busy(format!("PD {number:#x} is in use")));
        }
        // A driver must not: no command could destroy the objects any more.
        let left = match kind {
            UserContext => self.objects_of(|owner| owner == number),
            _ => Vec::new(),
        };
        if !left.is_empty() {
            let why = format!("user context {number:#x} still has {}", left.join(", "));
            error!(self, "{why}");
            return Err(Refusal::busy(why));
        }
        self.hca.objects.destroy(kind, number)
    }

    fn pd_in_use(&self, pd: u32) -> bool {
        let hca = &self.hca;
        hca.qps.values().any(|qp| qp.pd() == pd)
            || hca.srqs.values().any(|srq| srq.pd == pd)
            || hca.mkeys.used().any(|(_, mkey)| mkey.pd() == pd)
    }

    fn alloc_uar(&mut self, uid: u32, out: &mut Reply) -> Result<(), Refusal> {
        let pages = (BAR0_SIZE / 4096) as u32;
        let step = 1 << self.hca.objects.log_uars;
        let mut all = (FIRST_UAR..pages).step_by(step);
        let free = all.find(|page| self.hca.objects.owner(Uar, *page).is_none());
        let page = free.ok_or(Refusal::new(BAD_RES, "no UAR is left"))?;
        self.hca.objects.live.insert((Uar, page), uid);
        out.put(8, &page.to_be_bytes());
        Ok(())
    }
}
