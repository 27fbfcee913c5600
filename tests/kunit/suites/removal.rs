// SPDX-License-Identifier: GPL-2.0

//! Removal of an RDMA device with MRs on peer memory.

#[kernel::prelude::kunit_tests(peer_mem_removal)]
mod tests {
    use crate::suites::prelude::*;

    #[test]
    fn revokes_a_live_region() -> Result {
        each([Kind::Dma, Kind::Virtual, DYNAMIC, REVOCABLE], |kind| {
            let (t, client, mr) = live_temporary(kind)?;
            t.registered().unregister();
            ensure!(!mr.is_valid());
            let (_, qps, cqs) = t.dev().objects();
            ensure_eq!((qps, cqs), (0, 0));
            ensure!(t.dev().page_fault(mr.key()).is_err());
            ensure_eq!(t.calls(Point::Release)?, 1);
            ensure_eq!(counters::in_use(client.name())?, (0, 0, 0));
            ensure_eq!(counters::get(client.name(), c"num_revocations")?, 1);
            mr.dereg()?;
            unregistration(&client)?.join()??;
            t.finish()
        })
    }

    #[test]
    fn races_deregistration() -> Result {
        let (t, _, mr) = live_temporary(Kind::Dma)?;
        let first = t.held(Point::PutPages, || deregistration(&mr))?;
        first.overlap(Wait::Callers, removal(&t)?)??;
        ensure_eq!(t.calls(Point::Release)?, 1);
        t.finish()
    }

    /// The device fails or holds each work request. The pages stay pinned until the client ends the
    /// region. After each failed fence comes another fence, for 10 s. A slow machine needs more time,
    /// and never less.
    #[test]
    fn ends_with_a_device_that_never_answers() -> Result {
        each([true, false], |fails| {
            let (t, client, mr) = live_temporary(Kind::Dma)?;
            if fails {
                t.fail_always(Point::PostInv, EIO)?;
            } else {
                t.dev().set(|d| d.quiesce = Quiesce::CompleteLater);
            }
            let start = Instant::<Monotonic>::now();
            removal(&t)?.join()??;
            let (stage, released) = (client.stage(), t.calls(Point::Release)?);
            let (_, qps, cqs) = t.dev().objects();
            // Like uverbs, which is notified of the removal after the core.
            mr.dereg()?;
            client.invalidate_last()?;
            ensure!(!fails || start.elapsed() >= Delta::from_secs(10));
            ensure_eq!((stage, released), (Stage::Mapped, 0));
            ensure_eq!((qps, cqs), (0, 0));
            client.finish()?;
            t.finish_undone(&client)
        })
    }

    #[test]
    fn a_device_that_is_registered_after_the_client_is_served() -> Result {
        // The client belongs to the first fixture, the device to the second.
        let earlier = Fixture::new(Kind::Dma)?;
        let client = earlier.client(Setup::SEED)?;
        let t = Fixture::temporary(Kind::Dma)?;
        let mr = t.reg(&client, PAGE)?;
        ensure!(mr.is_served());
        drop(mr);
        t.finish()?;
        earlier.finish()
    }

    #[test]
    fn waits_for_a_registration() -> Result {
        let points = [
            (Kind::Dma, Point::GetPages),
            (DYNAMIC, Point::Imported),
            (REVOCABLE, Point::Imported),
            (PINNED, Point::Imported),
        ];
        each(points, |(kind, point)| {
            let (t, client, mr) = live_temporary(kind)?;
            let registering = || t.registration(&client, 16 * PAGE, PAGE);
            let registering = t.held(point, registering)?;
            let leaving = removal(&t)?;
            let waited = leaving.waits_for(Wait::Callers);
            let other = registering.join()?;
            let bare = until(|| t.registered().is_bare());
            let valid = mr.is_valid() || other.as_ref().is_ok_and(|mr| mr.is_valid());
            drop(other);
            mr.dereg()?;
            leaving.join()??;
            bare?;
            ensure!(waited);
            ensure_eq!(valid, kind == PINNED);
            unregistration(&client)?.join()??;
            ensure_eq!(t.calls(Point::Release)?, 2);
            t.finish()
        })
    }

    #[test]
    fn defers_a_region_that_cannot_be_revoked_to_dereg() -> Result {
        let (t, client, mr) = live_temporary(PINNED)?;
        // ib_core waits for the MR before freeing the device.
        let leaving = bare_removal(&t)?;
        let (valid, stage) = (mr.is_valid(), client.stage());
        let counted = counters::in_use(client.name())?;
        // The device has no interposed operations, so the call goes to the driver directly.
        mr.dereg()?;
        let released = t.calls(Point::Release)?;
        let balanced = counters::in_use(client.name())?;
        leaving.join()?;
        ensure!(valid);
        ensure_eq!(stage, Stage::Mapped);
        ensure_eq!(counted, (1, 4, 4 * PAGE));
        ensure_eq!(released, 1);
        ensure_eq!(balanced, (0, 0, 0));
        t.unregister_and_finish_undone(&client)
    }

    #[test]
    fn defers_it_while_the_driver_deregisters() -> Result {
        let (t, client, mr) = live_temporary(PINNED)?;
        let first = t.held(Point::DeregMr, || deregistration(&mr))?;
        first.overlap(Wait::Region, removal(&t)?)??;
        t.unregister_and_finish_undone(&client)
    }

