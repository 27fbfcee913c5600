// SPDX-License-Identifier: GPL-2.0

//! All functions, and the work that is done between them: the requester's side.

use crate::prelude::*;

pub mod syndrome {
    pub const LOCAL_LENGTH: u8 = 0x01;
    pub const LOCAL_OPERATION: u8 = 0x02;
    pub const LOCAL_PROTECTION: u8 = 0x04;
    pub const BIND: u8 = 0x06;
    pub const REMOTE_INVALID_REQUEST: u8 = 0x12;
    pub const REMOTE_ACCESS: u8 = 0x13;
    pub const REMOTE_OPERATION: u8 = 0x14;
    pub const NO_ANSWER: u8 = 0x15;
    pub const NOT_READY: u8 = 0x16;
}

pub enum Outcome {
    Done(u32),
    Fail(u8),
    Packet,
    Held,
    /// The other end does not answer: it is tried again.
    NoAnswer,
    /// The other end has no receive work request: it is tried again after the time of this code.
    NotReady(u32),
    /// A page is missing in the memory of function `at`.
    Fault {
        at: usize,
        missing: Missing,
        /// How it fails if the driver cannot help.
        syndrome: u8,
    },
}

/// The error is what ends it early.
pub type Ended = Result<Outcome, Outcome>;

enum Step {
    Again,
    Stop,
}

pub struct Fabric {
    pub functions: Vec<Function>,
}

/// No work request is tried again sooner.
const SHORTEST: Duration = Duration::from_millis(1);
const LONGEST: Duration = Duration::from_millis(500);
/// So many work requests are done before other queue pairs, and the drivers, have a turn.
const TURN: usize = 64;

impl Fabric {
    /// Does some of the work that there is. Returns whether there is more.
    pub fn work(&mut self) -> bool {
        self.resume();
        for f in 0..self.functions.len() {
            let Some(qpn) = self.functions[f].hca.ready.pop_front() else {
                continue;
            };
            let mut left = TURN;
            loop {
                match self.step(f, qpn) {
                    Step::Stop => break,
                    Step::Again if left == 0 => {
                        self.functions[f].wake(qpn);
                        break;
                    }
                    Step::Again => left -= 1,
                }
            }
        }
        self.settle();
        self.functions.iter().any(|f| !f.hca.ready.is_empty())
    }

    /// Wakes the queue pairs whose time has come, and looks after those in error.
    pub fn tick(&mut self) {
        let now = Instant::now();
        for function in &mut self.functions {
            let waiting = std::mem::take(&mut function.hca.waiting);
            let (due, later): (Vec<_>, _) = waiting.into_iter().partition(|(at, _)| *at <= now);
            function.hca.waiting = later;
            for (_, qpn) in due {
                function.wake(qpn);
            }
            function.flush_all();
        }
    }

    /// Returns how long there is nothing to do, unless a driver asks; `None` for ever.
    pub fn idle(&self) -> Option<Duration> {
        let now = Instant::now();
        let waiting = self.functions.iter().flat_map(|f| &f.hca.waiting);
        let next = waiting.map(|(at, _)| at.saturating_duration_since(now));
        let failed = |qp: &Qp| qp.state == State::Error && qp.receive.is_some();
        let mut qps = self.functions.iter().flat_map(|f| f.hca.qps.values());
        let look = qps.any(failed).then_some(Duration::from_millis(5));
        next.chain(look).min()
    }

    fn resume(&mut self) {
        for f in 0..self.functions.len() {
            for resumed in std::mem::take(&mut self.functions[f].hca.faults.resumed) {
                let (f, qpn) = resumed.waiter;
                let function = &mut self.functions[f];
                let qp = function.hca.qps.get_mut(&qpn);
                if let Some(qp) = qp.filter(|qp| qp.message.fault == Some(resumed.token)) {
                    qp.message.fault = None;
                    qp.message.fault_failed = resumed.error;
                    function.wake(qpn);
                }
            }
        }
    }

