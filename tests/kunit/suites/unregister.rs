// SPDX-License-Identifier: GPL-2.0

//! Unregistration of a client with regions: after the return no callback runs any more.

use kernel::prelude::*;

#[kunit_tests(peer_mem_unregister)]
mod tests {
    use crate::{
        suites::prelude::*,
        user::Pd, //
    };

    fn with_a_live_region(setup: Setup) -> Result {
        common::end_of_the_client(Kind::Dma, setup)
    }

    #[test]
    fn with_a_live_region_of_each_shape() -> Result {
        each(Setup::ALL_REVOCABLE, with_a_live_region)
    }

    #[test]
    fn with_a_live_region_of_a_persistent_client() -> Result {
        with_a_live_region(Setup::PERSISTENT)
    }

    #[test]
    fn with_live_regions_on_both_devices() -> Result {
        let (t, client, mr) = live(Kind::Dma, Setup::SEED)?;
        let other = Fixture::new(Kind::Virtual)?;
        let other_mr = other.reg_at(&client, 8 * PAGE, PAGE)?;
        client.finish()?;
        ensure!(!mr.is_valid() && !other_mr.is_valid());
        mr.dereg()?;
        other_mr.dereg()?;
        other.finish()?;
        t.finish()
    }

    #[test]
    fn with_many_live_regions() -> Result {
        let (t, client, mr) = live(Kind::Dma, Setup::SEED)?;
        let mut mrs = KVec::new();
        for i in 1..10 {
            mrs.push(t.reg_at(&client, i * 4 * PAGE, PAGE)?, GFP_KERNEL)?;
        }
        client.finish()?;
        ensure!(!mr.is_valid() && !mrs.iter().any(|m| m.is_valid()));
        drop(mrs);
        t.dereg_and_finish(&mr)
    }

    #[test]
    fn with_many_live_regions_waits_once_for_software() -> Result {
        const REGIONS: u64 = 10;

        let (t, client) = with_client(Kind::Virtual, Setup::SEED)?;
        let mut mrs = KVec::new();
        for i in 0..REGIONS {
            mrs.push(t.reg_at(&client, i * PAGE, PAGE)?, GFP_KERNEL)?;
        }
        let waits = Waits::for_software()?;
        let leaving = t.held(Point::PutPages, || unregistration(&client))?;
        ensure!(!mrs.iter().any(|m| m.is_valid()));
        ensure_eq!(waits.count(), 1);
        leaving.join()??;
        ensure_eq!(waits.count(), 1);
        t.drop_and_finish(mrs)
    }

    #[test]
    fn an_mr_made_after_the_others_were_stopped_is_fenced() -> Result {
        let (t, client, mr) = live(Kind::Dma, Setup::SEED)?;
        // A queue pair takes no further work request while a work request is held, so the second MR
        // is on another queue pair.
        let pd = Pd::new(t.registered())?;
        let other = pd.reg(client.at(8 * PAGE), PAGE, USUAL)?;
        let first = t.held(Point::PostInv, || unregistration(&client))?;
        let leaving = t.held(Point::PostInv, || Ok(first.let_go()))?;
        ensure!(!mr.is_valid());
        let new = mr.rereg(user::ACCESS, &t.pd, (0, 0), user::REMOTE_READ);
        leaving.join()??;
        let new = new?.ok_or(ENOENT)?;
        ensure!(!new.is_valid());
        drop(new);
        other.dereg()?;
        drop((other, pd));
        ensure_eq!(t.calls(Point::PutPages)?, 2);
        t.finish()
    }

    #[test]
    fn with_a_revoked_region() -> Result {
        let (t, client, mr) = live(Kind::Dma, Setup::SEED)?;
        client.invalidate_last()?;
        client.finish()?;
        mr.dereg()?;
        ensure_eq!(t.calls(Point::PutPages)?, 1);
        t.finish()
    }

    #[test]
    fn a_revoked_mr_is_deregistered_by_the_driver_alone() -> Result {
        let (t, client, mr) = live(Kind::Dma, Setup::SEED)?;
        client.finish()?;
        t.fail(Point::DeregMr, EBUSY)?;
        ensure_eq!(mr.dereg().err(), Some(EBUSY));
        t.dereg_and_finish(&mr)
    }

    #[test]
    fn afterwards_its_range_gets_the_drivers_error() -> Result {
        let (t, client, mr) = live(Kind::Dma, Setup::SEED)?;
        client.finish()?;
        mr.dereg()?;
        ensure_eq!(t.reg(&client, PAGE).err(), Some(EFAULT));
        t.finish()
    }

    /// Unregisters during a registration that is held at `point`. If `fails`, the registration then
    /// fails. Returns the registration's error.
    fn half_made(setup: Setup, point: Point, fails: bool) -> Result<Option<Error>> {
        let (t, client) = with_client(Kind::Dma, setup)?;
        if fails {
            // Pages are put only after a failure elsewhere.
            let failing = match point {
                Point::PutPages => Point::AllocMr,
                point => point,
            };
            t.fail(failing, ENOSPC)?;
        }
        let wait = match point {
            // There is no region yet.
            Point::Acquire => Wait::Client,
            _ => Wait::Region,
        };
        let first = t.held(point, || t.registration(&client, 0, 4 * PAGE))?;
        let result = first.overlap(wait, unregistration(&client)?)?;
        ensure!(!result.as_ref().is_ok_and(|mr| mr.is_served()));
        let error = result.err();
        t.finish()?;
        Ok(error)
    }

