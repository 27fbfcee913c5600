// SPDX-License-Identifier: GPL-2.0

//! The dma-buf that the driver imports.

use kernel::prelude::*;

#[kunit_tests(peer_mem_dma_buf_import)]
mod tests {
    use super::super::*;
    use crate::device::{
        is_dma_buf,
        Import,
        MrState, //
    };

    /// Registers `[offset, offset + len)`. Returns the arguments of the driver and the MR's state.
    fn registered(t: Fixture, setup: Setup, offset: u64, len: u64) -> Result<(Import, MrState)> {
        let client = t.client(setup)?;
        let mr = t.reg_at(&client, offset, len)?;
        let (import, state) = (t.dev().last_import(), mr.state()?);
        let checked = client.check();
        drop(mr);
        checked?;
        ensure_eq!(t.calls(Point::RegUserMr)?, 1);
        let lo = client.device_address(offset & !(PAGE - 1));
        let at = client.at(offset);
        t.finish()?;
        ensure!(state.valid && !state.original);
        ensure_eq!(import.offset, offset % PAGE);
        ensure_eq!((import.length, import.iova), (len, at));
        ensure_eq!(import.access, USUAL as i32);
        if !setup.scattered {
            ensure_eq!(state.lo, lo);
        }
        Ok((import, state))
    }

    /// Checks on each device that the MR has `pages` in `entries`, and `longest` bytes in the
    /// longest entry.
    fn gives(
        modes: &[Mode],
        setup: Setup,
        (offset, len): (u64, u64),
        (pages, entries, longest): (u32, u32, u64),
    ) -> Result {
        for mode in modes {
            let t = Fixture::new(*mode)?;
            let (_, state) = registered(t, fitting(*mode, setup), offset, len)?;
            ensure_eq!(
                (state.pages, state.entries, state.longest),
                (pages, entries, longest)
            );
        }
        Ok(())
    }

    #[test]
    fn seed_style() -> Result {
        let all = &Mode::ALL;
        gives(all, Setup::SEED, (0, 4 * PAGE), (4, 1, 4 * PAGE))
    }

    #[test]
    fn page_less() -> Result {
        gives(&PEER2PEER, Setup::GPU, (0, 128 * K), (32, 1, 128 * K))
    }

    #[test]
    fn a_table_of_the_clients_own() -> Result {
        let whole = (0, 8 * PAGE);
        gives(&PEER2PEER, Setup::OWN_TABLE, whole, (8, 1, 8 * PAGE))
    }

    #[test]
    fn self_aligning_in_2_mib() -> Result {
        let all = &Mode::ALL;
        gives(all, Setup::HUGE, (M, 16 * PAGE), (16, 1, 16 * PAGE))?;
        let both = (2 * M - PAGE - 3, PAGE + 6);
        gives(all, Setup::HUGE, both, (3, 1, 3 * PAGE))
    }

    #[test]
    fn other_shapes() -> Result {
        let shapes = [Setup::BARE, Setup::LOCKED, Setup::UNMAPS, Setup::PERSISTENT];
        each(shapes, |setup| {
            gives(&REVOCABLE, setup, (0, 4 * PAGE), (4, 1, 4 * PAGE))
        })
    }

    #[test]
    fn an_offset_at_both_ends() -> Result {
        for (offset, len, pages) in [
            (5, 1, 1),
            (PAGE - 1, 2, 2),
            (3 * PAGE + 7, 2 * PAGE + 9, 3),
            (Setup::SEED.len - 1, 1, 1),
        ] {
            let want = (pages, 1, u64::from(pages) * PAGE);
            gives(&Mode::ALL, Setup::SEED, (offset, len), want)?;
        }
        Ok(())
    }

    #[test]
    fn a_table_that_covers_more_than_the_range() -> Result {
        let (inside, across) = ((60 * K + 1, 9), (64 * K - 3, 6));
        gives(&PEER2PEER, Setup::GPU, inside, (1, 1, PAGE))?;
        gives(&PEER2PEER, Setup::GPU, across, (2, 1, 2 * PAGE))
    }

    #[test]
    fn pages_in_another_order() -> Result {
        gives(&REVOCABLE, Setup::SCATTERED, (0, 8 * PAGE), (8, 8, PAGE))
    }

