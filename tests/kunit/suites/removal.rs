// SPDX-License-Identifier: GPL-2.0

//! Removal of an RDMA device with MRs on peer memory.

use kernel::prelude::*;

#[kunit_tests(peer_mem_removal)]
mod tests {
    use crate::suites::prelude::*;
    use kernel::time::{
        Delta,
        Instant,
        Monotonic, //
    };

    /// Removes a device with a live region. The region is revoked, and the MR stays.
    fn revokes(kind: Kind) -> Result {
        let (t, _, mr) = live_temporary(kind)?;
        t.registered().unregister();
        ensure!(!mr.is_valid());
        let (_, qps, cqs) = t.dev().objects();
        ensure_eq!((qps, cqs), (0, 0));
        ensure_eq!(t.calls(Point::Release)?, 1);
        t.dereg_and_finish(&mr)
    }

    #[test]
    fn revokes_a_live_region() -> Result {
        revokes(Kind::Dma)
    }

    #[test]
    fn revokes_a_live_region_on_software_rdma() -> Result {
        revokes(Kind::Virtual)
    }

    #[test]
    fn leaves_a_revoked_region() -> Result {
        let (t, client, mr) = live_temporary(Kind::Dma)?;
        client.invalidate_last()?;
        t.registered().unregister();
        mr.dereg()?;
        ensure_eq!(t.calls(Point::PutPages)?, 1);
        t.finish()
    }

    #[test]
    fn waits_for_a_registration() -> Result {
        let (t, client, mr) = live_temporary(Kind::Dma)?;
        let first = t.held(Point::GetPages, || t.registration(&client, 16 * PAGE, PAGE))?;
        let other = first.overlap(Wait::Callers, removal(&t)?)?;
        ensure!(!mr.is_valid() && !other.is_ok_and(|mr| mr.is_valid()));
        t.dereg_and_finish(&mr)
    }

    #[test]
    fn races_invalidation() -> Result {
        let (t, client, mr) = live_temporary(Kind::Dma)?;
        t.second_waits(|| invalidation(&client), || removal(&t))?;
        mr.dereg()?;
        ensure_eq!(t.calls(Point::PutPages)?, 1);
        t.finish()
    }

    #[test]
    fn races_deregistration() -> Result {
        let (t, _, mr) = live_temporary(Kind::Dma)?;
        let first = t.held(Point::PutPages, || deregistration(&mr))?;
        first.overlap(Wait::Callers, removal(&t)?)??;
        ensure_eq!(t.calls(Point::Release)?, 1);
        t.finish()
    }

    #[test]
    fn races_unregistration_of_the_client() -> Result {
        let (t, client, mr) = live_temporary(Kind::Dma)?;
        t.second_waits(|| unregistration(&client), || removal(&t))?;
        mr.dereg()?;
        ensure_eq!(t.calls(Point::PutPages)?, 1);
        t.finish()
    }

    #[test]
    fn a_device_that_does_not_stop_gets_another_work_request() -> Result {
        let (t, _, mr) = live_temporary(Kind::Dma)?;
        t.dev().fail_work_request();
        t.registered().unregister();
        ensure!(!mr.is_valid());
        t.dereg_and_finish(&mr)
    }

    /// Removes a device that never answers. The pages stay pinned until the client ends the region.
    fn ends(t: Fixture, client: &Arc<Client>, mr: &user::Mr) -> Result {
        removal(&t)?.join()??;
        let (stage, released) = (client.stage(), t.calls(Point::Release)?);
        let (_, qps, cqs) = t.dev().objects();
        // Like uverbs, which is notified of the removal after the core.
        mr.dereg()?;
        client.invalidate_last()?;
        ensure_eq!(stage, Stage::Mapped);
        ensure_eq!(released, 0);
        ensure_eq!((qps, cqs), (0, 0));
        client.finish()?;
        t.finish_undone(client)
    }

    /// After each failed fence comes another fence, for 10 s. A slow machine needs more time, and
    /// never less.
    #[test]
    fn ends_with_a_device_that_fails_every_work_request() -> Result {
        let (t, client, mr) = live_temporary(Kind::Dma)?;
        t.script(Point::PostInv)?
            .fail_always(Point::PostInv, EIO.to_errno());
        let start = Instant::<Monotonic>::now();
        ends(t, &client, &mr)?;
        ensure!(start.elapsed() >= Delta::from_secs(10));
        Ok(())
    }

    #[test]
    fn ends_with_a_device_that_completes_no_work_request() -> Result {
        let (t, client, mr) = live_temporary(Kind::Dma)?;
        t.dev().hold_completions();
        ends(t, &client, &mr)
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
}
