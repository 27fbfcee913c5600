// SPDX-License-Identifier: GPL-2.0

//! Unregistration of a client with regions: after the return no callback runs any more.

use kernel::prelude::*;

#[kunit_tests(peer_mem_unregister)]
mod tests {
    use crate::{
        suites::prelude::*,
        user::Pd, //
    };

    /// Returns a client with a live region on a device that does DMA.
    fn live_dma(setup: Setup) -> Result<(Fixture, Arc<Client>, Arc<user::Mr>)> {
        live(Kind::Dma, setup)
    }

    /// Unregisters a client with a live region. The region is revoked, and the MR stays.
    fn with_a_live_region(setup: Setup) -> Result {
        let (t, client, mr) = live_dma(setup)?;
        let result = client.finish();
        let valid = mr.is_valid();
        mr.dereg()?;
        result?;
        ensure!(!valid);
        t.finish()
    }

    #[test]
    fn with_a_live_region_of_each_shape() -> Result {
        each(&Setup::ALL_REVOCABLE, with_a_live_region)
    }

    #[test]
    fn with_a_live_region_of_a_persistent_client() -> Result {
        with_a_live_region(Setup::PERSISTENT)
    }

    #[test]
    fn with_live_regions_on_both_devices() -> Result {
        let (t, client, mr) = live_dma(Setup::SEED)?;
        let other = Fixture::new(Kind::Virtual)?;
        let other_mr = other.reg_at(&client, 8 * PAGE, PAGE)?;
        let result = client.finish();
        let valid = mr.is_valid() || other_mr.is_valid();
        mr.dereg()?;
        other_mr.dereg()?;
        result?;
        ensure!(!valid);
        other.finish()?;
        t.finish()
    }

    #[test]
    fn with_many_live_regions() -> Result {
        let (t, client, mr) = live_dma(Setup::SEED)?;
        let mut mrs = KVec::new();
        for i in 1..10 {
            mrs.push(t.reg_at(&client, i * 4 * PAGE, PAGE)?, GFP_KERNEL)?;
        }
        let result = client.finish();
        let valid = mr.is_valid() || mrs.iter().any(|m| m.is_valid());
        drop(mrs);
        mr.dereg()?;
        result?;
        ensure!(!valid);
        t.finish()
    }

    #[test]
    fn with_many_live_regions_waits_once_for_software() -> Result {
        const REGIONS: u64 = 10;

        let t = Fixture::new(Kind::Virtual)?;
        let client = t.client(Setup::SEED)?;
        let mut mrs = KVec::new();
        for i in 0..REGIONS {
            mrs.push(t.reg_at(&client, i * PAGE, PAGE)?, GFP_KERNEL)?;
        }
        let waits = Waits::for_software()?;
        let putting = t.hold(Point::PutPages)?;
        let leaving = unregistration(&client)?;
        putting.reached()?;
        let (valid, before) = (mrs.iter().any(|m| m.is_valid()), waits.count());
        putting.open();
        let result = leaving.join()?;
        let all = waits.count();
        drop(mrs);
        result?;
        ensure!(!valid);
        ensure_eq!((before, all), (1, 1));
        t.finish()
    }

    #[test]
    fn an_mr_made_after_the_others_were_stopped_is_fenced() -> Result {
        let (t, client, mr) = live_dma(Setup::SEED)?;
        // A queue pair takes no further work request while a work request is held, so the second MR
        // is on another queue pair.
        let pd = Pd::new(t.registered())?;
        let other = pd.reg(client.at(8 * PAGE), PAGE, USUAL)?;
        let first = t.hold(Point::PostInv)?;
        let leaving = unregistration(&client)?;
        first.reached()?;
        let second = t.hold(Point::PostInv)?;
        first.open();
        second.reached()?;
        let stopped = !mr.is_valid();
        let new = mr.rereg(user::ACCESS, &t.pd, (0, 0), user::REMOTE_READ);
        second.open();
        let result = leaving.join()?;
        let new = new?.ok_or(ENOENT)?;
        let valid = new.is_valid();
        drop(new);
        other.dereg()?;
        drop((other, pd));
        result?;
        ensure!(stopped && !valid);
        ensure_eq!(t.calls(Point::PutPages)?, 2);
        t.finish()
    }

    #[test]
    fn with_a_revoked_region() -> Result {
        let (t, client, mr) = live_dma(Setup::SEED)?;
        client.invalidate_last()?;
        let result = client.finish();
        mr.dereg()?;
        result?;
        ensure_eq!(t.calls(Point::PutPages)?, 1);
        t.finish()
    }

