// SPDX-License-Identifier: GPL-2.0

//! Allocation failures: each allocation of an operation fails in turn.
//!
//! The n-th allocation of the calling task fails, for n = 1, 2, ... until the operation makes fewer
//! allocations. After each round the fakes check that nothing is left.

#[kernel::prelude::kunit_tests(peer_mem_failslab)]
mod tests {
    use crate::suites::prelude::*;

    /// More allocations than any operation here makes.
    const LIMIT: u32 = 1000;

    /// Makes the calling task's `n`th allocation from now on fail; 0: none. Returns the last value
    /// less the allocations since.
    fn fail_nth(n: u32) -> u32 {
        // SAFETY: Only the task itself uses the field.
        mem::replace(unsafe { &mut (*current!().as_ptr()).fail_nth }, n)
    }

    /// Runs `op` with the `n`th allocation failing. Also returns whether `op` made `n` allocations.
    fn nth<T>(n: u32, op: impl FnOnce() -> T) -> (T, bool) {
        fail_nth(n);
        let result = op();
        (result, fail_nth(0) == 0)
    }

    /// Calls `op` with n = 1, 2, ... until the result of `op` says that fewer than `n` allocations
    /// were made. Fails with less than `least` allocations.
    fn step(least: u32, mut op: impl FnMut(u32) -> Result<bool>) -> Result {
        for n in 1..LIMIT {
            match op(n) {
                Ok(true) => (),
                Ok(false) => {
                    pr_info!("{} allocations failed in turn\n", n - 1);
                    ensure!(n > least);
                    return Ok(());
                }
                Err(e) => {
                    diagnostic!("with a failing allocation {}", n);
                    return Err(e);
                }
            }
        }
        Err(EINVAL)
    }

    /// Checks that the result is no error, or `ENOMEM`.
    fn only_nomem<T>(result: &Result<T>) -> Result {
        if let Some(e) = result.as_ref().err() {
            ensure_eq!(*e, ENOMEM);
        }
        Ok(())
    }

    #[test]
    fn registering_a_client() -> Result {
        step(1, |n| {
            let (client, failed) = nth(n, || Client::new(0, "kunit_first", Setup::SEED));
            if let Ok(client) = client {
                client.finish()?;
            }
            ensure!(!counters::exists(c"kunit_first"));
            Client::new(0, "kunit_first", Setup::SEED)?.finish()?;
            Ok(failed)
        })
    }

    #[test]
    fn unregistering_a_client() -> Result {
        step(1, |n| {
            let other = Client::new(1, "kunit_second", Setup::SEED)?;
            let client = Client::new(0, "kunit_first", Setup::SEED)?;
            let (result, failed) = nth(n, || client.finish());
            result?;
            ensure!(!counters::exists(c"kunit_first"));
            ensure!(counters::exists(c"kunit_second"));
            Client::new(0, "kunit_first", Setup::SEED)?.finish()?;
            other.finish()?;
            Ok(failed)
        })
    }

    /// Registers memory, from `acquire` to a live MR.
    fn registering(kind: Kind, setup: Setup) -> Result {
        let (t, client) = with_client(kind, setup)?;
        step(1, |n| {
            let (mr, failed) = nth(n, || t.pd.reg(client.at(0), 4 * PAGE, USUAL));
            only_nomem(&mr)?;
            let alive = mr.as_ref().map_or(0, |_| 1);
            ensure_eq!(counters::in_use(client.name())?.0, alive);
            if let Ok(mr) = mr {
                ensure!(mr.is_valid() && !mr.state()?.original);
            }
            ensure_eq!(client.stage(), Stage::None);
            t.check()?;
            Ok(failed)
        })?;
        t.finish()
    }

