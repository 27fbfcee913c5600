// SPDX-License-Identifier: GPL-2.0

//! Who is asked about a range, and with which arguments.

use kernel::prelude::*;

#[kunit_tests(peer_mem_dispatch)]
mod tests {
    use crate::suites::prelude::*;

    /// Registers four pages of `client`; are they in the hands of the driver itself?
    fn goes_to_driver(bench: &Bench, client: &Client) -> Result<bool> {
        let mr = bench.pd.reg(client.at(0), 4 * PAGE, USUAL)?;
        Ok(mr.state()?.original)
    }

    #[test]
    fn memory_of_nobody_goes_to_the_driver_untouched() -> Result {
        let bench = Bench::software()?;
        let client = Client::new(0, "kunit_one", Setup::SEED)?;
        let access = USUAL | user::RELAXED;
        let mr = bench.pd.reg_at(0x1234_5678, 77, 0x9999, access)?;
        let args = bench.dev().last_original();
        let original = mr.state()?.original;
        drop(mr);
        ensure!(original);
        ensure_eq!(
            (args.start, args.length, args.iova, args.access),
            (0x1234_5678, 77, 0x9999, access as i32)
        );
        ensure_eq!(client.script()?.calls(Point::Acquire), 1);
        bench.finish(&[&client])
    }

    #[test]
    fn the_drivers_errno_reaches_the_caller() -> Result {
        let bench = Bench::software()?;
        bench.dev().script.fail(Point::RegUserMr, EFAULT);
        ensure_eq!(bench.pd.reg(0x1000, 77, USUAL).err(), Some(EFAULT));
        bench.finish(&[])
    }

    #[test]
    fn without_a_client_memory_goes_to_the_driver() -> Result {
        let bench = Bench::hardware()?;
        let mr = bench.pd.reg(0x5000, PAGE, USUAL)?;
        ensure!(mr.state()?.original);
        drop(mr);
        bench.finish(&[])
    }

    #[test]
    fn a_claimed_range_does_not_reach_the_driver() -> Result {
        let bench = Bench::software()?;
        let client = Client::new(0, "kunit_one", Setup::SEED)?;
        ensure!(!goes_to_driver(&bench, &client)?);
        ensure_eq!(bench.dev().script.calls(Point::RegUserMr), 0);
        bench.finish(&[&client])
    }

    #[test]
    fn the_first_registered_is_asked_first() -> Result {
        let bench = Bench::hardware()?;
        let setup = Setup {
            place: Some(0),
            ..Setup::SEED
        };
        let first = Client::new(1, "kunit_first", setup)?;
        let second = Client::new(0, "kunit_second", Setup::SEED)?;
        ensure!(!goes_to_driver(&bench, &second)?);
        ensure_eq!(first.script()?.calls(Point::GetPages), 1);
        ensure_eq!(second.script()?.calls(Point::Acquire), 0);
        // When it is gone the second has the range.
        first.finish()?;
        ensure!(!goes_to_driver(&bench, &second)?);
        ensure_eq!(second.script()?.calls(Point::GetPages), 1);
        bench.finish(&[&second])
    }

    #[test]
    fn a_persistent_client_before_a_legacy_one_wins() -> Result {
        let bench = Bench::software()?;
        let persistent = Client::new(0, "kunit_persistent", Setup::PERSISTENT)?;
        let setup = Setup {
            place: Some(0),
            ..Setup::SEED
        };
        let legacy = Client::new(1, "kunit_legacy", setup)?;
        ensure!(!goes_to_driver(&bench, &persistent)?);
        ensure_eq!(persistent.script()?.calls(Point::GetPages), 1);
        ensure_eq!(legacy.script()?.calls(Point::Acquire), 0);
        bench.finish(&[&persistent, &legacy])
    }

    /// The first client answers so, the second has the range.
    fn passes_on(answer: i32) -> Result {
        let bench = Bench::hardware()?;
        let setup = Setup {
            answer,
            ..Setup::SEED
        };
        let first = Client::new(0, "kunit_first", setup)?;
        let setup = Setup {
            place: Some(0),
            ..Setup::SEED
        };
        let second = Client::new(1, "kunit_second", setup)?;
        ensure!(!goes_to_driver(&bench, &first)?);
        ensure_eq!(first.script()?.calls(Point::Acquire), 1);
        ensure_eq!(first.script()?.calls(Point::Release), 0);
        ensure_eq!(second.script()?.calls(Point::GetPages), 1);
        bench.finish(&[&first, &second])
    }

    #[test]
    fn acquire_0_is_not_mine() -> Result {
        passes_on(0)
    }

    #[test]
    fn acquire_errno_is_not_mine() -> Result {
        passes_on(EPERM.to_errno())
    }

    #[test]
    fn acquire_of_another_number_is_not_mine() -> Result {
        passes_on(2)
    }

    /// What `get_pages` is told of write and force.
    fn write_and_force(access: u32) -> Result<(i32, i32)> {
        let bench = Bench::hardware()?;
        let client = Client::new(0, "kunit_one", Setup::SEED)?;
        let mr = bench.pd.reg(client.at(0), PAGE, access)?;
        let flags = client.flags()?;
        drop(mr);
        bench.finish(&[&client])?;
        Ok((flags.0, flags.1))
    }

