// SPDX-License-Identifier: GPL-2.0

//! Re-registration: an MR on peer memory gets a new one in its place.

use kernel::prelude::*;

#[kunit_tests(peer_mem_rereg)]
mod tests {
    use crate::suites::prelude::*;
    use user::{
        Pd,
        ACCESS,
        PD,
        TRANS, //
    };

    /// A client and an MR on four pages of it.
    fn live() -> Result<(Bench, Arc<Client>, user::Mr)> {
        let bench = Bench::hardware()?;
        let setup = Setup {
            shared: true,
            ..Setup::SEED
        };
        let client = Client::new(0, "kunit_one", setup)?;
        let mr = bench.pd.reg(client.at(0), 4 * PAGE, USUAL)?;
        Ok((bench, client, mr))
    }

    #[test]
    fn with_a_new_range() -> Result {
        let (bench, client, mr) = live()?;
        let range = (client.at(32 * PAGE), 2 * PAGE);
        let new = mr.rereg(TRANS, &bench.pd, range, 0)?.ok_or(ENOENT)?;
        let state = new.state()?;
        ensure!(state.valid);
        ensure_eq!((state.pages, state.access), (2, USUAL as i32));
        ensure_eq!(counters::in_use(client.name())?, (1, 2, 2 * PAGE));
        drop(new);
        bench.finish(&[&client])
    }

    #[test]
    fn with_new_access() -> Result {
        let (bench, client, mr) = live()?;
        let read = user::REMOTE_READ;
        let new = mr.rereg(ACCESS, &bench.pd, (0, 0), read)?.ok_or(ENOENT)?;
        let state = new.state()?;
        ensure_eq!((state.pages, state.access), (4, read as i32));
        ensure_eq!(client.flags()?.1, 0);
        drop(new);
        bench.finish(&[&client])
    }

    #[test]
    fn with_a_new_pd() -> Result {
        let (bench, client, mr) = live()?;
        let pd = Pd::new(bench.pd.dev())?;
        let new = mr.rereg(PD, &pd, (0, 0), 0)?.ok_or(ENOENT)?;
        ensure!(new.is_valid());
        // The new one's, and its queue pair's.
        ensure_eq!((bench.pd.users(), pd.users()), (0, 2));
        drop(new);
        drop(pd);
        bench.finish(&[&client])
    }

    #[test]
    fn the_new_one_can_be_invalidated() -> Result {
        let (bench, client, mr) = live()?;
        let range = (client.at(32 * PAGE), 2 * PAGE);
        let new = mr.rereg(TRANS, &bench.pd, range, 0)?.ok_or(ENOENT)?;
        client.invalidate_it()?;
        ensure!(!new.is_valid());
        drop(new);
        bench.finish(&[&client])
    }

    #[test]
    fn one_that_fails_leaves_the_old() -> Result {
        let (bench, client, mr) = live()?;
        bench.dev().script.fail(Point::AllocMr, ENOSPC);
        let range = (client.at(32 * PAGE), 2 * PAGE);
        ensure_eq!(mr.rereg(TRANS, &bench.pd, range, 0).err(), Some(ENOSPC));
        ensure!(mr.is_valid());
        drop(mr);
        bench.finish(&[&client])
    }

    #[test]
    fn of_a_revoked_one_to_new_memory() -> Result {
        let (bench, client, mr) = live()?;
        client.invalidate_it()?;
        let range = (client.at(32 * PAGE), 2 * PAGE);
        let new = mr.rereg(TRANS, &bench.pd, range, 0)?.ok_or(ENOENT)?;
        ensure!(new.is_valid());
        drop(new);
        bench.finish(&[&client])
    }

    #[test]
    fn from_host_to_peer_memory() -> Result {
        let bench = Bench::hardware()?;
        let client = Client::new(0, "kunit_one", Setup::SEED)?;
        let mr = bench.pd.reg(0x5000, PAGE, USUAL)?;
        let range = (client.at(0), 2 * PAGE);
        let new = mr
            .rereg(TRANS | ACCESS, &bench.pd, range, USUAL)?
            .ok_or(ENOENT)?;
        let state = new.state()?;
        ensure!(state.valid && !state.original);
        drop(new);
        bench.finish(&[&client])
    }

    #[test]
    fn from_peer_to_host_memory_is_registered_by_the_driver() -> Result {
        let (bench, client, mr) = live()?;
        let new = mr
            .rereg(TRANS, &bench.pd, (0x5000, PAGE), 0)?
            .ok_or(ENOENT)?;
        let args = bench.dev().last_original();
        ensure_eq!((args.start, args.length), (0x5000, PAGE));
        ensure_eq!(args.access, USUAL as i32);
        ensure!(new.state()?.original);
        ensure!(!mr.is_alive());
        drop(new);
        bench.finish(&[&client])
    }

    #[test]
    fn from_peer_to_host_memory_that_the_driver_refuses() -> Result {
        let (bench, client, mr) = live()?;
        bench.dev().script.fail(Point::RegUserMr, EFAULT);
        let new = mr.rereg(TRANS, &bench.pd, (0x5000, PAGE), 0);
        ensure_eq!(new.err(), Some(EFAULT));
        ensure!(mr.is_valid());
        drop(mr);
        bench.finish(&[&client])
    }

    #[test]
    fn from_host_to_peer_memory_with_the_access_it_had_is_the_drivers() -> Result {
        let bench = Bench::hardware()?;
        let client = Client::new(0, "kunit_one", Setup::SEED)?;
        let mr = bench.pd.reg(0x5000, PAGE, USUAL)?;
        let asked = client.script()?.calls(Point::Acquire);
        let range = (client.at(0), PAGE);
        ensure!(mr.rereg(TRANS, &bench.pd, range, 0)?.is_none());
        ensure_eq!(client.script()?.calls(Point::Acquire), asked);
        drop(mr);
        bench.finish(&[&client])
    }

    #[test]
    fn of_host_memory_goes_to_the_driver() -> Result {
        let bench = Bench::hardware()?;
        let client = Client::new(0, "kunit_one", Setup::SEED)?;
        let mr = bench.pd.reg(0x5000, PAGE, USUAL)?;
        ensure!(mr.rereg(ACCESS, &bench.pd, (0, 0), USUAL)?.is_none());
        ensure!(mr.rereg(TRANS, &bench.pd, (0x9000, 77), 0)?.is_none());
        let args = bench.dev().last_original();
        ensure_eq!((args.start, args.length), (0x9000, 77));
        drop(mr);
        bench.finish(&[&client])
    }
}
