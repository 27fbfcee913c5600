// SPDX-License-Identifier: GPL-2.0

//! Waits for dead devices, and the events that end the waits: Documentation/locking.rst has the
//! list. The suites `removal` and `dma_buf/removal` have more waits.

#[kernel::prelude::kunit_tests(peer_mem_bounds)]
mod tests {
    use crate::suites::prelude::*;

    #[test]
    fn a_device_that_is_gone_from_the_bus_needs_no_fence() -> Result {
        let (t, client, fenced) = live_temporary(Kind::Pci)?;
        client.invalidate_last()?;
        ensure!(!fenced.is_valid());
        ensure_eq!(t.calls(Point::PostInv)?, 1);
        let mr = t.reg_at(&client, 16 * PAGE, PAGE)?;
        let other = t.reg_at(&client, 8 * PAGE, PAGE)?;
        t.registered().leave_bus();
        invalidation(&client)?.join()??;
        let stage = client.stage();
        removal(&t)?.join()??;
        let posted = t.calls(Point::PostInv)?;
        for mr in [fenced, mr, other] {
            mr.dereg()?;
        }
        ensure_eq!(stage, Stage::Acquired);
        ensure_eq!(posted, 1);
        ensure_eq!(t.calls(Point::Release)?, 3);
        t.finish()
    }

    #[test]
    fn a_removed_device_has_the_time_of_one_work_request_for_all_regions() -> Result {
        let t = Fixture::temporary(Kind::Dma)?;
        let client = t.client(Setup::SEED)?;
        let pds = [Pd::new(t.registered())?, Pd::new(t.registered())?];
        // Each PD has a queue pair of its own.
        let one = pds[0].reg(client.at(8 * PAGE), PAGE, USUAL)?;
        let two = pds[1].reg(client.at(16 * PAGE), PAGE, USUAL)?;
        let mr = t.reg(&client, 4 * PAGE)?;
        // Like a dying device: the device accesses nothing and completes nothing.
        t.registered().leave_bus();
        // The work request of the invalidation is overdue when the removal begins, so the removal
        // does not wait for another work request on the same queue pair.
        let invalidating = invalidation(&client)?;
        let waited = invalidating.waits_for(Wait::Completion);
        removal(&t)?.join()??;
        let posted = t.calls(Point::PostInv)?;
        invalidating.join()??;
        for mr in [&*mr, &one, &two] {
            mr.dereg()?;
        }
        drop(pds);
        ensure!(waited);
        // The pages of the other regions stay pinned until the client ends the regions.
        ensure_eq!(t.calls(Point::PutPages)?, 1);
        ensure_eq!(t.calls(Point::Release)?, 0);
        client.finish()?;
        ensure_eq!(t.calls(Point::Release)?, 3);
        // The core waits for each work request: for the request of the invalidation, and for a
        // request of the removal, unless the removal finds the invalidation's request overdue.
        ensure!(posted <= 2);
        t.finish()
    }

    /// What happens to a device with a live region.
    type Happens = fn(&Fixture) -> Result;

    /// A device that cannot be made to stop: work requests fail, mlx5 ignores a failed invalidation and
    /// unmaps, the device has reported a fatal error, or the driver cannot revoke.
    #[test]
    fn a_region_of_a_dead_device_ends_with_the_deregistration() -> Result {
        let refuses: Happens = |t| t.fail_always(Point::PostInv, EIO);
        let fails: Happens = |t| t.fail(Point::Invalidate, ENOMEM);
        let fails_as_well: Happens = |t| t.fail(Point::Invalidate, EIO);
        let dies: Happens = |t| {
            t.registered().report_fatal();
            Ok(())
        };
        let nothing: Happens = |_| Ok(());
        // If the memory is exported, the region has no device, so the core must look at the importing
        // device, also at an error that comes while the core waits for the importer.
        let cases: [(Kind, Happens, End, bool); 12] = [
            (Kind::Dma, refuses, INVALIDATE, false),
            (Kind::Dma, refuses, UNREGISTER, false),
            (DYNAMIC, dies, INVALIDATE, false),
            (DYNAMIC, dies, UNREGISTER, false),
            (REVOCABLE, dies, INVALIDATE, false),
            (REVOCABLE, dies, UNREGISTER, false),
            (DYNAMIC, fails, INVALIDATE, false),
            (DYNAMIC, fails_as_well, INVALIDATE, false),
            (PINNED, nothing, UNREGISTER, false),
            (DYNAMIC, fails, INVALIDATE, true),
            (DYNAMIC, dies, INVALIDATE, true),
            (PINNED, nothing, UNREGISTER, true),
        ];
        each(cases.into_iter().enumerate(), |(_, case)| {
            let (kind, happens, end, exported) = case;
            let t = Fixture::temporary(kind)?;
            let client = t.client(fitting(kind, Setup::SEED))?;
            let (mr, buf) = if exported {
                let buf = DmaBuf::export(client.at(0), PAGE)?;
                (
                    Arc::new(t.pd.import(&buf, 0, PAGE)?, GFP_KERNEL)?,
                    Some(buf),
                )
            } else {
                (t.reg(&client, PAGE)?, None)
            };
            happens(&t)?;
            let ending = end(&t, &client, &mr)?;
            let waited = ending.waits_for(Wait::Retry);
            let stage = client.stage();
            deregistration(&mr)?.join()??;
            ending.join()??;
            drop(buf);
            ensure!(waited);
            // Nothing was unmapped or put before.
            ensure_eq!(stage, Stage::Mapped);
            t.finish_undone(&client)
        })
    }

