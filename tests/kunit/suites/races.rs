// SPDX-License-Identifier: GPL-2.0

//! Two ends of a region at the same time: invalidation, deregistration, the end of the client, and the
//! removal of the device. And ends during the registration.

#[kernel::prelude::kunit_tests(peer_mem_races)]
mod tests {
    use crate::suites::prelude::*;

    #[test]
    fn the_second_waits_for_the_first_which_waits_for_the_device() -> Result {
        let pairs = [
            (Setup::SEED, INVALIDATE, DEREGISTER),
            (Setup::SEED, INVALIDATE, UNREGISTER),
            (Setup::LOCKED, INVALIDATE, UNREGISTER),
            (Setup::SEED, INVALIDATE, REMOVE),
            (Setup::SEED, UNREGISTER, REMOVE),
        ];
        each(
            pairs.into_iter().enumerate(),
            |(_, (setup, first, second))| {
                let (t, client, mr) = live_on(Fixture::temporary(Kind::Dma)?, setup)?;
                t.dev().set(|d| d.quiesce = Quiesce::CompleteLater);
                let first = first(&t, &client, &mr)?;
                let waited = first.waits_for(Wait::Completion);
                let second = second(&t, &client, &mr)?;
                let waited = second.waits_for(Wait::Region) && waited;
                t.dev().quiesce();
                first.join()??;
                second.join()??;
                mr.dereg()?;
                ensure!(waited);
                t.finish_undone(&client)
            },
        )
    }

    /// A region is released only after the pages are put.
    #[test]
    fn the_second_waits_for_the_first_which_is_held() -> Result {
        let seed = [
            (Kind::Dma, Point::PutPages, INVALIDATE, DEREGISTER),
            (DYNAMIC, Point::Invalidate, INVALIDATE, DEREGISTER),
            (REVOCABLE, Point::Invalidate, INVALIDATE, DEREGISTER),
            (Kind::Dma, Point::PutPages, INVALIDATE, UNREGISTER),
            (Kind::Dma, Point::DeregMr, DEREGISTER, UNREGISTER),
            (PINNED, Point::DeregMr, DEREGISTER, UNREGISTER),
            (Kind::Dma, Point::DmaUnmap, DEREGISTER, UNREGISTER),
            (Kind::Dma, Point::PutPages, DEREGISTER, UNREGISTER),
            (Kind::Dma, Point::Release, DEREGISTER, UNREGISTER),
        ];
        let seed = seed.map(|row| (Setup::SEED, row));
        let setups = [Setup::SEED, Setup::LOCKED, Setup::UNMAPS].into_iter();
        let others = setups.flat_map(|setup| {
            FENCED.map(|kind| (setup, (kind, Point::DeregMr, DEREGISTER, INVALIDATE)))
        });
        each(Iterator::chain(seed.into_iter(), others), |(setup, row)| {
            let (kind, point, first, second) = row;
            let (t, client, mr) = live(kind, setup)?;
            let wait = match point {
                // The region has ended.
                Point::Release => Wait::Client,
                _ => Wait::Region,
            };
            let first = t.held(point, || first(&t, &client, &mr))?;
            first.overlap(wait, second(&t, &client, &mr)?)??;
            mr.dereg()?;
            ensure_eq!(t.calls(Point::Release)?, 1);
            if setup.unmaps {
                return t.finish();
            }
            t.finish_undone(&client)
        })
    }

    /// Invalidates, or ends the client, during a registration that is held at `point`: waits for the
    /// registration, and revokes the MR. If `fails`, the registration fails.
    fn during(row: (Kind, Setup, Point), fails: bool, unregisters: bool) -> Result {
        let (kind, setup, point) = row;
        let (t, client) = with_client(kind, setup)?;
        if fails {
            // Pages are put only after a failure elsewhere.
            let failing = match point {
                Point::PutPages => Point::AllocMr,
                point => point,
            };
            t.fail(failing, ENOSPC)?;
        }
        let (wait, error) = match point {
            // There is no region yet.
            Point::Acquire => (Wait::Client, Some(ENODEV)),
            _ => (Wait::Region, fails.then_some(ENOSPC)),
        };
        let first = t.held(point, || t.registration(&client, 0, 4 * PAGE))?;
        let second = if unregisters {
            unregistration(&client)?
        } else {
            invalidation(&client)?
        };
        let result = first.overlap(wait, second)?;
        ensure_eq!(result.as_ref().err().copied(), error);
        if let Ok(mr) = result {
            ensure!(!mr.is_valid());
            ensure!(unregisters || client.stage() == Stage::Acquired);
            mr.dereg()?;
        }
        ensure_eq!(t.dev().objects(), (0, 0, 0));
        ensure_eq!(t.calls(Point::Release)?, 1);
        t.finish()
    }

    #[test]
    fn an_end_waits_for_a_registration() -> Result {
        let fast = [
            (Kind::Dma, Setup::GPU, Point::DmaMap),
            (Kind::Dma, Setup::SEED, Point::AllocMr),
            (Kind::Dma, Setup::SEED, Point::CreateQp),
            (Kind::Dma, Setup::SEED, Point::PostReg),
            (Kind::Dma, Setup::LOCKED, Point::AllocMr),
            (Kind::Dma, Setup::UNMAPS, Point::PostReg),
        ];
        let shapes = [Setup::SEED, Setup::GPU, Setup::LOCKED, Setup::UNMAPS];
        during((Kind::Dma, Setup::SEED, Point::PageSize), false, false)?;
        each([false, true], |fails| {
            each([false, true], |unregisters| {
                each(fast, |row| during(row, fails, unregisters))
            })?;
            each(shapes, |setup| {
                each([Point::Import, Point::Imported], |point| {
                    each(DMA_BUFS, |kind| during((kind, setup, point), fails, false))
                })
            })
        })?;
        each(DMA_BUFS, |kind| {
            during((kind, Setup::SEED, Point::Imported), false, true)
        })?;
        // The client does not know the ticket yet, or not any more.
        let seed = [
            (Point::Acquire, false),
            (Point::GetPages, false),
            (Point::GetPages, true),
            (Point::PutPages, true),
        ];
        each(seed, |(point, fails)| {
            during((Kind::Dma, Setup::SEED, point), fails, true)
        })
    }

