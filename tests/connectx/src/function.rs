// SPDX-License-Identifier: GPL-2.0

//! One PCI function: what QEMU sees of it, and all the state that a reset clears.

use std::collections::{BTreeSet, VecDeque};
use std::fs::File;
use std::io::Write;

use crate::caps;
use crate::command::Done;
use crate::config::{Config, BAR0_SIZE, CONFIG_SIZE};
use crate::cq::Cq;
use crate::eq::Eq;
use crate::ether;
use crate::fault::Faults;
use crate::init_segment::InitSegment;
use crate::objects::Objects;
use crate::port::Port;
use crate::prelude::*;
use crate::srq::Srq;
use crate::umem::Umem;
use crate::vfio_user::{REGION_BAR0, REGION_CONFIG};

/// The user context of objects that all others may use.
const SHARED: u32 = 0xffff;
/// The offset in BAR 0 of the first UAR that is given out.
pub const FIRST_UAR: u32 = 16;

/// What a reset clears.
#[derive(Default)]
pub struct Hca {
    pub init: InitSegment,
    /// All objects but memory keys.
    pub objects: Objects,
    pub caps: caps::Set,
    pub eqs: BTreeMap<u32, Eq>,
    pub cqs: BTreeMap<u32, Cq>,
    pub qps: BTreeMap<u32, Qp>,
    pub srqs: BTreeMap<u32, Srq>,
    pub mkeys: Mkeys,
    pub umems: BTreeMap<u32, Umem>,
    pub ethernet: BTreeMap<u32, ether::Queue>,
    pub faults: Faults,
    pub ignored: u32,
    /// Queue pairs with work to do, in turn.
    pub ready: VecDeque<u32>,
    /// The keys by which packets in flight have found their memory: the index, and whose packet it is.
    pub flying: Vec<(u32, (usize, u32))>,
    /// Queue pairs whose UMR work request is done when no packet uses its key any more.
    pub fenced: BTreeSet<u32>,
    /// The slots of commands that wait for the same.
    pub fenced_slots: u32,
    pub held_commands: Vec<Done>,
    pub waiting: Vec<(Instant, u32)>,
}

/// What the control socket has asked for.
#[derive(Default)]
pub struct Inject {
    pub fail_umr: u32,
    pub hold_umr: bool,
    /// The queue pairs with one that waits.
    pub held_umr: BTreeSet<u32>,
    /// All packets after so many are translated, and not written.
    pub packets: Option<u32>,
    pub fail_command: Option<(u16, u32)>,
    pub hold_command: Option<u16>,
    pub ignore_command: Option<u16>,
    /// What is refused and meant to be.
    pub refuses: Vec<String>,
    /// An interrupt comes so long after what it is about.
    pub interrupt_delay: Duration,
}

pub struct Function {
    pub id: usize,
    pub dma: Dma,
    pub hca: Hca,
    /// The port; its addresses are the same after a reset.
    pub port: Port,
    pub features: Features,
    pub inject: Inject,
    /// Reads give ones, and nothing else happens: as after a surprise removal.
    pub dead: bool,
    config: Config,
    vectors: Vec<Option<File>>,
}

impl Function {
    pub fn new(id: usize, features: Features) -> Self {
        Self {
            id,
            dma: Dma::default(),
            hca: Hca::default(),
            port: Port::new(id, features.infiniband),
            features,
            inject: Inject::default(),
            dead: false,
            config: Config::default(),
            vectors: (0..VECTORS).map(|_| None).collect(),
        }
    }

    /// Raises an interrupt. The function does nothing else during the delay.
    pub fn interrupt(&mut self, vector: u32) {
        if let Some(Some(event)) = self.vectors.get(vector as usize) {
            if !self.inject.interrupt_delay.is_zero() {
                std::thread::sleep(self.inject.interrupt_delay);
            }
            let _ = (&mut &*event).write_all(&1u64.to_ne_bytes());
        }
    }

    /// Makes the function go dead, or come back with no state, as after a surprise removal.
    pub fn set_dead(&mut self, dead: bool) {
        self.dead = dead;
        self.reset_by(if dead {
            "death: all reads give ones"
        } else {
            "its return"
        });
    }

    /// Resets all but the configuration space. The queues, their keys and their DMA end.
    pub fn reset_by(&mut self, by: &str) {
        say!(self, "reset by {by}");
        self.hca = Hca::default();
    }

