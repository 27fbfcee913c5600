// SPDX-License-Identifier: GPL-2.0

//! The registers at the start of BAR 0, and the UARs after them.

use crate::config::BAR0_SIZE;
use crate::prelude::*;

/// The firmware that is played: major, minor, subminor.
const FIRMWARE: (u32, u32, u32) = (16, 99, 1);
/// The revision of the command interface that mlx5_core asks for.
const COMMAND_REVISION: u32 = 5;
/// 32 commands of 64 bytes each.
const LOG_SLOTS: u32 = 5;
const LOG_STRIDE: u32 = 6;
/// The frequency of the timer, in kHz: that of a ConnectX-5.
pub const TIMER_KHZ: u64 = 156_250;

const FW_REV: u64 = 0x00;
const CMDIF_REV: u64 = 0x04;
const CMDQ_ADDR_H: u64 = 0x10;
const CMDQ_ADDR_L: u64 = 0x14;
const CMD_DOORBELL: u64 = 0x18;
const INITIALIZING: u64 = 0x1fc;
const HEALTH: u64 = 0x200;
const HEALTH_FW_VER: u64 = HEALTH + 0x30;
const HEALTH_HW_ID: u64 = HEALTH + 0x34;
const HEALTH_SEVERITY: u64 = HEALTH + 0x38;
const HEALTH_SYNDROME: u64 = HEALTH + 0x3c;
const TIMER_H: u64 = 0x1000;
const TIMER_L: u64 = 0x1004;
const HEALTH_COUNTER: u64 = 0x1010;
const UAR: u64 = 0x1000;
const UAR_CQ: u64 = 0x20;
const UAR_EQ_ARM: u64 = 0x40;
const UAR_EQ: u64 = 0x48;
const UAR_SEND: u64 = 0x800;
/// The length of a buffer for BlueFlame. The first 8 bytes are the doorbell.
const BLUE_FLAME: u64 = 256;

/// The state of the interface, above the size of the command queue: commands are taken.
const FULL: u32 = 0;
/// Nothing is taken: after a reset, until the driver gives the address of its command queue. By
/// this the driver finds a reset that it has not asked for.
const DISABLED: u32 = 1;
/// What the driver writes to have the firmware reset the function.
const RESET: u32 = 7;
/// The firmware takes that request.
const RESET_SUPPORTED: u32 = 1 << 30;
/// In the health buffer: the firmware asks for a reset, and its syndrome, an internal error.
const ASKS_FOR_RESET: u32 = 1 << 31;
const INTERNAL_ERROR: u32 = 1 << 16;
const INTERFACE_SHIFT: u32 = 8;
const INTERFACE_MASK: u32 = 7;

pub struct InitSegment {
    queue_high: u32,
    queue_low: u32,
    health: u32,
    start: Instant,
    /// The firmware is dead, until a reset: it says so, takes no command and changes no memory key.
    pub fatal: bool,
}

impl Default for InitSegment {
    fn default() -> Self {
        Self {
            queue_high: 0,
            queue_low: DISABLED << INTERFACE_SHIFT,
            health: 0,
            start: Instant::now(),
            fatal: false,
        }
    }
}

impl InitSegment {
    pub fn slot(&self, slot: u32) -> u64 {
        let queue = u64::from(self.queue_high) << 32 | u64::from(self.queue_low & !0xfff);
        queue + (u64::from(slot) << LOG_STRIDE)
    }

    pub fn enabled(&self) -> bool {
        self.queue_low >> INTERFACE_SHIFT & INTERFACE_MASK == FULL
    }

    pub fn ticks(&self) -> u64 {
        (self.start.elapsed().as_nanos() * u128::from(TIMER_KHZ) / 1_000_000) as u64
    }

    fn read(&mut self, offset: u64) -> u32 {
        let (major, minor, sub) = FIRMWARE;
        match offset {
            FW_REV => minor << 16 | major,
            CMDIF_REV => COMMAND_REVISION << 16 | sub,
            CMDQ_ADDR_H => self.queue_high,
            CMDQ_ADDR_L => self.queue_low & !0xff | LOG_SLOTS << 4 | LOG_STRIDE,
            INITIALIZING => RESET_SUPPORTED,
            HEALTH_FW_VER => major << 24 | minor << 16 | sub,
            HEALTH_HW_ID => 0x20d,
            HEALTH_SEVERITY if self.fatal => ASKS_FOR_RESET,
            HEALTH_SYNDROME if self.fatal => INTERNAL_ERROR,
            TIMER_H => (self.ticks() >> 32) as u32,
            TIMER_L => self.ticks() as u32,
            // One that stands still is how the driver finds dead firmware.
            HEALTH_COUNTER => {
                self.health = self.health.wrapping_add(u32::from(!self.fatal));
                self.health
            }
            _ => 0,
        }
    }
}