    /// The invalidation waits while the driver refuses, and then revokes the MR.
    #[test]
    fn invalidate_while_the_driver_refuses_to_deregister() -> Result {
        each(FENCED, |kind| {
            let (t, client, mr) = live(kind, Setup::SEED)?;
            t.fail(Point::DeregMr, EBUSY)?;
            let first = t.held(Point::DeregMr, || deregistration(&mr))?;
            let result = first.overlap(Wait::Region, invalidation(&client)?)?;
            ensure_eq!(result.err(), Some(EBUSY));
            ensure!(!mr.is_valid());
            ensure_eq!(client.stage(), Stage::Acquired);
            t.dereg_and_finish_undone(&mr, &client)
        })
    }

    /// Invalidates while a deregistration, past the driver, is held at a point. The device has
    /// stopped. If the invalidation waited, the wait could be for a lock held by the caller: the task
    /// is held before taking the mutex of a client.
    #[test]
    fn invalidate_after_the_driver_has_deregistered_returns_at_once() -> Result {
        let points = [
            (Setup::SEED, Point::PutPages),
            (Setup::LOCKED, Point::PutPages),
            (Setup::SEED, Point::Release),
        ];
        each(points, |(setup, point)| {
            let (t, client, mr) = live(Kind::Dma, setup)?;
            let leaving = t.held(point, || deregistration(&mr))?;
            invalidation(&client)?.join()??;
            leaving.join()??;
            t.finish_undone(&client)
        })
    }

    #[test]
    fn a_refused_dereg_leaves_it() -> Result {
        each([Kind::Dma, DYNAMIC, REVOCABLE, PINNED], |kind| {
            let (t, client, mr) = live(kind, Setup::SEED)?;
            t.fail(Point::DeregMr, EBUSY)?;
            ensure_eq!(mr.dereg().err(), Some(EBUSY));
            ensure!(mr.is_valid());
            ensure_eq!(client.stage(), Stage::Mapped);
            if kind == PINNED {
                return t.dereg_and_finish_undone(&mr, &client);
            }
            client.invalidate_last()?;
            t.fail(Point::DeregMr, EBUSY)?;
            ensure_eq!(mr.dereg().err(), Some(EBUSY));
            ensure_eq!(t.calls(Point::Release)?, 0);
            t.dereg_and_finish_undone(&mr, &client)
        })
    }

    #[test]
    fn an_mr_that_reuses_the_key_of_one_whose_deregistration_has_not_returned() -> Result {
        let (t, _, mr) = live(Kind::Dma, Setup::SEED)?;
        let key = mr.key();
        t.dev().set(|d| d.reuses_mr = true);
        let first = t.held(Point::Deregistered, || deregistration(&mr))?;
        // On host memory, at the address of the MR that the driver has freed.
        let other = Arc::new(t.pd.reg(0x5000, PAGE, USUAL)?, GFP_KERNEL)?;
        let reused = other.key() == key;
        let putting = t.hold(Point::PutPages)?;
        let second = deregistration(&other)?;
        // The second task does not wait for the first task, which has another region.
        let waited = second.waits_for(Wait::Anything);
        let first = first.let_go();
        let reached = putting.reached();
        let ended = second.join()?;
        let released = t.calls(Point::Release)?;
        putting.open();
        first.join()??;
        reached?;
        ended?;
        ensure!(reused);
        ensure_eq!(released, 0);
        ensure!(!waited);
        t.finish()
    }

    #[test]
    fn many_tasks_many_times() -> Result {
        const ROUNDS: u32 = 50;
        each(FENCED, |kind| {
            let (t, client) = with_client(kind, Setup::SEED)?;
            for point in [Point::PostInv, Point::Invalidate] {
                t.dev().script.slow(point, 1);
            }
            let users = [0u64, 16, 32].map(|page| {
                let (pd, client) = (t.pd.clone(), client.clone());
                Task::spawn(move || -> Result {
                    for i in 0..ROUNDS {
                        let len = PAGE * u64::from(i % 4 + 1);
                        let mr = pd.reg(client.at(page * PAGE), len, USUAL)?;
                        // The ticket of any task: of a region in registration, live, or in teardown.
                        let ticket = client.ticket()?;
                        if (i + page as u32) % 3 == 0 {
                            client.invalidate(ticket)?;
                        }
                        mr.dereg()?;
                    }
                    Ok(())
                })
            });
            let mut seed = 12345u32;
            let mut result = Ok(());
            // Tickets near the last ticket, also of later regions.
            while !users
                .iter()
                .all(|t| t.as_ref().map_or(true, |t| t.is_done()))
            {
                seed = seed.wrapping_mul(1664525).wrapping_add(1013904223);
                let near = client.ticket().unwrap_or(1) + u64::from(seed >> 30);
                if client.invalidate(near.saturating_sub(1)) != Ok(0) {
                    result = Err(EIO);
                }
                fsleep(Delta::from_micros(500));
            }
            for task in users {
                task?.join()??;
            }
            result?;
            t.finish()
        })
    }
}
