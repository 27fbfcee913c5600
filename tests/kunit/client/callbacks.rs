// SPDX-License-Identifier: GPL-2.0

//! The callbacks of the fake clients, and their checks.

mod thunks;

pub(super) use thunks::structure;

use super::{
    ledger::{
        Entry,
        Own, //
    },
    memory,
    Slot, //
};
use crate::prelude::*;
use kernel::dma::DataDirection;

const BOTH_WAYS: DataDirection = DataDirection::Bidirectional;

pub(super) fn task() -> usize {
    current!().as_ptr().addr()
}

impl Slot {
    /// Takes the mutex of [`Setup::LOCKED`], except in the task that holds the mutex.
    fn enter(&self, setup: &Setup) -> Option<kernel::sync::MutexGuard<'_, ()>> {
        (setup.locked && self.invalidator.load(Relaxed) != task()).then(|| self.own_lock.lock())
    }

    fn is_mapped(&self, i: usize) -> bool {
        self.ledger.lock().entries[i].stage == Stage::Mapped
    }

    fn acquire(&self, addr: u64, size: u64) -> (i32, usize) {
        let setup = *self.setup.lock();
        let base = memory::base(setup.place.unwrap_or(self.number));
        let errno = self.script.pass(Point::Acquire);
        let _lock = self.enter(&setup);
        if addr < base || addr + size > base + setup.len {
            return (0, 0);
        }
        if errno != 0 {
            return (errno, 0);
        }
        if setup.answer <= 0 {
            return (setup.answer, 0);
        }
        let mut ledger = self.ledger.lock();
        ledger.bare = setup.bare;
        let can_invalidate = !setup.invalidates || self.callback().is_some();
        ledger.expect(can_invalidate, "acquire before the callback was set");
        match ledger.acquire(addr, size) {
            Some(i) => (setup.answer, i + 1),
            None => (ENOMEM.to_errno(), 0),
        }
    }

    fn get_pages(
        &self,
        i: usize,
        range: (u64, u64),
        flags: (i32, i32),
        table: *mut bindings::sg_table,
        ticket: u64,
    ) -> Result {
        let setup = *self.setup.lock();
        let errno = self.script.pass(Point::GetPages);
        let _lock = self.enter(&setup);
        // SAFETY: The core passes a valid table, never NULL.
        let fresh = memory::words(unsafe { &*table }) == [0; 3];
        let mut ledger = self.ledger.lock();
        ledger.expect(fresh, "get_pages with a table that is not empty");
        ledger.expect(
            ticket != 0 && ticket <= u64::from(u32::MAX),
            "get_pages with ticket 0 or more than 32 bits",
        );
        let reused = ledger.find(ticket).is_some();
        ledger.expect(!reused, "get_pages with the ticket of another region");
        ledger.flags = (flags.0, flags.1, ledger.flags.2);
        if !ledger.step(i, Stage::Acquired, Stage::Pinned, "get_pages") {
            return Err(EINVAL);
        }
        let mut entry = ledger.entries[i];
        // With all bits of the address.
        let same = range == (entry.addr, entry.size);
        ledger.expect(same, "get_pages with another range than acquire");
        drop(ledger);

        let result = match errno {
            0 => match setup.shape {
                Shape::Seed => self.fill(&setup, &entry, table),
                Shape::Gpu => Ok(()),
                Shape::OwnTable => {
                    let mut own = pin_init::zeroed();
                    self.fill(&setup, &entry, &mut own)
                        .map(|()| entry.own = Some(Own(own)))
                }
            },
            errno => Err(Error::from_errno(errno)),
        };
        let mut ledger = self.ledger.lock();
        if result.is_err() {
            entry.stage = Stage::Acquired;
        } else {
            entry.ticket = ticket;
            entry.table = table.expose_provenance();
            if setup.unmaps {
                // The core may free its structure before the client frees the list.
                // SAFETY: The core passes a valid table; `fill` has initialised it.
                entry.own = Some(Own(unsafe { *table }));
            }
            ledger.last_ticket = ticket;
            ledger.last = i;
            // SAFETY: The core passes a valid table.
            unsafe { Self::remember(&mut entry, &*table) };
        }
        ledger.entries[i] = entry;
        result
    }

    /// Records the table when a callback returns.
    fn remember(entry: &mut Entry, table: &bindings::sg_table) {
        entry.words = memory::words(table);
        entry.digest = memory::digest(table);
    }

    /// Checks that the table is unchanged since the last callback, byte for byte.
    fn compare(&self, i: usize, table: *mut bindings::sg_table) {
        // SAFETY: The core passes a valid table, never NULL.
        let now = unsafe { (memory::words(&*table), memory::digest(&*table)) };
        let mut ledger = self.ledger.lock();
        let entry = ledger.entries[i];
        ledger.expect(
            entry.table == table.addr(),
            "another table than in get_pages",
        );
        ledger.expect(
            entry.words == now.0 && entry.digest == now.1,
            "a table that the core has changed",
        );
    }

    fn dma_map(
        &self,
        i: usize,
        table: *mut bindings::sg_table,
        dev: *mut bindings::device,
        sync: i32,
        nmap: &mut c_int,
    ) -> Result {
        let setup = *self.setup.lock();
        let errno = self.script.pass(Point::DmaMap);
        self.compare(i, table);
        let mut ledger = self.ledger.lock();
        ledger.flags.2 = sync;
        ledger.dma_device = dev.addr();
        ledger.expect(!dev.is_null(), "dma_map without a device");
        if !ledger.step(i, Stage::Pinned, Stage::Mapped, "dma_map") {
            return Err(EINVAL);
        }
        let mut entry = ledger.entries[i];
        drop(ledger);

        let result = match (errno, setup.shape) {
            (0, Shape::Seed) => {
                // SAFETY: `get_pages` has filled the table with pages; the device does DMA.
                to_result(unsafe { bindings::dma_map_sgtable(dev, table, BOTH_WAYS.into(), 0) })
            }
            (0, Shape::Gpu) => {
                self.fill(&setup, &entry, table).map(|()| {
                    // `release` frees the list through this copy.
                    // SAFETY: `fill` has initialised the table.
                    entry.own = Some(Own(unsafe { *table }));
                    // SAFETY: `fill` has initialised the table.
                    unsafe { memory::alter(&mut *table, setup.fault) };
                })
            }
            (0, Shape::OwnTable) => {
                if let Some(Own(own)) = entry.own {
                    // SAFETY: The core passes a valid table for the callback to fill.
                    unsafe { *table = own };
                }
                Ok(())
            }
            (errno, _) => Err(Error::from_errno(errno)),
        };
        let mut ledger = self.ledger.lock();
        if result.is_err() {
            entry.stage = Stage::Pinned;
        } else {
            // SAFETY: The core passes a valid table.
            let n = unsafe { (*table).nents }.saturating_sub(setup.spare);
            if setup.fault != Fault::NoNmap {
                *nmap = match setup.fault {
                    Fault::MapsLess => n as c_int - 1,
                    Fault::MapsNone => 0,
                    _ => n as c_int,
                };
            }
            entry.dev = dev.expose_provenance();
            // SAFETY: The core passes a valid table.
            unsafe { Self::remember(&mut entry, &*table) };
        }
        ledger.entries[i] = entry;
        result
    }

    /// Checks that no device can access region `i`. `entry` is the earlier state of the region.
    pub(super) fn expect_untouchable(&self, i: usize, entry: &Entry, what: &'static str) {
        let setup = *self.setup.lock();
        let (lo, hi) = self.bounds(&setup, entry);
        if setup.shared || !Testbed::get().is_ok_and(|testbed| testbed.can_touch(lo, hi)) {
            return;
        }
        let mut ledger = self.ledger.lock();
        let now = ledger.entries[i];
        // If the region was released meanwhile, the access is by a later MR on the same memory.
        if now.stage != Stage::None && now.ticket == entry.ticket {
            ledger.violation(what);
        }
    }

    fn dma_unmap(
        &self,
        i: usize,
        table: *mut bindings::sg_table,
        dev: *mut bindings::device,
    ) -> i32 {
        let setup = *self.setup.lock();
        let errno = self.script.pass(Point::DmaUnmap);
        self.compare(i, table);
        let mut entry = self.ledger.lock().entries[i];
        self.expect_untouchable(i, &entry, "dma_unmap while a device can access the memory");
        let mut ledger = self.ledger.lock();
        ledger.expect(entry.dev == dev.addr(), "dma_unmap for another device");
        let own = entry.unmaps_itself && self.invalidator.load(Relaxed) == task();
        ledger.expect(!own, "dma_unmap although the client unmaps itself");
        if !ledger.step(i, Stage::Mapped, Stage::Pinned, "dma_unmap") {
            return 0;
        }
        drop(ledger);
        if setup.shape == Shape::Seed {
            // SAFETY: `dma_map` has mapped the table for this device.
            unsafe { bindings::dma_unmap_sgtable(dev, table, BOTH_WAYS.into(), 0) };
        }
        let mut ledger = self.ledger.lock();
        // SAFETY: The core passes a valid table, never NULL.
        unsafe { Self::remember(&mut entry, &*table) };
        ledger.entries[i].words = entry.words;
        ledger.entries[i].digest = entry.digest;
        errno
    }

    fn put_pages(&self, i: usize, table: *mut bindings::sg_table) {
        let setup = *self.setup.lock();
        self.script.pass(Point::PutPages);
        let _lock = self.enter(&setup);
        self.compare(i, table);
        let entry = self.ledger.lock().entries[i];
        self.expect_untouchable(i, &entry, "put_pages while a device can access the memory");
        let mut ledger = self.ledger.lock();
        let own = entry.unmaps_itself && self.invalidator.load(Relaxed) == task();
        ledger.expect(!own, "put_pages although the client puts its pages itself");
        if !ledger.step(i, Stage::Pinned, Stage::Acquired, "put_pages") {
            return;
        }
        let own = match setup.shape {
            Shape::Gpu => None,
            _ => ledger.entries[i].own.take(),
        };
        drop(ledger);
        match setup.shape {
            // A client that unmaps itself has a copy of the table in `own`, taken above.
            // SAFETY: `get_pages` has filled the table, or the table is all zero.
            Shape::Seed => unsafe { bindings::sg_free_table(table) },
            Shape::Gpu => (),
            Shape::OwnTable => {
                if let Some(Own(mut own)) = own {
                    // SAFETY: `get_pages` has made the table, and the table is freed once.
                    unsafe { bindings::sg_free_table(&mut own) };
                }
            }
        }
        // SAFETY: The core passes a valid table.
        self.ledger.lock().entries[i].words = memory::words(unsafe { &*table });
    }

    /// Checks that the core keeps its table until `release`, as the client has left the table.
    fn expect_kept(&self, i: usize) {
        let mut ledger = self.ledger.lock();
        let Entry { table, words, .. } = ledger.entries[i];
        let table = ptr::with_exposed_provenance::<bindings::sg_table>(table);
        // SAFETY: By the C ABI the table of `get_pages` lives until `release` has returned.
        if let Some(table) = unsafe { table.as_ref() } {
            ledger.expect(
                memory::words(table) == words,
                "a table that has not been kept until release",
            );
        }
    }

    fn release(&self, i: usize) {
        self.script.pass(Point::Release);
        self.undo_own(i);
        self.expect_kept(i);
        let mut ledger = self.ledger.lock();
        if !ledger.step(i, Stage::Acquired, Stage::None, "release") {
            return;
        }
        let own = ledger.entries[i].own.take();
        drop(ledger);
        if let Some(Own(mut own)) = own {
            // SAFETY: `dma_map` has made the table, and the table is freed once.
            unsafe { bindings::sg_free_table(&mut own) };
        }
    }

    /// Unmaps and puts the pages of a region that the client has invalidated and unmaps itself: at the
    /// end of the invalidation, and in `release`. The first call does it.
    pub(super) fn undo_own(&self, i: usize) {
        let mut ledger = self.ledger.lock();
        let Some(entry) = ledger.entries.get_mut(i).filter(|e| e.unmaps_itself) else {
            return;
        };
        if entry.stage != Stage::Pinned && entry.stage != Stage::Mapped {
            return;
        }
        let mapped = entry.stage == Stage::Mapped;
        let dev = entry.dev;
        entry.stage = Stage::Acquired;
        let own = entry.own.take();
        drop(ledger);
        if let Some(Own(mut own)) = own {
            if mapped {
                // SAFETY: `dma_map` has mapped the table for this device.
                unsafe {
                    let dev = ptr::with_exposed_provenance_mut(dev);
                    bindings::dma_unmap_sgtable(dev, &mut own, BOTH_WAYS.into(), 0);
                }
            }
            // SAFETY: `own` is a copy of the table that `get_pages` has filled, and is freed once.
            unsafe { bindings::sg_free_table(&mut own) };
        }
    }
}