    /// The end of the client waits instead.
    #[test]
    fn defers_it_while_the_driver_refuses_to_deregister() -> Result {
        each([true, false], |removes| {
            let (t, client, mr) = live_temporary(PINNED)?;
            t.fail(Point::DeregMr, EBUSY)?;
            let deregistering = t.held(Point::DeregMr, || deregistration(&mr))?;
            let end = if removes { REMOVE } else { UNREGISTER };
            let ending = end(&t, &client, &mr)?;
            let waited = ending.waits_for(Wait::Region);
            let refused = deregistering.join()?;
            let later = if removes {
                until(|| t.registered().is_bare()).is_ok()
            } else {
                ending.waits_for(Wait::Retry)
            };
            let valid = mr.is_valid();
            mr.dereg()?;
            ending.join()??;
            ensure!(waited && later && valid);
            ensure_eq!(refused.err(), Some(EBUSY));
            t.unregister_and_finish_undone(&client)
        })
    }

    #[test]
    fn ends_while_the_driver_does_not_deregister() -> Result {
        let (t, client, mr) = live_temporary(PINNED)?;
        t.fail_always(Point::DeregMr, EBUSY)?;
        let leaving = removal(&t)?;
        let refused = mr.dereg();
        leaving.join()??;
        let valid = mr.is_valid();
        t.script(Point::DeregMr)?.fail_always(Point::DeregMr, 0);
        mr.dereg()?;
        ensure_eq!(refused.err(), Some(EBUSY));
        ensure!(valid);
        t.unregister_and_finish_undone(&client)
    }

    #[test]
    fn does_not_wait_for_a_reference_that_the_driver_keeps() -> Result {
        each(PEER2PEER, |kind| {
            let t = Fixture::temporary(kind)?;
            t.dev().set(|d| d.leaks = true);
            let client = t.client(fitting(kind, Setup::SEED))?;
            t.reg(&client, PAGE)?.dereg()?;
            let leaked = t.dev().leaked()?;
            let ended = until(|| counters::in_use(client.name()).is_ok_and(|n| n == (0, 0, 0)));
            removal(&t)?.join()??;
            let late = leaked.attach(t.registered());
            drop(leaked);
            ended?;
            ensure_eq!(late.err(), Some(EPERM));
            t.unregister_and_finish_undone(&client)
        })
    }

    /// The removal or the end of the client begins first.
    #[test]
    fn the_end_of_the_client_waits_for_a_deferred_region() -> Result {
        each([true, false], |removal_first| {
            let (t, client, mr) = live_temporary(PINNED)?;
            let early = removal_first.then(|| bare_removal(&t)).transpose()?;
            let ending = unregistration(&client)?;
            let waited = ending.waits_for(Wait::Retry);
            let leaving = early.map_or_else(|| bare_removal(&t), Ok)?;
            let waited = ending.waits_for(Wait::Retry) && waited;
            let valid = mr.is_valid();
            mr.dereg()?;
            ending.join()??;
            leaving.join()?;
            ensure!(waited && valid);
            t.finish_undone(&client)
        })
    }

    #[test]
    fn the_end_of_the_client_while_the_driver_detaches() -> Result {
        let (t, client, mr) = live_temporary(PINNED)?;
        let leaving = bare_removal(&t)?;
        // The task is held in the client, called by the detach of the driver.
        let first = t.held(Point::PutPages, || deregistration(&mr))?;
        first.overlap(Wait::Region, unregistration(&client)?)??;
        leaving.join()?;
        t.finish_undone(&client)
    }

    type Deferred = (Fixture, Arc<Client>, [Arc<user::Mr>; 2], BareRemoval);

    /// Returns a region with two MRs, and the removal of its device, which has deferred the region.
    fn deferred() -> Result<Deferred> {
        let (t, client, mr) = live_temporary(PINNED)?;
        let new = mr.rereg_only(ACCESS, &t.pd, (0, 0), REMOTE_READ)?;
        let new = Arc::new(new.ok_or(ENOENT)?, GFP_KERNEL)?;
        let leaving = bare_removal(&t)?;
        Ok((t, client, [mr, new], leaving))
    }

    #[test]
    fn a_deferred_region_ends_with_the_last_of_its_mrs() -> Result {
        each([0, 1], |first| {
            let (t, client, mrs, leaving) = deferred()?;
            deregistration(&mrs[first])?.join()??;
            let stage = client.stage();
            deregistration(&mrs[1 - first])?.join()??;
            let released = t.calls(Point::Release)?;
            leaving.join()?;
            ensure_eq!((stage, released), (Stage::Mapped, 1));
            t.unregister_and_finish_undone(&client)
        })
    }

    #[test]
    fn the_mrs_of_a_deferred_region_may_end_at_the_same_time() -> Result {
        each(0..5, |_| {
            let (t, client, [mr, new], leaving) = deferred()?;
            let (one, other) = (deregistration(&mr)?, deregistration(&new)?);
            let ended = (one.join()?, other.join()?);
            let released = t.calls(Point::Release)?;
            leaving.join()?;
            ended.0?;
            ended.1?;
            ensure_eq!(released, 1);
            t.unregister_and_finish_undone(&client)
        })
    }
}
