// SPDX-License-Identifier: GPL-2.0

//! Invalidation: once the callback has returned, no device can access the memory.

#[kernel::prelude::kunit_tests(peer_mem_invalidate)]
mod tests {
    use crate::{
        client,
        suites::prelude::*, //
    };
    use core::cell::OnceCell;

    /// Invalidates a region of such a client, then deregisters the MR.
    fn revokes(kind: Kind, setup: Setup) -> Result {
        let (t, client, mr) = live(kind, setup)?;
        client.invalidate_last()?;
        ensure!(!mr.is_valid());
        ensure_eq!(client.stage(), Stage::Acquired);
        let puts = u32::from(!setup.unmaps);
        let unmaps = if kind == Kind::Virtual { 0 } else { puts };
        let calls = || -> Result<_> { Ok((t.calls(Point::DmaUnmap)?, t.calls(Point::PutPages)?)) };
        ensure_eq!(calls()?, (unmaps, puts));
        ensure_eq!(t.calls(Point::Release)?, 0);
        mr.dereg()?;
        ensure_eq!(calls()?, (unmaps, puts));
        ensure_eq!(t.calls(Point::Release)?, u32::from(!setup.bare));
        let imports = u32::from(DMA_BUFS.contains(&kind));
        ensure_eq!(t.calls(Point::Invalidate)?, imports);
        t.finish()
    }

    #[test]
    fn of_each_shape() -> Result {
        revokes(Kind::Virtual, Setup::SEED)?;
        each(FENCED, |kind| {
            each(Setup::ALL_REVOCABLE, |setup| revokes(kind, setup))
        })
    }

    /// rdma_rxe may copy with a key looked up before the invalidation.
    #[test]
    fn on_software_rdma_waits_for_copies_before_it_puts_the_pages() -> Result {
        let (t, client, mr) = live(Kind::Virtual, Setup::SEED)?;
        let waits = Waits::for_software()?;
        let (posting, putting) = (t.hold(Point::PostInv)?, t.hold(Point::PutPages)?);
        let invalidating = invalidation(&client)?;
        posting.reached()?;
        let before = waits.count();
        posting.open();
        putting.reached()?;
        let after = waits.count();
        putting.open();
        invalidating.join()??;
        mr.dereg()?;
        ensure_eq!((before, after), (0, 1));
        t.finish()
    }

    #[test]
    fn the_flag_of_a_short_extended_client_is_not_read() -> Result {
        let t = Fixture::new(Kind::Dma)?;
        let client = t.altered(Setup::UNMAPS, |ex| {
            ex.ex_size = size_of::<crate::peer::peer_memory_client>();
        })?;
        let mr = t.reg(&client, PAGE)?;
        // For the core the client has no flag.
        client.clear_unmaps();
        client.invalidate_last()?;
        ensure_eq!(t.calls(Point::PutPages)?, 1);
        t.dereg_and_finish(&mr)
    }

    /// The end of the client and the removal of the device leave a revoked region, too.
    #[test]
    fn twice() -> Result {
        each(FENCED, |kind| {
            for end in ENDS {
                let (t, client, mr) = live_temporary(kind)?;
                client.invalidate_last()?;
                end(&t, &client, &mr)?.join()??;
                ensure!(t.calls(Point::Invalidate)? + t.calls(Point::PostInv)? == 1);
                t.dereg_and_finish_undone(&mr, &client)?;
            }
            Ok(())
        })
    }

    #[test]
    fn with_a_stale_ticket() -> Result {
        let (t, client, mr) = live(Kind::Dma, Setup::SEED)?;
        let stale = client.ticket()?;
        mr.dereg()?;
        ensure_eq!(client.invalidate(stale)?, 0);
        // The stale ticket is not the ticket of a later region, either.
        let next = t.reg(&client, PAGE)?;
        ensure!(client.ticket()? != stale);
        ensure_eq!(client.invalidate(stale)?, 0);
        ensure!(next.is_valid());
        t.dereg_and_finish(&next)
    }

    #[test]
    fn with_a_ticket_that_is_not_the_clients() -> Result {
        let (t, client, mr) = live(Kind::Dma, Setup::SEED)?;
        let ticket = client.ticket()?;
        for made_up in [0, 0x7777_7777, u64::from(u32::MAX), ticket + 1] {
            ensure_eq!(client.invalidate(made_up)?, 0);
        }
        let other = t.client(Setup::SEED)?;
        ensure_eq!(other.invalidate(ticket)?, 0);
        ensure!(mr.is_valid());
        // Only the low half of a ticket counts.
        ensure_eq!(client.invalidate(ticket | 0xdead_0000_0000_0000)?, 0);
        ensure!(!mr.is_valid());
        t.dereg_and_finish(&mr)
    }

