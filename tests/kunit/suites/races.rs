// SPDX-License-Identifier: GPL-2.0

//! Invalidation against deregistration, forced to meet.

use kernel::prelude::*;

#[kunit_tests(peer_mem_race)]
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

    fn invalidation(client: &Arc<Client>) -> Result<Task<Result>> {
        let client = client.clone();
        Task::spawn(move || client.invalidate_it())
    }

    /// As the exit of a process: another task than the one that registered.
    fn deregistration(mr: &Arc<user::Mr>) -> Result<Task<Result>> {
        let mr = mr.clone();
        Task::spawn(move || mr.dereg())
    }

    /// Everything was undone once.
    fn undone_once(client: &Client) -> Result {
        let script = client.script()?;
        ensure_eq!(script.calls(Point::DmaUnmap), 1);
        ensure_eq!(script.calls(Point::PutPages), 1);
        ensure_eq!(script.calls(Point::Release), 1);
        Ok(())
    }

    #[test]
    fn dereg_while_the_adapter_is_being_stopped() -> Result {
        let (bench, client, mr) = live(Setup::SEED)?;
        bench.dev().hold_completions();
        let invalidating = invalidation(&client)?;
        let waited = invalidating.is_waiting();
        let leaving = deregistration(&mr)?;
        let waited = leaving.is_waiting() && waited;
        bench.dev().release_completions();
        invalidating.join()??;
        leaving.join()??;
        ensure!(waited);
        undone_once(&client)?;
        bench.finish(&[&client])
    }

    #[test]
    fn dereg_while_an_invalidation_puts_the_pages() -> Result {
        let (bench, client, mr) = live(Setup::SEED)?;
        let gate = client.script()?.hold(Point::PutPages)?;
        let invalidating = invalidation(&client)?;
        gate.reached()?;
        let leaving = deregistration(&mr)?;
        // Released is only what has been put.
        let waited = leaving.is_waiting();
        gate.open();
        invalidating.join()??;
        leaving.join()??;
        ensure!(waited);
        undone_once(&client)?;
        bench.finish(&[&client])
    }

    /// An invalidation that comes while the driver deregisters.
    fn in_the_drivers_dereg(setup: Setup) -> Result<(Bench, Arc<Client>)> {
        let (bench, client, mr) = live(setup)?;
        let gate = bench.dev().script.hold(Point::DeregMr)?;
        let leaving = deregistration(&mr)?;
        gate.reached()?;
        let invalidating = invalidation(&client)?;
        let waited = invalidating.is_waiting();
        gate.open();
        leaving.join()??;
        invalidating.join()??;
        ensure!(waited);
        Ok((bench, client))
    }

    #[test]
    fn invalidate_while_the_driver_deregisters() -> Result {
        let (bench, client) = in_the_drivers_dereg(Setup::SEED)?;
        undone_once(&client)?;
        bench.finish(&[&client])
    }

    #[test]
    fn invalidate_under_its_mutex_while_the_driver_deregisters() -> Result {
        let (bench, client) = in_the_drivers_dereg(Setup::LOCKED)?;
        undone_once(&client)?;
        bench.finish(&[&client])
    }

    #[test]
    fn invalidate_of_what_unmaps_itself_while_the_driver_deregisters() -> Result {
        let (bench, client) = in_the_drivers_dereg(Setup::UNMAPS)?;
        ensure_eq!(client.script()?.calls(Point::Release), 1);
        bench.finish(&[&client])
    }

    #[test]
    fn invalidate_while_the_driver_refuses_to_deregister() -> Result {
        let (bench, client, mr) = live(Setup::SEED)?;
        let gate = bench.dev().script.hold(Point::DeregMr)?;
        bench.dev().script.fail(Point::DeregMr, EBUSY);
        let leaving = deregistration(&mr)?;
        gate.reached()?;
        let invalidating = invalidation(&client)?;
        let waited = invalidating.is_waiting();
        gate.open();
        let refused = leaving.join()?;
        invalidating.join()??;
        ensure!(waited);
        ensure_eq!(refused.err(), Some(EBUSY));
        ensure!(!mr.is_valid());
        ensure_eq!(client.stage()?, Stage::Acquired);
        mr.dereg()?;
        undone_once(&client)?;
        bench.finish(&[&client])
    }

    #[test]
    fn invalidate_while_dereg_puts_the_pages_returns_at_once() -> Result {
        // The adapter is past it; to wait here could be to wait for a lock of the caller's own.
        let (bench, client, mr) = live(Setup::SEED)?;
        let gate = client.script()?.hold(Point::PutPages)?;
        let leaving = deregistration(&mr)?;
        gate.reached()?;
        let returned = invalidation(&client)?.join();
        gate.open();
        leaving.join()??;
        returned??;
        undone_once(&client)?;
        bench.finish(&[&client])
    }

    #[test]
    fn invalidate_under_the_mutex_that_put_pages_of_dereg_waits_for() -> Result {
        let (bench, client, mr) = live(Setup::LOCKED)?;
        // Held up before it takes the mutex; the invalidation takes it meanwhile.
        let gate = client.script()?.hold(Point::PutPages)?;
        let leaving = deregistration(&mr)?;
        gate.reached()?;
        let returned = invalidation(&client)?.join();
        gate.open();
        leaving.join()??;
        returned??;
        undone_once(&client)?;
        bench.finish(&[&client])
    }

    #[test]
    fn invalidate_while_release_runs() -> Result {
        let (bench, client, mr) = live(Setup::SEED)?;
        let gate = client.script()?.hold(Point::Release)?;
        let leaving = deregistration(&mr)?;
        gate.reached()?;
        let returned = invalidation(&client)?.join();
        gate.open();
        leaving.join()??;
        returned??;
        undone_once(&client)?;
        bench.finish(&[&client])
    }

    #[test]
    fn a_refused_dereg_leaves_it_live() -> Result {
        let (bench, client, mr) = live(Setup::SEED)?;
        bench.dev().script.fail(Point::DeregMr, EBUSY);
        ensure_eq!(mr.dereg().err(), Some(EBUSY));
        ensure!(mr.is_valid());
        ensure_eq!(client.stage()?, Stage::Mapped);
        mr.dereg()?;
        undone_once(&client)?;
        bench.finish(&[&client])
    }

    #[test]
    fn a_refused_dereg_of_a_revoked_one() -> Result {
        let (bench, client, mr) = live(Setup::SEED)?;
        client.invalidate_it()?;
        bench.dev().script.fail(Point::DeregMr, EBUSY);
        ensure_eq!(mr.dereg().err(), Some(EBUSY));
        ensure_eq!(client.script()?.calls(Point::Release), 0);
        mr.dereg()?;
        undone_once(&client)?;
        bench.finish(&[&client])
    }

    #[test]
    fn many_tasks_many_times() -> Result {
        const ROUNDS: u32 = 150;
        let bench = Bench::hardware()?;
        let client = Client::new(0, "kunit_one", Setup::SEED)?;
        bench.dev().script.slow(Point::PostInv, 1);
        let users = [0u64, 16, 32].map(|page| {
            let (pd, client) = (bench.pd.clone(), client.clone());
            Task::spawn(move || -> Result {
                for i in 0..ROUNDS {
                    let mr = pd.reg(client.at(page * PAGE), PAGE * u64::from(i % 4 + 1), USUAL)?;
                    let ticket = client.ticket()?;
                    if (i + page as u32) % 3 == 0 {
                        client.invalidate(ticket)?;
                    }
                    mr.dereg()?;
                }
                Ok(())
            })
        });
        let mut seed = 12345u32;
        let mut result = Ok(());
        // Tickets near the last one: live, on their way out, or not there yet.
        while !users
            .iter()
            .all(|t| t.as_ref().map_or(true, |t| t.is_done()))
        {
            seed = seed.wrapping_mul(1664525).wrapping_add(1013904223);
            let near = client.ticket().unwrap_or(1) + u64::from(seed >> 30);
            if client.invalidate(near.saturating_sub(1)) != Ok(0) {
                result = Err(EIO);
            }
            kernel::time::delay::fsleep(kernel::time::Delta::from_micros(500));
        }
        for task in users {
            task?.join()??;
        }
        result?;
        bench.finish(&[&client])
    }
}
