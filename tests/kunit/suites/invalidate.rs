// SPDX-License-Identifier: GPL-2.0

//! Invalidation: once the callback has returned, no device can access the memory.

use kernel::prelude::*;

#[kunit_tests(peer_mem_invalidate)]
mod tests {
    use crate::{
        client,
        suites::prelude::*,
        sync::{
            self,
            RcuReader, //
        }, //
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
        ensure_eq!(t.calls(Point::DmaUnmap)?, unmaps);
        ensure_eq!(t.calls(Point::PutPages)?, puts);
        ensure_eq!(t.calls(Point::Release)?, 0);
        mr.dereg()?;
        ensure_eq!(t.calls(Point::DmaUnmap)?, unmaps);
        ensure_eq!(t.calls(Point::PutPages)?, puts);
        ensure_eq!(t.calls(Point::Release)?, u32::from(!setup.bare));
        t.finish()
    }

    #[test]
    fn of_each_shape() -> Result {
        each(Setup::ALL_REVOCABLE, |setup| revokes(Kind::Dma, setup))
    }

    #[test]
    fn on_software_rdma() -> Result {
        revokes(Kind::Virtual, Setup::SEED)
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

    #[test]
    fn twice() -> Result {
        let (t, client, mr) = live(Kind::Dma, Setup::SEED)?;
        client.invalidate_last()?;
        client.invalidate_last()?;
        ensure_eq!(t.calls(Point::PutPages)?, 1);
        t.dereg_and_finish(&mr)
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
    fn with_a_made_up_ticket() -> Result {
        let (t, client, mr) = live(Kind::Dma, Setup::SEED)?;
        for ticket in [0, 0x7777_7777, u64::from(u32::MAX), client.ticket()? + 1] {
            ensure_eq!(client.invalidate(ticket)?, 0);
        }
        ensure!(mr.is_valid());
        t.dereg_and_finish(&mr)
    }

    #[test]
    fn only_the_low_half_of_a_ticket_counts() -> Result {
        let (t, client, mr) = live(Kind::Dma, Setup::SEED)?;
        ensure_eq!(
            client.invalidate(client.ticket()? | 0xdead_0000_0000_0000)?,
            0
        );
        ensure!(!mr.is_valid());
        t.dereg_and_finish(&mr)
    }

    #[test]
    fn with_the_handle_of_another_client() -> Result {
        let (t, client, mr) = live(Kind::Dma, Setup::SEED)?;
        let other = t.client(Setup::SEED)?;
        ensure_eq!(other.invalidate(client.ticket()?)?, 0);
        ensure!(mr.is_valid());
        t.dereg_and_finish(&mr)
    }

    /// The core asks a client before the registration of the client has returned: if another client
    /// is registered, the registration waits for an RCU grace period, which a reader delays here.
    /// During the wait the client has the callback, but no handle.
    #[test]
    fn before_the_handle_is_known() -> Result {
        let (t, first, mr) = live(Kind::Dma, Setup::SEED)?;
        let reader = RcuReader::new()?;
        let registering = Task::spawn(|| Client::new(1, "kunit_second", Setup::SEED))?;
        let (at, made) = (client::address(1), OnceCell::new());
        let registered = || {
            t.pd.reg(at, PAGE, USUAL)
                .is_ok_and(|mr| made.set(mr).is_ok())
        };
        let visible = sync::until(registered);
        let invalidated = client::invalidate_without_handle(1);
        reader.end()?;
        let revoked = made.get().map(|mr| !mr.is_valid());
        let second = registering.join()??;
        visible?;
        invalidated?;
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
        common::invalidation_leaves_the_others(Kind::Dma)
    }

    #[test]
    fn waits_until_the_device_has_stopped() -> Result {
        let (t, client, mr) = live(Kind::Dma, Setup::SEED)?;
        t.dev().hold_completions();
        let task = invalidation(&client)?;
        let waited = task.waits_for(Wait::Completion);
        let stage = client.stage();
        t.dev().release_completions();
        task.join()??;
        ensure!(waited);
        ensure_eq!(stage, Stage::Mapped);
        t.dereg_and_finish(&mr)
    }

    #[test]
    fn from_two_threads() -> Result {
        let (t, client, mr) = live(Kind::Dma, Setup::SEED)?;
        t.dev().hold_completions();
        let (one, two) = (invalidation(&client)?, invalidation(&client)?);
        // One of the two tasks has the region.
        let either = [Wait::Completion, Wait::Region];
        let waited = one.waits_for_one_of(&either) && two.waits_for_one_of(&either);
        t.dev().release_completions();
        one.join()??;
        two.join()??;
        ensure!(waited);
        ensure_eq!(t.calls(Point::PutPages)?, 1);
        ensure_eq!(t.calls(Point::PostInv)?, 1);
        t.dereg_and_finish(&mr)
    }

    #[test]
    fn a_second_one_does_not_wait_for_put_pages_of_the_first() -> Result {
        let (t, client, mr) = live(Kind::Dma, Setup::SEED)?;
        let first = t.held(Point::PutPages, || invalidation(&client))?;
        invalidation(&client)?.join()??;
        first.join()??;
        t.dereg_and_finish(&mr)
    }

    #[test]
    fn a_device_that_does_not_stop_gets_another_work_request() -> Result {
        let (t, client, mr) = live(Kind::Dma, Setup::SEED)?;
        t.dev().fail_work_request();
        client.invalidate_last()?;
        ensure_eq!(t.calls(Point::PostInv)?, 2);
        ensure_eq!(counters::get(client.name(), c"num_failed_fences")?, 1);
        ensure_eq!(counters::get(client.name(), c"num_revocations")?, 1);
        ensure!(!mr.is_valid());
        t.dereg_and_finish(&mr)
    }

    #[test]
    fn a_work_request_that_post_send_refuses_is_posted_again() -> Result {
        let (t, client, mr) = live(Kind::Dma, Setup::SEED)?;
        t.fail(Point::PostInv, ENOMEM)?;
        client.invalidate_last()?;
        ensure_eq!(t.calls(Point::PostInv)?, 2);
        t.dereg_and_finish(&mr)
    }

    /// Invalidates during a registration that is held at `point`.
    fn during(setup: Setup, point: Point) -> Result {
        common::invalidate_during_registration(Kind::Dma, setup, point, false)
    }

    #[test]
    fn during_registration_in_get_page_size() -> Result {
        during(Setup::SEED, Point::PageSize)
    }

    #[test]
    fn during_registration_in_dma_map() -> Result {
        during(Setup::GPU, Point::DmaMap)
    }

    #[test]
    fn during_registration_in_alloc_mr() -> Result {
        during(Setup::SEED, Point::AllocMr)
    }

    #[test]
    fn during_registration_in_create_qp() -> Result {
        during(Setup::SEED, Point::CreateQp)
    }

    #[test]
    fn during_registration_in_the_work_request() -> Result {
        during(Setup::SEED, Point::PostReg)
    }

    #[test]
    fn during_registration_under_the_mutex_of_its_own_callbacks() -> Result {
        during(Setup::LOCKED, Point::AllocMr)
    }

    #[test]
    fn during_registration_of_a_client_that_unmaps_itself() -> Result {
        during(Setup::UNMAPS, Point::PostReg)
    }

    /// Invalidates during a registration that is held at `point` and then fails at `point`.
    fn during_a_failing_one(setup: Setup, point: Point) -> Result {
        common::invalidate_during_registration(Kind::Dma, setup, point, true)
    }

    #[test]
    fn during_registration_that_fails() -> Result {
        during_a_failing_one(Setup::SEED, Point::AllocMr)
    }

    #[test]
    fn during_registration_that_fails_at_its_end() -> Result {
        during_a_failing_one(Setup::SEED, Point::PostReg)
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

    #[test]
    fn during_registration_that_fails_under_the_mutex_of_its_own_callbacks() -> Result {
        during_a_failing_one(Setup::LOCKED, Point::AllocMr)
    }

    #[test]
    fn during_registration_that_fails_of_a_client_that_unmaps_itself() -> Result {
        during_a_failing_one(Setup::UNMAPS, Point::AllocMr)
    }
}
