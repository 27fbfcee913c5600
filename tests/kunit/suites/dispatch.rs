// SPDX-License-Identifier: GPL-2.0

//! Which client gets a range, and the arguments of the callbacks.

use kernel::prelude::*;

#[kunit_tests(peer_mem_dispatch)]
mod tests {
    use crate::suites::prelude::*;

    /// Registers four pages of `client`. Returns whether the driver itself registers them.
    fn goes_to_driver(t: &Fixture, client: &Client) -> Result<bool> {
        let mr = t.reg(client, 4 * PAGE)?;
        Ok(mr.state()?.original)
    }

    #[test]
    fn unclaimed_memory_falls_through_to_the_driver_unchanged() -> Result {
        let (t, client) = with_client(Kind::Virtual, Setup::SEED)?;
        let access = USUAL | user::RELAXED;
        let mr = t.pd.reg_at(0x1234_5678, 77, 0x9999, access)?;
        let args = t.dev().last_original();
        ensure!(mr.state()?.original);
        drop(mr);
        ensure_eq!(
            (args.start, args.length, args.iova, args.access),
            (0x1234_5678, 77, 0x9999, access as i32)
        );
        ensure_eq!(client.script().calls(Point::Acquire), 0);
        t.finish()
    }

    /// Registers four pages at `addr`, which the driver cannot pin, of a client whose memory is there.
    fn at_address(addr: u64) -> Result<(Fixture, Result<bool>)> {
        let t = Fixture::new(Kind::Dma)?;
        // The place of slot 0 is 0x7000_0000_0000, and 4 GiB are between two places.
        let place = (addr.wrapping_sub(0x7000_0000_0000) >> 32) as usize;
        t.client(Setup::SEED.at_place_of(place))?;
        t.fail(Point::RegUserMr, EFAULT)?;
        let mr = t.pd.reg(addr, 4 * PAGE, USUAL);
        let served = mr.and_then(|mr| Ok(!mr.state()?.original));
        Ok((t, served))
    }

    /// Also the bits that a CPU ignores in a pointer.
    #[test]
    fn an_address_that_is_not_canonical_may_be_the_clients() -> Result {
        for addr in [0x0101_0000_0000_0000, 0x8001_0000_0000_0000] {
            let (t, served) = at_address(addr)?;
            ensure_eq!(served, Ok(true));
            t.finish()?;
        }
        Ok(())
    }

    #[test]
    fn addresses_of_the_kernel_reach_no_client() -> Result {
        for addr in [0xffff_8880_0000_0000, 0xffff_ffff_0000_0000] {
            let (t, served) = at_address(addr)?;
            ensure_eq!(served, Err(EFAULT));
            ensure_eq!(t.calls(Point::Acquire)?, 0);
            t.finish()?;
        }
        Ok(())
    }

    #[test]
    fn the_drivers_errno_reaches_the_caller() -> Result {
        let t = Fixture::new(Kind::Virtual)?;
        t.fail(Point::RegUserMr, EFAULT)?;
        ensure_eq!(t.pd.reg(0x1000, 77, USUAL).err(), Some(EFAULT));
        t.finish()
    }

    #[test]
    fn without_a_client_memory_falls_through_to_the_driver() -> Result {
        let t = Fixture::new(Kind::Dma)?;
        let mr = t.pd.reg(0x5000, PAGE, USUAL)?;
        ensure!(mr.state()?.original);
        t.drop_and_finish(mr)
    }

    #[test]
    fn the_driver_is_tried_with_a_range_that_a_client_claims() -> Result {
        let (t, client) = with_client(Kind::Virtual, Setup::SEED)?;
        ensure!(!goes_to_driver(&t, &client)?);
        ensure_eq!(t.calls(Point::RegUserMr)?, 1);
        t.finish()
    }

    #[test]
    fn clients_get_ranges_in_the_order_of_registration() -> Result {
        let t = Fixture::new(Kind::Dma)?;
        let first = t.client(Setup::SEED.at_place_of(1))?;
        let second = t.client(Setup::SEED)?;
        ensure!(!goes_to_driver(&t, &second)?);
        ensure_eq!(first.script().calls(Point::GetPages), 1);
        ensure_eq!(second.script().calls(Point::Acquire), 0);
        // Without the first client, the second client gets the range.
        first.finish()?;
        ensure!(!goes_to_driver(&t, &second)?);
        ensure_eq!(second.script().calls(Point::GetPages), 1);
        t.finish()
    }

    #[test]
    fn a_persistent_client_before_a_legacy_one_wins() -> Result {
        let (t, persistent, legacy) = with_rival(Kind::Virtual, Setup::PERSISTENT)?;
        ensure!(!goes_to_driver(&t, &persistent)?);
        ensure_eq!(persistent.script().calls(Point::GetPages), 1);
        ensure_eq!(legacy.script().calls(Point::Acquire), 0);
        t.finish()
    }

    /// Checks that the second client gets the range if `acquire` of the first returns `answer`.
    fn passes_on(answer: i32) -> Result {
        let setup = Setup {
            answer,
            ..Setup::SEED
        };
        let (t, first, second) = with_rival(Kind::Dma, setup)?;
        ensure!(!goes_to_driver(&t, &first)?);
        ensure_eq!(first.script().calls(Point::Acquire), 1);
        ensure_eq!(first.script().calls(Point::Release), 0);
        ensure_eq!(second.script().calls(Point::GetPages), 1);
        t.finish()
    }