    #[test]
    fn a_revoked_mr_is_deregistered_by_the_driver_alone() -> Result {
        let (t, client, mr) = live_dma(Setup::SEED)?;
        client.finish()?;
        t.fail(Point::DeregMr, EBUSY)?;
        ensure_eq!(mr.dereg().err(), Some(EBUSY));
        mr.dereg()?;
        t.finish()
    }

    #[test]
    fn afterwards_its_range_gets_the_drivers_error() -> Result {
        let (t, client, mr) = live_dma(Setup::SEED)?;
        client.finish()?;
        mr.dereg()?;
        ensure_eq!(t.reg(&client, PAGE).err(), Some(EFAULT));
        t.finish()
    }

    /// Unregisters during a registration that is held at `point`. If `fails`, the registration then
    /// fails. Returns the registration's error.
    fn half_made(setup: Setup, point: Point, fails: bool) -> Result<Option<Error>> {
        let t = Fixture::new(Kind::Dma)?;
        let client = t.client(setup)?;
        let gate = t.hold(point)?;
        if fails {
            // Pages are put only after a failure elsewhere.
            let failing = match point {
                Point::PutPages => Point::AllocMr,
                point => point,
            };
            t.fail(failing, ENOSPC)?;
        }
        let registering = t.registration(&client, 0, 4 * PAGE)?;
        gate.reached()?;
        let leaving = unregistration(&client)?;
        let waited = leaving.waits_for(match point {
            // There is no region yet.
            Point::Acquire => Wait::Client,
            _ => Wait::Region,
        });
        gate.open();
        let mr = registering.join()?;
        let result = leaving.join()?;
        let valid = mr
            .as_ref()
            .is_ok_and(|mr| mr.state().is_ok_and(|s| s.valid && !s.original));
        let error = mr.map(drop).err();
        ensure!(waited);
        result?;
        ensure!(!valid);
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
        let (t, client, mr) = live_dma(setup)?;
        let gate = t.hold(point)?;
        let deregistering = deregistration(&mr)?;
        gate.reached()?;
        let leaving = unregistration(&client)?;
        let waited = leaving.waits_for(match point {
            // The region has ended.
            Point::Release => Wait::Client,
            _ => Wait::Region,
        });
        gate.open();
        deregistering.join()??;
        let result = leaving.join()?;
        ensure!(waited);
        result?;
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

    /// Unregisters during an invalidation that waits for the device, or that puts the pages.
    fn while_invalidating(setup: Setup, in_put_pages: bool) -> Result {
        let (t, client, mr) = live_dma(setup)?;
        let gate = if in_put_pages {
            Some(t.hold(Point::PutPages)?)
        } else {
            t.dev().hold_completions();
            None
        };
        let invalidating = invalidation(&client)?;
        let waited = match &gate {
            Some(gate) => gate.reached().is_ok(),
            None => invalidating.waits_for(Wait::Completion),
        };
        let leaving = unregistration(&client)?;
        let waited = leaving.waits_for(Wait::Region) && waited;
        match gate {
            Some(gate) => gate.open(),
            None => t.dev().release_completions(),
        }
        invalidating.join()??;
        let result = leaving.join()?;
        mr.dereg()?;
        ensure!(waited);
        result?;
        ensure_eq!(t.calls(Point::PutPages)?, 1);
        t.finish()
    }

    #[test]
    fn while_an_invalidation_waits_for_the_device() -> Result {
        while_invalidating(Setup::SEED, false)
    }

    #[test]
    fn while_an_invalidation_puts_the_pages() -> Result {
        while_invalidating(Setup::SEED, true)
    }

    #[test]
    fn while_an_invalidation_under_its_own_mutex_waits_for_the_device() -> Result {
        while_invalidating(Setup::LOCKED, false)
    }

    #[test]
    fn a_device_that_does_not_stop_gets_another_work_request() -> Result {
        let (t, client, mr) = live_dma(Setup::SEED)?;
        t.dev().fail_work_request();
        let result = client.finish();
        mr.dereg()?;
        result?;
        ensure_eq!(t.calls(Point::PostInv)?, 2);
        t.finish()
    }

    #[test]
    fn an_invalidation_afterwards_does_nothing() -> Result {
        let (t, client, mr) = live_dma(Setup::SEED)?;
        let ticket = client.ticket()?;
        client.finish()?;
        ensure_eq!(client.invalidate(ticket)?, 0);
        mr.dereg()?;
        t.finish()
    }

    #[test]
    fn of_one_client_leaves_the_others() -> Result {
        let (t, client, mr) = live_dma(Setup::SEED)?;
        let other = t.client(Setup::SEED)?;
        let other_mr = t.reg(&other, PAGE)?;
        client.finish()?;
        ensure!(other_mr.is_valid() && !mr.is_valid());
        mr.dereg()?;
        other_mr.dereg()?;
        t.finish()
    }
}
