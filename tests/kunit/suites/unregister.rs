// SPDX-License-Identifier: GPL-2.0

//! Unregistering a client that has regions: when it has returned no callback runs and none will.

use kernel::prelude::*;

#[kunit_tests(peer_mem_unregister)]
mod tests {
    use crate::suites::prelude::*;

    /// A client and an MR on four pages of it.
    fn live(setup: Setup) -> Result<(Bench, Arc<Client>, Arc<user::Mr>)> {
        let bench = Bench::hardware()?;
        let client = Client::new(0, "kunit_one", setup)?;
        let mr = bench.pd.reg(client.at(0), 4 * PAGE, USUAL)?;
        let mr = Arc::new(mr, GFP_KERNEL)?;
        Ok((bench, client, mr))
    }

    /// Unregisters in another task.
    fn unregistration(client: &Arc<Client>) -> Result<Task<Result>> {
        let client = client.clone();
        Task::spawn(move || client.finish())
    }

    /// With a live region: it is revoked, its owner keeps a dead MR.
    fn with_a_live_region(setup: Setup) -> Result {
        let (bench, client, mr) = live(setup)?;
        let result = client.finish();
        let valid = mr.is_valid();
        mr.dereg()?;
        result?;
        ensure!(!valid);
        bench.finish(&[&client])
    }

    #[test]
    fn with_a_live_region_of_the_seed_style() -> Result {
        with_a_live_region(Setup::SEED)
    }

    #[test]
    fn with_a_live_page_less_region() -> Result {
        with_a_live_region(Setup::GPU)
    }

    #[test]
    fn with_a_live_region_of_one_with_its_own_table() -> Result {
        with_a_live_region(Setup::OWN_TABLE)
    }

    #[test]
    fn with_a_live_region_without_release() -> Result {
        with_a_live_region(Setup::BARE)
    }

    #[test]
    fn with_a_live_region_of_one_that_unmaps_itself() -> Result {
        with_a_live_region(Setup::UNMAPS)
    }

    #[test]
    fn with_a_live_region_of_a_persistent_client() -> Result {
        with_a_live_region(Setup::PERSISTENT)
    }

    #[test]
    fn with_live_regions_on_both_devices() -> Result {
        let (bench, client, mr) = live(Setup::SEED)?;
        let other = Bench::software()?;
        let other_mr = other.pd.reg(client.at(8 * PAGE), PAGE, USUAL)?;
        let result = client.finish();
        let valid = mr.is_valid() || other_mr.is_valid();
        mr.dereg()?;
        other_mr.dereg()?;
        result?;
        ensure!(!valid);
        other.finish(&[])?;
        bench.finish(&[&client])
    }

    #[test]
    fn with_many_live_regions() -> Result {
        let (bench, client, mr) = live(Setup::SEED)?;
        let mut mrs = KVec::new();
        for i in 1..10 {
            mrs.push(
                bench.pd.reg(client.at(i * 4 * PAGE), PAGE, USUAL)?,
                GFP_KERNEL,
            )?;
        }
        let result = client.finish();
        let valid = mr.is_valid() || mrs.iter().any(|m| m.is_valid());
        drop(mrs);
        mr.dereg()?;
        result?;
        ensure!(!valid);
        bench.finish(&[&client])
    }

    #[test]
    fn with_a_revoked_region() -> Result {
        let (bench, client, mr) = live(Setup::SEED)?;
        client.invalidate_it()?;
        let result = client.finish();
        mr.dereg()?;
        result?;
        ensure_eq!(client.script()?.calls(Point::PutPages), 1);
        bench.finish(&[&client])
    }

    #[test]
    fn the_dead_mr_is_the_drivers_to_deregister() -> Result {
        let (bench, client, mr) = live(Setup::SEED)?;
        client.finish()?;
        bench.dev().script.fail(Point::DeregMr, EBUSY);
        ensure_eq!(mr.dereg().err(), Some(EBUSY));
        mr.dereg()?;
        bench.finish(&[])
    }

    #[test]
    fn afterwards_its_range_goes_to_the_driver() -> Result {
        let (bench, client, mr) = live(Setup::SEED)?;
        client.finish()?;
        mr.dereg()?;
        let mr = bench.pd.reg(client.at(0), PAGE, USUAL)?;
        ensure!(mr.state()?.original);
        drop(mr);
        bench.finish(&[])
    }

