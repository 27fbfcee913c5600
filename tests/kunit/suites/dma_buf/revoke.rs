// SPDX-License-Identifier: GPL-2.0

//! Invalidation on devices with imports of dma-bufs and with revocable MRs.

use kernel::prelude::*;

#[kunit_tests(peer_mem_dma_buf_revoke)]
mod tests {
    use crate::suites::prelude::*;

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
