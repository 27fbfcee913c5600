// SPDX-License-Identifier: GPL-2.0

//! What the driver is given to import.

use kernel::prelude::*;

#[kunit_tests(peer_mem_dma_buf)]
mod tests {
    use super::super::*;
    use crate::device::{
        is_dma_buf,
        Import,
        MrState, //
    };

    const K: u64 = 1 << 10;
    const M: u64 = 1 << 20;

    /// Registers `[offset, offset + len)`; what the driver was asked for and what it got.
    fn registered(bench: Bench, setup: Setup, offset: u64, len: u64) -> Result<(Import, MrState)> {
        let client = Client::new(0, "kunit_one", setup)?;
        let mr = bench.pd.reg(client.at(offset), len, USUAL)?;
        let (import, state) = (bench.dev().last_import(), mr.state()?);
        let order = client.is_in_order();
        drop(mr);
        order?;
        ensure_eq!(bench.dev().script.calls(Point::RegUserMr), 0);
        let lo = client.device_address(offset & !(PAGE - 1))?;
        let at = client.at(offset);
        bench.finish(&[&client])?;
        ensure!(state.valid && !state.original);
        ensure_eq!(import.offset, offset % PAGE);
        ensure_eq!((import.length, import.iova), (len, at));
        ensure_eq!(import.access, USUAL as i32);
        if !setup.scattered {
            ensure_eq!(state.lo, lo);
        }
        Ok((import, state))
    }

    /// On each device; `pages` in `entries`, the longest of which has `longest` bytes.
    fn gives(
        kinds: &[Kind],
        setup: Setup,
        (offset, len): (u64, u64),
        (pages, entries, longest): (u32, u32, u64),
    ) -> Result {
        for kind in kinds {
            let bench = Bench::importer(*kind)?;
            let (_, state) = registered(bench, fitting(*kind, setup), offset, len)?;
            ensure_eq!(
                (state.pages, state.entries, state.longest),
                (pages, entries, longest)
            );
        }
        Ok(())
    }

    #[test]
    fn seed_style() -> Result {
        let all = &Kind::IMPORTERS;
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
        let all = &Kind::IMPORTERS;
        gives(all, Setup::HUGE, (M, 16 * PAGE), (16, 1, 16 * PAGE))?;
        let both = (2 * M - PAGE - 3, PAGE + 6);
        gives(all, Setup::HUGE, both, (3, 1, 3 * PAGE))
    }

    #[test]
    fn other_shapes() -> Result {
        for setup in [Setup::BARE, Setup::LOCKED, Setup::UNMAPS, Setup::PERSISTENT] {
            gives(&FENCED, setup, (0, 4 * PAGE), (4, 1, 4 * PAGE))?;
        }
        Ok(())
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
            gives(&Kind::IMPORTERS, Setup::SEED, (offset, len), want)?;
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
        let setup = Setup {
            scattered: true,
            ..Setup::SEED
        };
        gives(&FENCED, setup, (0, 8 * PAGE), (8, 8, PAGE))
    }

    #[test]
    fn neighbours_are_merged_up_to_the_longest_segment() -> Result {
        // The device's limit is 2 MiB.
        gives(&FENCED, Setup::HUGE, (0, 4 * M), (1024, 2, 2 * M))?;
        for (max, len, entries, longest) in [
            (64 * K, 16 * PAGE, 1, 64 * K),
            (64 * K, 17 * PAGE, 2, 64 * K),
            (64 * K, 20 * PAGE, 2, 64 * K),
            (12 * K, 16 * PAGE, 6, 12 * K),
            (PAGE, 4 * PAGE, 4, PAGE),
        ] {
            let bench = Bench::importer(Kind::Dynamic)?;
            let dev = bench.pd.dev().clone();
            let old = dev.set_max_segment(max as u32);
            let result = registered(bench, Setup::SEED, 0, len);
            dev.set_max_segment(old);
            let (_, state) = result?;
            ensure_eq!((state.entries, state.longest), (entries, longest));
        }
        Ok(())
    }

    #[test]
    fn the_mr_has_the_iova_that_was_asked_for() -> Result {
        for kind in FENCED {
            let bench = Bench::importer(kind)?;
            let client = Client::new(0, "kunit_one", Setup::SEED)?;
            let mr = bench.pd.reg_at(client.at(5), 2 * PAGE, 0x1_0005, USUAL)?;
            let import = bench.dev().last_import();
            ensure_eq!(mr.place(), (0x1_0005, 2 * PAGE));
            ensure_eq!((import.offset, import.length), (5, 2 * PAGE));
            ensure_eq!(import.iova, 0x1_0005);
            ensure_eq!(mr.state()?.pages, 3);
            drop(mr);
            bench.finish(&[&client])?;
        }
        Ok(())
    }

