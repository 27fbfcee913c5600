// SPDX-License-Identifier: GPL-2.0

//! Invalidation during deregistration, and deregistration during invalidation.

use kernel::prelude::*;

#[kunit_tests(peer_mem_races)]
mod tests {
    use crate::suites::prelude::*;

    #[test]
    fn dereg_while_an_invalidation_waits_for_the_device() -> Result {
        let (t, client, mr) = live(Kind::Dma, Setup::SEED)?;
        t.second_waits(|| invalidation(&client), || deregistration(&mr))?;
        t.finish_undone(&client)
    }

    #[test]
    fn dereg_while_an_invalidation_puts_the_pages() -> Result {
        let (t, client, mr) = live(Kind::Dma, Setup::SEED)?;
        let first = t.held(Point::PutPages, || invalidation(&client))?;
        // A region is released only after the pages are put.
        first.overlap(Wait::Region, deregistration(&mr)?)??;
        t.finish_undone(&client)
    }

    #[test]
    fn invalidate_while_the_driver_deregisters() -> Result {
        common::invalidate_during_dereg(Kind::Dma, Setup::SEED)
    }

    #[test]
    fn invalidate_under_its_mutex_while_the_driver_deregisters() -> Result {
        common::invalidate_during_dereg(Kind::Dma, Setup::LOCKED)
    }

    #[test]
    fn invalidate_by_a_client_that_unmaps_itself_while_the_driver_deregisters() -> Result {
        common::invalidate_during_dereg(Kind::Dma, Setup::UNMAPS)
    }

    #[test]
    fn invalidate_while_the_driver_refuses_to_deregister() -> Result {
        common::invalidate_during_a_refused_dereg(Kind::Dma)
    }

    /// Invalidates while a deregistration, past the driver, is held at `point`. The device has
    /// stopped. If the invalidation waited, the wait could be for a lock held by the caller.
    fn returns_at_once(setup: Setup, point: Point) -> Result {
        let (t, client, mr) = live(Kind::Dma, setup)?;
        let leaving = t.held(point, || deregistration(&mr))?;
        invalidation(&client)?.join()??;
        leaving.join()??;
        t.finish_undone(&client)
    }

    #[test]
    fn invalidate_while_dereg_puts_the_pages_returns_at_once() -> Result {
        returns_at_once(Setup::SEED, Point::PutPages)
    }

    #[test]
    fn invalidate_under_the_mutex_that_put_pages_of_dereg_waits_for() -> Result {
        // The task is held before taking the mutex, so that the invalidation takes the mutex first.
        returns_at_once(Setup::LOCKED, Point::PutPages)
    }

    #[test]
    fn invalidate_while_release_runs() -> Result {
        returns_at_once(Setup::SEED, Point::Release)
    }

    #[test]
    fn a_refused_dereg_leaves_it_live() -> Result {
        common::a_refused_dereg_leaves_it_live(Kind::Dma)
    }

    #[test]
    fn a_refused_dereg_of_a_revoked_region() -> Result {
        let (t, client, mr) = live(Kind::Dma, Setup::SEED)?;
        client.invalidate_last()?;
        t.fail(Point::DeregMr, EBUSY)?;
        ensure_eq!(mr.dereg().err(), Some(EBUSY));
        ensure_eq!(t.calls(Point::Release)?, 0);
        t.dereg_and_finish_undone(&mr, &client)
    }

    #[test]
    fn an_mr_that_reuses_the_key_of_one_whose_deregistration_has_not_returned() -> Result {
        let (t, _, mr) = live(Kind::Dma, Setup::SEED)?;
        let key = mr.key();
        t.dev().reuse_mr();
        let first = t.held(Point::Deregistered, || deregistration(&mr))?;
        // On host memory, at the address of the MR that the driver has freed.
        let other = Arc::new(t.pd.reg(0x5000, PAGE, USUAL)?, GFP_KERNEL)?;
        let reused = other.key() == key;
        let putting = t.hold(Point::PutPages)?;
        let second = deregistration(&other)?;
        // The second task does not wait for the first task, which has another region.
        let waited = second.waits_for(Wait::Anything);
        let first = first.let_go();
        let reached = putting.reached();
        let ended = second.join()?;
        let released = t.calls(Point::Release)?;
        putting.open();
        first.join()??;
        reached?;
        ended?;
        ensure!(reused);
        ensure_eq!(released, 0);
        ensure!(!waited);
        t.finish()
    }

    #[test]
    fn many_tasks_many_times() -> Result {
        const ROUNDS: u32 = 150;
        let (t, client) = with_client(Kind::Dma, Setup::SEED)?;
        t.dev().script.slow(Point::PostInv, 1);
        let users = [0u64, 16, 32].map(|page| {
            let (pd, client) = (t.pd.clone(), client.clone());
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
        // Tickets near the last ticket: of live regions, of regions in teardown, or of later
        // regions.
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
        t.finish()
    }
}
