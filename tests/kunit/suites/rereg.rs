// SPDX-License-Identifier: GPL-2.0

//! Re-registration of MRs on peer memory: a new MR replaces the old MR.

#[kernel::prelude::kunit_tests(peer_mem_rereg)]
mod tests {
    use crate::{
        ext::base::compat::eopnotsupp,
        suites::prelude::*, //
    };

    #[test]
    fn with_a_new_range() -> Result {
        each([Kind::Dma, DYNAMIC, REVOCABLE, PINNED], |kind| {
            each([false, true], |revoked| {
                let (t, client, mr) = live(kind, Setup::SHARED)?;
                if revoked && kind != PINNED {
                    client.invalidate_last()?;
                }
                let range = (client.at(32 * PAGE + 3), 2 * PAGE);
                let new = mr.rereg(TRANS, &t.pd, range, 0)?.ok_or(ENOENT)?;
                let state = new.state()?;
                ensure!(state.valid);
                ensure_eq!((state.pages, state.access), (3, USUAL as i32));
                ensure_eq!(counters::in_use(client.name())?, (1, 3, 2 * PAGE));
                if kind != PINNED {
                    client.invalidate_last()?;
                    ensure!(!new.is_valid());
                }
                t.drop_and_finish(new)
            })
        })
    }

    /// With a new range, or without.
    #[test]
    fn a_failure_leaves_the_old_mr() -> Result {
        let points = [
            (Kind::Dma, Point::AllocMr),
            (Kind::Dma, Point::PostReg),
            (DYNAMIC, Point::Import),
            (DYNAMIC, Point::Imported),
        ];
        each(points, |(kind, point)| {
            each(
                [(TRANS, Setup::SHARED), (ACCESS, Setup::SEED)],
                |(flags, setup)| {
                    let (t, client, mr) = live(kind, setup)?;
                    t.fail(point, ENOSPC)?;
                    let range = (client.at(32 * PAGE), 2 * PAGE);
                    let new = mr.rereg(flags, &t.pd, range, REMOTE_READ);
                    ensure_eq!(new.err(), Some(ENOSPC));
                    ensure_eq!(mr.state()?.access, USUAL as i32);
                    ensure!(mr.is_valid());
                    if flags == TRANS {
                        return t.dereg_and_finish(&mr);
                    }
                    client.invalidate_last()?;
                    ensure!(!mr.is_valid());
                    t.dereg_and_finish_undone(&mr, &client)
                },
            )
        })
    }

    #[test]
    fn a_driver_that_pins_by_now_leaves_the_old_mr() -> Result {
        let (t, client, mr) = live_on(Fixture::temporary(DYNAMIC)?, Setup::SHARED)?;
        t.dev().set(|d| d.mode = Some(Mode::Pinned));
        let new = mr.rereg(ACCESS, &t.pd, (0, 0), REMOTE_READ);
        ensure!(is_unsupported(&new) && mr.is_valid());
        mr.dereg()?;
        ensure_eq!(client.script().calls(Point::Acquire), 1);
        t.finish_undone(&client)
    }

    #[test]
    fn from_host_to_peer_memory() -> Result {
        let (t, client) = with_client(Kind::Dma, Setup::SEED)?;
        let mr = t.pd.reg(0x5000, PAGE, USUAL)?;
        let range = (client.at(0), 2 * PAGE);
        let new = mr
            .rereg(TRANS | ACCESS, &t.pd, range, USUAL)?
            .ok_or(ENOENT)?;
        let state = new.state()?;
        ensure!(state.valid && !state.original);
        t.drop_and_finish(new)
    }

