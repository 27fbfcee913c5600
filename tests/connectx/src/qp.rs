// SPDX-License-Identifier: GPL-2.0

//! Queue pairs: creation, their states, and what a change of state takes over.

mod modify;

use crate::prelude::*;

/// The states, as the hardware numbers them.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Debug)]
pub enum State {
    #[default]
    Reset = 0,
    Init = 1,
    Rtr = 2,
    Rts = 3,
    Error = 6,
}

#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub enum Service {
    #[default]
    Rc,
    /// Extended reliable connections, which applications create to see whether they can. Without work.
    Xrc,
    Ud,
    /// Subnet management.
    Qp0,
    /// General services.
    Qp1,
    /// Work requests of the kernel on memory keys.
    Umr,
}

pub const BLOCK: u64 = 64;

#[derive(Clone, Default)]
pub struct Ring {
    pub buffer: Buffer,
    pub log_size: u32,
    pub stride: u64,
    /// The index of the next entry that the device looks at.
    pub next: u16,
}

#[derive(Clone, Default)]
pub struct Qp {
    pub number: u32,
    pub service: Service,
    pub state: State,
    /// The context, as QUERY_QP returns it.
    pub context: Vec<u8>,
    pub send: Ring,
    /// Its own receive queue; none if it has a shared one, or receives nothing.
    pub receive: Option<Ring>,
    pub srq: Option<u32>,
    pub message: Message,
    pub dbr: u64,
    uar: u32,
}

impl Qp {
    pub fn get(&self, field: Field) -> u32 {
        field.get32(&self.context)
    }

    pub fn pd(&self) -> u32 {
        self.get(qpc::pd)
    }

    pub fn path(&self) -> &[u8] {
        qpc::primary_address_path.slice(&self.context)
    }

    pub fn mtu(&self) -> u64 {
        128 << self.get(qpc::mtu)
    }

    /// Returns the DMA addresses of the rings, of which the receive ring comes first, and of the
    /// doorbell record.
    pub fn place(&self) -> (u64, u64) {
        let first = self.receive.as_ref().unwrap_or(&self.send);
        (first.buffer.address(0), self.dbr)
    }

    pub fn can_receive(&self) -> bool {
        matches!(self.state, State::Rtr | State::Rts)
    }

    pub fn requester(&self) -> crate::mkey::Requester {
        let own = self.service == Service::Umr;
        crate::mkey::Requester {
            pd: (!own).then(|| self.pd()),
            qpn: self.number,
        }
    }
}

impl Function {
    pub fn create_qp(&mut self, input: &[u8]) -> Result<u32, Refusal> {
        let mut context = create_qp_in::qpc.slice(input).to_vec();
        context.resize(qpc::BYTES, 0);
        let service = match qpc::st.get(&context) {
            0 => Service::Rc,
            2 => Service::Ud,
            3 => Service::Xrc,
            7 => Service::Qp0,
            8 => Service::Qp1,
            0xc => Service::Umr,
            other => {
                fail!(BAD_PARAM, "service {other:#x} is not announced")
            }
        };
        let get = |field: Field| field.get32(&context);
        let umem = (
            create_qp_in::wq_umem_id.get32(input),
            create_qp_in::wq_umem_offset.get(input),
        );
        let in_umem = create_qp_in::wq_umem_valid.is_set(input);
        let place = QueuePlace {
            umem: in_umem.then_some(umem),
            list: create_qp_in::pas.rest(input),
            log_page: get(qpc::log_page_size),
            offset: qpc::page_offset.get(&context),
            // The header has no name for the number of the umem.
            record_umem: (get(qpc::dbr_umem_valid) != 0).then(|| be32(&context, 228)),
            record: qpc::dbr_addr.get(&context),
        };
        let stride = 16 << get(qpc::log_rq_stride);
        let receives = match get(qpc::rq_type) {
            0 => stride << get(qpc::log_rq_size),
            _ => 0,
        };
        let sends = match qpc::no_sq.is_set(&context) {
            true => 0,
            false => BLOCK << get(qpc::log_sq_size),
        };
        let (memory, mut uses) = self.queue_memory(&place, receives + sends)?;
        let mut qp = Qp {
            service,
            dbr: memory.dbr,
            uar: get(qpc::uar_page),
            ..Qp::default()
        };
        let ring = |offset, field, stride| Ring {
            buffer: memory.buffer.from(offset),
            log_size: get(field),
            stride,
            next: 0,
        };
        match get(qpc::rq_type) {
            0 => qp.receive = Some(ring(0, qpc::log_rq_size, stride)),
            1 => qp.srq = Some(get(qpc::srqn_rmpn_xrqn)),
            _ => {}
        }
        if sends > 0 {
            qp.send = ring(receives, qpc::log_sq_size, BLOCK);
            self.hca.objects.usable(Kind::Uar, qp.uar)?;
        }
        if !matches!(service, Service::Umr | Service::Xrc) {
            uses.push((Kind::Pd, get(qpc::pd)));
        }
        if service != Service::Xrc {
            uses.extend(qp.srq.map(|srq| (Kind::Srq, srq)));
        }
        let cqs = [get(qpc::cqn_snd), get(qpc::cqn_rcv)].map(|cq| (Kind::Cq, cq));
        uses.extend(cqs.iter().filter(|(_, cq)| *cq != 0));
        let number = self.hca.objects.create(Kind::Qp, user(input), uses)?;
        (qp.number, qp.context) = (number, context);
        self.hca.qps.insert(number, qp);
        Ok(number)
    }

