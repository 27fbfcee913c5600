// SPDX-License-Identifier: GPL-2.0

//! Invalidation while the driver imports a dma-buf or deregisters an MR on a dma-buf.

use kernel::prelude::*;

#[kunit_tests(peer_mem_dma_buf_races)]
mod tests {
    use super::super::*;

    /// Invalidates during an import that is held at `point`, and fails then if `fails`.
    fn during(setup: Setup, point: Point, fails: bool) -> Result {
        each(REVOCABLE, |mode| {
            common::invalidate_during_registration(mode, setup, point, fails)
        })
    }

    #[test]
    fn before_the_driver_imports() -> Result {
        each([Setup::SEED, Setup::LOCKED, Setup::UNMAPS], |setup| {
            during(setup, Point::Import, false)
        })
    }

    #[test]
    fn after_the_driver_has_imported() -> Result {
        let setups = [Setup::SEED, Setup::GPU, Setup::LOCKED, Setup::UNMAPS];
        each(setups, |setup| during(setup, Point::Imported, false))
    }

    #[test]
    fn while_the_import_fails() -> Result {
        each([Setup::SEED, Setup::LOCKED, Setup::UNMAPS], |setup| {
            during(setup, Point::Import, true)?;
            during(setup, Point::Imported, true)
        })
    }

    #[test]
    fn dereg_waits_for_it() -> Result {
        each(REVOCABLE, |mode| {
            let (t, client, mr) = live(mode, Setup::SEED)?;
            let first = t.held(Point::Invalidate, || invalidation(&client))?;
            first.overlap(Wait::Region, deregistration(&mr)?)??;
            t.finish_undone(&client)
        })
    }

    #[test]
    fn while_the_driver_deregisters() -> Result {
        each([Setup::SEED, Setup::LOCKED, Setup::UNMAPS], |setup| {
            each(REVOCABLE, |mode| {
                common::invalidate_during_dereg(mode, setup)
            })
        })
    }

    #[test]
    fn while_the_driver_refuses_to_deregister() -> Result {
        each(REVOCABLE, common::invalidate_during_a_refused_dereg)
    }

    #[test]
    fn by_the_end_of_the_client_while_the_driver_imports() -> Result {
        each(REVOCABLE, |mode| {
            let (t, client) = with_client(mode, Setup::SEED)?;
            let first = t.held(Point::Imported, || t.registration(&client, 0, 4 * PAGE))?;
            let mr = first.overlap(Wait::Region, unregistration(&client)?)??;
            ensure!(!mr.is_valid());
            t.dereg_and_finish_undone(&mr, &client)
        })
    }

    #[test]
    fn many_tasks_many_times() -> Result {
        const ROUNDS: u32 = 50;
        each(REVOCABLE, |mode| {
            let (t, client) = with_client(mode, Setup::SEED)?;
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
            t.finish()
        })
    }
}