    #[test]
    fn from_peer_to_host_memory_is_registered_by_the_driver() -> Result {
        let (t, _, mr) = live(Kind::Dma, Setup::SHARED)?;
        // The driver may refuse.
        t.fail(Point::RegUserMr, EFAULT)?;
        let refused = mr.rereg(TRANS, &t.pd, (0x5000, PAGE), 0);
        ensure_eq!(refused.err(), Some(EFAULT));
        ensure!(mr.is_valid());
        let new = mr.rereg(TRANS, &t.pd, (0x5000, PAGE), 0)?.ok_or(ENOENT)?;
        let args = t.dev().last_original();
        ensure_eq!((args.start, args.length), (0x5000, PAGE));
        ensure_eq!(args.access, USUAL as i32);
        ensure!(new.state()?.original);
        ensure!(!mr.is_alive());
        t.drop_and_finish(new)
    }

    #[test]
    fn from_host_to_peer_memory_without_access_flags() -> Result {
        let (t, client) = with_client(Kind::Dma, Setup::SEED)?;
        let mr = t.pd.reg(0x5000, PAGE, USUAL)?;
        let refused = |addr| mr.rereg(TRANS, &t.pd, (addr, PAGE), 0).err();
        ensure_eq!(refused(client.at(0)), Some(eopnotsupp()));
        ensure_eq!(client.script().calls(Point::GetPages), 0);
        // Not of a client.
        t.fail(Point::ReregUserMr, EFAULT)?;
        ensure_eq!(refused(0x9000), Some(EFAULT));
        t.drop_and_finish(mr)
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
        t.drop_and_finish(mr)
    }

    /// The driver could pin the memory now, but is not asked either.
    #[test]
    fn without_a_range_asks_no_client() -> Result {
        each([Kind::Dma, Kind::Virtual, DYNAMIC, PINNED], |kind| {
            let (t, client, mr) = live(kind, Setup::SEED)?;
            t.dev().set(|d| d.pins_all = true);
            let points = [
                Point::Acquire,
                Point::GetPages,
                Point::DmaMap,
                Point::PutPages,
            ];
            let pins = t.calls(Point::RegUserMr)?;
            let calls = || points.map(|point| client.script().calls(point));
            let (before, place) = (calls(), mr.state()?);
            let one = mr.rereg(ACCESS, &t.pd, (0, 0), REMOTE_READ)?;
            let one = one.ok_or(ENOENT)?;
            let pd = Pd::new(t.registered())?;
            let two = one.rereg(PD, &pd, (0, 0), 0)?.ok_or(ENOENT)?;
            let state = two.state()?;
            ensure!(state.valid && !state.original);
            ensure_eq!((state.lo, state.hi), (place.lo, place.hi));
            ensure_eq!((state.pages, state.access), (4, REMOTE_READ as i32));
            ensure_eq!((calls(), t.calls(Point::RegUserMr)?), (before, pins));
            ensure_eq!(counters::in_use(client.name())?, (1, 4, 4 * PAGE));
            // The MR, and the queue pair of fast registration.
            let imports = matches!(kind, Kind::Importer(_));
            ensure_eq!((t.pd.users(), pd.users()), (0, if imports { 1 } else { 2 }));
            drop(two);
            drop(pd);
            undone_once_if_mapped(&client, kind)?;
            t.finish()
        })
    }

    /// Checks that the teardown ran once. Software RDMA has nothing to unmap.
    fn undone_once_if_mapped(client: &Client, kind: Kind) -> Result {
        if kind != Kind::Virtual {
            undone_once(client)?;
        }
        ensure_eq!(client.script().calls(Point::PutPages), 1);
        ensure_eq!(client.script().calls(Point::Release), 1);
        Ok(())
    }

    #[test]
    fn without_a_range_of_a_revoked_mr_is_refused() -> Result {
        each([Kind::Dma, Kind::Virtual, DYNAMIC], |kind| {
            let (t, client, mr) = live(kind, Setup::SEED)?;
            client.invalidate_last()?;
            for (flags, access) in [(ACCESS, REMOTE_READ), (PD, 0)] {
                let new = mr.rereg(flags, &t.pd, (0, 0), access);
                ensure_eq!(new.err(), Some(ENODEV));
            }
            ensure_eq!(client.script().calls(Point::Acquire), 1);
            mr.dereg()?;
            undone_once_if_mapped(&client, kind)?;
            t.finish()
        })
    }