    pub fn query_qp(&mut self, input: &[u8], out: &mut [u8]) -> Answer {
        let qp = self.qp(query_qp_in::qpn.get32(input))?;
        let mut context = qp.context.clone();
        qpc::state.set(&mut context, qp.state as u64);
        qpc::hw_sq_wqebb_counter.set(&mut context, u64::from(qp.send.next));
        put(out, query_qp_out::qpc.byte(), &context);
        Ok(())
    }

    pub fn qp(&self, number: u32) -> Result<&Qp, Refusal> {
        find(&self.hca.qps, Kind::Qp, number)
    }

    /// Returns the two words of a doorbell record.
    pub fn record(&self, dbr: u64) -> (u32, u32) {
        let mut record = [0; 8];
        if let Err(bad) = self.dma.read(dbr, &mut record) {
            self.unmapped("doorbell record", bad.0);
        }
        (be32(&record, 0), be32(&record, 4))
    }

    /// Returns the counters of the doorbell record: receive, send.
    pub fn posted(&self, qp: &Qp) -> (u16, u16) {
        let (receive, send) = self.record(qp.dbr);
        (receive as u16, send as u16)
    }

    pub fn wake(&mut self, number: u32) {
        if !self.hca.ready.contains(&number) {
            self.hca.ready.push_back(number);
        }
    }

    pub(crate) fn forget_work(&mut self, number: u32) {
        self.hca.ready.retain(|ready| *ready != number);
        self.hca.waiting.retain(|(_, waiting)| *waiting != number);
        self.with_qp(number, |qp| qp.message = Message::default());
    }

    pub fn with_qp(&mut self, number: u32, change: impl FnOnce(&mut Qp)) {
        if let Some(qp) = self.hca.qps.get_mut(&number) {
            change(qp);
        }
    }

    pub fn send_doorbell(&mut self, uar: u32, number: u32) {
        if let Some(qp) = self.hca.qps.get(&number) {
            if qp.uar != uar {
                let own = qp.uar;
                return crate::refuse!(self, "QP {number:#x} is rung by UAR {uar}, and has {own}");
            }
            // One that waits goes on by itself.
            if !self.hca.waiting.iter().any(|(_, qpn)| *qpn == number) {
                self.wake(number);
            }
        } else if self.hca.ethernet.contains_key(&number) {
            self.run_ethernet(number);
        } else {
            crate::refuse!(self, "doorbell of QP {number:#x}, which is not there");
        }
    }
}

#[cfg(test)]
pub mod tests {
    use super::*;

    /// Returns a queue pair without queues.
    pub fn queue_pair(service: Service, pd: u32) -> Qp {
        let mut context = vec![0; qpc::BYTES];
        qpc::pd.set(&mut context, u64::from(pd));
        Qp {
            number: 1,
            service,
            context,
            ..Qp::default()
        }
    }
}
