// SPDX-License-Identifier: GPL-2.0

//! Changes of the state of a queue pair, and what each takes over.

use crate::prelude::*;

/// What each transition takes over, whatever the mask says.
const TO_INIT: &[Field] = &[qpc::q_key, qpc::rre, qpc::rwe, qpc::rae];
const TO_RTR: &[Field] = &[
    qpc::mtu,
    qpc::log_msg_max,
    qpc::remote_qpn,
    qpc::next_rcv_psn,
    qpc::min_rnr_nak,
    qpc::log_rra_max,
];
const TO_RTS: &[Field] = &[
    qpc::next_send_psn,
    qpc::log_sra_max,
    qpc::retry_count,
    qpc::rnr_retry,
];

/// What is taken over if its bit of the mask is set.
const OPTIONAL: &[(u32, Field)] = &[
    (1 << 1, qpc::rre),
    (1 << 2, qpc::rae),
    (1 << 3, qpc::rwe),
    (1 << 5, qpc::q_key),
    (1 << 6, qpc::min_rnr_nak),
    (1 << 8, qpc::log_sra_max),
    (1 << 9, qpc::log_rra_max),
    (1 << 12, qpc::retry_count),
    (1 << 13, qpc::rnr_retry),
    (1 << 19, qpc::cqn_rcv),
];
const OPTIONAL_ACK_TIMEOUT: u32 = 1 << 14;

/// Returns the state that a command leads to, if it may be given in this one.
fn transition(opcode: u16, now: State) -> Option<State> {
    match (opcode, now) {
        (op::RST2INIT_QP, State::Reset) | (op::INIT2INIT_QP, State::Init) => Some(State::Init),
        (op::INIT2RTR_QP, State::Init) => Some(State::Rtr),
        (op::RTR2RTS_QP, State::Rtr) | (op::RTS2RTS_QP, State::Rts) => Some(State::Rts),
        (op::_2ERR_QP, _) => Some(State::Error),
        (op::_2RST_QP, _) => Some(State::Reset),
        _ => None,
    }
}

impl Qp {
    fn take(&mut self, from: &[u8], fields: &[Field]) {
        for field in fields {
            field.set(&mut self.context, field.get(from));
        }
    }

    /// Takes the path over, or this field of it alone.
    fn take_path(&mut self, from: &[u8], field: Option<Field>) {
        let from = qpc::primary_address_path.slice(from);
        let to = qpc::primary_address_path.rest_mut(&mut self.context);
        match field {
            Some(field) => field.set(to, field.get(from)),
            None => put(to, 0, from),
        }
    }
}

impl Function {
    pub fn modify_qp(&mut self, opcode: u16, input: &[u8]) -> Answer {
        let number = init2rtr_qp_in::qpn.get32(input);
        let mask = init2rtr_qp_in::opt_param_mask.get32(input);
        let from = init2rtr_qp_in::qpc.slice(input);
        let qp = self.qp(number)?;
        let Some(state) = transition(opcode, qp.state) else {
            fail!(BAD_QP_STATE, "QP {number:#x} is in state {:?}", qp.state);
        };
        let Some(qp) = self.hca.qps.get_mut(&number) else {
            return Ok(());
        };
        match opcode {
            op::RST2INIT_QP | op::INIT2INIT_QP => {
                qp.take(from, TO_INIT);
                qp.take_path(from, None);
            }
            op::INIT2RTR_QP => {
                qp.take(from, TO_RTR);
                qp.take_path(from, None);
            }
            op::RTR2RTS_QP => {
                qp.take(from, TO_RTS);
                qp.take_path(from, Some(ads::ack_timeout));
            }
            _ => {}
        }
        if !matches!(state, State::Reset | State::Error) {
            for (_, field) in OPTIONAL.iter().filter(|(bit, _)| mask & bit != 0) {
                qp.take(from, &[*field]);
            }
            if mask & OPTIONAL_ACK_TIMEOUT != 0 {
                qp.take_path(from, Some(ads::ack_timeout));
            }
        }
        qp.state = state;
        match state {
            State::Reset => {
                qp.send.next = 0;
                if let Some(receive) = &mut qp.receive {
                    receive.next = 0;
                }
                self.forget_work(number);
            }
            // A packet that is on its way is lost.
            State::Error => {
                qp.message = Message::default();
                self.flush(number);
            }
            // What was posted before the queue pair could send.
            State::Rts => self.wake(number),
            _ => {}
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_are_passed_in_order() {
        use State::*;
        let way = [
            op::RST2INIT_QP,
            op::INIT2RTR_QP,
            op::RTR2RTS_QP,
            op::RTS2RTS_QP,
        ];
        let mut now = Reset;
        for opcode in way {
            now = transition(opcode, now).unwrap();
        }
        assert_eq!(now, Rts);
        assert_eq!(transition(op::INIT2RTR_QP, Reset), None);
        assert_eq!(transition(op::RTR2RTS_QP, Init), None);
        assert_eq!(transition(op::RST2INIT_QP, Error), None);
        for state in [Reset, Init, Rtr, Rts, Error] {
            assert_eq!(transition(op::_2ERR_QP, state), Some(Error));
            assert_eq!(transition(op::_2RST_QP, state), Some(Reset));
        }
    }
}
