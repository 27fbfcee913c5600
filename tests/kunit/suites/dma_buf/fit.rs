// SPDX-License-Identifier: GPL-2.0

//! Which clients are served by devices that do not let go of a dma-buf, or that take no memory
//! without struct pages.

use kernel::prelude::*;

#[kunit_tests(peer_mem_dma_buf_fit)]
mod tests {
    use super::super::*;
    use crate::World;

    /// On a device of the test's own, of which nothing is known yet.
    fn fresh(kind: Kind) -> Result<Bench> {
        Bench::on(World::get()?.guest(kind)?)
    }

    /// Registers memory of a client that the device cannot serve: it is the driver's own then.
    fn passed_over(bench: &Bench, client: &Client) -> Result {
        let mr = bench.pd.reg(client.at(0), 4 * PAGE, USUAL)?;
        let original = mr.state()?.original;
        mr.dereg()?;
        ensure!(original);
        Ok(())
    }

    #[test]
    fn what_must_be_taken_back_is_not_given_to_one_that_keeps_it() -> Result {
        for setup in [Setup::SEED, Setup::GPU, Setup::OWN_TABLE, Setup::LOCKED] {
            let bench = fresh(Kind::Pinned)?;
            let client = Client::new(0, "kunit_one", setup)?;
            passed_over(&bench, &client)?;
            undone_once(&client)?;
            ensure_eq!(bench.dev().script.calls(Point::RegUserMr), 1);
            // From now on that is known.
            passed_over(&bench, &client)?;
            ensure_eq!(client.script()?.calls(Point::Acquire), 1);
            ensure_eq!(bench.dev().script.calls(Point::Import), 1);
            bench.finish(&[&client])?;
        }
        Ok(())
    }

    #[test]
    fn what_was_seen_of_another_client_is_known() -> Result {
        let bench = fresh(Kind::Pinned)?;
        let first = Client::new(1, "kunit_persistent", Setup::PERSISTENT)?;
        let mr = bench.pd.reg(first.at(0), PAGE, USUAL)?;
        let valid = mr.is_valid();
        mr.dereg()?;
        ensure!(valid);
        let client = Client::new(0, "kunit_one", Setup::SEED)?;
        passed_over(&bench, &client)?;
        ensure_eq!(client.script()?.calls(Point::Acquire), 0);
        bench.finish(&[&first, &client])
    }

    #[test]
    fn whoever_comes_next_may_serve_it() -> Result {
        let bench = fresh(Kind::Pinned)?;
        let first = Client::new(0, "kunit_first", Setup::SEED)?;
        let setup = Setup {
            place: Some(0),
            ..Setup::PERSISTENT
        };
        let second = Client::new(1, "kunit_second", setup)?;
        let mr = bench.pd.reg(first.at(0), PAGE, USUAL)?;
        let state = mr.state()?;
        mr.dereg()?;
        ensure!(state.valid && !state.original);
        undone_once(&first)?;
        undone_once(&second)?;
        bench.finish(&[&first, &second])
    }

    #[test]
    fn an_invalidation_while_it_is_refused_returns() -> Result {
        let bench = fresh(Kind::Pinned)?;
        let client = Client::new(0, "kunit_one", Setup::SEED)?;
        let gate = bench.dev().script.hold(Point::Import)?;
        let (pd, at) = (bench.pd.clone(), client.at(0));
        let registering = Task::spawn(move || pd.reg(at, PAGE, USUAL))?;
        gate.reached()?;
        let invalidating = invalidation(&client)?;
        let waited = invalidating.is_waiting();
        gate.open();
        let mr = registering.join()??;
        invalidating.join()??;
        let original = mr.state()?.original;
        mr.dereg()?;
        ensure!(waited);
        ensure!(original);
        undone_once(&client)?;
        bench.finish(&[&client])
    }

