// SPDX-License-Identifier: GPL-2.0

//! The counters in sysfs.

use kernel::prelude::*;

#[kunit_tests(peer_mem_counters)]
mod tests {
    use crate::suites::prelude::*;

    #[test]
    fn count_mrs_pages_and_bytes() -> Result {
        let bench = Bench::hardware()?;
        let client = Client::new(0, "kunit_one", Setup::SEED)?;
        let one = bench.pd.reg(client.at(0), 4 * PAGE, USUAL)?;
        ensure_eq!(counters::in_use(client.name())?, (1, 4, 4 * PAGE));
        let two = bench.pd.reg(client.at(16 * PAGE + 5), PAGE, USUAL)?;
        ensure_eq!(counters::in_use(client.name())?, (2, 6, 5 * PAGE));
        one.dereg()?;
        ensure_eq!(counters::in_use(client.name())?, (1, 2, PAGE));
        two.dereg()?;
        ensure_eq!(counters::get(client.name(), c"num_alloc_mrs")?, 2);
        ensure_eq!(counters::get(client.name(), c"num_reg_pages")?, 6);
        ensure_eq!(counters::get(client.name(), c"num_reg_bytes")?, 5 * PAGE);
        bench.finish(&[&client])
    }

    #[test]
    fn pages_are_the_cpus_and_not_the_clients() -> Result {
        let bench = Bench::hardware()?;
        let client = Client::new(0, "kunit_one", Setup::GPU)?;
        let mr = bench.pd.reg(client.at(0), 64 << 10, USUAL)?;
        ensure_eq!(counters::in_use(client.name())?, (1, 16, 64 << 10));
        drop(mr);
        bench.finish(&[&client])
    }

    #[test]
    fn a_revoked_mr_is_counted_out_once() -> Result {
        let bench = Bench::hardware()?;
        let client = Client::new(0, "kunit_one", Setup::SEED)?;
        let mr = bench.pd.reg(client.at(0), 4 * PAGE, USUAL)?;
        client.invalidate_it()?;
        ensure_eq!(counters::in_use(client.name())?, (0, 0, 0));
        mr.dereg()?;
        ensure_eq!(counters::get(client.name(), c"num_dealloc_mrs")?, 1);
        bench.finish(&[&client])
    }

    #[test]
    fn what_the_client_unmaps_itself_is_counted_out() -> Result {
        let bench = Bench::hardware()?;
        let client = Client::new(0, "kunit_one", Setup::UNMAPS)?;
        let mr = bench.pd.reg(client.at(0), 4 * PAGE, USUAL)?;
        client.invalidate_it()?;
        ensure_eq!(counters::in_use(client.name())?, (0, 0, 0));
        mr.dereg()?;
        bench.finish(&[&client])
    }

    #[test]
    fn a_removed_device_counts_out() -> Result {
        let dev = crate::World::get()?.guest(crate::device::Kind::Dma)?;
        let bench = Bench::on(dev.clone())?;
        let client = Client::new(0, "kunit_one", Setup::SEED)?;
        let mr = bench.pd.reg(client.at(0), 4 * PAGE, USUAL)?;
        dev.unregister();
        let in_use = counters::in_use(client.name())?;
        mr.dereg()?;
        ensure_eq!(in_use, (0, 0, 0));
        bench.finish(&[&client])
    }

    #[test]
    fn a_failed_registration_is_not_counted() -> Result {
        let bench = Bench::hardware()?;
        let client = Client::new(0, "kunit_one", Setup::SEED)?;
        bench.dev().script.fail(Point::PostReg, ENOSPC);
        ensure!(bench.pd.reg(client.at(0), PAGE, USUAL).is_err());
        ensure_eq!(counters::get(client.name(), c"num_alloc_mrs")?, 0);
        ensure_eq!(counters::get(client.name(), c"num_reg_pages")?, 0);
        bench.finish(&[&client])
    }

    #[test]
    fn memory_of_others_is_not_counted() -> Result {
        let bench = Bench::hardware()?;
        let client = Client::new(0, "kunit_one", Setup::SEED)?;
        let mr = bench.pd.reg(0x5000, PAGE, USUAL)?;
        ensure_eq!(counters::get(client.name(), c"num_alloc_mrs")?, 0);
        drop(mr);
        bench.finish(&[&client])
    }

    #[test]
    fn num_free_callbacks_is_exact() -> Result {
        let bench = Bench::hardware()?;
        let client = Client::new(0, "kunit_one", Setup::SEED)?;
        let other = Client::new(1, "kunit_two", Setup::SEED)?;
        let calls = |c: &Client| counters::get(c.name(), c"num_free_callbacks");
        let mr = bench.pd.reg(client.at(0), PAGE, USUAL)?;
        client.invalidate_it()?;
        ensure_eq!(calls(&client)?, 1);
        // Each call counts, whatever it finds.
        client.invalidate_it()?;
        client.invalidate(0x7777)?;
        ensure_eq!(calls(&client)?, 3);
        mr.dereg()?;
        ensure_eq!(calls(&client)?, 3);
        ensure_eq!(calls(&other)?, 0);
        bench.finish(&[&client, &other])
    }
}
