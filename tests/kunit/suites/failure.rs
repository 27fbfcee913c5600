// SPDX-License-Identifier: GPL-2.0

//! Failures of callbacks and device operations: the registration is undone once, and the errno
//! reaches the caller.

#[kernel::prelude::kunit_tests(peer_mem_failure)]
mod tests {
    use crate::suites::prelude::*;

    /// Checks a registration whose `n`th call at `point` fails.
    fn fails((kind, setup, point, n): (Kind, Setup, Point, u32)) -> Result {
        let (t, client) = with_client(kind, setup)?;
        t.script(point)?.fail_at(point, n, ENOSPC);
        ensure_eq!(t.reg(&client, 4 * PAGE).err(), Some(ENOSPC));
        let script = client.script();
        let got = script.calls(Point::GetPages) - u32::from(point == Point::GetPages);
        let mapped = script.calls(Point::DmaMap) - u32::from(point == Point::DmaMap);
        ensure_eq!(script.calls(Point::PutPages), got);
        ensure_eq!(script.calls(Point::DmaUnmap), mapped);
        ensure_eq!(script.calls(Point::Release), u32::from(!setup.bare));
        ensure_eq!(t.dev().objects(), (0, 0, 0));
        let imported = t.calls(Point::Import)? > 0;
        ensure!(!imported || !is_dma_buf(t.dev().last_import().fd));
        ensure_eq!(counters::get(client.name(), c"num_alloc_mrs")?, 0);
        ensure_eq!(counters::get(client.name(), c"num_reg_pages")?, 0);
        // The next registration is not affected.
        let mr = t.reg(&client, 4 * PAGE)?;
        ensure!(mr.is_valid());
        t.drop_and_finish(mr)
    }

    #[test]
    fn of_fast_registration() -> Result {
        let steps = [
            (Point::GetPages, 1),
            (Point::AllocMr, 1),
            (Point::MapMrSg, 1),
            (Point::CreateCq, 1),
            (Point::CreateQp, 1),
            // To reset, init, ready to receive and ready to send.
            (Point::ModifyQp, 1),
            (Point::ModifyQp, 2),
            (Point::ModifyQp, 3),
            (Point::ModifyQp, 4),
            (Point::PostReg, 1),
        ];
        each([Kind::Dma, Kind::Virtual], |kind| {
            each(steps, |(point, n)| fails((kind, Setup::SEED, point, n)))
        })
    }

    #[test]
    fn of_each_shape() -> Result {
        let mapping = [Setup::SEED, Setup::OWN_TABLE, Setup::GPU];
        each(mapping, |s| fails((Kind::Dma, s, Point::DmaMap, 1)))?;
        let others = [Setup::LOCKED, Setup::UNMAPS, Setup::BARE];
        each(others, |s| fails((Kind::Dma, s, Point::AllocMr, 1)))
    }

    #[test]
    fn of_a_driver_that_imports() -> Result {
        each(PEER2PEER, |kind| {
            fails((kind, Setup::SEED, Point::Import, 1))?;
            each(Setup::ALL_REVOCABLE, |setup| {
                fails((kind, fitting(kind, setup), Point::Imported, 1))
            })
        })
    }

    /// Fast registration has no DMA handles.
    #[test]
    fn a_dma_handle() -> Result {
        each([Kind::Dma, Kind::Virtual], |kind| {
            let (t, client) = with_client(kind, Setup::SEED)?;
            ensure!(is_unsupported(&t.pd.reg_by_verb(client.at(0), PAGE)));
            ensure_eq!(t.dev().objects(), (0, 0, 0));
            ensure_eq!(t.calls(Point::PutPages)?, 1);
            ensure_eq!(t.calls(Point::Release)?, 1);
            t.finish()
        })
    }

    #[test]
    fn the_queue_pair_works_again_after_a_failed_work_request() -> Result {
        let (t, client) = with_client(Kind::Dma, Setup::SEED)?;
        // This MR keeps the queue pair.
        let mr = t.reg(&client, PAGE)?;
        t.dev().set(|d| d.fails_work_request = true);
        let failed = t.reg_at(&client, 8 * PAGE, PAGE);
        ensure_eq!(failed.err(), Some(EIO));
        ensure_eq!(t.calls(Point::PutPages)?, 1);
        let next = t.reg_at(&client, 8 * PAGE, PAGE)?;
        ensure!(mr.is_valid() && next.is_valid());
        ensure_eq!(t.calls(Point::CreateQp)?, 1);
        client.invalidate_last()?;
        ensure!(!next.is_valid() && mr.is_valid());
        t.drop_and_finish((mr, next))
    }

    #[test]
    fn mrs_of_one_pd_share_a_queue_pair() -> Result {
        let (t, client) = with_client(Kind::Dma, Setup::SEED)?;
        let one = t.reg(&client, PAGE)?;
        let two = t.reg_at(&client, 8 * PAGE, PAGE)?;
        let pd = Pd::new(t.registered())?;
        let three = pd.reg(client.at(16 * PAGE), PAGE, USUAL)?;
        ensure_eq!(t.dev().objects(), (3, 2, 2));
        drop(three);
        ensure_eq!(t.dev().objects(), (2, 1, 1));
        drop(pd);
        t.drop_and_finish((one, two))
    }

    #[test]
    fn dma_unmap_may_fail() -> Result {
        let (t, client) = with_client(Kind::Dma, Setup::SEED)?;
        t.fail(Point::DmaUnmap, EIO)?;
        let mr = t.reg(&client, PAGE)?;
        mr.dereg()?;
        ensure_eq!(t.calls(Point::PutPages)?, 1);
        t.finish()
    }
}
