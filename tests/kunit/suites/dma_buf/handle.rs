// SPDX-License-Identifier: GPL-2.0

//! The file descriptor, which the user's other threads see for the time of the import.

use kernel::prelude::*;

#[kunit_tests(peer_mem_dma_buf_handle)]
mod tests {
    use super::super::*;
    use crate::{
        device::is_dma_buf,
        World, //
    };

    #[test]
    fn is_closed() -> Result {
        for kind in PEER2PEER {
            let (bench, client, mr) = live(kind, Setup::SEED)?;
            let open = is_dma_buf(bench.dev().last_import().fd);
            mr.dereg()?;
            ensure!(!open);
            bench.finish(&[&client])?;
        }
        Ok(())
    }

    #[test]
    fn is_open_during_the_import() -> Result {
        // Or the tests that it is closed would show nothing.
        let bench = Bench::importer(Kind::Dynamic)?;
        let client = Client::new(0, "kunit_one", Setup::SEED)?;
        let gate = bench.dev().script.hold(Point::Import)?;
        let (pd, at) = (bench.pd.clone(), client.at(0));
        let registering = Task::spawn(move || pd.reg(at, PAGE, USUAL))?;
        gate.reached()?;
        let open = is_dma_buf(bench.dev().last_import().fd);
        gate.open();
        drop(registering.join()??);
        ensure!(open);
        bench.finish(&[&client])
    }

    #[test]
    fn gives_another_task_nothing_during_the_import() -> Result {
        for kind in PEER2PEER {
            let bench = Bench::importer(kind)?;
            let client = Client::new(0, "kunit_one", fitting(kind, Setup::SEED))?;
            bench.dev().leak(None);
            let gate = bench.dev().script.hold(Point::Import)?;
            let (pd, at) = (bench.pd.clone(), client.at(0));
            let registering = Task::spawn(move || pd.reg(at, PAGE, USUAL))?;
            gate.reached()?;
            let result = bench.dev().leaked().and_then(|l| l.attach(bench.pd.dev()));
            gate.open();
            // It is not in the way of the driver.
            let mr = registering.join()??;
            let state = mr.state()?;
            mr.dereg()?;
            ensure_eq!(result.err(), Some(EPERM));
            ensure!(state.valid && !state.original);
            bench.finish(&[&client])?;
        }
        Ok(())
    }

    #[test]
    fn gives_another_device_nothing() -> Result {
        let bench = Bench::importer(Kind::Dynamic)?;
        let client = Client::new(0, "kunit_one", Setup::SEED)?;
        let other = World::get()?.importer(Kind::Revocable)?;
        bench.dev().leak(Some(&other));
        let mr = bench.pd.reg(client.at(0), PAGE, USUAL)?;
        let result = bench.dev().intruded();
        let state = mr.state()?;
        mr.dereg()?;
        drop(bench.dev().leaked()?);
        ensure_eq!(result.map(|r| r.err()), Some(Some(EPERM)));
        ensure!(state.valid && !state.original);
        bench.finish(&[&client])
    }

    #[test]
    fn gives_nothing_after_the_import() -> Result {
        for kind in PEER2PEER {
            let bench = Bench::importer(kind)?;
            bench.dev().leak(None);
            let client = Client::new(0, "kunit_one", fitting(kind, Setup::SEED))?;
            let mr = bench.pd.reg(client.at(0), PAGE, USUAL)?;
            let leaked = bench.dev().leaked()?;
            let live = leaked.attach(bench.pd.dev());
            if kind != Kind::Pinned {
                client.invalidate_it()?;
            }
            let revoked = leaked.attach(bench.pd.dev());
            mr.dereg()?;
            let gone = leaked.attach(bench.pd.dev());
            // The memory does not wait for whoever keeps the dma-buf.
            undone_once(&client)?;
            drop(leaked);
            ensure_eq!(live.err(), Some(EPERM));
            ensure_eq!(revoked.err(), Some(EPERM));
            ensure_eq!(gone.err(), Some(EPERM));
            bench.finish(&[&client])?;
        }
        Ok(())
    }

    #[test]
    fn gives_nothing_after_an_import_that_failed() -> Result {
        for point in [Point::Import, Point::Imported] {
            let bench = Bench::importer(Kind::Dynamic)?;
            bench.dev().leak(None);
            bench.dev().script.fail(point, ENOSPC);
            let client = Client::new(0, "kunit_one", Setup::SEED)?;
            let mr = bench.pd.reg(client.at(0), PAGE, USUAL);
            let leaked = bench.dev().leaked()?;
            let result = leaked.attach(bench.pd.dev());
            drop(leaked);
            ensure_eq!(mr.err(), Some(ENOSPC));
            ensure_eq!(result.err(), Some(EPERM));
            undone_once(&client)?;
            bench.finish(&[&client])?;
        }
        Ok(())
    }

    #[test]
    fn with_something_else_under_its_number() -> Result {
        for kind in PEER2PEER {
            let bench = Bench::importer(kind)?;
            let client = Client::new(0, "kunit_one", fitting(kind, Setup::SEED))?;
            bench.dev().swap_descriptors();
            let mr = bench.pd.reg(client.at(0), PAGE, USUAL);
            ensure_eq!(mr.err(), Some(EBADF));
            // The driver's MR is on what the user has no right to call this memory.
            ensure_eq!(bench.dev().objects(), (0, 0, 0));
            ensure_eq!(bench.dev().script.calls(Point::DeregMr), 1);
            undone_once(&client)?;
            bench.finish(&[&client])?;
        }
        Ok(())
    }
}
