// SPDX-License-Identifier: GPL-2.0

//! The life of the function as a whole, and objects of which the device need only know that
//! they are there.

use std::collections::BTreeMap;

use crate::bits::{be16, be32, put};
use crate::command::{user, Refusal, Reply, BAD_PARAM, BAD_RES};
use crate::config::BAR0_SIZE;
use crate::function::{Function, FIRST_UAR};
use crate::ifc::{
    op, query_adapter_out, query_adapter_param_block, query_issi_out, query_pages_in,
    query_pages_out, query_special_contexts_out,
};
use crate::{error, say, trace};

/// What gets a number; a kind has numbers of its own.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Kind {
    Pd,
    TransportDomain,
    Xrcd,
    XrcSrq,
    UserContext,
    QCounter,
    Tis,
    Tir,
    Rqt,
    FlowTable,
    FlowGroup,
}

/// How a kind is created and destroyed. The number is in the third word of the output of the
/// first command; where it is in the input of the second one is here.
const PLAIN: &[(Kind, u16, u16, usize, &str)] = &[
    (
        Kind::Pd,
        op::ALLOC_PD,
        op::DEALLOC_PD,
        8,
        "protection domains",
    ),
    (
        Kind::TransportDomain,
        op::ALLOC_TRANSPORT_DOMAIN,
        op::DEALLOC_TRANSPORT_DOMAIN,
        8,
        "transport domains",
    ),
    (
        Kind::Xrcd,
        op::ALLOC_XRCD,
        op::DEALLOC_XRCD,
        8,
        "XRC domains",
    ),
    (
        Kind::XrcSrq,
        op::CREATE_XRC_SRQ,
        op::DESTROY_XRC_SRQ,
        8,
        "XRC SRQs",
    ),
    (
        Kind::UserContext,
        op::CREATE_UCTX,
        op::DESTROY_UCTX,
        8,
        "user contexts",
    ),
    (
        Kind::QCounter,
        op::ALLOC_Q_COUNTER,
        op::DEALLOC_Q_COUNTER,
        8,
        "queue counters",
    ),
    (Kind::Tis, op::CREATE_TIS, op::DESTROY_TIS, 8, "TISes"),
    (Kind::Tir, op::CREATE_TIR, op::DESTROY_TIR, 8, "TIRs"),
    (Kind::Rqt, op::CREATE_RQT, op::DESTROY_RQT, 8, "RQTs"),
    (
        Kind::FlowTable,
        op::CREATE_FLOW_TABLE,
        op::DESTROY_FLOW_TABLE,
        20,
        "flow tables",
    ),
    (
        Kind::FlowGroup,
        op::CREATE_FLOW_GROUP,
        op::DESTROY_FLOW_GROUP,
        24,
        "flow groups",
    ),
];

/// Commands on such an object: the number is in the third word; the output is zeros.
const ON_PLAIN: &[(u16, Kind)] = &[(op::MODIFY_TIR, Kind::Tir), (op::MODIFY_RQT, Kind::Rqt)];

/// Commands that have no effect that a driver could see: the output is zeros.
const NO_EFFECT: &[u16] = &[
    op::ENABLE_HCA,
    op::SET_ISSI,
    op::INIT_HCA,
    op::DISABLE_HCA,
    op::SET_FLOW_TABLE_ROOT,
    op::SET_FLOW_TABLE_ENTRY,
    op::DELETE_FLOW_TABLE_ENTRY,
    op::MODIFY_FLOW_TABLE,
    op::MODIFY_HCA_VPORT_CONTEXT,
    op::QUERY_VPORT_COUNTER,
    op::QUERY_Q_COUNTER,
    // No port is bonded with another one.
    op::QUERY_LAG,
    // No limit of a shared receive queue has an event.
    op::MODIFY_RMP,
    op::ARM_XRC_SRQ,
    op::QUERY_XRC_SRQ,
];

/// Pages that the driver gives to the firmware at boot, and at initialisation.
const BOOT_PAGES: usize = 16;
const INIT_PAGES: usize = 32;
/// The key that DMA by physical address has, if the driver asks for it; never given out.
pub const RESERVED_LKEY: u32 = 0x300;
/// The key that ends a scatter list.
pub const INVALID_LKEY: u32 = 0x100;
/// The key of memory that reads as zeros and drops what is written.
pub const NULL_MKEY: u32 = 0x200;

#[derive(Default)]
pub struct Objects {
    live: BTreeMap<(Kind, u32), u32>,
    /// By the first of the UARs that are allocated together.
    uars: BTreeMap<u32, u32>,
    /// Log base 2 of the number of UARs that a driver gets at once: of one page of its host.
    log_uars: u32,
    /// Pages that the driver has given, for it to have back.
    pages: Vec<u64>,
}

impl Objects {
    pub fn owner(&self, kind: Kind, number: u32) -> Option<u32> {
        self.live.get(&(kind, number)).copied()
    }

    pub fn usable(&self, kind: Kind, number: u32) -> Result<(), Refusal> {
        self.owner(kind, number)
            .map(drop)
            .ok_or_else(|| Refusal::new(BAD_RES, format!("no {kind:?} {number:#x}")))
    }

