// SPDX-License-Identifier: GPL-2.0

//! Removal of an RDMA device with MRs on peer memory.

use kernel::prelude::*;

#[kunit_tests(peer_mem_removal)]
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
    fn waits_for_a_registration() -> Result {
        let (t, client, mr) = live_temporary(Kind::Dma)?;
        let first = t.held(Point::GetPages, || t.registration(&client, 16 * PAGE, PAGE))?;
        let other = first.overlap(Wait::Callers, removal(&t)?)?;
        ensure!(!mr.is_valid() && !other.is_ok_and(|mr| mr.is_valid()));
        t.dereg_and_finish(&mr)
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
}
