// SPDX-License-Identifier: GPL-2.0

//! Invalidation while the driver imports a dma-buf or deregisters an MR on a dma-buf.

use kernel::prelude::*;

#[kunit_tests(peer_mem_dma_buf_races)]
mod tests {
    use super::super::*;

    /// Invalidates during an import that is held at `point`, and fails then if `fails`.
    fn during(setup: Setup, point: Point, fails: bool) -> Result {
        for mode in REVOCABLE {
            let t = Fixture::new(mode)?;
            let client = t.client(setup)?;
            let gate = t.hold(point)?;
            if fails {
                t.fail(point, ENOSPC)?;
            }
            let registering = t.registration(&client, 0, 4 * PAGE)?;
            gate.reached()?;
            let invalidating = invalidation(&client)?;
            let waited = invalidating.waits_for(Wait::Region);
            gate.open();
            let mr = registering.join()?;
            invalidating.join()??;
            ensure!(waited);
            ensure_eq!(mr.as_ref().err().copied(), fails.then_some(ENOSPC));
            if let Ok(mr) = mr {
                let valid = mr.is_valid();
                mr.dereg()?;
                ensure!(!valid);
            }
            ensure_eq!(t.dev().objects(), (0, 0, 0));
            ensure_eq!(t.calls(Point::Release)?, 1);
            t.finish()?;
        }
        Ok(())
    }

    #[test]
    fn before_the_driver_imports() -> Result {
        for setup in [Setup::SEED, Setup::LOCKED, Setup::UNMAPS] {
            during(setup, Point::Import, false)?;
        }
        Ok(())
    }

    #[test]
    fn after_the_driver_has_imported() -> Result {
        for setup in [Setup::SEED, Setup::GPU, Setup::LOCKED, Setup::UNMAPS] {
            during(setup, Point::Imported, false)?;
        }
        Ok(())
    }

    #[test]
    fn while_the_import_fails() -> Result {
        for point in [Point::Import, Point::Imported] {
            for setup in [Setup::SEED, Setup::LOCKED, Setup::UNMAPS] {
                during(setup, point, true)?;
            }
        }
        Ok(())
    }

    #[test]
    fn dereg_waits_for_it() -> Result {
        for mode in REVOCABLE {
            let (t, client, mr) = live(mode, Setup::SEED)?;
            let both = t.overlap(
                Point::Invalidate,
                || invalidation(&client),
                || deregistration(&mr),
            )?;
            both.check()?;
            undone_once(&client)?;
            t.finish()?;
        }
        Ok(())
    }

    #[test]
    fn while_the_driver_deregisters() -> Result {
        for setup in [Setup::SEED, Setup::LOCKED, Setup::UNMAPS] {
            for mode in REVOCABLE {
                let (t, client, mr) = live(mode, setup)?;
                let both = t.overlap(
                    Point::DeregMr,
                    || deregistration(&mr),
                    || invalidation(&client),
                )?;
                both.check()?;
                ensure_eq!(t.calls(Point::Release)?, 1);
                t.finish()?;
            }
        }
        Ok(())
    }

    #[test]
    fn while_the_driver_refuses_to_deregister() -> Result {
        for mode in REVOCABLE {
            let (t, client, mr) = live(mode, Setup::SEED)?;
            t.fail(Point::DeregMr, EBUSY)?;
            let both = t.overlap(
                Point::DeregMr,
                || deregistration(&mr),
                || invalidation(&client),
            )?;
            both.second?;
            ensure!(both.waited);
            ensure_eq!(both.first.err(), Some(EBUSY));
            ensure!(!mr.is_valid());
            mr.dereg()?;
            undone_once(&client)?;
            t.finish()?;
        }
        Ok(())
    }

    #[test]
    fn by_the_end_of_the_client_while_the_driver_imports() -> Result {
        for mode in REVOCABLE {
            let t = Fixture::new(mode)?;
            let client = t.client(Setup::SEED)?;
            let gate = t.hold(Point::Imported)?;
            let registering = t.registration(&client, 0, 4 * PAGE)?;
            gate.reached()?;
            let leaving = unregistration(&client)?;
            let waited = leaving.waits_for(Wait::Region);
            gate.open();
            let mr = registering.join()??;
            let result = leaving.join()?;
            let valid = mr.is_valid();
            mr.dereg()?;
            result?;
            ensure!(waited);
            ensure!(!valid);
            undone_once(&client)?;
            t.finish()?;
        }
        Ok(())
    }

    #[test]
    fn many_tasks_many_times() -> Result {
        const ROUNDS: u32 = 50;
        for mode in REVOCABLE {
            let t = Fixture::new(mode)?;
            let client = t.client(Setup::SEED)?;
            t.dev().script.slow(Point::Invalidate, 1);
            let users = [0u64, 16, 32].map(|page| {
                let (pd, client) = (t.pd.clone(), client.clone());
                Task::spawn(move || -> Result {
                    for i in 0..ROUNDS {
                        let len = PAGE * u64::from(i % 4 + 1);
                        let mr = pd.reg(client.at(page * PAGE), len, USUAL)?;
                        // The ticket of any task: of a region in registration, live, or in teardown.
                        client.invalidate(client.ticket()?)?;
                        mr.dereg()?;
                    }
                    Ok(())
                })
            });
            for task in users {
                task?.join()??;
            }
            t.finish()?;
        }
        Ok(())
    }
}
