// SPDX-License-Identifier: GPL-2.0

//! No memory: every allocation of an operation is made to fail in turn.
//!
//! The n-th allocation of the calling task fails, for n = 1, 2, … until the operation passes
//! without having come to it. After each the fakes check that nothing is left, and what was tried
//! is tried again with memory.

use kernel::prelude::*;

#[kunit_tests(peer_mem_failslab)]
mod tests {
    use crate::{
        device::Kind,
        helpers,
        suites::prelude::*, //
    };

    /// More allocations than anything here makes.
    const LIMIT: u32 = 1000;

    /// Runs `op` with the `n`th allocation failing; did it come to that one?
    fn nth<T>(n: u32, op: impl FnOnce() -> T) -> (T, bool) {
        // SAFETY: Only changes which allocation of this task fails.
        unsafe { helpers::kt_fail_nth(n) };
        let result = op();
        // SAFETY: As above.
        let left = unsafe { helpers::kt_fail_left() };
        // SAFETY: As above.
        unsafe { helpers::kt_fail_nth(0) };
        (result, left == 0)
    }

    /// Steps through the allocations of `op`, which gets `n`, and says whether the allocation
    /// came and whether all was well.
    fn step(mut op: impl FnMut(u32) -> Result<bool>) -> Result {
        for n in 1..LIMIT {
            match op(n) {
                Ok(true) => (),
                Ok(false) => {
                    pr_info!("{} allocations failed in turn\n", n - 1);
                    // Is fault injection there at all?
                    ensure!(n > 1);
                    return Ok(());
                }
                Err(e) => {
                    pr_err!("with allocation {} failing\n", n);
                    return Err(e);
                }
            }
        }
        Err(EINVAL)
    }

    /// Only this error may come of it.
    fn only_nomem<T>(result: &Result<T>) -> Result {
        if let Some(e) = result.as_ref().err() {
            ensure_eq!(*e, ENOMEM);
        }
        Ok(())
    }

    #[test]
    fn registering_a_client() -> Result {
        step(|n| {
            let (client, failed) = nth(n, || Client::new(0, "kunit_one", Setup::SEED));
            if let Ok(client) = client {
                client.finish()?;
            }
            ensure!(!counters::exists(c"kunit_one"));
            Client::new(0, "kunit_one", Setup::SEED)?.finish()?;
            Ok(failed)
        })
    }

    #[test]
    fn unregistering_a_client() -> Result {
        step(|n| {
            let other = Client::new(1, "kunit_two", Setup::SEED)?;
            let client = Client::new(0, "kunit_one", Setup::SEED)?;
            let (result, failed) = nth(n, || client.finish());
            result?;
            ensure!(!counters::exists(c"kunit_one"));
            ensure!(counters::exists(c"kunit_two"));
            Client::new(0, "kunit_one", Setup::SEED)?.finish()?;
            other.finish()?;
            Ok(failed)
        })
    }

    /// Registering memory, from `acquire` to a live MR.
    fn registering(make: fn() -> Result<Bench>, setup: Setup) -> Result {
        let client = Client::new(0, "kunit_one", setup)?;
        step(|n| {
            let bench = make()?;
            let (mr, failed) = nth(n, || bench.pd.reg(client.at(0), 4 * PAGE, USUAL));
            only_nomem(&mr)?;
            let alive = mr.as_ref().map_or(0, |_| 1);
            ensure_eq!(counters::in_use(client.name())?.0, alive);
            if let Ok(mr) = mr {
                ensure!(mr.is_valid() && !mr.state()?.original);
            }
            ensure_eq!(client.stage()?, Stage::None);
            client.is_in_order()?;
            bench.finish(&[])?;
            Ok(failed)
        })?;
        client.finish()
    }

    #[test]
    fn registering_memory_of_the_seed_style() -> Result {
        registering(Bench::hardware, Setup::SEED)
    }

    #[test]
    fn registering_memory_on_software_rdma() -> Result {
        registering(Bench::software, Setup::SEED)
    }

    #[test]
    fn registering_page_less_memory() -> Result {
        registering(Bench::hardware, Setup::GPU)
    }

    #[test]
    fn registering_memory_of_one_with_its_own_table() -> Result {
        registering(Bench::hardware, Setup::OWN_TABLE)
    }

    #[test]
    fn registering_memory_of_one_that_unmaps_itself() -> Result {
        registering(Bench::hardware, Setup::UNMAPS)
    }

    #[test]
    fn registering_memory_by_a_dynamic_dma_buf() -> Result {
        registering(|| Bench::importer(Kind::Dynamic), Setup::SEED)?;
        registering(|| Bench::importer(Kind::Dynamic), Setup::GPU)
    }

    #[test]
    fn registering_memory_by_a_revocable_dma_buf() -> Result {
        registering(|| Bench::importer(Kind::Revocable), Setup::SEED)?;
        registering(|| Bench::importer(Kind::Revocable), Setup::UNMAPS)
    }

