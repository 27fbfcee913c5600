// SPDX-License-Identifier: GPL-2.0

//! The invalidate callback: when it has returned no adapter can touch the memory.

use kernel::prelude::*;

#[kunit_tests(peer_mem_invalidate)]
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

    /// An invalidation in another task.
    fn invalidation(client: &Arc<Client>) -> Result<Task<Result>> {
        let client = client.clone();
        Task::spawn(move || client.invalidate_it())
    }

    /// Revokes a region of a client of that shape, then deregisters it.
    fn revokes(bench: Bench, setup: Setup) -> Result {
        let client = Client::new(0, "kunit_one", setup)?;
        let mr = bench.pd.reg(client.at(0), 4 * PAGE, USUAL)?;
        client.invalidate_it()?;
        ensure!(!mr.is_valid());
        ensure_eq!(client.stage()?, Stage::Acquired);
        ensure_eq!(client.script()?.calls(Point::Release), 0);
        mr.dereg()?;
        ensure_eq!(
            client.script()?.calls(Point::Release),
            if setup.bare { 0 } else { 1 }
        );
        bench.finish(&[&client])
    }

    #[test]
    fn seed_style() -> Result {
        revokes(Bench::hardware()?, Setup::SEED)
    }

    #[test]
    fn seed_style_on_software_rdma() -> Result {
        revokes(Bench::software()?, Setup::SEED)
    }

    #[test]
    fn page_less() -> Result {
        revokes(Bench::hardware()?, Setup::GPU)
    }

    #[test]
    fn a_table_of_the_clients_own() -> Result {
        revokes(Bench::hardware()?, Setup::OWN_TABLE)
    }

    #[test]
    fn self_aligning_in_2_mib() -> Result {
        revokes(Bench::hardware()?, Setup::HUGE)
    }

    #[test]
    fn without_release_and_get_page_size() -> Result {
        revokes(Bench::hardware()?, Setup::BARE)
    }

    #[test]
    fn under_the_mutex_of_its_own_callbacks() -> Result {
        revokes(Bench::hardware()?, Setup::LOCKED)
    }

    #[test]
    fn the_client_that_unmaps_itself() -> Result {
        let (bench, client, mr) = live(Setup::UNMAPS)?;
        client.invalidate_it()?;
        ensure!(!mr.is_valid());
        ensure_eq!(client.script()?.calls(Point::DmaUnmap), 0);
        ensure_eq!(client.script()?.calls(Point::PutPages), 0);
        mr.dereg()?;
        ensure_eq!(client.script()?.calls(Point::PutPages), 0);
        ensure_eq!(client.script()?.calls(Point::Release), 1);
        bench.finish(&[&client])
    }

    #[test]
    fn the_flag_of_a_short_extended_client_is_not_read() -> Result {
        let bench = Bench::hardware()?;
        let setup = Setup {
            unmaps: true,
            ..Setup::SEED
        };
        let client = Client::altered(0, "kunit_one", setup, |ex| {
            ex.ex_size = size_of::<crate::peer::peer_memory_client>();
        })?;
        let mr = bench.pd.reg(client.at(0), PAGE, USUAL)?;
        // As a plain client: the core undoes.
        client.plain();
        client.invalidate_it()?;
        ensure_eq!(client.script()?.calls(Point::PutPages), 1);
        mr.dereg()?;
        bench.finish(&[&client])
    }

    #[test]
    fn twice() -> Result {
        let (bench, client, mr) = live(Setup::SEED)?;
        client.invalidate_it()?;
        client.invalidate_it()?;
        ensure_eq!(client.script()?.calls(Point::PutPages), 1);
        mr.dereg()?;
        bench.finish(&[&client])
    }

    #[test]
    fn with_a_stale_ticket() -> Result {
        let (bench, client, mr) = live(Setup::SEED)?;
        let stale = client.ticket()?;
        mr.dereg()?;
        ensure_eq!(client.invalidate(stale)?, 0);
        // Nor does it mean what came after.
        let next = bench.pd.reg(client.at(0), PAGE, USUAL)?;
        ensure!(client.ticket()? != stale);
        ensure_eq!(client.invalidate(stale)?, 0);
        ensure!(next.is_valid());
        next.dereg()?;
        bench.finish(&[&client])
    }

    #[test]
    fn with_a_made_up_ticket() -> Result {
        let (bench, client, mr) = live(Setup::SEED)?;
        for ticket in [0, 0x7777_7777, u64::from(u32::MAX), client.ticket()? + 1] {
            ensure_eq!(client.invalidate(ticket)?, 0);
        }
        ensure!(mr.is_valid());
        mr.dereg()?;
        bench.finish(&[&client])
    }

    #[test]
    fn only_the_low_half_of_a_ticket_counts() -> Result {
        let (bench, client, mr) = live(Setup::SEED)?;
        ensure_eq!(
            client.invalidate(client.ticket()? | 0xdead_0000_0000_0000)?,
            0
        );
        ensure!(!mr.is_valid());
        mr.dereg()?;
        bench.finish(&[&client])
    }

    #[test]
    fn with_the_handle_of_another_client() -> Result {
        let (bench, client, mr) = live(Setup::SEED)?;
        let other = Client::new(1, "kunit_two", Setup::SEED)?;
        ensure_eq!(other.invalidate(client.ticket()?)?, 0);
        ensure!(mr.is_valid());
        mr.dereg()?;
        bench.finish(&[&client, &other])
    }

    #[test]
    fn of_one_region_leaves_the_others() -> Result {
        let (bench, client, mr) = live(Setup::SEED)?;
        let other = bench.pd.reg(client.at(8 * PAGE), PAGE, USUAL)?;
        client.invalidate_it()?;
        ensure!(mr.is_valid() && !other.is_valid());
        mr.dereg()?;
        other.dereg()?;
        bench.finish(&[&client])
    }

    #[test]
    fn waits_until_the_adapter_has_stopped() -> Result {
        let (bench, client, mr) = live(Setup::SEED)?;
        bench.dev().hold_completions();
        let task = invalidation(&client)?;
        let waited = task.is_waiting();
        let stage = client.stage()?;
        bench.dev().release_completions();
        task.join()??;
        ensure!(waited);
        ensure_eq!(stage, Stage::Mapped);
        mr.dereg()?;
        bench.finish(&[&client])
    }

    #[test]
    fn from_two_threads() -> Result {
        let (bench, client, mr) = live(Setup::SEED)?;
        bench.dev().hold_completions();
        let (one, two) = (invalidation(&client)?, invalidation(&client)?);
        let waited = one.is_waiting() && two.is_waiting();
        bench.dev().release_completions();
        one.join()??;
        two.join()??;
        ensure!(waited);
        ensure_eq!(client.script()?.calls(Point::PutPages), 1);
        ensure_eq!(bench.dev().script.calls(Point::PostInv), 1);
        mr.dereg()?;
        bench.finish(&[&client])
    }

    #[test]
    fn a_second_one_does_not_wait_for_put_pages_of_the_first() -> Result {
        let (bench, client, mr) = live(Setup::SEED)?;
        let gate = client.script()?.hold(Point::PutPages)?;
        let first = invalidation(&client)?;
        let reached = gate.reached();
        let second = invalidation(&client)?;
        let result = second.join();
        gate.open();
        first.join()??;
        reached?;
        result??;
        mr.dereg()?;
        bench.finish(&[&client])
    }

    #[test]
    fn an_adapter_that_does_not_stop_at_once_is_asked_again() -> Result {
        let (bench, client, mr) = live(Setup::SEED)?;
        bench.dev().fail_work_request();
        client.invalidate_it()?;
        ensure_eq!(bench.dev().script.calls(Point::PostInv), 2);
        ensure!(!mr.is_valid());
        mr.dereg()?;
        bench.finish(&[&client])
    }

    #[test]
    fn a_work_request_that_is_not_taken_is_posted_again() -> Result {
        let (bench, client, mr) = live(Setup::SEED)?;
        bench.dev().script.fail(Point::PostInv, ENOMEM);
        client.invalidate_it()?;
        ensure_eq!(bench.dev().script.calls(Point::PostInv), 2);
        mr.dereg()?;
        bench.finish(&[&client])
    }

    /// During a registration that is held up at `point`: waits for its end, then revokes.
    fn during(setup: Setup, point: Point) -> Result {
        let bench = Bench::hardware()?;
        let client = Client::new(0, "kunit_one", setup)?;
        let gate = match point {
            Point::PageSize | Point::DmaMap => client.script()?.hold(point)?,
            _ => bench.dev().script.hold(point)?,
        };
        let (pd, at) = (bench.pd.clone(), client.at(0));
        let registering = Task::spawn(move || pd.reg(at, 4 * PAGE, USUAL))?;
        gate.reached()?;
        let invalidating = invalidation(&client)?;
        let waited = invalidating.is_waiting();
        gate.open();
        let mr = registering.join()??;
        invalidating.join()??;
        ensure!(waited);
        ensure!(!mr.is_valid());
        ensure_eq!(client.stage()?, Stage::Acquired);
        mr.dereg()?;
        bench.finish(&[&client])
    }

    #[test]
    fn during_registration_in_get_page_size() -> Result {
        during(Setup::SEED, Point::PageSize)
    }

    #[test]
    fn during_registration_in_dma_map() -> Result {
        during(Setup::GPU, Point::DmaMap)
    }

    #[test]
    fn during_registration_in_alloc_mr() -> Result {
        during(Setup::SEED, Point::AllocMr)
    }

    #[test]
    fn during_registration_in_create_qp() -> Result {
        during(Setup::SEED, Point::CreateQp)
    }

    #[test]
    fn during_registration_in_the_work_request() -> Result {
        during(Setup::SEED, Point::PostReg)
    }

    #[test]
    fn during_registration_under_the_mutex_of_its_own_callbacks() -> Result {
        during(Setup::LOCKED, Point::AllocMr)
    }

    #[test]
    fn during_registration_by_a_client_that_unmaps_itself() -> Result {
        during(Setup::UNMAPS, Point::PostReg)
    }

    /// During a registration that then fails at `point`.
    fn during_a_failing_one(setup: Setup, point: Point) -> Result {
        let bench = Bench::hardware()?;
        let client = Client::new(0, "kunit_one", setup)?;
        let gate = bench.dev().script.hold(point)?;
        bench.dev().script.fail(point, ENOSPC);
        let (pd, at) = (bench.pd.clone(), client.at(0));
        let registering = Task::spawn(move || pd.reg(at, 4 * PAGE, USUAL).err())?;
        gate.reached()?;
        let invalidating = invalidation(&client)?;
        let waited = invalidating.is_waiting();
        gate.open();
        let error = registering.join()?;
        invalidating.join()??;
        ensure!(waited);
        ensure_eq!(error, Some(ENOSPC));
        ensure_eq!(client.script()?.calls(Point::Release), 1);
        bench.finish(&[&client])
    }

    #[test]
    fn during_registration_that_fails() -> Result {
        during_a_failing_one(Setup::SEED, Point::AllocMr)
    }

    #[test]
    fn during_registration_that_fails_at_its_end() -> Result {
        during_a_failing_one(Setup::SEED, Point::PostReg)
    }

    #[test]
    fn during_registration_that_fails_waits_for_put_pages() -> Result {
        let bench = Bench::hardware()?;
        let client = Client::new(0, "kunit_one", Setup::SEED)?;
        let failing = bench.dev().script.hold(Point::AllocMr)?;
        bench.dev().script.fail(Point::AllocMr, ENOSPC);
        let putting = client.script()?.hold(Point::PutPages)?;
        let (pd, at) = (bench.pd.clone(), client.at(0));
        let registering = Task::spawn(move || pd.reg(at, PAGE, USUAL).err())?;
        failing.reached()?;
        let invalidating = invalidation(&client)?;
        let waited = invalidating.is_waiting();
        failing.open();
        let reached = putting.reached();
        let waited = invalidating.is_waiting() && waited;
        putting.open();
        ensure_eq!(registering.join()?, Some(ENOSPC));
        invalidating.join()??;
        reached?;
        ensure!(waited);
        bench.finish(&[&client])
    }

    #[test]
    fn during_registration_that_fails_under_the_mutex_of_its_own_callbacks() -> Result {
        during_a_failing_one(Setup::LOCKED, Point::AllocMr)
    }

    #[test]
    fn during_registration_that_fails_by_a_client_that_unmaps_itself() -> Result {
        during_a_failing_one(Setup::UNMAPS, Point::AllocMr)
    }
}