    #[test]
    fn while_acquire_runs() -> Result {
        ensure_eq!(half_made(Setup::SEED, Point::Acquire, false)?, Some(ENODEV));
        Ok(())
    }

    #[test]
    fn while_get_pages_runs() -> Result {
        half_made(Setup::SEED, Point::GetPages, false).map(|_| ())
    }

    #[test]
    fn while_get_pages_fails() -> Result {
        let error = half_made(Setup::SEED, Point::GetPages, true)?;
        ensure_eq!(error, Some(ENOSPC));
        Ok(())
    }

    #[test]
    fn while_dma_map_runs() -> Result {
        half_made(Setup::GPU, Point::DmaMap, false).map(|_| ())
    }

    #[test]
    fn while_an_mr_is_allocated() -> Result {
        half_made(Setup::SEED, Point::AllocMr, false).map(|_| ())
    }

    #[test]
    fn while_the_work_request_is_posted() -> Result {
        half_made(Setup::SEED, Point::PostReg, false).map(|_| ())
    }

    #[test]
    fn while_a_registration_fails_in_the_driver() -> Result {
        let error = half_made(Setup::SEED, Point::AllocMr, true)?;
        ensure_eq!(error, Some(ENOSPC));
        Ok(())
    }

    #[test]
    fn while_a_failed_registration_puts_the_pages() -> Result {
        let error = half_made(Setup::SEED, Point::PutPages, true)?;
        ensure_eq!(error, Some(ENOSPC));
        Ok(())
    }

    /// Unregisters during a deregistration that is held at `point`.
    fn while_dereg(setup: Setup, point: Point) -> Result {
        let (t, client, mr) = live(Kind::Dma, setup)?;
        let wait = match point {
            // The region has ended.
            Point::Release => Wait::Client,
            _ => Wait::Region,
        };
        let first = t.held(point, || deregistration(&mr))?;
        first.overlap(wait, unregistration(&client)?)??;
        ensure_eq!(t.calls(Point::PutPages)?, 1);
        ensure_eq!(t.calls(Point::Release)?, 1);
        t.finish()
    }

    #[test]
    fn while_the_driver_deregisters() -> Result {
        while_dereg(Setup::SEED, Point::DeregMr)
    }

    #[test]
    fn while_dereg_unmaps() -> Result {
        while_dereg(Setup::SEED, Point::DmaUnmap)
    }

    #[test]
    fn while_dereg_puts_the_pages() -> Result {
        while_dereg(Setup::SEED, Point::PutPages)
    }

    #[test]
    fn while_dereg_releases() -> Result {
        while_dereg(Setup::SEED, Point::Release)
    }

    /// Unregisters during an invalidation that waits for the device.
    fn while_an_invalidation_waits(setup: Setup) -> Result {
        let (t, client, mr) = live(Kind::Dma, setup)?;
        t.second_waits(|| invalidation(&client), || unregistration(&client))?;
        mr.dereg()?;
        ensure_eq!(t.calls(Point::PutPages)?, 1);
        t.finish()
    }

    #[test]
    fn while_an_invalidation_waits_for_the_device() -> Result {
        while_an_invalidation_waits(Setup::SEED)
    }

    #[test]
    fn while_an_invalidation_under_its_own_mutex_waits_for_the_device() -> Result {
        while_an_invalidation_waits(Setup::LOCKED)
    }

    #[test]
    fn while_an_invalidation_puts_the_pages() -> Result {
        let (t, client, mr) = live(Kind::Dma, Setup::SEED)?;
        let first = t.held(Point::PutPages, || invalidation(&client))?;
        first.overlap(Wait::Region, unregistration(&client)?)??;
        mr.dereg()?;
        ensure_eq!(t.calls(Point::PutPages)?, 1);
        t.finish()
    }

    #[test]
    fn a_device_that_does_not_stop_gets_another_work_request() -> Result {
        let (t, client, mr) = live(Kind::Dma, Setup::SEED)?;
        t.dev().fail_work_request();
        client.finish()?;
        mr.dereg()?;
        ensure_eq!(t.calls(Point::PostInv)?, 2);
        t.finish()
    }

    #[test]
    fn an_invalidation_afterwards_does_nothing() -> Result {
        let (t, client, mr) = live(Kind::Dma, Setup::SEED)?;
        let ticket = client.ticket()?;
        client.finish()?;
        ensure_eq!(client.invalidate(ticket)?, 0);
        t.dereg_and_finish(&mr)
    }

    #[test]
    fn of_one_client_leaves_the_others() -> Result {
        let (t, client, mr) = live(Kind::Dma, Setup::SEED)?;
        let other = t.client(Setup::SEED)?;
        let other_mr = t.reg(&other, PAGE)?;
        client.finish()?;
        ensure!(other_mr.is_valid() && !mr.is_valid());
        mr.dereg()?;
        t.dereg_and_finish(&other_mr)
    }
}