    fn step(&mut self, f: usize, qpn: u32) -> Step {
        let Some(qp) = self.functions[f].hca.qps.get(&qpn).cloned() else {
            return Step::Stop;
        };
        if qp.message.fault.is_some() {
            return Step::Stop;
        }
        if qp.state == State::Error {
            self.functions[f].flush(qpn);
            return Step::Stop;
        }
        let wqe = match self.functions[f].next_work(&qp) {
            Next::Nothing => return Step::Stop,
            Next::Malformed(wqe) => return self.fail(f, &qp, &wqe, syndrome::LOCAL_OPERATION),
            Next::Work(wqe) => wqe,
        };
        trace!(3, "fn{f}: QP {qpn:#x}: {:#x} at {}", wqe.opcode, wqe.index);
        if wqe.opcode == opcode::UMR && self.functions[f].hca.init.fatal {
            // Only a reset ends that.
            return Step::Stop;
        }
        let inject = &mut self.functions[f].inject;
        if wqe.opcode == opcode::UMR && inject.hold_umr {
            inject.held_umr.insert(qpn);
            return Step::Stop;
        }
        match self.execute(f, &qp, &wqe) {
            Outcome::Done(bytes) => self.done(f, &qp, &wqe, bytes),
            Outcome::Fail(syndrome) => self.fail(f, &qp, &wqe, syndrome),
            Outcome::Packet => Step::Again,
            Outcome::Held => Step::Stop,
            Outcome::NoAnswer => self.no_answer(f, &qp, &wqe),
            Outcome::NotReady(code) => self.not_ready(f, &qp, &wqe, code),
            Outcome::Fault {
                at,
                missing,
                syndrome,
            } => {
                if qp.message.fault_failed {
                    return self.fault_failed(f, &qp, &wqe, syndrome);
                }
                match self.functions[at].page_fault(&missing, (f, qpn)) {
                    Some(token) => {
                        self.functions[f].with_qp(qpn, |qp| qp.message.fault = Some(token));
                        Step::Stop
                    }
                    None => {
                        refuse!("fn{at}: {missing:x?}, and no EQ is for page faults");
                        self.fail(f, &qp, &wqe, syndrome)
                    }
                }
            }
        }
    }

    fn execute(&mut self, f: usize, qp: &Qp, wqe: &Wqe) -> Outcome {
        match (qp.service, wqe.opcode) {
            (_, opcode::NOP) => Outcome::Done(0),
            (Service::Rc | Service::Umr, opcode::UMR) => {
                let function = &mut self.functions[f];
                match function.umr(qp, wqe) {
                    // The key has changed, and a packet that was translated before is not written.
                    Ok(()) if function.in_flight(wqe.immediate >> 8) => {
                        function.hca.fenced.insert(qp.number);
                        function.with_qp(qp.number, |qp| qp.message.applied = true);
                        Outcome::Held
                    }
                    Ok(()) => Outcome::Done(0),
                    Err(why) => {
                        refuse!("fn{f}: UMR on QP {:#x}: {why}", qp.number);
                        Outcome::Fail(syndrome::BIND)
                    }
                }
            }
            (Service::Rc, _) => {
                let done = self.connected(f, qp, wqe);
                done.unwrap_or_else(|outcome| outcome)
            }
            // To the subnet manager, which does not answer: the subnet is up from the start.
            (Service::Ud | Service::Qp0 | Service::Qp1, _) if self.functions[f].port.infiniband => {
                Outcome::Done(0)
            }
            (Service::Ud | Service::Qp1, opcode::SEND | opcode::SEND_IMM) => {
                let done = self.datagram(f, qp, wqe);
                done.unwrap_or_else(|outcome| outcome)
            }
            _ => no_opcode(f, qp, wqe),
        }
    }

    /// Returns the memory of this part of the requester's data, and the length of all of it.
    pub fn local(
        &self,
        f: usize,
        (qp, wqe): (&Qp, &Wqe),
        at: usize,
        part: Range<u64>,
    ) -> Result<(Spans, u64), Outcome> {
        let function = &self.functions[f];
        function.data(qp, wqe, at, part).map_err(|error| {
            let syndrome = syndrome::LOCAL_PROTECTION;
            if let AccessError::NotPresent { key, va } = error {
                let missing = Missing { key, va, len: 1 };
                return Outcome::Fault {
                    at: f,
                    missing,
                    syndrome,
                };
            }
            function.denied(&format!("QP {:#x}, local memory", qp.number), error);
            Outcome::Fail(syndrome)
        })
    }