    /// Logs a DMA that hardware would not have been able to do.
    pub fn unmapped(&self, what: &str, at: u64) {
        error!(self, "{what}: no memory is mapped at DMA address {at:#x}");
    }

    /// Returns how many objects of each kind there are, in words: of user contexts that `user` accepts,
    /// and in the PDs of these.
    pub fn objects_of(&self, user: impl Fn(u32) -> bool) -> Vec<String> {
        let hca = &self.hca;
        let of_it = |m: &Mkey| !m.free() && hca.objects.is_of(&user, m.pd());
        let keys = hca.mkeys.used().filter(|(_, mkey)| of_it(mkey));
        let keys = in_words("memory keys", keys.count());
        keys.into_iter().chain(hca.objects.counts(user)).collect()
    }

    /// Returns where the queues of applications are, in words: the DMA addresses of the ring and of
    /// the doorbell record of each.
    pub fn queues_of_applications(&self) -> Vec<String> {
        let hca = &self.hca;
        let cqs = hca.cqs.iter().map(|(n, cq)| (Kind::Cq, *n, cq.place()));
        let qps = hca.qps.iter().map(|(n, qp)| (Kind::Qp, *n, qp.place()));
        let owner = |kind, number| hca.objects.owner(kind, number);
        let all = cqs.chain(qps);
        let all = all.filter(|(kind, n, _)| owner(*kind, *n).is_some_and(is_application));
        let words = all.map(|(kind, number, (ring, record))| {
            let memory = [ring, record].map(|at| self.dma.places(at, 1)[0].to_string());
            let memory = memory.join(" ");
            format!("{kind:?} {number:#x}: ring {ring:#x} record {record:#x} in {memory}")
        });
        words.collect()
    }

    /// Logs everything that is still alive, as an error if `leak`.
    pub fn report_objects(&self, leak: bool) {
        let free = self.hca.mkeys.used().filter(|(_, mkey)| mkey.free());
        let mut alive = self.objects_of(|_| true);
        alive.extend(in_words("free memory keys", free.count()));
        if leak && !alive.is_empty() {
            error!(self, "left at TEARDOWN_HCA: {}", alive.join(", "));
        } else {
            say!(self, "alive: {}", alive.join(", "));
        }
    }
}

pub fn is_application(uid: u32) -> bool {
    uid != 0 && uid != SHARED
}

/// Returns the count, if it is not 0.
fn in_words(name: &str, count: usize) -> Option<String> {
    (count > 0).then(|| format!("{count} {name}"))
}

/// What QEMU asks for.
impl Function {
    pub fn region_size(&self, region: u32) -> u64 {
        match region {
            REGION_BAR0 => BAR0_SIZE,
            REGION_CONFIG => CONFIG_SIZE,
            _ => 0,
        }
    }

    pub fn read(&mut self, region: u32, offset: u64, data: &mut [u8]) {
        match region {
            _ if self.dead => data.fill(0xff),
            REGION_BAR0 => self.read_register(offset, data),
            REGION_CONFIG => self.config.read(offset, data),
            _ => data.fill(0),
        }
    }

    pub fn write(&mut self, region: u32, offset: u64, data: &[u8]) {
        match region {
            _ if self.dead => {}
            REGION_BAR0 => self.write_register(offset, data),
            REGION_CONFIG => {
                if self.config.write(offset, data) {
                    self.reset_by("the configuration space");
                    self.config = Config::default();
                }
                self.dma.master.set(self.config.bus_master());
            }
            _ => {}
        }
    }

    /// Makes memory unreachable; everything, if `all`.
    pub fn dma_unmap(&mut self, at: u64, len: u64, all: bool) {
        trace!(2, self, "DMA unmap {at:#x}, {len:#x} bytes");
        if all {
            self.dma.unmap_all();
        } else {
            self.check_unmap(at, len);
            self.dma.unmap(at, len);
        }
    }

    pub fn set_vector(&mut self, vector: u32, event: Option<File>) {
        if let Some(slot) = self.vectors.get_mut(vector as usize) {
            *slot = event;
        }
    }

    pub fn reset(&mut self) {
        self.reset_by("QEMU");
        self.config = Config::default();
        self.dma.master.set(false);
    }
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use crate::dma::tests::add;

    /// Returns a function with `len` bytes of memory at `at`.
    pub fn function(at: u64, len: u64) -> Function {
        let function = Function::new(0, Features::default());
        function.dma.master.set(true);
        add(&function.dma, at, len);
        function
    }
}