    #[test]
    fn what_need_not_be_taken_back_is_given() -> Result {
        for setup in [Setup::SEED, Setup::GPU, Setup::OWN_TABLE, Setup::HUGE] {
            let (bench, client, mr) = live(Kind::Pinned, setup)?;
            mr.dereg()?;
            undone_once(&client)?;
            bench.finish(&[&client])?;
        }
        Ok(())
    }

    #[test]
    fn the_end_of_its_client_waits_for_dereg() -> Result {
        let (bench, client, mr) = live(Kind::Pinned, Setup::SEED)?;
        let leaving = unregistration(&client)?;
        let waited = leaving.is_waiting();
        let (valid, stage) = (mr.is_valid(), client.stage()?);
        mr.dereg()?;
        leaving.join()??;
        ensure!(waited && valid);
        ensure_eq!(stage, Stage::Mapped);
        undone_once(&client)?;
        bench.finish(&[])
    }

    #[test]
    fn the_end_of_its_client_while_the_driver_deregisters() -> Result {
        let (bench, client, mr) = live(Kind::Pinned, Setup::SEED)?;
        let gate = bench.dev().script.hold(Point::DeregMr)?;
        let deregistering = deregistration(&mr)?;
        let reached = gate.reached();
        let leaving = unregistration(&client)?;
        let waited = leaving.is_waiting();
        gate.open();
        deregistering.join()??;
        leaving.join()??;
        reached?;
        ensure!(waited);
        undone_once(&client)?;
        bench.finish(&[])
    }

    #[test]
    fn the_end_of_its_client_while_the_driver_refuses_to_deregister() -> Result {
        let (bench, client, mr) = live(Kind::Pinned, Setup::SEED)?;
        let gate = bench.dev().script.hold(Point::DeregMr)?;
        bench.dev().script.fail(Point::DeregMr, EBUSY);
        let deregistering = deregistration(&mr)?;
        let reached = gate.reached();
        let leaving = unregistration(&client)?;
        let waited = leaving.is_waiting();
        gate.open();
        let refused = deregistering.join()?;
        let waited = leaving.is_waiting() && waited;
        let valid = mr.is_valid();
        mr.dereg()?;
        leaving.join()??;
        reached?;
        ensure!(waited && valid);
        ensure_eq!(refused.err(), Some(EBUSY));
        undone_once(&client)?;
        bench.finish(&[])
    }

    #[test]
    fn memory_without_pages_is_not_given_to_one_that_takes_none() -> Result {
        for setup in [Setup::GPU, Setup::OWN_TABLE] {
            let bench = Bench::importer(Kind::Local)?;
            let client = Client::new(0, "kunit_one", setup)?;
            passed_over(&bench, &client)?;
            undone_once(&client)?;
            ensure_eq!(bench.dev().script.calls(Point::RegUserMr), 1);
            bench.finish(&[&client])?;
        }
        Ok(())
    }

    #[test]
    fn memory_with_pages_is() -> Result {
        for setup in [Setup::SEED, Setup::HUGE, Setup::LOCKED, Setup::PERSISTENT] {
            let (bench, client, mr) = live(Kind::Local, setup)?;
            mr.dereg()?;
            undone_once(&client)?;
            bench.finish(&[&client])?;
        }
        Ok(())
    }

    #[test]
    fn refusing_one_client_says_nothing_about_the_next() -> Result {
        let bench = Bench::importer(Kind::Local)?;
        let gpu = Client::new(0, "kunit_gpu", Setup::GPU)?;
        let seed = Client::new(1, "kunit_seed", Setup::SEED)?;
        passed_over(&bench, &gpu)?;
        let mr = bench.pd.reg(seed.at(0), PAGE, USUAL)?;
        let valid = mr.is_valid();
        seed.invalidate_it()?;
        let revoked = !mr.is_valid();
        mr.dereg()?;
        ensure!(valid && revoked);
        bench.finish(&[&gpu, &seed])
    }
}