    /// While a registration is held up at `point`; the registration's result.
    fn half_made(setup: Setup, point: Point, fails: bool) -> Result<Option<Error>> {
        let bench = Bench::hardware()?;
        let client = Client::new(0, "kunit_one", setup)?;
        let at_client = matches!(point, Point::Acquire | Point::GetPages | Point::DmaMap);
        let script = if at_client || point == Point::PutPages {
            client.script()?
        } else {
            &bench.dev().script
        };
        let gate = script.hold(point)?;
        match (fails, point) {
            (true, Point::PutPages) => bench.dev().script.fail(Point::AllocMr, ENOSPC),
            (true, _) => script.fail(point, ENOSPC),
            (false, _) => (),
        }
        let (pd, at) = (bench.pd.clone(), client.at(0));
        let registering = Task::spawn(move || pd.reg(at, 4 * PAGE, USUAL))?;
        gate.reached()?;
        let leaving = unregistration(&client)?;
        let waited = leaving.is_waiting();
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
        bench.finish(&[&client])?;
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

    /// While a deregistration is held up at `point`.
    fn while_dereg(setup: Setup, point: Point) -> Result {
        let (bench, client, mr) = live(setup)?;
        let gate = match point {
            Point::DeregMr => bench.dev().script.hold(point)?,
            _ => client.script()?.hold(point)?,
        };
        let (mr2, client2) = (mr.clone(), client.clone());
        let deregistering = Task::spawn(move || mr2.dereg())?;
        gate.reached()?;
        let leaving = Task::spawn(move || client2.finish())?;
        let waited = leaving.is_waiting();
        gate.open();
        deregistering.join()??;
        let result = leaving.join()?;
        ensure!(waited);
        result?;
        ensure_eq!(client.script()?.calls(Point::PutPages), 1);
        ensure_eq!(client.script()?.calls(Point::Release), 1);
        bench.finish(&[&client])
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

    /// While an invalidation is at work on the adapter, or puts the pages.
    fn while_invalidating(setup: Setup, in_put_pages: bool) -> Result {
        let (bench, client, mr) = live(setup)?;
        let gate = if in_put_pages {
            Some(client.script()?.hold(Point::PutPages)?)
        } else {
            bench.dev().hold_completions();
            None
        };
        let other = client.clone();
        let invalidating = Task::spawn(move || other.invalidate_it())?;
        let waited = match &gate {
            Some(gate) => gate.reached().is_ok(),
            None => invalidating.is_waiting(),
        };
        let leaving = unregistration(&client)?;
        let waited = leaving.is_waiting() && waited;
        match gate {
            Some(gate) => gate.open(),
            None => bench.dev().release_completions(),
        }
        invalidating.join()??;
        let result = leaving.join()?;
        mr.dereg()?;
        ensure!(waited);
        result?;
        ensure_eq!(client.script()?.calls(Point::PutPages), 1);
        bench.finish(&[&client])
    }

    #[test]
    fn while_the_adapter_is_being_stopped() -> Result {
        while_invalidating(Setup::SEED, false)
    }

    #[test]
    fn while_an_invalidation_puts_the_pages() -> Result {
        while_invalidating(Setup::SEED, true)
    }

    #[test]
    fn while_it_invalidates_under_its_own_mutex() -> Result {
        while_invalidating(Setup::LOCKED, false)
    }

    #[test]
    fn an_adapter_that_does_not_stop_at_once_is_asked_again() -> Result {
        let (bench, client, mr) = live(Setup::SEED)?;
        bench.dev().fail_work_request();
        let result = client.finish();
        mr.dereg()?;
        result?;
        ensure_eq!(bench.dev().script.calls(Point::PostInv), 2);
        bench.finish(&[])
    }

    #[test]
    fn an_invalidation_afterwards_does_nothing() -> Result {
        let (bench, client, mr) = live(Setup::SEED)?;
        let ticket = client.ticket()?;
        client.finish()?;
        ensure_eq!(client.invalidate(ticket)?, 0);
        mr.dereg()?;
        bench.finish(&[])
    }

    #[test]
    fn of_one_client_leaves_the_others() -> Result {
        let (bench, client, mr) = live(Setup::SEED)?;
        let other = Client::new(1, "kunit_two", Setup::SEED)?;
        let other_mr = bench.pd.reg(other.at(0), PAGE, USUAL)?;
        client.finish()?;
        ensure!(other_mr.is_valid() && !mr.is_valid());
        mr.dereg()?;
        other_mr.dereg()?;
        bench.finish(&[&other])
    }
}