    /// The core asks a client before the registration of the client has returned: if another client
    /// is registered, the registration waits for an RCU grace period, which a reader delays here.
    /// During the wait the client has the callback, but no handle.
    #[test]
    fn before_the_handle_is_known() -> Result {
        let (t, first, mr) = live(Kind::Dma, Setup::SEED)?;
        let made = OnceCell::new();
        let register = || -> Result<_> {
            let registering = Task::spawn(|| Client::new(1, "kunit_second", Setup::SEED))?;
            let reg = || t.pd.reg(client::address(1), PAGE, USUAL);
            until(|| reg().is_ok_and(|mr| made.set(mr).is_ok()))?;
            client::invalidate_without_handle(1)?;
            Ok(registering)
        };
        let registering = during_rcu_read(register)?;
        let revoked = made.get().map(|mr| !mr.is_valid());
        let second = registering?.join()??;
        ensure_eq!(revoked, Some(true));
        ensure_eq!(second.script().calls(Point::PutPages), 1);
        // No other region has the ticket.
        ensure!(mr.is_valid() && first.ticket()? != second.ticket()?);
        drop(made);
        second.finish()?;
        t.drop_and_finish(mr)
    }

    #[test]
    fn of_one_region_leaves_the_others() -> Result {
        each(FENCED, |kind| {
            let (t, client, mr) = live(kind, Setup::SEED)?;
            let other = t.reg_at(&client, 8 * PAGE, PAGE)?;
            client.invalidate_last()?;
            ensure!(mr.is_valid() && !other.is_valid());
            mr.dereg()?;
            t.dereg_and_finish(&other)
        })
    }

    /// How devices stop later.
    const LATER: [(Kind, Quiesce); 3] = [
        (Kind::Dma, Quiesce::CompleteLater),
        (DYNAMIC, Quiesce::UnmapLater),
        (DYNAMIC, Quiesce::FenceLater),
    ];

    /// The memory stays mapped until the device has stopped. Also at the end of the client, and at the
    /// removal of the device.
    #[test]
    fn waits_until_the_device_has_stopped() -> Result {
        each(LATER, |(kind, quiesce)| {
            each([Setup::SEED, Setup::GPU], |setup| {
                for end in ENDS {
                    let (t, client, mr) = live_on(Fixture::temporary(kind)?, setup)?;
                    t.dev().set(|d| d.quiesce = quiesce);
                    let task = end(&t, &client, &mr)?;
                    let waited = task.waits_for(quiesce.wait());
                    let asked = t.calls(Point::Invalidate)? + t.calls(Point::PostInv)?;
                    let stage = client.stage();
                    t.dev().quiesce();
                    task.join()??;
                    mr.dereg()?;
                    ensure!(waited);
                    ensure_eq!((stage, asked), (Stage::Mapped, 1));
                    t.unregister_and_finish_undone(&client)?;
                }
                Ok(())
            })
        })
    }

    #[test]
    fn from_two_threads() -> Result {
        each(LATER, |(kind, quiesce)| {
            let (t, client, mr) = live(kind, Setup::SEED)?;
            t.dev().set(|d| d.quiesce = quiesce);
            let (one, two) = (invalidation(&client)?, invalidation(&client)?);
            // One of the two tasks has the region.
            let either = [quiesce.wait(), Wait::Region];
            let waited = one.waits_for_one_of(&either) && two.waits_for_one_of(&either);
            t.dev().quiesce();
            one.join()??;
            two.join()??;
            let asked = t.calls(Point::Invalidate)? + t.calls(Point::PostInv)?;
            mr.dereg()?;
            ensure!(waited);
            ensure_eq!(asked, 1);
            t.finish_undone(&client)
        })
    }

    #[test]
    fn a_second_one_does_not_wait_for_put_pages_of_the_first() -> Result {
        let (t, client, mr) = live(Kind::Dma, Setup::SEED)?;
        let first = t.held(Point::PutPages, || invalidation(&client))?;
        invalidation(&client)?.join()??;
        first.join()??;
        t.dereg_and_finish(&mr)
    }

