// SPDX-License-Identifier: GPL-2.0

//! Failures of callbacks and device operations: the registration is undone once, and the errno
//! reaches the caller.

use kernel::prelude::*;

#[kunit_tests(peer_mem_failure)]
mod tests {
    use crate::suites::prelude::*;

    /// Checks a registration whose `n`th call at `point` fails.
    fn on(kind: Kind, setup: Setup, point: Point, n: u32) -> Result {
        let (t, client) = with_client(kind, setup)?;
        t.script(point)?.fail_at(point, n, ENOSPC);
        ensure_eq!(t.reg(&client, 4 * PAGE).err(), Some(ENOSPC));
        let script = client.script();
        let got = script.calls(Point::GetPages) - u32::from(point == Point::GetPages);
        let mapped = script.calls(Point::DmaMap) - u32::from(point == Point::DmaMap);
        ensure_eq!(script.calls(Point::PutPages), got);
        ensure_eq!(script.calls(Point::DmaUnmap), mapped);
        ensure_eq!(script.calls(Point::Release), 1);
        ensure_eq!(t.dev().objects(), (0, 0, 0));
        // The next registration is not affected.
        let mr = t.reg(&client, 4 * PAGE)?;
        ensure!(mr.is_valid());
        t.drop_and_finish(mr)
    }

    /// Checks a registration on both kinds of device.
    fn fails(point: Point, n: u32) -> Result {
        on(Kind::Dma, Setup::SEED, point, n)?;
        on(Kind::Virtual, Setup::SEED, point, n)
    }

    /// Fast registration has no DMA handles.
    #[test]
    fn a_dma_handle() -> Result {
        each([Kind::Dma, Kind::Virtual], |kind| {
            let (t, client) = with_client(kind, Setup::SEED)?;
            let verb = user::Verb {
                ufile: 0x1110,
                context: 0x2220,
                dmah: 0x3330,
            };
            let mr = t.pd.reg_by_verb(client.at(0), PAGE, USUAL, &verb);
            let unsupported = is_unsupported(&mr);
            drop(mr);
            ensure!(unsupported);
            ensure_eq!(t.dev().objects(), (0, 0, 0));
            ensure_eq!(t.calls(Point::PutPages)?, 1);
            ensure_eq!(t.calls(Point::Release)?, 1);
            t.finish()
        })
    }

    #[test]
    fn get_pages() -> Result {
        fails(Point::GetPages, 1)
    }

    #[test]
    fn dma_map() -> Result {
        on(Kind::Dma, Setup::SEED, Point::DmaMap, 1)?;
        on(Kind::Dma, Setup::OWN_TABLE, Point::DmaMap, 1)
    }

    #[test]
    fn dma_map_without_struct_pages() -> Result {
        on(Kind::Dma, Setup::GPU, Point::DmaMap, 1)
    }

    #[test]
    fn alloc_mr() -> Result {
        fails(Point::AllocMr, 1)
    }

    #[test]
    fn map_mr_sg() -> Result {
        fails(Point::MapMrSg, 1)
    }

    #[test]
    fn create_cq() -> Result {
        fails(Point::CreateCq, 1)
    }

    #[test]
    fn create_qp() -> Result {
        fails(Point::CreateQp, 1)
    }

    #[test]
    fn modify_qp_to_reset() -> Result {
        fails(Point::ModifyQp, 1)
    }

    #[test]
    fn modify_qp_to_init() -> Result {
        fails(Point::ModifyQp, 2)
    }

    #[test]
    fn modify_qp_to_ready_to_receive() -> Result {
        fails(Point::ModifyQp, 3)
    }

    #[test]
    fn modify_qp_to_ready_to_send() -> Result {
        fails(Point::ModifyQp, 4)
    }

    #[test]
    fn post_send() -> Result {
        fails(Point::PostReg, 1)
    }

    #[test]
    fn alloc_mr_under_the_mutex_of_the_callbacks() -> Result {
        on(Kind::Dma, Setup::LOCKED, Point::AllocMr, 1)
    }

    #[test]
    fn alloc_mr_for_a_client_that_unmaps_itself() -> Result {
        on(Kind::Dma, Setup::UNMAPS, Point::AllocMr, 1)
    }

    #[test]
    fn alloc_mr_for_a_client_without_release() -> Result {
        let (t, client) = with_client(Kind::Dma, Setup::BARE)?;
        t.fail(Point::AllocMr, ENOSPC)?;
        ensure_eq!(t.reg(&client, PAGE).err(), Some(ENOSPC));
        ensure_eq!(t.calls(Point::PutPages)?, 1);
        t.finish()
    }

    #[test]
    fn the_work_request_fails_in_the_device() -> Result {
        let (t, client) = with_client(Kind::Dma, Setup::SEED)?;
        t.dev().fail_work_request();
        ensure_eq!(t.reg(&client, PAGE).err(), Some(EIO));
        ensure_eq!(t.calls(Point::PutPages)?, 1);
        t.finish()
    }

    #[test]
    fn the_queue_pair_works_again_after_a_failed_work_request() -> Result {
        let (t, client) = with_client(Kind::Dma, Setup::SEED)?;
        // This MR keeps the queue pair.
        let mr = t.reg(&client, PAGE)?;
        t.dev().fail_work_request();
        ensure!(t.reg_at(&client, 8 * PAGE, PAGE).is_err());
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
        let pd = user::Pd::new(t.registered())?;
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
