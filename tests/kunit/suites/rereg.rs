// SPDX-License-Identifier: GPL-2.0

//! Re-registration of MRs on peer memory: a new MR replaces the old one.

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

    /// Returns a client that allows two regions on the same memory, with a live region.
    fn live_shared() -> Result<(Fixture, Arc<Client>, Arc<user::Mr>)> {
        let setup = Setup {
            shared: true,
            ..Setup::SEED
        };
        live(Kind::Dma, setup)
    }

    #[test]
    fn with_a_new_range() -> Result {
        let (t, client, mr) = live_shared()?;
        let range = (client.at(32 * PAGE), 2 * PAGE);
        let new = mr.rereg(TRANS, &t.pd, range, 0)?.ok_or(ENOENT)?;
        let state = new.state()?;
        ensure!(state.valid);
        ensure_eq!((state.pages, state.access), (2, USUAL as i32));
        ensure_eq!(counters::in_use(client.name())?, (1, 2, 2 * PAGE));
        drop(new);
        t.finish()
    }

    #[test]
    fn with_new_access() -> Result {
        let (t, client, mr) = live_shared()?;
        let read = user::REMOTE_READ;
        let new = mr.rereg(ACCESS, &t.pd, (0, 0), read)?.ok_or(ENOENT)?;
        let state = new.state()?;
        ensure_eq!((state.pages, state.access), (4, read as i32));
        ensure_eq!(client.flags().1, 0);
        drop(new);
        t.finish()
    }

    #[test]
    fn with_a_new_pd() -> Result {
        let (t, _, mr) = live_shared()?;
        let pd = Pd::new(t.registered())?;
        let new = mr.rereg(PD, &pd, (0, 0), 0)?.ok_or(ENOENT)?;
        ensure!(new.is_valid());
        // The new MR and its queue pair.
        ensure_eq!((t.pd.users(), pd.users()), (0, 2));
        drop(new);
        drop(pd);
        t.finish()
    }

    #[test]
    fn the_new_mr_can_be_invalidated() -> Result {
        let (t, client, mr) = live_shared()?;
        let range = (client.at(32 * PAGE), 2 * PAGE);
        let new = mr.rereg(TRANS, &t.pd, range, 0)?.ok_or(ENOENT)?;
        client.invalidate_last()?;
        ensure!(!new.is_valid());
        drop(new);
        t.finish()
    }

    #[test]
    fn a_failure_leaves_the_old_mr() -> Result {
        let (t, client, mr) = live_shared()?;
        t.fail(Point::AllocMr, ENOSPC)?;
        let range = (client.at(32 * PAGE), 2 * PAGE);
        ensure_eq!(mr.rereg(TRANS, &t.pd, range, 0).err(), Some(ENOSPC));
        ensure!(mr.is_valid());
        drop(mr);
        t.finish()
    }

    #[test]
    fn of_a_revoked_mr_to_new_memory() -> Result {
        let (t, client, mr) = live_shared()?;
        client.invalidate_last()?;
        let range = (client.at(32 * PAGE), 2 * PAGE);
        let new = mr.rereg(TRANS, &t.pd, range, 0)?.ok_or(ENOENT)?;
        ensure!(new.is_valid());
        drop(new);
        t.finish()
    }

    #[test]
    fn from_host_to_peer_memory() -> Result {
        let t = Fixture::new(Kind::Dma)?;
        let client = t.client(Setup::SEED)?;
        let mr = t.pd.reg(0x5000, PAGE, USUAL)?;
        let range = (client.at(0), 2 * PAGE);
        let new = mr
            .rereg(TRANS | ACCESS, &t.pd, range, USUAL)?
            .ok_or(ENOENT)?;
        let state = new.state()?;
        ensure!(state.valid && !state.original);
        drop(new);
        t.finish()
    }

    #[test]
    fn from_peer_to_host_memory_is_registered_by_the_driver() -> Result {
        let (t, _, mr) = live_shared()?;
        let new = mr.rereg(TRANS, &t.pd, (0x5000, PAGE), 0)?.ok_or(ENOENT)?;
        let args = t.dev().last_original();
        ensure_eq!((args.start, args.length), (0x5000, PAGE));
        ensure_eq!(args.access, USUAL as i32);
        ensure!(new.state()?.original);
        ensure!(!mr.is_alive());
        drop(new);
        t.finish()
    }

    #[test]
    fn from_peer_to_host_memory_that_the_driver_refuses() -> Result {
        let (t, _, mr) = live_shared()?;
        t.fail(Point::RegUserMr, EFAULT)?;
        let new = mr.rereg(TRANS, &t.pd, (0x5000, PAGE), 0);
        ensure_eq!(new.err(), Some(EFAULT));
        ensure!(mr.is_valid());
        drop(mr);
        t.finish()
    }

    #[test]
    fn from_host_to_peer_memory_with_the_same_access_is_refused_by_the_driver() -> Result {
        let t = Fixture::new(Kind::Dma)?;
        let client = t.client(Setup::SEED)?;
        let mr = t.pd.reg(0x5000, PAGE, USUAL)?;
        let before = client.script().calls(Point::Acquire);
        let range = (client.at(0), PAGE);
        ensure_eq!(mr.rereg(TRANS, &t.pd, range, 0).err(), Some(EFAULT));
        ensure_eq!(client.script().calls(Point::Acquire), before);
        drop(mr);
        t.finish()
    }

    #[test]
    fn of_host_memory_falls_through_to_the_driver() -> Result {
        let t = Fixture::new(Kind::Dma)?;
        t.client(Setup::SEED)?;
        let mr = t.pd.reg(0x5000, PAGE, USUAL)?;
        ensure!(mr.rereg(ACCESS, &t.pd, (0, 0), USUAL)?.is_none());
        ensure!(mr.rereg(TRANS, &t.pd, (0x9000, 77), 0)?.is_none());
        let args = t.dev().last_original();
        ensure_eq!((args.start, args.length), (0x9000, 77));
        drop(mr);
        t.finish()
    }
}
