// SPDX-License-Identifier: GPL-2.0

//! The counters in sysfs.

use kernel::prelude::*;

#[kunit_tests(peer_mem_counters)]
mod tests {
    use crate::suites::prelude::*;

    #[test]
    fn count_mrs_pages_and_bytes() -> Result {
        let (t, client, one) = live(Kind::Dma, Setup::SEED)?;
        ensure_eq!(counters::in_use(client.name())?, (1, 4, 4 * PAGE));
        let two = t.reg_at(&client, 16 * PAGE + 5, PAGE)?;
        ensure_eq!(counters::in_use(client.name())?, (2, 6, 5 * PAGE));
        one.dereg()?;
        ensure_eq!(counters::in_use(client.name())?, (1, 2, PAGE));
        two.dereg()?;
        ensure_eq!(counters::get(client.name(), c"num_alloc_mrs")?, 2);
        ensure_eq!(counters::get(client.name(), c"num_reg_pages")?, 6);
        ensure_eq!(counters::get(client.name(), c"num_reg_bytes")?, 5 * PAGE);
        ensure_eq!(counters::get(client.name(), c"num_revocations")?, 0);
        t.finish()
    }

    #[test]
    fn pages_are_the_cpus_and_not_the_clients() -> Result {
        let (t, client) = with_client(Kind::Dma, Setup::GPU)?;
        let mr = t.reg(&client, 64 * K)?;
        ensure_eq!(counters::in_use(client.name())?, (1, 16, 64 * K));
        t.drop_and_finish(mr)
    }

    #[test]
    fn a_revoked_mr_is_counted_out_once() -> Result {
        let (t, client, mr) = live(Kind::Dma, Setup::SEED)?;
        client.invalidate_last()?;
        client.invalidate_last()?;
        ensure_eq!(counters::in_use(client.name())?, (0, 0, 0));
        mr.dereg()?;
        ensure_eq!(counters::get(client.name(), c"num_dealloc_mrs")?, 1);
        ensure_eq!(counters::get(client.name(), c"num_revocations")?, 1);
        ensure_eq!(counters::get(client.name(), c"num_failed_fences")?, 0);
        t.finish()
    }

    #[test]
    fn an_mr_that_the_client_unmaps_itself_is_counted_out() -> Result {
        let (t, client, mr) = live(Kind::Dma, Setup::UNMAPS)?;
        client.invalidate_last()?;
        ensure_eq!(counters::in_use(client.name())?, (0, 0, 0));
        t.dereg_and_finish(&mr)
    }

    #[test]
    fn a_removed_device_counts_out() -> Result {
        let t = Fixture::temporary(Kind::Dma)?;
        let client = t.client(Setup::SEED)?;
        let mr = t.reg(&client, 4 * PAGE)?;
        t.registered().unregister();
        let in_use = counters::in_use(client.name())?;
        mr.dereg()?;
        ensure_eq!(in_use, (0, 0, 0));
        ensure_eq!(counters::get(client.name(), c"num_revocations")?, 1);
        t.finish()
    }

    #[test]
    fn a_failed_registration_is_not_counted() -> Result {
        let (t, client) = with_client(Kind::Dma, Setup::SEED)?;
        t.fail(Point::PostReg, ENOSPC)?;
        ensure!(t.reg(&client, PAGE).is_err());
        ensure_eq!(counters::get(client.name(), c"num_alloc_mrs")?, 0);
        ensure_eq!(counters::get(client.name(), c"num_reg_pages")?, 0);
        t.finish()
    }

    #[test]
    fn unclaimed_memory_is_not_counted() -> Result {
        let (t, client) = with_client(Kind::Dma, Setup::SEED)?;
        let mr = t.pd.reg(0x5000, PAGE, USUAL)?;
        ensure_eq!(counters::get(client.name(), c"num_alloc_mrs")?, 0);
        t.drop_and_finish(mr)
    }

    #[test]
    fn num_free_callbacks_is_exact() -> Result {
        let (t, client) = with_client(Kind::Dma, Setup::SEED)?;
        let other = t.client(Setup::SEED)?;
        let calls = |c: &Client| counters::get(c.name(), c"num_free_callbacks");
        let mr = t.reg(&client, PAGE)?;
        client.invalidate_last()?;
        ensure_eq!(calls(&client)?, 1);
        // Each call counts, also for a revoked or unknown region.
        client.invalidate_last()?;
        client.invalidate(0x7777)?;
        ensure_eq!(calls(&client)?, 3);
        mr.dereg()?;
        ensure_eq!(calls(&client)?, 3);
        ensure_eq!(calls(&other)?, 0);
        t.finish()
    }
}