    #[test]
    fn memory_that_is_pinned_for_reading_does_not_become_writable() -> Result {
        each([Kind::Dma, DYNAMIC], |kind| {
            let (t, client) = with_client(kind, Setup::SEED)?;
            let mr = t.pd.reg(client.at(0), PAGE, REMOTE_READ)?;
            ensure_eq!(mr.rereg(ACCESS, &t.pd, (0, 0), USUAL).err(), Some(EACCES));
            ensure_eq!(mr.state()?.access, REMOTE_READ as i32);
            // With a range the memory is pinned anew.
            let range = (client.at(8 * PAGE), PAGE);
            let new = mr.rereg(TRANS | ACCESS, &t.pd, range, USUAL)?;
            ensure_eq!(client.flags().1, 1);
            t.drop_and_finish(new)
        })
    }

    #[test]
    fn an_invalidation_waits_for_it_and_revokes_the_new_mr() -> Result {
        let dma_buf = (DYNAMIC, Point::Import);
        each([(Kind::Dma, Point::AllocMr), dma_buf], |(kind, point)| {
            let (t, client, mr) = live(kind, Setup::LOCKED)?;
            let (old, pd) = (mr.clone(), t.pd.clone());
            let change = move || old.rereg(ACCESS, &pd, (0, 0), REMOTE_READ);
            let first = t.held(point, || Task::spawn(change))?;
            let new = first.overlap(Wait::Region, invalidation(&client)?)?;
            let new = new?.ok_or(ENOENT)?;
            ensure!(!new.is_valid());
            t.dereg_and_finish_undone(&new, &client)
        })
    }

    /// The driver does not deregister the old MR, so both MRs are on the memory.
    fn both(kind: Kind) -> Result<(Fixture, Arc<Client>, Arc<user::Mr>, user::Mr)> {
        let (t, client, mr) = live(kind, Setup::SEED)?;
        let new = mr.rereg_only(ACCESS, &t.pd, (0, 0), REMOTE_READ)?;
        let new = new.ok_or(ENOENT)?;
        ensure!(mr.is_valid() && new.is_valid());
        Ok((t, client, mr, new))
    }

    #[test]
    fn the_memory_stays_until_both_mrs_are_gone() -> Result {
        let kinds = [Kind::Dma, DYNAMIC, PINNED];
        each(kinds, |kind| {
            each([false, true], |new_first| {
                let (t, client, mr, new) = both(kind)?;
                let again = mr.rereg(ACCESS, &t.pd, (0, 0), REMOTE_READ);
                ensure_eq!(again.err(), Some(EBUSY));
                let (first, last) = if new_first {
                    (&new, &*mr)
                } else {
                    (&*mr, &new)
                };
                first.dereg()?;
                ensure!(last.is_valid());
                ensure_eq!(client.stage(), Stage::Mapped);
                t.dereg_and_finish_undone(last, &client)
            })
        })
    }

    #[test]
    fn an_invalidation_revokes_both_mrs() -> Result {
        each([Kind::Dma, DYNAMIC], |kind| {
            let (t, client, mr, new) = both(kind)?;
            client.invalidate_last()?;
            ensure!(!mr.is_valid() && !new.is_valid());
            mr.dereg()?;
            ensure_eq!(client.script().calls(Point::Release), 0);
            t.dereg_and_finish_undone(&new, &client)
        })
    }

    #[test]
    fn a_refused_deregistration_of_the_old_mr_leaves_it() -> Result {
        each([Kind::Dma, DYNAMIC], |kind| {
            let (t, client, mr) = live(kind, Setup::SEED)?;
            t.fail(Point::DeregMr, EBUSY)?;
            let new = mr.rereg(ACCESS, &t.pd, (0, 0), REMOTE_READ);
            ensure_eq!(new.err(), Some(EBUSY));
            ensure!(mr.is_valid());
            client.invalidate_last()?;
            ensure!(!mr.is_valid());
            t.dereg_and_finish_undone(&mr, &client)
        })
    }
}
