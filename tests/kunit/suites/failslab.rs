// SPDX-License-Identifier: GPL-2.0

//! Allocation failures: each allocation of an operation fails in turn.
//!
//! The n-th allocation of the calling task fails, for n = 1, 2, ... until the operation makes fewer
//! allocations. After each round the fakes check that nothing is left.

use kernel::prelude::*;

#[kunit_tests(peer_mem_failslab)]
mod tests {
    use crate::{
        helpers,
        suites::prelude::*,
        sync::until, //
    };

    /// More allocations than any operation here makes.
    const LIMIT: u32 = 1000;

    /// Runs `op` with the `n`th allocation failing. Also returns whether `op` made `n` allocations.
    fn nth<T>(n: u32, op: impl FnOnce() -> T) -> (T, bool) {
        // SAFETY: The function has no requirements.
        unsafe { helpers::kt_fail_nth(n) };
        let result = op();
        // SAFETY: The function has no requirements.
        let left = unsafe { helpers::kt_fail_left() };
        // SAFETY: The function has no requirements.
        unsafe { helpers::kt_fail_nth(0) };
        (result, left == 0)
    }

    /// Calls `op` with n = 1, 2, ... until the result of `op` says that fewer than `n` allocations
    /// were made.
    fn step(mut op: impl FnMut(u32) -> Result<bool>) -> Result {
        for n in 1..LIMIT {
            match op(n) {
                Ok(true) => (),
                Ok(false) => {
                    pr_info!("{} allocations failed in turn\n", n - 1);
                    // Fault injection works.
                    ensure!(n > 1);
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
        step(|n| {
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
        step(|n| {
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
    fn registering(kind: impl Into<Kind>, setup: Setup) -> Result {
        let (t, client) = with_client(kind, setup)?;
        step(|n| {
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
    fn registering_memory_of_each_shape() -> Result {
        let shapes = [Setup::SEED, Setup::GPU, Setup::OWN_TABLE, Setup::UNMAPS];
        each(shapes, |setup| registering(Kind::Dma, setup))
    }

    #[test]
    fn registering_memory_on_software_rdma() -> Result {
        registering(Kind::Virtual, Setup::SEED)
    }

    #[test]
    fn registering_memory_by_a_dynamic_dma_buf() -> Result {
        registering(Mode::Dynamic, Setup::SEED)?;
        registering(Mode::Dynamic, Setup::GPU)
    }

    #[test]
    fn registering_memory_by_a_revocable_dma_buf() -> Result {
        registering(Mode::Revocable, Setup::SEED)?;
        registering(Mode::Revocable, Setup::UNMAPS)
    }

    #[test]
    fn registering_memory_by_a_pinned_dma_buf() -> Result {
        registering(Mode::Pinned, Setup::PERSISTENT)
    }

    /// Checks that `end`, which ends a region, does not fail without memory.
    fn ending(
        kind: impl Into<Kind>,
        setup: Setup,
        end: impl Fn(&Client, &user::Mr) -> Result,
    ) -> Result {
        let kind = kind.into();
        for n in 1..LIMIT {
            let (t, client, mr) = live(kind, setup)?;
            let (result, failed) = nth(n, || end(&client, &mr));
            let valid = mr.is_alive() && mr.is_valid();
            mr.dereg()?;
            result?;
            ensure!(!valid);
            t.finish()?;
            if !failed {
                return Ok(());
            }
        }
        Err(EINVAL)
    }

    fn invalidate(client: &Client, _mr: &user::Mr) -> Result {
        client.invalidate_last()
    }

    fn deregister(_client: &Client, mr: &user::Mr) -> Result {
        mr.dereg()
    }

    fn deregister_after_invalidation(client: &Client, mr: &user::Mr) -> Result {
        client.invalidate_last()?;
        mr.dereg()
    }

    fn unregister(client: &Client, _mr: &user::Mr) -> Result {
        client.finish()
    }

    #[test]
    fn invalidating() -> Result {
        ending(Kind::Dma, Setup::SEED, invalidate)
    }

    #[test]
    fn deregistering() -> Result {
        ending(Kind::Dma, Setup::SEED, deregister)
    }

    #[test]
    fn deregistering_a_revoked_mr() -> Result {
        ending(Kind::Dma, Setup::SEED, deregister_after_invalidation)
    }

    #[test]
    fn unregistering_a_client_with_a_live_region() -> Result {
        ending(Kind::Dma, Setup::SEED, unregister)
    }

    #[test]
    fn invalidating_dma_bufs() -> Result {
        for mode in [Mode::Dynamic, Mode::Revocable] {
            ending(mode, Setup::SEED, invalidate)?;
            ending(mode, Setup::SEED, unregister)?;
        }
        Ok(())
    }

    /// An error of the driver is seen, whatever allocation fails: without memory for the probe on the
    /// driver, the driver is not asked.
    #[test]
    fn invalidating_by_a_driver_that_fails() -> Result {
        for n in 1..LIMIT {
            let (t, client, mr) = live(Mode::Dynamic, Setup::SEED)?;
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
            if !failed {
                ensure!(n > 1);
                return Ok(());
            }
        }
        Err(EINVAL)
    }

    #[test]
    fn deregistering_dma_bufs() -> Result {
        for mode in [Mode::Dynamic, Mode::Revocable] {
            ending(mode, Setup::SEED, deregister)?;
            ending(mode, Setup::SEED, deregister_after_invalidation)?;
        }
        ending(Mode::Pinned, Setup::PERSISTENT, deregister)
    }

    #[test]
    fn reregistering() -> Result {
        let (t, client) = with_client(Kind::Dma, Setup::SEED)?;
        step(|n| {
            let mr = t.reg(&client, 4 * PAGE)?;
            let range = (client.at(32 * PAGE), 2 * PAGE);
            let (new, failed) = nth(n, || mr.rereg(user::TRANS, &t.pd, range, 0));
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
        let (t, client) = with_client(Mode::Dynamic, Setup::SEED)?;
        let page = user::Page::new()?;
        step(|n| {
            let (buf, failed) = nth(n, || user::DmaBuf::export_by(&page, client.at(0), 4 * PAGE));
            only_nomem(&buf)?;
            drop(buf);
            client.check()?;
            ensure_eq!(counters::in_use(client.name())?, (0, 0, 0));
            Ok(failed)
        })?;
        t.finish()
    }

    #[test]
    fn importing_an_exported_dma_buf() -> Result {
        each([Mode::Dynamic, Mode::Revocable], |mode| {
            let (t, client) = with_client(mode, Setup::SEED)?;
            step(|n| {
                let buf = user::DmaBuf::export(client.at(0), 4 * PAGE)?;
                let (mr, failed) = nth(n, || t.pd.import(&buf, 0, 4 * PAGE));
                only_nomem(&mr)?;
                drop((mr, buf));
                client.check()?;
                ensure_eq!(counters::in_use(client.name())?, (0, 0, 0));
                Ok(failed)
            })?;
            t.finish()
        })
    }
}
