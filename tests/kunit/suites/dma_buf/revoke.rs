// SPDX-License-Identifier: GPL-2.0

//! Invalidation on devices with imports of dma-bufs and with revocable MRs.

use kernel::prelude::*;

#[kunit_tests(peer_mem_dma_buf_revoke)]
mod tests {
    use crate::suites::prelude::*;
    use kernel::time::{
        delay::fsleep,
        Delta, //
    };

    const LATER: [Quiesce; 2] = [Quiesce::UnmapLater, Quiesce::FenceLater];

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
    fn from_two_threads() -> Result {
        each(DMA_BUFS, |kind| {
            let (t, client, mr) = live(kind, Setup::SEED)?;
            let first = t.held(Point::Invalidate, || invalidation(&client))?;
            first.overlap(Wait::Region, invalidation(&client)?)??;
            ensure_eq!(t.calls(Point::Invalidate)?, 1);
            t.dereg_and_finish_undone(&mr, &client)
        })
    }

    /// The memory stays mapped until the device has stopped.
    #[test]
    fn waits_for_a_device_that_stops_later() -> Result {
        each(LATER, |quiesce| {
            each([Setup::SEED, Setup::GPU], |setup| {
                for end in ENDS {
                    let (t, client, mr) = live_on(Fixture::temporary(DYNAMIC)?, setup)?;
                    t.dev().set_quiesce(quiesce);
                    let task = end(&t, &client)?;
                    let waited = task.waits_for(quiesce.wait());
                    let (stage, asked) = (client.stage(), t.calls(Point::Invalidate)?);
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
    fn that_of_a_later_mr_does_not_wait_for_the_fence_of_another() -> Result {
        let (t, client, mr) = live(DYNAMIC, Setup::SEED)?;
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
        each(LATER, |quiesce| {
            let (t, client, mr) = live(DYNAMIC, Setup::SEED)?;
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
}