    #[test]
    fn acquire_0_is_no_claim() -> Result {
        passes_on(0)
    }

    #[test]
    fn an_errno_of_acquire_is_no_claim() -> Result {
        passes_on(EPERM.to_errno())
    }

    #[test]
    fn acquire_2_is_a_claim() -> Result {
        let setup = Setup {
            answer: 2,
            ..Setup::SEED
        };
        let (t, first, second) = with_rival(Kind::Dma, setup)?;
        ensure!(!goes_to_driver(&t, &first)?);
        ensure_eq!(first.script().calls(Point::GetPages), 1);
        ensure_eq!(first.script().calls(Point::Release), 1);
        ensure_eq!(second.script().calls(Point::Acquire), 0);
        t.finish()
    }

    /// Returns the arguments `write` and `force` of `get_pages`.
    fn write_and_force(access: u32) -> Result<(i32, i32)> {
        let (t, client) = with_client(Kind::Dma, Setup::SEED)?;
        let mr = t.pd.reg(client.at(0), PAGE, access)?;
        let flags = client.flags();
        drop(mr);
        t.finish()?;
        Ok((flags.0, flags.1))
    }

    #[test]
    fn write_is_1_and_force_0_for_a_read_only_mr() -> Result {
        ensure_eq!(write_and_force(user::REMOTE_READ)?, (1, 0));
        ensure_eq!(write_and_force(0)?, (1, 0));
        Ok(())
    }

    #[test]
    fn force_is_1_for_a_writable_mr() -> Result {
        ensure_eq!(write_and_force(user::LOCAL_WRITE)?, (1, 1));
        ensure_eq!(write_and_force(USUAL)?, (1, 1));
        let atomic = user::LOCAL_WRITE | user::REMOTE_ATOMIC;
        ensure_eq!(write_and_force(atomic)?, (1, 1));
        Ok(())
    }

    #[test]
    fn dma_map_gets_the_dma_device_and_dmasync_0() -> Result {
        let (t, client) = with_client(Kind::Dma, Setup::SEED)?;
        let mr = t.reg(&client, PAGE)?;
        let (sync, dev) = (client.flags().2, client.dma_device());
        drop(mr);
        ensure_eq!(sync, 0);
        ensure!(dev != 0 && dev == t.registered().dma_device());
        t.finish()
    }

    #[test]
    fn software_rdma_is_served_without_dma_map() -> Result {
        let (t, client) = with_client(Kind::Virtual, Setup::SEED)?;
        ensure!(!goes_to_driver(&t, &client)?);
        ensure_eq!(client.script().calls(Point::DmaMap), 0);
        ensure_eq!(client.script().calls(Point::DmaUnmap), 0);
        t.finish()
    }

    #[test]
    fn a_client_without_pages_is_skipped_for_software_rdma() -> Result {
        let (t, gpu, second) = with_rival(Kind::Virtual, Setup::GPU)?;
        ensure!(!goes_to_driver(&t, &gpu)?);
        ensure_eq!(gpu.script().calls(Point::Release), 1);
        ensure_eq!(second.script().calls(Point::GetPages), 1);
        t.finish()
    }

    #[test]
    fn an_empty_range_falls_through_to_the_driver() -> Result {
        let (t, client) = with_client(Kind::Dma, Setup::SEED)?;
        let mr = t.reg(&client, 0)?;
        ensure!(mr.state()?.original);
        drop(mr);
        ensure_eq!(client.script().calls(Point::Acquire), 0);
        t.finish()
    }

    #[test]
    fn a_range_that_wraps_falls_through_to_the_driver() -> Result {
        let (t, client) = with_client(Kind::Dma, Setup::SEED)?;
        for (start, len) in [
            (u64::MAX - 10, 20),
            (client.at(0), u64::MAX),
            (u64::MAX - 9, 5),
        ] {
            let mr = t.pd.reg(start, len, USUAL)?;
            ensure!(mr.state()?.original);
        }
        ensure_eq!(client.script().calls(Point::Acquire), 0);
        t.finish()
    }

    #[test]
    fn on_demand_falls_through_to_the_driver() -> Result {
        common::on_demand_falls_through_to_the_driver(Kind::Dma)
    }

    #[test]
    fn memory_windows_are_refused() -> Result {
        let (t, client) = with_client(Kind::Dma, Setup::SEED)?;
        let mr = t.pd.reg(client.at(0), PAGE, USUAL | user::MW_BIND);
        ensure!(is_unsupported(&mr));
        t.finish()
    }

    #[test]
    fn relaxed_ordering_is_only_a_hint() -> Result {
        let (t, client) = with_client(Kind::Dma, Setup::SEED)?;
        let mr = t.pd.reg(client.at(0), PAGE, USUAL | user::RELAXED)?;
        ensure_eq!(mr.state()?.access, USUAL as i32);
        t.drop_and_finish(mr)
    }

    #[test]
    fn the_mr_has_the_iova_that_was_asked_for() -> Result {
        let (t, client) = with_client(Kind::Dma, Setup::SEED)?;
        let mr = t.pd.reg_at(client.at(5), 2 * PAGE, 0x1_0005, USUAL)?;
        ensure_eq!(mr.place(), (0x1_0005, 2 * PAGE));
        t.drop_and_finish(mr)
    }
}