    #[test]
    fn dma_map_gets_the_adapters_device() -> Result {
        let (bench, client, mr) = live(Kind::Dynamic, Setup::GPU)?;
        let dev = client.dma_device()?;
        drop(mr);
        ensure!(dev != 0 && dev == bench.pd.dev().dma_device());
        bench.finish(&[&client])
    }

    #[test]
    fn counters() -> Result {
        let (bench, client, mr) = live(Kind::Revocable, Setup::SEED)?;
        ensure_eq!(counters::in_use(client.name())?, (1, 4, 4 * PAGE));
        drop(mr);
        bench.finish(&[&client])
    }

    #[test]
    fn memory_of_nobody_goes_to_the_driver() -> Result {
        let bench = Bench::importer(Kind::Dynamic)?;
        let client = Client::new(0, "kunit_one", Setup::SEED)?;
        let mr = bench.pd.reg(0x5000, PAGE, USUAL)?;
        let original = mr.state()?.original;
        drop(mr);
        ensure!(original);
        ensure_eq!(bench.dev().script.calls(Point::Import), 0);
        bench.finish(&[&client])
    }

    #[test]
    fn a_bad_table_is_not_exported() -> Result {
        let bench = Bench::importer(Kind::Dynamic)?;
        let setup = Setup {
            fault: Fault::Short,
            ..Setup::SEED
        };
        let client = Client::new(0, "kunit_one", setup)?;
        let mr = bench.pd.reg(client.at(0), 4 * PAGE, USUAL);
        ensure_eq!(mr.err(), Some(EINVAL));
        ensure_eq!(bench.dev().script.calls(Point::Import), 0);
        undone_once(&client)?;
        bench.finish(&[&client])
    }

    /// On each device the driver fails at `point`.
    fn fails(setup: Setup, point: Point) -> Result {
        for kind in PEER2PEER {
            let bench = Bench::importer(kind)?;
            let setup = fitting(kind, setup);
            let client = Client::new(0, "kunit_one", setup)?;
            bench.dev().script.fail(point, ENOSPC);
            let mr = bench.pd.reg(client.at(0), 4 * PAGE, USUAL);
            ensure_eq!(mr.err(), Some(ENOSPC));
            ensure_eq!(bench.dev().objects(), (0, 0, 0));
            let fd = bench.dev().last_import().fd;
            ensure!(!is_dma_buf(fd));
            let script = client.script()?;
            ensure_eq!(script.calls(Point::DmaUnmap), 1);
            ensure_eq!(script.calls(Point::PutPages), 1);
            ensure_eq!(script.calls(Point::Release), if setup.bare { 0 } else { 1 });
            // It is not in the way of the next one.
            let mr = bench.pd.reg(client.at(0), 4 * PAGE, USUAL)?;
            let valid = mr.is_valid();
            drop(mr);
            ensure!(valid);
            bench.finish(&[&client])?;
        }
        Ok(())
    }

    #[test]
    fn a_driver_that_fails_before_it_imports() -> Result {
        fails(Setup::SEED, Point::Import)
    }

    #[test]
    fn a_driver_that_fails_after_it_has_imported() -> Result {
        for setup in [Setup::SEED, Setup::GPU, Setup::OWN_TABLE, Setup::HUGE] {
            fails(setup, Point::Imported)?;
        }
        for setup in [Setup::BARE, Setup::LOCKED, Setup::UNMAPS] {
            fails(setup, Point::Imported)?;
        }
        Ok(())
    }

    #[test]
    fn a_refused_dereg_leaves_it_live() -> Result {
        for kind in PEER2PEER {
            let (bench, client, mr) = live(kind, Setup::SEED)?;
            bench.dev().script.fail(Point::DeregMr, EBUSY);
            ensure_eq!(mr.dereg().err(), Some(EBUSY));
            ensure!(mr.is_valid());
            ensure_eq!(client.stage()?, Stage::Mapped);
            mr.dereg()?;
            undone_once(&client)?;
            bench.finish(&[&client])?;
        }
        Ok(())
    }
}
