// SPDX-License-Identifier: GPL-2.0

//! The counters in sysfs. Each test of each suite ends with balanced counters.

#[kernel::prelude::kunit_tests(peer_mem_counters)]
mod tests {
    use crate::suites::prelude::*;

    #[test]
    fn count_mrs_pages_and_bytes() -> Result {
        each([Kind::Dma, REVOCABLE], |kind| {
            let (t, client, one) = live(kind, Setup::SEED)?;
            ensure_eq!(counters::in_use(client.name())?, (1, 4, 4 * PAGE));
            let two = t.reg_at(&client, 16 * PAGE + 5, PAGE)?;
            ensure_eq!(counters::in_use(client.name())?, (2, 6, 5 * PAGE));
            one.dereg()?;
            ensure_eq!(counters::in_use(client.name())?, (1, 2, PAGE));
            two.dereg()?;
            // Memory that the client does not claim.
            drop(t.pd.reg(0x5000, PAGE, USUAL)?);
            ensure_eq!(counters::get(client.name(), c"num_alloc_mrs")?, 2);
            ensure_eq!(counters::get(client.name(), c"num_reg_pages")?, 6);
            ensure_eq!(counters::get(client.name(), c"num_reg_bytes")?, 5 * PAGE);
            ensure_eq!(counters::get(client.name(), c"num_revocations")?, 0);
            t.finish()
        })
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
        each([Setup::SEED, Setup::UNMAPS], |setup| {
            let (t, client, mr) = live(Kind::Dma, setup)?;
            client.invalidate_last()?;
            client.invalidate_last()?;
            ensure_eq!(counters::in_use(client.name())?, (0, 0, 0));
            mr.dereg()?;
            ensure_eq!(counters::get(client.name(), c"num_dealloc_mrs")?, 1);
            ensure_eq!(counters::get(client.name(), c"num_revocations")?, 1);
            ensure_eq!(counters::get(client.name(), c"num_failed_fences")?, 0);
            t.finish()
        })
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
        ensure_eq!((calls(&client)?, calls(&other)?), (3, 0));
        t.finish()
    }
}
