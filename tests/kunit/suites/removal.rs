// SPDX-License-Identifier: GPL-2.0

//! An RDMA device that goes while its MRs are on peer memory.

use kernel::prelude::*;

#[kunit_tests(peer_mem_removal)]
mod tests {
    use crate::{
        device::{
            Kind,
            Registered, //
        },
        suites::prelude::*,
        World, //
    };

    /// On a device of the test's own: a client, and an MR on four pages of it.
    fn live(kind: Kind) -> Result<(Bench, Arc<Client>, Arc<user::Mr>)> {
        let bench = Bench::on(World::get()?.guest(kind)?)?;
        let client = Client::new(0, "kunit_one", Setup::SEED)?;
        let mr = bench.pd.reg(client.at(0), 4 * PAGE, USUAL)?;
        let mr = Arc::new(mr, GFP_KERNEL)?;
        Ok((bench, client, mr))
    }

    /// Takes it away in another task.
    fn removal(dev: &Arc<Registered>) -> Result<Task<()>> {
        let dev = dev.clone();
        Task::spawn(move || dev.unregister())
    }

    /// Revokes what is live; the MR is then the driver's alone.
    fn revokes(kind: Kind) -> Result {
        let (bench, client, mr) = live(kind)?;
        bench.pd.dev().unregister();
        let valid = mr.is_valid();
        let (_, qps, cqs) = bench.dev().objects();
        let released = client.script()?.calls(Point::Release);
        mr.dereg()?;
        ensure!(!valid);
        ensure_eq!((qps, cqs), (0, 0));
        ensure_eq!(released, 1);
        bench.finish(&[&client])
    }

    #[test]
    fn revokes_what_is_live() -> Result {
        revokes(Kind::Dma)
    }

    #[test]
    fn revokes_what_is_live_on_software_rdma() -> Result {
        revokes(Kind::Virtual)
    }

    #[test]
    fn leaves_what_is_revoked() -> Result {
        let (bench, client, mr) = live(Kind::Dma)?;
        client.invalidate_it()?;
        bench.pd.dev().unregister();
        mr.dereg()?;
        ensure_eq!(client.script()?.calls(Point::PutPages), 1);
        bench.finish(&[&client])
    }

    #[test]
    fn waits_for_a_registration() -> Result {
        let (bench, client, mr) = live(Kind::Dma)?;
        let gate = client.script()?.hold(Point::GetPages)?;
        let (pd, at) = (bench.pd.clone(), client.at(16 * PAGE));
        let registering = Task::spawn(move || pd.reg(at, PAGE, USUAL))?;
        gate.reached()?;
        let leaving = removal(bench.pd.dev())?;
        let waited = leaving.is_waiting();
        gate.open();
        let other = registering.join()?;
        leaving.join()?;
        let valid = mr.is_valid() || other.as_ref().is_ok_and(|mr| mr.is_valid());
        drop(other);
        mr.dereg()?;
        ensure!(waited);
        ensure!(!valid);
        bench.finish(&[&client])
    }

    #[test]
    fn races_invalidation() -> Result {
        let (bench, client, mr) = live(Kind::Dma)?;
        bench.dev().hold_completions();
        let other = client.clone();
        let invalidating = Task::spawn(move || other.invalidate_it())?;
        let waited = invalidating.is_waiting();
        let leaving = removal(bench.pd.dev())?;
        let waited = leaving.is_waiting() && waited;
        bench.dev().release_completions();
        invalidating.join()??;
        leaving.join()?;
        mr.dereg()?;
        ensure!(waited);
        ensure_eq!(client.script()?.calls(Point::PutPages), 1);
        bench.finish(&[&client])
    }

    #[test]
    fn races_deregistration() -> Result {
        let (bench, client, mr) = live(Kind::Dma)?;
        let gate = client.script()?.hold(Point::PutPages)?;
        let other = mr.clone();
        let deregistering = Task::spawn(move || other.dereg())?;
        gate.reached()?;
        let leaving = removal(bench.pd.dev())?;
        let waited = leaving.is_waiting();
        gate.open();
        deregistering.join()??;
        leaving.join()?;
        ensure!(waited);
        ensure_eq!(client.script()?.calls(Point::Release), 1);
        bench.finish(&[&client])
    }

    #[test]
    fn races_unregistration_of_the_client() -> Result {
        let (bench, client, mr) = live(Kind::Dma)?;
        bench.dev().hold_completions();
        let other = client.clone();
        let unregistering = Task::spawn(move || other.finish())?;
        let waited = unregistering.is_waiting();
        let leaving = removal(bench.pd.dev())?;
        let waited = leaving.is_waiting() && waited;
        bench.dev().release_completions();
        let result = unregistering.join()?;
        leaving.join()?;
        mr.dereg()?;
        ensure!(waited);
        result?;
        ensure_eq!(client.script()?.calls(Point::PutPages), 1);
        bench.finish(&[])
    }

    #[test]
    fn an_adapter_that_does_not_stop_at_once_is_asked_again() -> Result {
        let (bench, client, mr) = live(Kind::Dma)?;
        bench.dev().fail_work_request();
        bench.pd.dev().unregister();
        let valid = mr.is_valid();
        mr.dereg()?;
        ensure!(!valid);
        bench.finish(&[&client])
    }

    #[test]
    fn a_device_that_comes_after_the_client_is_served() -> Result {
        let client = Client::new(0, "kunit_one", Setup::SEED)?;
        let bench = Bench::on(World::get()?.guest(Kind::Dma)?)?;
        let mr = bench.pd.reg(client.at(0), PAGE, USUAL)?;
        let state = mr.state()?;
        drop(mr);
        ensure!(state.valid && !state.original);
        bench.finish(&[&client])
    }
}
