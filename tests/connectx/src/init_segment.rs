// SPDX-License-Identifier: GPL-2.0

//! The registers at the start of BAR 0, and the pages of doorbells after them.

use std::time::Instant;

use crate::bits::{be32, put};
use crate::config::BAR0_SIZE;
use crate::function::{Function, FIRST_UAR};
use crate::{error, trace};

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
const TIMER_H: u64 = 0x1000;
const TIMER_L: u64 = 0x1004;
const HEALTH_COUNTER: u64 = 0x1010;
const UAR: u64 = 0x1000;
const UAR_CQ: u64 = 0x20;
const UAR_EQ_ARM: u64 = 0x40;
const UAR_EQ: u64 = 0x48;
const UAR_SEND: u64 = 0x800;

/// The registers that have a state.
pub struct InitSegment {
    queue_high: u32,
    queue_low: u32,
    health: u32,
    start: Instant,
}

impl Default for InitSegment {
    fn default() -> Self {
        Self {
            queue_high: 0,
            queue_low: 0,
            health: 0,
            start: Instant::now(),
        }
    }
}

impl InitSegment {
    /// Returns the address of the entry of a command slot.
    pub fn slot(&self, slot: u32) -> u64 {
        let queue = u64::from(self.queue_high) << 32 | u64::from(self.queue_low & !0xfff);
        queue + (u64::from(slot) << LOG_STRIDE)
    }

    /// Returns the ticks since the reset.
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
            INITIALIZING => 0,
            HEALTH_FW_VER => major << 24 | minor << 16 | sub,
            HEALTH_HW_ID => 0x20d,
            TIMER_H => (self.ticks() >> 32) as u32,
            TIMER_L => self.ticks() as u32,
            // One that stands still is how the driver finds dead firmware.
            HEALTH_COUNTER => {
                self.health = self.health.wrapping_add(1);
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
        let end = offset + data.len() as u64;
        let mut at = offset & !3;
        while at < end {
            let word = self.hca.init.read(at).to_be_bytes();
            if at >= offset {
                put(data, (at - offset) as usize, &word);
            } else {
                put(data, 0, &word[(offset - at) as usize..]);
            }
            at += 4;
        }
    }

    /// Writes to BAR 0.
    pub fn write_register(&mut self, offset: u64, data: &[u8]) {
        if offset >= UAR * u64::from(FIRST_UAR) && offset < BAR0_SIZE {
            return self.doorbell((offset / UAR) as u32, offset % UAR, data);
        }
        match offset {
            CMDQ_ADDR_H => self.hca.init.queue_high = be32(data, 0),
            CMDQ_ADDR_L => self.hca.init.queue_low = be32(data, 0),
            CMD_DOORBELL => self.command_doorbell(be32(data, 0)),
            _ => trace!(
                2,
                "fn{}: register {offset:#x} is written: {data:02x?}",
                self.id
            ),
        }
    }

    fn doorbell(&mut self, uar: u32, offset: u64, data: &[u8]) {
        if !self.hca.objects.has_uar(uar) {
            return error!(
                "fn{}: doorbell {offset:#x} of page {uar}, which is not allocated",
                self.id
            );
        }
        match offset {
            UAR_CQ => self.arm_cq(uar, be32(data, 0), be32(data, 4)),
            UAR_EQ_ARM => self.eq_doorbell(be32(data, 0), true),
            UAR_EQ => self.eq_doorbell(be32(data, 0), false),
            UAR_SEND.. => self.send_doorbell(uar, be32(data, 4) >> 8),
            _ => trace!(
                2,
                "fn{}: page {uar}, {offset:#x}: no such doorbell",
                self.id
            ),
        }
    }
}