    /// After a work request that fails in the device, and one that post_send refuses. Also at the end
    /// of the client, and at the removal of the device.
    #[test]
    fn a_device_that_does_not_stop_gets_another_work_request() -> Result {
        for (i, end) in ENDS.into_iter().enumerate() {
            each([true, false], |in_device| {
                let (t, client, mr) = live_temporary(Kind::Dma)?;
                if in_device {
                    t.dev().set(|d| d.fails_work_request = true);
                } else {
                    t.fail(Point::PostInv, ENOMEM)?;
                }
                end(&t, &client, &mr)?.join()??;
                ensure!(!mr.is_valid());
                ensure_eq!(t.calls(Point::PostInv)?, 2);
                // The other ends first post for all regions at once, which is no fence yet.
                if i == 0 {
                    ensure_eq!(counters::get(client.name(), c"num_failed_fences")?, 1);
                    ensure_eq!(counters::get(client.name(), c"num_revocations")?, 1);
                }
                t.dereg_and_finish(&mr)
            })?;
        }
        Ok(())
    }

    #[test]
    fn during_registration_that_fails_waits_for_put_pages() -> Result {
        let (t, client) = with_client(Kind::Dma, Setup::SEED)?;
        let failing = t.hold(Point::AllocMr)?;
        t.fail(Point::AllocMr, ENOSPC)?;
        let putting = t.hold(Point::PutPages)?;
        let registering = t.registration(&client, 0, PAGE)?;
        failing.reached()?;
        let invalidating = invalidation(&client)?;
        let waited = invalidating.waits_for(Wait::Region);
        failing.open();
        let reached = putting.reached();
        // Either task may put the pages; both tasks wait until the pages are put.
        let waited = invalidating.waits_for_one_of(&[Wait::Region, Wait::Test]) && waited;
        putting.open();
        ensure_eq!(registering.join()?.err(), Some(ENOSPC));
        invalidating.join()??;
        reached?;
        ensure!(waited);
        t.finish()
    }

    /// Before it, a page fault maps again. Also after the end of the client.
    #[test]
    fn a_page_fault_after_it_fails() -> Result {
        let ends: [fn(&Client) -> Result; 2] = [Client::invalidate_last, Client::finish];
        each([Setup::SEED, Setup::GPU, Setup::UNMAPS], |setup| {
            each(DMA_BUFS, |kind| {
                for end in ends {
                    let (t, client, mr) = live(kind, setup)?;
                    if kind == DYNAMIC {
                        t.dev().page_fault(mr.key())?;
                        ensure!(mr.is_valid());
                    }
                    end(&client)?;
                    ensure!(t.dev().page_fault(mr.key()).is_err());
                    ensure!(!mr.is_valid());
                    mr.dereg()?;
                    t.finish()?;
                }
                Ok(())
            })
        })
    }

    #[test]
    fn page_faults_race_it() -> Result {
        each(0..20, |_| {
            let (t, client, mr) = live(DYNAMIC, Setup::SEED)?;
            t.dev().script.slow(Point::Invalidate, 1);
            let (dev, key) = (t.dev().clone(), mr.key());
            let (first, stop) = (Event::new()?, Event::new()?);
            let (faulted, stopped) = (first.clone(), stop.clone());
            let touching = Task::spawn(move || {
                while !stopped.happened() {
                    let _ = dev.page_fault(key);
                    faulted.fire();
                }
            })?;
            first.wait()?;
            let result = client.invalidate_last();
            // Also after the invalidation.
            fsleep(Delta::from_millis(2));
            stop.fire();
            touching.join()?;
            result?;
            ensure!(!mr.is_valid());
            t.dereg_and_finish(&mr)
        })
    }

    #[test]
    fn that_of_a_later_mr_does_not_wait_for_the_fence_of_another() -> Result {
        let (t, client, mr) = live(DYNAMIC, Setup::SEED)?;
        t.dev().set(|d| d.quiesce = Quiesce::FenceLater);
        let task = invalidation(&client)?;
        let waited = task.waits_for(Wait::Fences);
        t.dev().set(|d| d.quiesce = Quiesce::Now);
        let later = t.reg_at(&client, 8 * PAGE, PAGE)?;
        let second = invalidation(&client)?;
        let also_waited = second.waits_for(Wait::Anything);
        t.dev().quiesce();
        task.join()??;
        second.join()??;
        later.dereg()?;
        mr.dereg()?;
        ensure!(waited && !also_waited);
        t.finish()
    }
}