    #[test]
    fn write_is_1_and_force_0_for_an_mr_that_is_read() -> Result {
        ensure_eq!(write_and_force(user::REMOTE_READ)?, (1, 0));
        ensure_eq!(write_and_force(0)?, (1, 0));
        Ok(())
    }

    #[test]
    fn force_is_1_for_an_mr_that_is_written() -> Result {
        ensure_eq!(write_and_force(user::LOCAL_WRITE)?, (1, 1));
        ensure_eq!(write_and_force(USUAL)?, (1, 1));
        let atomic = user::LOCAL_WRITE | user::REMOTE_ATOMIC;
        ensure_eq!(write_and_force(atomic)?, (1, 1));
        Ok(())
    }

    #[test]
    fn dma_map_gets_the_adapters_dma_device_and_dmasync_0() -> Result {
        let bench = Bench::hardware()?;
        let client = Client::new(0, "kunit_one", Setup::SEED)?;
        let mr = bench.pd.reg(client.at(0), PAGE, USUAL)?;
        let (sync, dev) = (client.flags()?.2, client.dma_device()?);
        drop(mr);
        ensure_eq!(sync, 0);
        ensure!(dev != 0 && dev == bench.pd.dev().dma_device());
        bench.finish(&[&client])
    }

    #[test]
    fn software_rdma_is_served_without_dma_map() -> Result {
        let bench = Bench::software()?;
        let client = Client::new(0, "kunit_one", Setup::SEED)?;
        ensure!(!goes_to_driver(&bench, &client)?);
        ensure_eq!(client.script()?.calls(Point::DmaMap), 0);
        ensure_eq!(client.script()?.calls(Point::DmaUnmap), 0);
        bench.finish(&[&client])
    }

    #[test]
    fn a_client_without_pages_is_passed_over_for_software_rdma() -> Result {
        let bench = Bench::software()?;
        let gpu = Client::new(0, "kunit_gpu", Setup::GPU)?;
        let setup = Setup {
            place: Some(0),
            ..Setup::SEED
        };
        let second = Client::new(1, "kunit_second", setup)?;
        ensure!(!goes_to_driver(&bench, &gpu)?);
        ensure_eq!(gpu.script()?.calls(Point::Release), 1);
        ensure_eq!(second.script()?.calls(Point::GetPages), 1);
        bench.finish(&[&gpu, &second])
    }

    #[test]
    fn an_empty_range_goes_to_the_driver() -> Result {
        let bench = Bench::hardware()?;
        let client = Client::new(0, "kunit_one", Setup::SEED)?;
        let mr = bench.pd.reg(client.at(0), 0, USUAL)?;
        ensure!(mr.state()?.original);
        drop(mr);
        ensure_eq!(client.script()?.calls(Point::Acquire), 0);
        bench.finish(&[&client])
    }

    #[test]
    fn a_range_that_wraps_goes_to_the_driver() -> Result {
        let bench = Bench::hardware()?;
        let client = Client::new(0, "kunit_one", Setup::SEED)?;
        for (start, len) in [
            (u64::MAX - 10, 20),
            (client.at(0), u64::MAX),
            (u64::MAX - 9, 5),
        ] {
            let mr = bench.pd.reg(start, len, USUAL)?;
            ensure!(mr.state()?.original);
        }
        ensure_eq!(client.script()?.calls(Point::Acquire), 0);
        bench.finish(&[&client])
    }

    #[test]
    fn on_demand_goes_to_the_driver() -> Result {
        let bench = Bench::hardware()?;
        let client = Client::new(0, "kunit_one", Setup::SEED)?;
        let mr = bench.pd.reg(client.at(0), PAGE, USUAL | user::ON_DEMAND)?;
        ensure!(mr.state()?.original);
        drop(mr);
        ensure_eq!(client.script()?.calls(Point::Acquire), 0);
        bench.finish(&[&client])
    }

    #[test]
    fn memory_windows_are_refused() -> Result {
        let bench = Bench::hardware()?;
        let client = Client::new(0, "kunit_one", Setup::SEED)?;
        let mr = bench.pd.reg(client.at(0), PAGE, USUAL | user::MW_BIND);
        ensure_eq!(
            mr.err().map(|e| e.to_errno()),
            Some(-(kernel::bindings::EOPNOTSUPP as i32))
        );
        bench.finish(&[&client])
    }

    #[test]
    fn relaxed_ordering_is_only_a_hint() -> Result {
        let bench = Bench::hardware()?;
        let client = Client::new(0, "kunit_one", Setup::SEED)?;
        let mr = bench.pd.reg(client.at(0), PAGE, USUAL | user::RELAXED)?;
        ensure_eq!(mr.state()?.access, USUAL as i32);
        drop(mr);
        bench.finish(&[&client])
    }

    #[test]
    fn the_mr_has_the_iova_that_was_asked_for() -> Result {
        let bench = Bench::hardware()?;
        let client = Client::new(0, "kunit_one", Setup::SEED)?;
        let mr = bench.pd.reg_at(client.at(5), 2 * PAGE, 0x1_0005, USUAL)?;
        ensure_eq!(mr.place(), (0x1_0005, 2 * PAGE));
        drop(mr);
        bench.finish(&[&client])
    }
}
