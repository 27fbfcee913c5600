// SPDX-License-Identifier: GPL-2.0

//! The command queue: reads a command, has it executed, writes the reply.

use crate::prelude::*;

/// The status of a command, as the PRM numbers them.
pub const BAD_OP: u8 = 0x02;
pub const BAD_PARAM: u8 = 0x03;
pub const BAD_RES: u8 = 0x05;
pub const BAD_RES_STATE: u8 = 0x09;
pub const BAD_QP_STATE: u8 = 0x10;
pub const INTERNAL: u8 = 0x01;

const ENTRY: usize = 64;
const INLINE: usize = 16;
const IN_POINTER: usize = 8;
const INPUT: usize = 16;
const OUTPUT: usize = 32;
const OUT_POINTER: usize = 48;
const OUT_LENGTH: usize = 56;
const OWNER: u64 = 63;
const BLOCK: usize = 512;
const NEXT_BLOCK: u64 = 560;
/// The longest mailbox: the largest input of mlx5 is well below.
const LONGEST: usize = 8 << 20;

#[derive(Debug)]
pub struct Refusal {
    pub status: u8,
    pub why: String,
}

pub type Answer = Result<(), Refusal>;

impl Refusal {
    pub fn new(status: u8, why: impl Into<String>) -> Self {
        Self {
            status,
            why: why.into(),
        }
    }

    pub fn missing(kind: Kind, number: u32) -> Self {
        Self::new(BAD_RES, format!("no {kind:?} {number:#x}"))
    }
}

/// A command that is executed, and not complete.
pub struct Done {
    slot: u32,
    entry: [u8; ENTRY],
    reply: Vec<u8>,
    eq: Option<u32>,
}

/// Returns the user context that gives a command, at the same place in all of them.
pub fn user(input: &[u8]) -> u32 {
    be16(input, 2).into()
}

pub fn name(opcode: u16) -> &'static str {
    let found = op::NAMES.iter().find(|(value, _)| *value == opcode);
    found.map_or("unknown", |(_, name)| name)
}

impl Function {
    /// Executes commands. `late`: the driver has given them up, and uses their slots again; they fail.
    pub fn commands(&mut self, slots: u32, late: bool) {
        for slot in (0..32).filter(|slot| slots >> slot & 1 == 1) {
            if let Err(bad) = self.command(slot, late) {
                self.unmapped(&format!("command slot {slot}"), bad.0);
            }
        }
    }

    fn command(&mut self, slot: u32, late: bool) -> Result<(), Unmapped> {
        let at = self.hca.init.slot(slot);
        let mut entry = [0; ENTRY];
        self.dma.read(at, &mut entry)?;
        if entry[OWNER as usize] & 1 == 0 {
            error!(self, "command slot {slot} is rung, and is not the device's");
            return Ok(());
        }
        let input = self.read_mailbox(&entry)?;
        let opcode = be16(&input, 0);
        if self.inject.ignore_command == Some(opcode) {
            refuse!(self, "{} is not answered", name(opcode));
            self.hca.ignored |= 1 << slot;
            return Ok(());
        }
        let index = destroy_mkey_in::mkey_index.get32(&input);
        if opcode == op::DESTROY_MKEY && self.in_flight(index) {
            self.hca.fenced_slots |= 1 << slot;
            return Ok(());
        }
        // The event queue that this command makes gets no event of this command.
        let eq = self.eq_for(event::COMMAND);
        let mut reply = vec![0; (be32(&entry, OUT_LENGTH) as usize).min(LONGEST)];
        let injected = late.then(|| Refusal::new(INTERNAL, "injected, late"));
        let outcome = match injected.or_else(|| self.injected(opcode)) {
            Some(refusal) => Err(refusal),
            None => self.execute(opcode, &input, &mut reply),
        };
        if let Err(refusal) = outcome {
            let Refusal { status, why } = refusal;
            refuse!(self, "{}: status {status:#x}: {why}", name(opcode));
            reply.fill(0);
            put(&mut reply, 0, &[status]);
            put(&mut reply, 4, &0xc0_0000_u32.to_be_bytes());
        } else {
            let (input, output) = (words(&input), words(&reply));
            trace!(1, self, "{} {input:x?}: {output:x?}", name(opcode));
        }
        let done = Done {
            slot,
            entry,
            reply,
            eq,
        };
        if self.inject.hold_command == Some(opcode) {
            trace!(1, self, "{} is done, not complete", name(opcode));
            self.hca.held_commands.push(done);
            return Ok(());
        }
        self.complete_command(&done)
    }

    pub fn release_commands(&mut self) {
        self.inject.hold_command = None;
        for done in std::mem::take(&mut self.hca.held_commands) {
            if let Err(bad) = self.complete_command(&done) {
                self.unmapped(&format!("command slot {}", done.slot), bad.0);
            }
        }
    }

    /// Delivers the output of a command, and hands the slot back to the driver.
    fn complete_command(&mut self, done: &Done) -> Result<(), Unmapped> {
        let at = self.hca.init.slot(done.slot);
        self.write_mailbox(at, &done.entry, &done.reply)?;
        self.dma.write(at + OWNER, &[0])?;
        if let Some(eq) = done.eq.filter(|eq| self.hca.eqs.contains_key(eq)) {
            self.post_to_eq(eq, event::COMMAND, 0, &(1u32 << done.slot).to_be_bytes());
        }
        Ok(())
    }

    fn injected(&mut self, opcode: u16) -> Option<Refusal> {
        let (wanted, left) = self.inject.fail_command?;
        if wanted != opcode || left == 0 {
            return None;
        }
        self.inject.fail_command = Some((wanted, left - 1));
        Some(Refusal::new(INTERNAL, "injected"))
    }