    /// Fails a work request whose page fault the driver could not resolve. What a ConnectX does
    /// then is not documented: this one does as for an access that is refused, at both ends.
    fn fault_failed(&mut self, f: usize, qp: &Qp, wqe: &Wqe, syndrome: u8) -> Step {
        if syndrome != syndrome::LOCAL_PROTECTION {
            self.fail_peer(f, qp);
        }
        self.fail(f, qp, wqe, syndrome)
    }

    fn advance(&mut self, f: usize, qpn: u32, wqe: &Wqe) {
        self.functions[f].with_qp(qpn, |qp| {
            qp.send.next = qp.send.next.wrapping_add(wqe.blocks);
            qp.message = Message::default();
        });
    }

    fn done(&mut self, f: usize, qp: &Qp, wqe: &Wqe, bytes: u32) -> Step {
        self.advance(f, qp.number, wqe);
        if wqe.signaled {
            let cqe = Cqe {
                opcode: completion::REQUEST,
                bytes,
                ..wqe.completion(qp)
            };
            self.functions[f].complete(qp.get(qpc::cqn_snd), &cqe);
        }
        Step::Again
    }

    fn fail(&mut self, f: usize, qp: &Qp, wqe: &Wqe, syndrome: u8) -> Step {
        self.advance(f, qp.number, wqe);
        let (qpn, index, opcode) = (qp.number, wqe.index, wqe.opcode);
        refuse!("fn{f}: QP {qpn:#x}: work request {index}, opcode {opcode:#x}, fails with syndrome {syndrome:#x}");
        let cqe = Cqe {
            opcode: completion::REQUEST_ERROR,
            syndrome,
            vendor: 0x88,
            ..wqe.completion(qp)
        };
        let function = &mut self.functions[f];
        function.complete(qp.get(qpc::cqn_snd), &cqe);
        function.fail_queue_pair(qp.number);
        Step::Stop
    }

    fn no_answer(&mut self, f: usize, qp: &Qp, wqe: &Wqe) -> Step {
        // 4.096 microseconds, doubled as often; 0 is for ever.
        let timeout = ads::ack_timeout.get32(qp.path());
        if timeout != 0 && qp.message.no_answer >= qp.get(qpc::retry_count) {
            return self.fail(f, qp, wqe, syndrome::NO_ANSWER);
        }
        self.functions[f].with_qp(qp.number, |qp| qp.message.no_answer += 1);
        match timeout {
            0 => self.again(f, qp, LONGEST),
            _ => self.again(f, qp, Duration::from_nanos(4096 << timeout)),
        }
    }

    fn not_ready(&mut self, f: usize, qp: &Qp, wqe: &Wqe, code: u32) -> Step {
        const FOR_EVER: u32 = 7;
        let most = qp.get(qpc::rnr_retry);
        if most != FOR_EVER && qp.message.not_ready >= most {
            return self.fail(f, qp, wqe, syndrome::NOT_READY);
        }
        self.functions[f].with_qp(qp.number, |qp| qp.message.not_ready += 1);
        self.again(f, qp, not_ready_time(code))
    }

    fn again(&mut self, f: usize, qp: &Qp, wait: Duration) -> Step {
        let at = Instant::now() + wait.clamp(SHORTEST, LONGEST);
        self.functions[f].hca.waiting.push((at, qp.number));
        Step::Stop
    }
}

/// Returns the time of a code of the RNR NAK timer (IBTA). 15 us for code 1, not 10: below [`SHORTEST`].
fn not_ready_time(code: u32) -> Duration {
    let code = if code == 0 { 32 } else { code };
    Duration::from_micros((10 + 5 * u64::from(code % 2)) << (code / 2))
}

/// Returns the outcome of a work request that the queue pair does not know.
pub fn no_opcode(f: usize, qp: &Qp, wqe: &Wqe) -> Outcome {
    let (number, opcode, service) = (qp.number, wqe.opcode, qp.service);
    refuse!("fn{f}: QP {number:#x}: no opcode {opcode:#x} for {service:?}");
    Outcome::Fail(syndrome::LOCAL_OPERATION)
}

#[cfg(test)]
mod tests;
