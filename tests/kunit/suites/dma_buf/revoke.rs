// SPDX-License-Identifier: GPL-2.0

//! Invalidation on devices with imports of dma-bufs and with revocable MRs.

use kernel::prelude::*;

#[kunit_tests(peer_mem_dma_buf_revoke)]
mod tests {
    use super::super::*;
    use crate::{
        device::Quiesce,
        sync::Event, //
    };
    use kernel::time::{
        delay::fsleep,
        Delta, //
    };

    #[test]
    fn of_each_shape() -> Result {
        each(Setup::ALL_REVOCABLE, |setup| {
            each(REVOCABLE, |mode| {
                let (t, client, mr) = live(mode, setup)?;
                client.invalidate_last()?;
                ensure!(!mr.is_valid());
                ensure_eq!(client.stage(), Stage::Acquired);
                let calls = u32::from(!setup.unmaps);
                ensure_eq!(t.calls(Point::PutPages)?, calls);
                ensure_eq!(t.calls(Point::Release)?, 0);
                mr.dereg()?;
                ensure_eq!(t.calls(Point::Invalidate)?, 1);
                ensure_eq!(t.calls(Point::DmaUnmap)?, calls);
                ensure_eq!(t.calls(Point::PutPages)?, calls);
                ensure_eq!(t.calls(Point::Release)?, u32::from(!setup.bare));
                t.finish()
            })
        })
    }

    #[test]
    fn a_page_fault_maps_again_before_it() -> Result {
        let (t, _, mr) = live(Mode::Dynamic, Setup::SEED)?;
        t.dev().page_fault(mr.key())?;
        ensure!(mr.is_valid());
        t.dereg_and_finish(&mr)
    }

    #[test]
    fn a_page_fault_after_it_fails() -> Result {
        each([Setup::SEED, Setup::GPU, Setup::UNMAPS], |setup| {
            each(REVOCABLE, |mode| {
                let (t, client, mr) = live(mode, setup)?;
                client.invalidate_last()?;
                ensure!(t.dev().page_fault(mr.key()).is_err());
                ensure!(!mr.is_valid());
                t.dereg_and_finish(&mr)
            })
        })
    }

    #[test]
    fn a_page_fault_after_the_end_of_the_client_fails() -> Result {
        let (t, client, mr) = live(Mode::Dynamic, Setup::SEED)?;
        client.finish()?;
        ensure_eq!(t.dev().page_fault(mr.key()).err(), Some(ENODEV));
        ensure!(!mr.is_valid());
        t.dereg_and_finish(&mr)
    }

    #[test]
    fn page_faults_race_it() -> Result {
        each(0..20, |_| {
            let (t, client, mr) = live(Mode::Dynamic, Setup::SEED)?;
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
    fn twice() -> Result {
        each(REVOCABLE, |mode| {
            let (t, client, mr) = live(mode, Setup::SEED)?;
            client.invalidate_last()?;
            client.invalidate_last()?;
            ensure_eq!(t.calls(Point::Invalidate)?, 1);
            t.dereg_and_finish_undone(&mr, &client)
        })
    }

    #[test]
    fn from_two_threads() -> Result {
        each(REVOCABLE, |mode| {
            let (t, client, mr) = live(mode, Setup::SEED)?;
            let first = t.held(Point::Invalidate, || invalidation(&client))?;
            first.overlap(Wait::Region, invalidation(&client)?)??;
            ensure_eq!(t.calls(Point::Invalidate)?, 1);
            t.dereg_and_finish_undone(&mr, &client)
        })
    }

    #[test]
    fn of_one_region_leaves_the_others() -> Result {
        each(REVOCABLE, common::invalidation_leaves_the_others)
    }

    /// Invalidates on a device with a late stop: the memory stays mapped until the device has
    /// stopped.
    fn waits_for(quiesce: Quiesce) -> Result {
        each([Setup::SEED, Setup::GPU], |setup| {
            let (t, client, mr) = live(Mode::Dynamic, setup)?;
            t.dev().set_quiesce(quiesce);
            let task = invalidation(&client)?;
            let waited = task.waits_for(quiesce.wait());
            let stage = client.stage();
            t.dev().quiesce();
            task.join()??;
            ensure!(waited);
            ensure_eq!(stage, Stage::Mapped);
            t.dereg_and_finish_undone(&mr, &client)
        })
    }

    #[test]
    fn waits_until_the_device_has_unmapped() -> Result {
        waits_for(Quiesce::UnmapLater)
    }

    #[test]
    fn waits_until_the_fence_is_signalled() -> Result {
        waits_for(Quiesce::FenceLater)
    }

    #[test]
    fn that_of_a_later_mr_does_not_wait_for_the_fence_of_another() -> Result {
        let (t, client, mr) = live(Mode::Dynamic, Setup::SEED)?;
        t.dev().set_quiesce(Quiesce::FenceLater);
        let task = invalidation(&client)?;
        let waited = task.waits_for(Wait::Fences);
        t.dev().set_quiesce(Quiesce::Now);
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

    #[test]
    fn a_second_one_waits_for_a_device_that_stops_later_as_well() -> Result {
        each([Quiesce::UnmapLater, Quiesce::FenceLater], |quiesce| {
            let (t, client, mr) = live(Mode::Dynamic, Setup::SEED)?;
            t.dev().set_quiesce(quiesce);
            let (one, two) = (invalidation(&client)?, invalidation(&client)?);
            // One of the two tasks has the region.
            let either = [quiesce.wait(), Wait::Region];
            let waited = one.waits_for_one_of(&either) && two.waits_for_one_of(&either);
            t.dev().quiesce();
            one.join()??;
            two.join()??;
            mr.dereg()?;
            ensure!(waited);
            t.finish_undone(&client)
        })
    }

    #[test]
    fn the_end_of_the_client_waits_for_a_device_that_stops_later() -> Result {
        each([Quiesce::UnmapLater, Quiesce::FenceLater], |quiesce| {
            let (t, client, mr) = live(Mode::Dynamic, Setup::SEED)?;
            t.dev().set_quiesce(quiesce);
            let leaving = unregistration(&client)?;
            let waited = leaving.waits_for(quiesce.wait());
            t.dev().quiesce();
            leaving.join()??;
            mr.dereg()?;
            ensure!(waited);
            t.finish_undone(&client)
        })
    }

    #[test]
    fn by_the_end_of_the_client() -> Result {
        let end = |setup| each(REVOCABLE, |mode| common::end_of_the_client(mode, setup));
        each(Setup::ALL_REVOCABLE, end)?;
        end(Setup::PERSISTENT)
    }
}
