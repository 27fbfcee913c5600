// SPDX-License-Identifier: GPL-2.0

//! A device that imports dma-bufs goes while its MRs are on peer memory.

use kernel::prelude::*;

#[kunit_tests(peer_mem_dma_buf_removal)]
mod tests {
    use super::super::*;
    use crate::{
        device::{
            Late,
            Registered, //
        },
        sync::until,
        World, //
    };

    /// On a device of the test's own: a client, and an MR on four pages of it.
    fn guest(kind: Kind) -> Result<(Bench, Arc<Client>, Arc<user::Mr>)> {
        let bench = Bench::on(World::get()?.guest(kind)?)?;
        live_on(bench, fitting(kind, Setup::SEED))
    }

    /// Takes it away in another task.
    fn removal(dev: &Arc<Registered>) -> Result<Task<()>> {
        let dev = dev.clone();
        Task::spawn(move || dev.unregister())
    }

    /// Ends the client in another task, as the test must not get stuck with it, then the rest.
    fn finish(bench: Bench, client: &Arc<Client>) -> Result {
        unregistration(client)?.join()??;
        undone_once(client)?;
        bench.finish(&[])
    }

    #[test]
    fn revokes_what_is_live() -> Result {
        for kind in FENCED {
            let (bench, client, mr) = guest(kind)?;
            bench.pd.dev().unregister();
            let valid = mr.is_valid();
            let released = client.script()?.calls(Point::Release);
            let counted = counters::in_use(client.name())?;
            let faulted = bench.dev().page_fault(mr.key());
            mr.dereg()?;
            ensure!(!valid);
            ensure!(faulted.is_err());
            ensure_eq!(released, 1);
            ensure_eq!(counted, (0, 0, 0));
            finish(bench, &client)?;
        }
        Ok(())
    }

    #[test]
    fn waits_for_an_adapter_that_is_late() -> Result {
        for late in [Late::Unmap, Late::Fence] {
            let (bench, client, mr) = guest(Kind::Dynamic)?;
            bench.dev().be_late(late);
            let leaving = removal(bench.pd.dev())?;
            let invalidated = until(|| bench.dev().script.calls(Point::Invalidate) > 0);
            let waited = leaving.is_waiting();
            bench.dev().catch_up();
            leaving.join()?;
            mr.dereg()?;
            invalidated?;
            ensure!(waited);
            finish(bench, &client)?;
        }
        Ok(())
    }

    #[test]
    fn waits_for_an_import() -> Result {
        for kind in PEER2PEER {
            let (bench, client, mr) = guest(kind)?;
            let gate = bench.dev().script.hold(Point::Imported)?;
            let (pd, at) = (bench.pd.clone(), client.at(16 * PAGE));
            let registering = Task::spawn(move || pd.reg(at, PAGE, USUAL))?;
            gate.reached()?;
            let leaving = removal(bench.pd.dev())?;
            let waited = leaving.is_waiting();
            gate.open();
            let other = registering.join()?;
            let bare = until(|| bench.pd.dev().is_bare());
            let valid = mr.is_valid() || other.as_ref().is_ok_and(|mr| mr.is_valid());
            drop(other);
            mr.dereg()?;
            leaving.join()?;
            bare?;
            ensure!(waited);
            ensure_eq!(valid, kind == Kind::Pinned);
            unregistration(&client)?.join()??;
            ensure_eq!(client.script()?.calls(Point::Release), 2);
            bench.finish(&[])?;
        }
        Ok(())
    }

    #[test]
    fn leaves_what_cannot_be_revoked_to_the_driver() -> Result {
        let (bench, client, mr) = guest(Kind::Pinned)?;
        // The device itself goes when nobody uses it any more.
        let leaving = removal(bench.pd.dev())?;
        let bare = until(|| bench.pd.dev().is_bare());
        let (valid, stage) = (mr.is_valid(), client.stage()?);
        let counted = counters::in_use(client.name())?;
        // No function of ours is in the device: this is the driver's alone.
        mr.dereg()?;
        let released = client.script()?.calls(Point::Release);
        let balanced = counters::in_use(client.name())?;
        leaving.join()?;
        bare?;
        ensure!(valid);
        ensure_eq!(stage, Stage::Mapped);
        ensure_eq!(counted, (1, 4, 4 * PAGE));
        ensure_eq!(released, 1);
        ensure_eq!(balanced, (0, 0, 0));
        finish(bench, &client)
    }

    #[test]
    fn leaves_it_while_the_driver_deregisters() -> Result {
        let (bench, client, mr) = guest(Kind::Pinned)?;
        let gate = bench.dev().script.hold(Point::DeregMr)?;
        let deregistering = deregistration(&mr)?;
        let reached = gate.reached();
        let leaving = removal(bench.pd.dev())?;
        let waited = leaving.is_waiting();
        gate.open();
        deregistering.join()??;
        leaving.join()?;
        reached?;
        ensure!(waited);
        finish(bench, &client)
    }

    #[test]
    fn leaves_it_while_the_driver_refuses_to_deregister() -> Result {
        let (bench, client, mr) = guest(Kind::Pinned)?;
        let gate = bench.dev().script.hold(Point::DeregMr)?;
        bench.dev().script.fail(Point::DeregMr, EBUSY);
        let deregistering = deregistration(&mr)?;
        let reached = gate.reached();
        let leaving = removal(bench.pd.dev())?;
        let waited = leaving.is_waiting();
        gate.open();
        let refused = deregistering.join()?;
        let bare = until(|| bench.pd.dev().is_bare());
        let valid = mr.is_valid();
        mr.dereg()?;
        leaving.join()?;
        reached?;
        bare?;
        ensure!(waited && valid);
        ensure_eq!(refused.err(), Some(EBUSY));
        finish(bench, &client)
    }

    #[test]
    fn the_end_of_the_client_waits_for_what_was_left() -> Result {
        let (bench, client, mr) = guest(Kind::Pinned)?;
        let leaving = removal(bench.pd.dev())?;
        let bare = until(|| bench.pd.dev().is_bare());
        let ending = unregistration(&client)?;
        let waited = ending.is_waiting();
        mr.dereg()?;
        ending.join()??;
        leaving.join()?;
        bare?;
        ensure!(waited);
        undone_once(&client)?;
        bench.finish(&[])
    }

    #[test]
    fn races_the_end_of_the_client() -> Result {
        let (bench, client, mr) = guest(Kind::Pinned)?;
        let ending = unregistration(&client)?;
        let waited = ending.is_waiting();
        let leaving = removal(bench.pd.dev())?;
        let bare = until(|| bench.pd.dev().is_bare());
        let waited = ending.is_waiting() && waited;
        let valid = mr.is_valid();
        mr.dereg()?;
        ending.join()??;
        leaving.join()?;
        bare?;
        ensure!(waited && valid);
        undone_once(&client)?;
        bench.finish(&[])
    }

    #[test]
    fn the_end_of_the_client_while_the_driver_lets_go() -> Result {
        let (bench, client, mr) = guest(Kind::Pinned)?;
        let leaving = removal(bench.pd.dev())?;
        let bare = until(|| bench.pd.dev().is_bare());
        // The driver's detaching has come to the client.
        let gate = client.script()?.hold(Point::PutPages)?;
        let deregistering = deregistration(&mr)?;
        let reached = gate.reached();
        let ending = unregistration(&client)?;
        let waited = ending.is_waiting();
        gate.open();
        deregistering.join()??;
        ending.join()??;
        leaving.join()?;
        bare?;
        reached?;
        ensure!(waited);
        undone_once(&client)?;
        bench.finish(&[])
    }
}