impl Function {
    /// Reads from BAR 0. Doorbells read as 0.
    pub fn read_register(&mut self, offset: u64, data: &mut [u8]) {
        data.fill(0);
        for (at, part) in (offset..).step_by(4).zip(data.chunks_mut(4)) {
            let word = self.hca.init.read(at & !3).to_be_bytes();
            put(part, 0, &word[(at & 3) as usize..]);
        }
    }

    pub fn write_register(&mut self, offset: u64, data: &[u8]) {
        if offset >= UAR * u64::from(FIRST_UAR) && offset < BAR0_SIZE {
            return self.doorbell((offset / UAR) as u32, offset % UAR, data);
        }
        match offset {
            CMDQ_ADDR_H => self.hca.init.queue_high = be32(data, 0),
            CMDQ_ADDR_L if be32(data, 0) >> INTERFACE_SHIFT & INTERFACE_MASK == RESET => {
                self.reset_by("the firmware, for the driver");
            }
            CMDQ_ADDR_L => self.hca.init.queue_low = be32(data, 0),
            CMD_DOORBELL if self.hca.init.fatal => {
                refuse!(self, "a command is not answered: fatal");
            }
            CMD_DOORBELL if !self.hca.init.enabled() => {
                refuse!(self, "a command for a disabled interface");
            }
            CMD_DOORBELL => self.commands(be32(data, 0), false),
            _ => trace!(2, self, "register {offset:#x} is written: {data:02x?}"),
        }
    }

    fn doorbell(&mut self, uar: u32, offset: u64, data: &[u8]) {
        // A process does not know of the reset yet.
        if !self.hca.init.enabled() {
            return trace!(2, self, "a doorbell of a disabled interface, UAR {uar}");
        }
        if self.hca.objects.usable(Kind::Uar, uar).is_err() {
            return error!(
                self,
                "doorbell {offset:#x} of UAR {uar}, which is not allocated"
            );
        }
        match offset {
            UAR_CQ => self.arm_cq(uar, be32(data, 0), be32(data, 4)),
            UAR_EQ_ARM => self.eq_doorbell(be32(data, 0), true),
            UAR_EQ => self.eq_doorbell(be32(data, 0), false),
            UAR_SEND.. if offset % BLUE_FLAME == 0 => {
                self.send_doorbell(uar, be32(data, 4) >> 8);
            }
            // The rest of a work request that the application copies there, as UCX does. Without
            // BlueFlame the adapter reads the work request from the send queue.
            UAR_SEND.. => {}
            _ => trace!(2, self, "UAR {uar}, {offset:#x}: no such doorbell"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::function::tests::function;

    /// With pages of 16 KiB the driver maps four UARs at once.
    #[test]
    fn a_host_page_of_uars_is_allocated_at_once() {
        let mut function = function(0, 0x1000);
        let mut input = vec![0; 16 + 4096];
        crate::ifc::cmd_hca_cap::log_uar_page_sz.set(&mut input[16..], 2);
        assert!(function.set_hca_cap(&input).is_ok());
        let objects = &mut function.hca.objects;
        let mut alloc = || objects.create(Kind::Uar, 0, vec![]).unwrap();
        assert_eq!([alloc(), alloc()], [FIRST_UAR, FIRST_UAR + 4]);
        let there = |page: &u32| objects.usable(Kind::Uar, *page).is_ok();
        assert_eq!((0..=FIRST_UAR + 8).filter(there).count(), 8);
        crate::ifc::cmd_hca_cap::log_uar_page_sz.set(&mut input[16..], 5);
        assert!(function.set_hca_cap(&input).is_err());
    }

    #[test]
    fn nothing_is_taken_after_a_reset() {
        let mut function = function(0, 0x1000);
        let interface = |function: &mut Function| {
            let mut word = [0; 4];
            function.read_register(CMDQ_ADDR_L, &mut word);
            be32(&word, 0) >> INTERFACE_SHIFT & INTERFACE_MASK
        };
        // A command of the device's; the register holds address 0.
        let owner = |function: &Function| {
            let mut owner = [0];
            function.dma.read(63, &mut owner).unwrap();
            owner[0]
        };
        function.dma.write(63, &[1]).unwrap();
        assert_eq!(interface(&mut function), DISABLED);
        function.write_register(CMD_DOORBELL, &1u32.to_be_bytes());
        assert_eq!(owner(&function), 1);
        function.write_register(CMDQ_ADDR_L, &[0; 4]);
        assert_eq!(interface(&mut function), FULL);
        function.write_register(CMD_DOORBELL, &1u32.to_be_bytes());
        assert_eq!(owner(&function), 0);
    }
}