    #[test]
    fn an_invalidation_ends_with_the_removal() -> Result {
        let (t, client, mr) = live_temporary(Kind::Dma)?;
        t.fail_always(Point::PostInv, EIO)?;
        t.registered().leave_bus();
        let invalidating = invalidation(&client)?;
        let waited = invalidating.waits_for(Wait::Retry);
        let stage = client.stage();
        removal(&t)?.join()??;
        invalidating.join()??;
        ensure_eq!(stage, Stage::Mapped);
        mr.dereg()?;
        ensure!(waited);
        client.finish()?;
        t.finish_undone(&client)
    }

    /// The importer of a dma-buf never unmaps. A second dma-buf has a fence that is never
    /// signalled.
    #[test]
    fn dma_bufs_of_dead_importers() -> Result {
        let (fenced, client, fenced_mr) = live(DYNAMIC, Setup::SEED)?;
        fenced.dev().set(|d| d.quiesce = Quiesce::FenceOfAProcess);
        let invalidating = invalidation(&client)?;
        let waited = invalidating.waits_for(Wait::Fences);

        let t = Fixture::temporary(DYNAMIC)?;
        let mr = t.pd.reg(client.at(32 * PAGE), PAGE, USUAL)?;
        t.dev().set(|d| d.quiesce = Quiesce::UnmapLater);
        let leaving = bare_removal(&t)?;
        let (valid, released) = (mr.is_valid(), client.script().calls(Point::Release));
        // The driver unmaps in its dereg_mr, and so ends the region.
        mr.dereg()?;
        let released_by_dereg = client.script().calls(Point::Release);
        leaving.join()?;

        invalidating.join()??;
        let stages = client.script().calls(Point::PutPages);
        fenced.dev().quiesce();
        fenced_mr.dereg()?;
        ensure!(waited && valid);
        ensure_eq!((released, released_by_dereg), (0, 1));
        ensure_eq!(stages, 2);
        t.finish()?;
        fenced.finish()
    }

    /// Exports of a client, each with a ticket and a fence. Drop signals the fences.
    struct Fenced {
        // Dropped in this order.
        fences: KVec<Fence>,
        exports: KVec<(u64, Option<user::Mr>, DmaBuf)>,
    }

    impl Fenced {
        /// Makes three exports. If `mapped`, there is an MR on each export.
        fn new(t: &Fixture, client: &Client, mapped: bool) -> Result<Self> {
            let (mut fences, mut exports) = (KVec::new(), KVec::new());
            for page in [0, 8, 16] {
                let buf = DmaBuf::export(client.at(page * PAGE), PAGE)?;
                let import = || t.pd.import(&buf, 0, PAGE);
                let mr = mapped.then(import).transpose()?;
                fences.push(Leaked::of(&buf)?.add_fence()?, GFP_KERNEL)?;
                exports.push((client.ticket()?, mr, buf), GFP_KERNEL)?;
            }
            Ok(Self { fences, exports })
        }

        /// Deregisters the MRs. Returns whether one was valid.
        fn dereg(&self) -> Result<bool> {
            let mut valid = false;
            for mr in self.exports.iter().filter_map(|export| export.1.as_ref()) {
                valid |= mr.is_valid();
                mr.dereg()?;
            }
            Ok(valid)
        }
    }

    #[test]
    fn fences_of_exports_that_no_device_has_mapped() -> Result {
        let (t, client) = with_client(DYNAMIC, Setup::SEED)?;
        let fenced = Fenced::new(&t, &client, false)?;
        let waits = Waits::for_fences(0)?;
        let result = client.invalidate(fenced.exports[0].0);
        client.finish()?;
        let count = waits.count();
        drop(fenced);
        result?;
        ensure_eq!(count, 0);
        t.finish()
    }

    /// Three exports of a client that is unregistered, and three exports of a client that
    /// invalidates the exports in turn.
    #[test]
    fn fences_of_many_exports_are_waited_for_once() -> Result {
        let t = Fixture::new(DYNAMIC)?;
        let (leaving, client) = (t.client(Setup::SEED)?, t.client(Setup::SEED)?);
        let of_leaving = Fenced::new(&t, &leaving, true)?;
        let fenced = Fenced::new(&t, &client, true)?;
        // The whole time is 30 s. After a wait little time is left, so only first waits have a
        // limit of 15 s or more.
        let waits = Waits::for_fences(15_000)?;
        let ending = unregistration(&leaving)?;
        let mut exports = fenced.exports.iter();
        let result = exports.try_for_each(|export| client.invalidate(export.0).map(drop));
        ending.join()??;
        let long = waits.count();
        // The invalidations have used the time up, but the unregistration has a time of its own.
        let mut late = Fenced::new(&t, &client, true)?;
        let ending = unregistration(&client)?;
        let renewed = ending.waits_for(Wait::Fences) && waits.count() == 3;
        late.fences.clear();
        ending.join()??;
        let (one, other) = (of_leaving.dereg(), fenced.dereg());
        let last = late.dereg();
        drop((of_leaving, fenced, late));
        result?;
        ensure!(!one? && !other? && !last?);
        ensure!(renewed);
        // A long wait of the unregistration, and a long wait of all invalidations together.
        ensure_eq!(long, 2);
        t.finish()
    }

    #[test]
    fn an_mr_that_its_user_does_not_complete_is_fenced() -> Result {
        let (t, client, mr) = live(Kind::Dma, Setup::SEED)?;
        mr.uncomplete();
        invalidation(&client)?.join()??;
        ensure!(!mr.is_valid());
        t.dereg_and_finish(&mr)
    }
}
