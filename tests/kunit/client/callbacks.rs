// SPDX-License-Identifier: GPL-2.0

//! What the fake clients do when they are called, and what they look at then.

mod thunks;

pub(super) use thunks::structure;

use super::{
    book::{
        Entry,
        Own,
        Stage,
        REGIONS, //
    },
    memory,
    Fault,
    Setup,
    Shape,
    Slot, //
};
use crate::{
    helpers,
    script::Point,
    World, //
};
use core::ptr;
use kernel::{
    bindings,
    current,
    ffi::c_int,
    prelude::*,
    sync::atomic::Relaxed, //
};

/// Who is running.
pub(super) fn task() -> usize {
    current!().as_ptr().addr()
}

impl Slot {
    /// Takes the mutex of the shape that has one, except in the task that holds it.
    fn enter(&self, setup: &Setup) -> Option<kernel::sync::MutexGuard<'_, ()>> {
        (setup.locked && self.invalidator.load(Relaxed) != task()).then(|| self.own_lock.lock())
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
        if setup.answer != 1 {
            return (setup.answer, 0);
        }
        let mut book = self.book.lock();
        book.bare = setup.bare;
        match book.acquire(addr, size) {
            Some(i) => (1, i + 1),
            None => (ENOMEM.to_errno(), 0),
        }
    }

    fn get_pages(
        &self,
        i: usize,
        flags: (i32, i32),
        table: *mut bindings::sg_table,
        ticket: u64,
        world: &World,
    ) -> Result {
        let setup = *self.setup.lock();
        let errno = self.script.pass(Point::GetPages);
        let _lock = self.enter(&setup);
        // SAFETY: The core gives a table, never NULL.
        let fresh = memory::words(unsafe { &*table }) == [0; 3];
        let mut book = self.book.lock();
        book.expect(fresh, "a table that is not empty");
        book.expect(
            ticket != 0 && ticket <= u64::from(u32::MAX),
            "a ticket of more than 32 bits, or none",
        );
        let reused = book
            .entries
            .iter()
            .any(|e| e.stage != Stage::None && e.ticket == ticket);
        book.expect(!reused, "the ticket of another region");
        book.flags = (flags.0, flags.1, book.flags.2);
        if !book.step(i, Stage::Acquired, Stage::Pinned, "get_pages") {
            return Err(EINVAL);
        }
        let mut entry = book.entries[i];
        drop(book);

        let result = match errno {
            0 => match setup.shape {
                Shape::Seed => memory::fill(world, self.number, &setup, &entry, table),
                Shape::Gpu => Ok(()),
                Shape::OwnTable => {
                    let mut own = pin_init::zeroed();
                    memory::fill(world, self.number, &setup, &entry, &mut own)
                        .map(|()| entry.own = Some(Own(own)))
                }
            },
            errno => Err(Error::from_errno(errno)),
        };
        let mut book = self.book.lock();
        if result.is_err() {
            entry.stage = Stage::Acquired;
        } else {
            entry.ticket = ticket;
            entry.table = table.addr();
            if setup.unmaps {
                // SAFETY: As above. The core's structure may be gone when it frees its table.
                entry.own = Some(Own(unsafe { *table }));
            }
            book.last_ticket = ticket;
            book.last = i;
            // SAFETY: As above; we have just filled it.
            unsafe { Self::remember(&mut entry, &*table) };
        }
        book.entries[i] = entry;
        result
    }

    /// Notes what a table is like when we leave it.
    fn remember(entry: &mut Entry, table: &bindings::sg_table) {
        entry.words = memory::words(table);
        entry.digest = memory::digest(table);
    }

    /// Is the table as we left it, byte for byte?
    fn compare(&self, i: usize, table: *mut bindings::sg_table) {
        // SAFETY: The core gives a table, never NULL.
        let now = unsafe { (memory::words(&*table), memory::digest(&*table)) };
        let mut book = self.book.lock();
        let entry = book.entries[i];
        book.expect(entry.table == table.addr(), "another table than before");
        book.expect(
            entry.words == now.0 && entry.digest == now.1,
            "a table that has been changed",
        );
    }

    fn dma_map(
        &self,
        i: usize,
        table: *mut bindings::sg_table,
        dev: *mut bindings::device,
        sync: i32,
        nmap: &mut c_int,
        world: &World,
    ) -> Result {
        let setup = *self.setup.lock();
        let errno = self.script.pass(Point::DmaMap);
        self.compare(i, table);
        let mut book = self.book.lock();
        book.flags.2 = sync;
        book.dma_device = dev.addr();
        book.expect(!dev.is_null(), "dma_map without a device");
        if !book.step(i, Stage::Pinned, Stage::Mapped, "dma_map") {
            return Err(EINVAL);
        }
        let mut entry = book.entries[i];
        drop(book);

        let result = match (errno, setup.shape) {
            (0, Shape::Seed) => {
                // SAFETY: The table has pages of ours; the device is a DMA device.
                kernel::error::to_result(unsafe { helpers::kt_dma_map(dev, table) })
            }
            (0, Shape::Gpu) => {
                memory::fill(world, self.number, &setup, &entry, table).map(|()| {
                    // SAFETY: We have just made it; this is the copy by which `release` frees it.
                    entry.own = Some(Own(unsafe { *table }));
                })
            }
            (0, Shape::OwnTable) => {
                if let Some(Own(own)) = entry.own {
                    // SAFETY: The core gives a table to be changed.
                    unsafe { *table = own };
                }
                Ok(())
            }
            (errno, _) => Err(Error::from_errno(errno)),
        };
        let mut book = self.book.lock();
        if result.is_err() {
            entry.stage = Stage::Pinned;
        } else {
            // SAFETY: As above.
            let n = unsafe { (*table).nents }.saturating_sub(setup.spare);
            *nmap = match setup.fault {
                Fault::MapsLess => n as c_int - 1,
                Fault::MapsNone => 0,
                _ => n as c_int,
            };
            entry.dev = dev.expose_provenance();
            // SAFETY: As above.
            unsafe { Self::remember(&mut entry, &*table) };
        }
        book.entries[i] = entry;
        result
    }

    /// No adapter may be able to touch region `i`, which was `entry`, any more.
    fn expect_untouchable(&self, i: usize, entry: &Entry, world: &World, what: &str) {
        let setup = *self.setup.lock();
        let (lo, hi) = memory::bounds(world, self.number, &setup, entry);
        if setup.shared || !world.can_touch(lo, hi) {
            return;
        }
        let mut book = self.book.lock();
        let now = book.entries[i];
        // If it has been released, that was a later MR on the same memory.
        if now.stage != Stage::None && now.ticket == entry.ticket {
            book.blame(what);
        }
    }

    fn dma_unmap(
        &self,
        i: usize,
        table: *mut bindings::sg_table,
        dev: *mut bindings::device,
        world: &World,
    ) -> i32 {
        let setup = *self.setup.lock();
        let errno = self.script.pass(Point::DmaUnmap);
        self.compare(i, table);
        let mut entry = self.book.lock().entries[i];
        self.expect_untouchable(i, &entry, world, "dma_unmap while an adapter can touch it");
        let mut book = self.book.lock();
        book.expect(entry.dev == dev.addr(), "dma_unmap for another device");
        let ours = entry.given_up && self.invalidator.load(Relaxed) == task();
        book.expect(!ours, "dma_unmap where the client does that itself");
        if !book.step(i, Stage::Mapped, Stage::Pinned, "dma_unmap") {
            return 0;
        }
        drop(book);
        if setup.shape == Shape::Seed {
            // SAFETY: It was mapped for this device.
            unsafe { helpers::kt_dma_unmap(dev, table) };
        }
        let mut book = self.book.lock();
        // SAFETY: The core gives a table, never NULL.
        unsafe { Self::remember(&mut entry, &*table) };
        book.entries[i].words = entry.words;
        book.entries[i].digest = entry.digest;
        errno
    }

    fn put_pages(&self, i: usize, table: *mut bindings::sg_table, world: &World) {
        let setup = *self.setup.lock();
        self.script.pass(Point::PutPages);
        let _lock = self.enter(&setup);
        self.compare(i, table);
        let entry = self.book.lock().entries[i];
        self.expect_untouchable(i, &entry, world, "put_pages while an adapter can touch it");
        let mut book = self.book.lock();
        let ours = entry.given_up && self.invalidator.load(Relaxed) == task();
        book.expect(!ours, "put_pages where the client does that itself");
        if !book.step(i, Stage::Pinned, Stage::Acquired, "put_pages") {
            return;
        }
        let own = match setup.shape {
            Shape::Gpu => None,
            _ => book.entries[i].own.take(),
        };
        drop(book);
        match setup.shape {
            // Where the client keeps a copy of the table, that is `own`, now taken.
            // SAFETY: It was filled in `get_pages`, or is all zero.
            Shape::Seed => unsafe { bindings::sg_free_table(table) },
            Shape::Gpu => (),
            Shape::OwnTable => {
                if let Some(Own(mut own)) = own {
                    // SAFETY: It was made in `get_pages`.
                    unsafe { bindings::sg_free_table(&mut own) };
                }
            }
        }
    }

    fn release(&self, i: usize) {
        self.script.pass(Point::Release);
        self.undo_given_up(i);
        let mut book = self.book.lock();
        if !book.step(i, Stage::Acquired, Stage::None, "release") {
            return;
        }
        let own = book.entries[i].own.take();
        drop(book);
        if let Some(Own(mut own)) = own {
            // SAFETY: It is what `dma_map` made.
            unsafe { bindings::sg_free_table(&mut own) };
        }
    }

    /// Is there a region with that ticket?
    pub(super) fn knows(&self, ticket: u64) -> bool {
        let book = self.book.lock();
        let mut entries = book.entries.iter();
        entries.any(|e| e.stage != Stage::None && e.ticket == ticket)
    }

    /// The invalidate callback has returned: what it promises must hold.
    pub(super) fn after_invalidate(&self, ticket: u64) {
        let Ok(world) = World::get() else { return };
        for i in 0..REGIONS {
            let entry = self.book.lock().entries[i];
            if entry.stage != Stage::None && entry.ticket == ticket {
                self.expect_untouchable(i, &entry, &world, "an adapter can touch what is invalid");
            }
        }
    }

    /// The client with PEER_MEM_INVALIDATE_UNMAPS is about to invalidate: it will undo itself.
    pub(super) fn give_up(&self, ticket: u64) {
        let mut book = self.book.lock();
        let same = |e: &&mut Entry| e.stage != Stage::None && e.ticket == ticket;
        if let Some(entry) = book.entries.iter_mut().find(same) {
            entry.given_up = true;
        }
    }

    /// And undoes.
    pub(super) fn unmap_itself(&self, ticket: u64) {
        let book = self.book.lock();
        let same = |e: &Entry| e.stage != Stage::None && e.ticket == ticket;
        let found = book.entries.iter().position(same);
        drop(book);
        if let Some(i) = found {
            self.undo_given_up(i);
        }
    }

    /// What comes first, the end of the invalidation or `release`, undoes.
    fn undo_given_up(&self, i: usize) {
        let mut book = self.book.lock();
        let Some(entry) = book.entries.get_mut(i).filter(|e| e.given_up) else {
            return;
        };
        if entry.stage != Stage::Pinned && entry.stage != Stage::Mapped {
            return;
        }
        let mapped = entry.stage == Stage::Mapped;
        let dev = entry.dev;
        entry.stage = Stage::Acquired;
        let own = entry.own.take();
        drop(book);
        if let Some(Own(mut own)) = own {
            if mapped {
                // SAFETY: It was mapped for this device.
                unsafe { helpers::kt_dma_unmap(ptr::with_exposed_provenance_mut(dev), &mut own) };
            }
            // SAFETY: It is a copy of the table that `get_pages` filled.
            unsafe { bindings::sg_free_table(&mut own) };
        }
    }
}