    #[test]
    fn registering_memory_by_a_pinned_dma_buf() -> Result {
        registering(|| Bench::importer(Kind::Pinned), Setup::PERSISTENT)
    }

    /// An end of a region cannot fail for want of memory.
    fn ending(end: impl Fn(&Client, &user::Mr) -> Result) -> Result {
        ending_on(Bench::hardware, Setup::SEED, end)
    }

    /// As above, on a device of that kind.
    fn ending_on(
        make: fn() -> Result<Bench>,
        setup: Setup,
        end: impl Fn(&Client, &user::Mr) -> Result,
    ) -> Result {
        for n in 1..LIMIT {
            let bench = make()?;
            let client = Client::new(0, "kunit_one", setup)?;
            let mr = bench.pd.reg(client.at(0), 4 * PAGE, USUAL)?;
            let (result, failed) = nth(n, || end(&client, &mr));
            let valid = mr.is_alive() && mr.is_valid();
            mr.dereg()?;
            result?;
            ensure!(!valid);
            bench.finish(&[&client])?;
            if !failed {
                return Ok(());
            }
        }
        Err(EINVAL)
    }

    #[test]
    fn invalidating() -> Result {
        ending(|client, _| client.invalidate_it())
    }

    #[test]
    fn deregistering() -> Result {
        ending(|_, mr| mr.dereg())
    }

    #[test]
    fn deregistering_what_is_revoked() -> Result {
        ending(|client, mr| {
            client.invalidate_it()?;
            mr.dereg()
        })
    }

    #[test]
    fn unregistering_a_client_with_a_live_region() -> Result {
        ending(|client, _| client.finish())
    }

    #[test]
    fn invalidating_dma_bufs() -> Result {
        let dynamic: fn() -> Result<Bench> = || Bench::importer(Kind::Dynamic);
        for make in [dynamic, || Bench::importer(Kind::Revocable)] {
            ending_on(make, Setup::SEED, |client, _| client.invalidate_it())?;
            ending_on(make, Setup::SEED, |client, _| client.finish())?;
        }
        Ok(())
    }

    #[test]
    fn deregistering_dma_bufs() -> Result {
        let dynamic: fn() -> Result<Bench> = || Bench::importer(Kind::Dynamic);
        for make in [dynamic, || Bench::importer(Kind::Revocable)] {
            ending_on(make, Setup::SEED, |_, mr| mr.dereg())?;
            ending_on(make, Setup::SEED, |client, mr| {
                client.invalidate_it()?;
                mr.dereg()
            })?;
        }
        let pinned = || Bench::importer(Kind::Pinned);
        ending_on(pinned, Setup::PERSISTENT, |_, mr| mr.dereg())
    }

    #[test]
    fn reregistering() -> Result {
        let client = Client::new(0, "kunit_one", Setup::SEED)?;
        step(|n| {
            let bench = Bench::hardware()?;
            let mr = bench.pd.reg(client.at(0), 4 * PAGE, USUAL)?;
            let range = (client.at(32 * PAGE), 2 * PAGE);
            let (new, failed) = nth(n, || mr.rereg(user::TRANS, &bench.pd, range, 0));
            only_nomem(&new)?;
            ensure!(new.is_ok() || mr.is_valid());
            drop((mr, new));
            client.is_in_order()?;
            bench.finish(&[])?;
            Ok(failed)
        })?;
        client.finish()
    }

    #[test]
    fn offering_a_dma_buf() -> Result {
        let bench = Bench::importer(Kind::Dynamic)?;
        let client = Client::new(0, "kunit_one", Setup::SEED)?;
        let page = user::Page::new()?;
        step(|n| {
            let (buf, failed) = nth(n, || user::DmaBuf::export_by(&page, client.at(0), 4 * PAGE));
            only_nomem(&buf)?;
            drop(buf);
            client.is_in_order()?;
            ensure_eq!(counters::in_use(client.name())?, (0, 0, 0));
            Ok(failed)
        })?;
        bench.finish(&[&client])
    }

    #[test]
    fn importing_an_offered_dma_buf() -> Result {
        for kind in [Kind::Dynamic, Kind::Revocable] {
            let bench = Bench::importer(kind)?;
            let client = Client::new(0, "kunit_one", Setup::SEED)?;
            step(|n| {
                let buf = user::DmaBuf::export(client.at(0), 4 * PAGE)?;
                let (mr, failed) = nth(n, || bench.pd.import(&buf, 0, 4 * PAGE));
                only_nomem(&mr)?;
                drop((mr, buf));
                client.is_in_order()?;
                ensure_eq!(counters::in_use(client.name())?, (0, 0, 0));
                Ok(failed)
            })?;
            bench.finish(&[&client])?;
        }
        Ok(())
    }
}