    fn read_mailbox(&self, entry: &[u8]) -> Result<Vec<u8>, Unmapped> {
        let len = (be32(entry, 4) as usize).min(LONGEST);
        let mut input = entry[INPUT..INPUT + len.min(INLINE)].to_vec();
        let mut block = be64(entry, IN_POINTER) & !0x1ff;
        while input.len() < len {
            let mut data = vec![0; (len - input.len()).min(BLOCK)];
            self.dma.read(block, &mut data)?;
            input.extend(data);
            if input.len() < len {
                block = self.dma.read_be64(block + NEXT_BLOCK)?;
            }
        }
        Ok(input)
    }

    fn write_mailbox(&self, at: u64, entry: &[u8], reply: &[u8]) -> Result<(), Unmapped> {
        let (first, rest) = reply.split_at(reply.len().min(INLINE));
        self.dma.write(at + OUTPUT as u64, first)?;
        let mut block = be64(entry, OUT_POINTER) & !0x1ff;
        for (n, data) in rest.chunks(BLOCK).enumerate() {
            if n > 0 {
                block = self.dma.read_be64(block + NEXT_BLOCK)?;
            }
            self.dma.write(block, data)?;
        }
        Ok(())
    }

    fn execute(&mut self, opcode: u16, input: &[u8], out: &mut [u8]) -> Answer {
        match opcode {
            op::QUERY_HCA_CAP => self.query_hca_cap(input, out),
            op::SET_HCA_CAP => self.set_hca_cap(input),
            op::MODIFY_CQ => self.modify_cq(input),
            op::CREATE_MKEY => self.create_mkey(input, out),
            op::DESTROY_MKEY => self.destroy_mkey(input),
            op::PAGE_FAULT_RESUME => self.page_fault_resume(input),
            op::QUERY_QP => self.query_qp(input, out),
            op::RST2INIT_QP..=op::SQD_RTS_QP | op::INIT2INIT_QP if opcode != op::MAD_IFC => {
                self.modify_qp(opcode, input)
            }
            op::QUERY_RMP => self.query_rmp(input, out),
            op::MODIFY_SQ | op::MODIFY_RQ => self.modify_ethernet_queue(input),
            op::QUERY_SQ | op::QUERY_RQ => self.query_ethernet_queue(input, out),
            op::CREATE_GENERAL_OBJECT
            | op::MODIFY_GENERAL_OBJECT
            | op::QUERY_GENERAL_OBJECT
            | op::DESTROY_GENERAL_OBJECT
            | op::ATTACH_TO_MCG
            | op::DETACH_FROM_MCG => Err(Refusal::new(BAD_OP, "it is not announced")),
            _ => {
                let outcome = self.basic(opcode, input, out);
                let outcome = outcome.or_else(|| self.port_command(opcode, input, out));
                outcome.unwrap_or_else(|| {
                    error!(self, "unknown command {opcode:#x} ({})", name(opcode));
                    Err(Refusal::new(BAD_OP, "unknown command"))
                })
            }
        }
    }
}

fn words(data: &[u8]) -> Vec<u32> {
    let most = if log::wants(3) { 128 } else { 6 };
    let words = data.chunks_exact(4).take(most);
    words.map(|word| be32(word, 0)).collect()
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use crate::function::tests::function;

    /// Executes a command of a user context, whose input `fill` completes; returns the third word of
    /// the output, or the status.
    pub fn execute(
        function: &mut Function,
        (opcode, uid): (u16, u32),
        fill: impl FnOnce(&mut [u8]),
    ) -> Result<u32, u8> {
        let (mut input, mut out) = ([0; 1024], [0; 16]);
        put(&mut input, 2, &(uid as u16).to_be_bytes());
        fill(&mut input);
        let done = function.execute(opcode, &input, &mut out);
        done.map(|()| be32(&out, 8))
            .map_err(|refusal| refusal.status)
    }

    #[test]
    fn a_user_context_goes_after_its_objects() {
        let mut function = function(0, 0x1000);
        let user = execute(&mut function, (op::CREATE_UCTX, 0), |_| ()).unwrap();
        let uar = execute(&mut function, (op::ALLOC_UAR, user), |_| ()).unwrap();
        let destroy = |function: &mut Function| {
            let number = |input: &mut [u8]| destroy_uctx_in::uid.set(input, user.into());
            execute(function, (op::DESTROY_UCTX, 0), number)
        };
        let before = log::errors();
        assert_eq!(destroy(&mut function), Err(BAD_RES_STATE));
        assert!(log::errors() > before);
        let number = |input: &mut [u8]| dealloc_uar_in::uar.set(input, uar.into());
        assert!(execute(&mut function, (op::DEALLOC_UAR, user), number).is_ok());
        assert!(destroy(&mut function).is_ok());
        assert_eq!(destroy(&mut function), Err(BAD_RES));
    }

    /// As the driver gives it: by the slot and the doorbell.
    #[test]
    fn an_unknown_command_is_an_error_with_a_status() {
        let mut function = function(0x1000, 0x1000);
        let before = log::errors();
        let mut entry = [0; ENTRY];
        put(&mut entry, 4, &4u32.to_be_bytes());
        put(&mut entry, INPUT, &[0x0f, 0xff]);
        put(&mut entry, OUT_LENGTH, &(INLINE as u32).to_be_bytes());
        entry[OWNER as usize] = 1;
        function.dma.write(0x1000, &entry).unwrap();
        function.write_register(0x14, &0x1000u32.to_be_bytes());
        function.write_register(0x18, &1u32.to_be_bytes());
        function.dma.read(0x1000, &mut entry).unwrap();
        assert_eq!((entry[OWNER as usize], entry[OUTPUT]), (0, BAD_OP));
        assert!(log::errors() > before);
    }
}