    pub fn usable_uar(&self, page: u32) -> Result<(), Refusal> {
        self.has_uar(page).then_some(()).ok_or_else(|| {
            Refusal::new(
                BAD_RES,
                format!("page {page} of doorbells is not allocated"),
            )
        })
    }

    pub fn has_uar(&self, page: u32) -> bool {
        self.uars.contains_key(&self.first_uar(page))
    }

    /// Returns the first of the UARs that are allocated together with `page`.
    fn first_uar(&self, page: u32) -> u32 {
        page >> self.log_uars << self.log_uars
    }

    /// Sets how many UARs a driver gets at once, as a log base 2.
    pub fn set_log_uars(&mut self, log: u32) {
        self.log_uars = log;
    }

    /// Returns how many objects of each kind there are, of the user contexts that `of` accepts.
    pub fn counts(&self, of: impl Fn(u32) -> bool) -> Vec<(&'static str, usize)> {
        let count = |kind| {
            let live = self.live.iter();
            live.filter(|((k, _), owner)| *k == kind && of(**owner))
                .count()
        };
        let mut counts: Vec<_> = PLAIN
            .iter()
            .map(|(kind, .., name)| (*name, count(*kind)))
            .collect();
        let uars = self.uars.values().filter(|owner| of(**owner)).count();
        counts.push(("UARs", uars));
        counts
    }

    fn create(&mut self, kind: Kind, uid: u32) -> u32 {
        let first = match kind {
            Kind::UserContext | Kind::QCounter => 1,
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
        for (kind, create, destroy, at, _) in PLAIN {
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
            op::QUERY_ISSI => {
                // Interface 1 alone: shared receive queues are RMPs.
                out.set(query_issi_out::supported_issi_dw0, 2);
                Ok(())
            }
            op::QUERY_ADAPTER => {
                let block = out.from(query_adapter_out::query_adapter_struct.byte());
                put(
                    block,
                    query_adapter_param_block::vsd_contd_psid.byte(),
                    b"EMU0000000001",
                );
                Ok(())
            }
            op::QUERY_SPECIAL_CONTEXTS => {
                out.set(
                    query_special_contexts_out::resd_lkey,
                    u64::from(RESERVED_LKEY),
                );
                out.set(query_special_contexts_out::null_mkey, u64::from(NULL_MKEY));
                out.set(
                    query_special_contexts_out::terminate_scatter_list_mkey,
                    u64::from(INVALID_LKEY.to_be()),
                );
                Ok(())
            }
            op::QUERY_PAGES => {
                let wanted = if query_pages_in::op_mod.get(input) == 1 {
                    BOOT_PAGES
                } else {
                    INIT_PAGES
                };
                out.set(query_pages_out::num_pages, wanted as u64);
                Ok(())
            }
            op::MANAGE_PAGES => self.manage_pages(input, out),
            op::TEARDOWN_HCA => {
                // Profile 0 is the graceful one: the driver has destroyed everything.
                if number == 0 {
                    self.report_objects(true);
                }
                self.dma.report();
                Ok(())
            }
            op::ALLOC_UAR => self.alloc_uar(uid, out),
            op::DEALLOC_UAR => self.dealloc_uar(number),
            _ => return None,
        })
    }

    fn destroy_plain(&mut self, kind: Kind, number: u32) -> Result<(), Refusal> {
        if kind == Kind::Pd && self.pd_in_use(number) {
            return Err(Refusal::busy(format!("PD {number:#x} is in use")));
        }
        // A driver must not: no command could destroy the objects any more.
        let left = match kind {
            Kind::UserContext => self.objects_of(|owner| owner == number),
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
        let free = all.find(|page| !self.hca.objects.has_uar(*page));
        let page = free.ok_or(Refusal::new(BAD_RES, "no UAR is left"))?;
        self.hca.objects.uars.insert(page, uid);
        out.put(8, &page.to_be_bytes());
        Ok(())
    }

    fn dealloc_uar(&mut self, page: u32) -> Result<(), Refusal> {
        self.hca.objects.usable_uar(page)?;
        if self.hca.objects.uars.remove(&page).is_none() {
            return Err(Refusal::new(
                BAD_PARAM,
                format!("UAR {page} is not the first"),
            ));
        }
        Ok(())
    }

    /// Takes the driver's pages, which this firmware does not need, and gives them back.
    fn manage_pages(&mut self, input: &[u8], out: &mut Reply) -> Result<(), Refusal> {
        const GIVE: u16 = 1;
        const TAKE: u16 = 2;
        let count = be32(input, 12) as usize;
        match be16(input, 6) {
            GIVE => {
                let list = input
                    .get(16..)
                    .unwrap_or_default()
                    .chunks_exact(8)
                    .take(count);
                self.hca
                    .objects
                    .pages
                    .extend(list.map(|page| crate::bits::be64(page, 0)));
            }
            TAKE => {
                let pages = &mut self.hca.objects.pages;
                let back = pages.split_off(pages.len() - count.min(pages.len()));
                out.put(8, &(back.len() as u32).to_be_bytes());
                for (n, page) in back.iter().enumerate() {
                    out.put(16 + n * 8, &page.to_be_bytes());
                }
            }
            _ => say!(self, "the driver cannot give pages"),
        }
        trace!(
            2,
            self,
            "{} pages of the driver's",
            self.hca.objects.pages.len()
        );
        Ok(())
    }
}
