// SPDX-License-Identifier: GPL-2.0

//! Taking memory away while the driver imports it or lets go of it.

use kernel::prelude::*;

#[kunit_tests(peer_mem_dma_buf_race)]
mod tests {
    use super::super::*;

    /// During an import that is held up at `point`, and fails then where `fails` says so.
    fn during(setup: Setup, point: Point, fails: bool) -> Result {
        for kind in FENCED {
            let bench = Bench::importer(kind)?;
            let client = Client::new(0, "kunit_one", setup)?;
            let gate = bench.dev().script.hold(point)?;
            if fails {
                bench.dev().script.fail(point, ENOSPC);
            }
            let (pd, at) = (bench.pd.clone(), client.at(0));
            let registering = Task::spawn(move || pd.reg(at, 4 * PAGE, USUAL))?;
            gate.reached()?;
            let invalidating = invalidation(&client)?;
            let waited = invalidating.is_waiting();
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
            ensure_eq!(bench.dev().objects(), (0, 0, 0));
            ensure_eq!(client.script()?.calls(Point::Release), 1);
            bench.finish(&[&client])?;
        }
        Ok(())
    }

    #[test]
    fn while_the_driver_is_about_to_import() -> Result {
        for setup in [Setup::SEED, Setup::LOCKED, Setup::UNMAPS] {
            during(setup, Point::Import, false)?;
        }
        Ok(())
    }

    #[test]
    fn while_the_driver_has_imported() -> Result {
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
        for kind in FENCED {
            let (bench, client, mr) = live(kind, Setup::SEED)?;
            let gate = bench.dev().script.hold(Point::Invalidate)?;
            let invalidating = invalidation(&client)?;
            let reached = gate.reached();
            let leaving = deregistration(&mr)?;
            let waited = leaving.is_waiting();
            gate.open();
            invalidating.join()??;
            leaving.join()??;
            reached?;
            ensure!(waited);
            undone_once(&client)?;
            bench.finish(&[&client])?;
        }
        Ok(())
    }

    #[test]
    fn while_the_driver_deregisters() -> Result {
        for setup in [Setup::SEED, Setup::LOCKED, Setup::UNMAPS] {
            for kind in FENCED {
                let (bench, client, mr) = live(kind, setup)?;
                let gate = bench.dev().script.hold(Point::DeregMr)?;
                let leaving = deregistration(&mr)?;
                let reached = gate.reached();
                let invalidating = invalidation(&client)?;
                let waited = invalidating.is_waiting();
                gate.open();
                leaving.join()??;
                invalidating.join()??;
                reached?;
                ensure!(waited);
                ensure_eq!(client.script()?.calls(Point::Release), 1);
                bench.finish(&[&client])?;
            }
        }
        Ok(())
    }

    #[test]
    fn while_the_driver_refuses_to_deregister() -> Result {
        for kind in FENCED {
            let (bench, client, mr) = live(kind, Setup::SEED)?;
            let gate = bench.dev().script.hold(Point::DeregMr)?;
            bench.dev().script.fail(Point::DeregMr, EBUSY);
            let leaving = deregistration(&mr)?;
            let reached = gate.reached();
            let invalidating = invalidation(&client)?;
            let waited = invalidating.is_waiting();
            gate.open();
            let refused = leaving.join()?;
            invalidating.join()??;
            reached?;
            ensure!(waited);
            ensure_eq!(refused.err(), Some(EBUSY));
            ensure!(!mr.is_valid());
            mr.dereg()?;
            undone_once(&client)?;
            bench.finish(&[&client])?;
        }
        Ok(())
    }

    #[test]
    fn by_the_end_of_the_client_while_the_driver_imports() -> Result {
        for kind in FENCED {
            let bench = Bench::importer(kind)?;
            let client = Client::new(0, "kunit_one", Setup::SEED)?;
            let gate = bench.dev().script.hold(Point::Imported)?;
            let (pd, at) = (bench.pd.clone(), client.at(0));
            let registering = Task::spawn(move || pd.reg(at, 4 * PAGE, USUAL))?;
            gate.reached()?;
            let leaving = unregistration(&client)?;
            let waited = leaving.is_waiting();
            gate.open();
            let mr = registering.join()??;
            let result = leaving.join()?;
            let valid = mr.is_valid();
            mr.dereg()?;
            result?;
            ensure!(waited);
            ensure!(!valid);
            undone_once(&client)?;
            bench.finish(&[&client])?;
        }
        Ok(())
    }

    #[test]
    fn many_tasks_many_times() -> Result {
        const ROUNDS: u32 = 50;
        for kind in FENCED {
            let bench = Bench::importer(kind)?;
            let client = Client::new(0, "kunit_one", Setup::SEED)?;
            bench.dev().script.slow(Point::Invalidate, 1);
            let users = [0u64, 16, 32].map(|page| {
                let (pd, client) = (bench.pd.clone(), client.clone());
                Task::spawn(move || -> Result {
                    for i in 0..ROUNDS {
                        let len = PAGE * u64::from(i % 4 + 1);
                        let mr = pd.reg(client.at(page * PAGE), len, USUAL)?;
                        // Any one's: its own, or one that is on its way in or out.
                        client.invalidate(client.ticket()?)?;
                        mr.dereg()?;
                    }
                    Ok(())
                })
            });
            for task in users {
                task?.join()??;
            }
            bench.finish(&[&client])?;
        }
        Ok(())
    }
}