    #[test]
    fn neighbours_are_merged_up_to_the_longest_segment() -> Result {
        // The device's limit is 2 MiB.
        gives(&REVOCABLE, Setup::HUGE, (0, 4 * M), (1024, 2, 2 * M))?;
        for (max, len, entries, longest) in [
            (64 * K, 16 * PAGE, 1, 64 * K),
            (64 * K, 17 * PAGE, 2, 64 * K),
            (64 * K, 20 * PAGE, 2, 64 * K),
            (12 * K, 16 * PAGE, 6, 12 * K),
            (PAGE, 4 * PAGE, 4, PAGE),
        ] {
            let t = Fixture::new(Mode::Dynamic)?;
            let dev = t.registered().clone();
            let old = dev.set_max_segment(max as u32);
            let result = registered(t, Setup::SEED, 0, len);
            dev.set_max_segment(old);
            let (_, state) = result?;
            ensure_eq!((state.entries, state.longest), (entries, longest));
        }
        Ok(())
    }

    #[test]
    fn the_mr_has_the_iova_that_was_asked_for() -> Result {
        each(REVOCABLE, |mode| {
            let (t, client) = with_client(mode, Setup::SEED)?;
            let mr = t.pd.reg_at(client.at(5), 2 * PAGE, 0x1_0005, USUAL)?;
            let import = t.dev().last_import();
            ensure_eq!(mr.place(), (0x1_0005, 2 * PAGE));
            ensure_eq!((import.offset, import.length), (5, 2 * PAGE));
            ensure_eq!(import.iova, 0x1_0005);
            ensure_eq!(mr.state()?.pages, 3);
            t.drop_and_finish(mr)
        })
    }

    #[test]
    fn dma_map_gets_the_dma_device() -> Result {
        let (t, client, mr) = live(Mode::Dynamic, Setup::GPU)?;
        let dev = client.dma_device();
        drop(mr);
        ensure!(dev != 0 && dev == t.registered().dma_device());
        t.finish()
    }

    #[test]
    fn counters() -> Result {
        let (t, client, mr) = live(Mode::Revocable, Setup::SEED)?;
        ensure_eq!(counters::in_use(client.name())?, (1, 4, 4 * PAGE));
        t.drop_and_finish(mr)
    }

    #[test]
    fn unclaimed_memory_falls_through_to_the_driver() -> Result {
        let t = Fixture::new(Mode::Dynamic)?;
        t.client(Setup::SEED)?;
        let mr = t.pd.reg(0x5000, PAGE, USUAL)?;
        ensure!(mr.state()?.original);
        drop(mr);
        ensure_eq!(t.calls(Point::Import)?, 0);
        t.finish()
    }

    #[test]
    fn a_bad_table_is_not_exported() -> Result {
        let t = Fixture::new(Mode::Dynamic)?;
        let setup = Setup {
            fault: Fault::Short,
            ..Setup::SEED
        };
        let client = t.client(setup)?;
        let mr = t.reg(&client, 4 * PAGE);
        ensure_eq!(mr.err(), Some(EINVAL));
        ensure_eq!(t.calls(Point::Import)?, 0);
        t.finish_undone(&client)
    }

    /// Checks on each device a driver that fails at `point`.
    fn fails(setup: Setup, point: Point) -> Result {
        each(PEER2PEER, |mode| {
            let t = Fixture::new(mode)?;
            let setup = fitting(mode, setup);
            let client = t.client(setup)?;
            t.fail(point, ENOSPC)?;
            let mr = t.reg(&client, 4 * PAGE);
            ensure_eq!(mr.err(), Some(ENOSPC));
            ensure_eq!(t.dev().objects(), (0, 0, 0));
            let fd = t.dev().last_import().fd;
            ensure!(!is_dma_buf(fd));
            let script = client.script();
            ensure_eq!(script.calls(Point::DmaUnmap), 1);
            ensure_eq!(script.calls(Point::PutPages), 1);
            ensure_eq!(script.calls(Point::Release), if setup.bare { 0 } else { 1 });
            // The next registration is not affected.
            let mr = t.reg(&client, 4 * PAGE)?;
            ensure!(mr.is_valid());
            t.drop_and_finish(mr)
        })
    }

    #[test]
    fn a_driver_that_fails_before_it_imports() -> Result {
        fails(Setup::SEED, Point::Import)
    }

    #[test]
    fn a_driver_that_fails_after_it_has_imported() -> Result {
        each(Setup::ALL_REVOCABLE, |setup| fails(setup, Point::Imported))
    }

    #[test]
    fn a_refused_dereg_leaves_it_live() -> Result {
        each(PEER2PEER, common::a_refused_dereg_leaves_it_live)
    }
}