    #[test]
    fn registering_memory() -> Result {
        let shapes = [Setup::SEED, Setup::GPU, Setup::OWN_TABLE, Setup::UNMAPS];
        each(shapes, |setup| registering(Kind::Dma, setup))?;
        let others = [
            (Kind::Virtual, Setup::SEED),
            (DYNAMIC, Setup::SEED),
            (DYNAMIC, Setup::GPU),
            (REVOCABLE, Setup::UNMAPS),
            (PINNED, Setup::PERSISTENT),
        ];
        each(others, |(kind, setup)| registering(kind, setup))
    }

    /// Checks that `end`, which ends a region, does not fail without memory.
    fn ending(kind: Kind, setup: Setup, end: impl Fn(&Client, &user::Mr) -> Result) -> Result {
        step(0, |n| {
            let (t, client, mr) = live(kind, setup)?;
            let (result, failed) = nth(n, || end(&client, &mr));
            let valid = mr.is_alive() && mr.is_valid();
            mr.dereg()?;
            result?;
            ensure!(!valid);
            t.finish()?;
            Ok(failed)
        })
    }

    #[test]
    fn ending_a_region() -> Result {
        type End = fn(&Client, &user::Mr) -> Result;
        let deregister: End = |_, mr| mr.dereg();
        let ends: [End; 4] = [
            deregister,
            |client, _| client.invalidate_last(),
            |client, _| client.finish(),
            |client, mr| client.invalidate_last().and_then(|()| mr.dereg()),
        ];
        each(FENCED, |kind| {
            ends.iter()
                .try_for_each(|end| ending(kind, Setup::SEED, end))
        })?;
        ending(PINNED, Setup::PERSISTENT, deregister)
    }

    /// An error of the driver is seen, whatever allocation fails: without memory for the probe on the
    /// driver, the driver is not asked.
    #[test]
    fn invalidating_by_a_driver_that_fails() -> Result {
        step(1, |n| {
            let (t, client, mr) = live(DYNAMIC, Setup::SEED)?;
            t.fail(Point::Invalidate, ENOMEM)?;
            let invalidated = client.clone();
            let ending = Task::spawn(move || nth(n, || invalidated.invalidate_last()))?;
            until(|| t.calls(Point::Invalidate) == Ok(1))?;
            let waited = ending.waits_for(Wait::Retry);
            let stage = client.stage();
            mr.dereg()?;
            let (result, failed) = ending.join()?;
            result?;
            ensure!(waited);
            ensure_eq!(stage, Stage::Mapped);
            t.finish_undone(&client)?;
            Ok(failed)
        })
    }

    #[test]
    fn reregistering() -> Result {
        let (t, client) = with_client(Kind::Dma, Setup::SEED)?;
        step(1, |n| {
            let mr = t.reg(&client, 4 * PAGE)?;
            let range = (client.at(32 * PAGE), 2 * PAGE);
            let (new, failed) = nth(n, || mr.rereg(TRANS, &t.pd, range, 0));
            only_nomem(&new)?;
            ensure!(new.is_ok() || mr.is_valid());
            drop((mr, new));
            t.check()?;
            Ok(failed)
        })?;
        t.finish()
    }

    #[test]
    fn exporting_a_dma_buf() -> Result {
        let (t, client) = with_client(DYNAMIC, Setup::SEED)?;
        let page = user::Page::new()?;
        step(1, |n| {
            let (buf, failed) = nth(n, || DmaBuf::export_by(&page, client.at(0), 4 * PAGE));
            only_nomem(&buf)?;
            drop(buf);
            t.check()?;
            Ok(failed)
        })?;
        t.finish()
    }

    #[test]
    fn importing_an_exported_dma_buf() -> Result {
        each(DMA_BUFS, |kind| {
            let (t, client) = with_client(kind, Setup::SEED)?;
            step(1, |n| {
                let buf = DmaBuf::export(client.at(0), 4 * PAGE)?;
                let (mr, failed) = nth(n, || t.pd.import(&buf, 0, 4 * PAGE));
                only_nomem(&mr)?;
                drop((mr, buf));
                t.check()?;
                Ok(failed)
            })?;
            t.finish()
        })
    }
}
