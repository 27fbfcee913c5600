// SPDX-License-Identifier: GPL-2.0

//! A callback or a device operation that fails: what was done is undone once, and the errno
//! reaches the caller.

use kernel::prelude::*;

#[kunit_tests(peer_mem_failure)]
mod tests {
    use crate::suites::prelude::*;

    /// On one device: the `n`th call at `point` fails.
    fn on(bench: Bench, setup: Setup, point: Point, n: u32) -> Result {
        let client = Client::new(0, "kunit_one", setup)?;
        let script = match point {
            Point::GetPages | Point::DmaMap => client.script()?,
            _ => &bench.dev().script,
        };
        script.fail_at(point, n, ENOSPC);
        ensure_eq!(
            bench.pd.reg(client.at(0), 4 * PAGE, USUAL).err(),
            Some(ENOSPC)
        );
        let script = client.script()?;
        let got = script.calls(Point::GetPages) - u32::from(point == Point::GetPages);
        let mapped = script.calls(Point::DmaMap) - u32::from(point == Point::DmaMap);
        ensure_eq!(script.calls(Point::PutPages), got);
        ensure_eq!(script.calls(Point::DmaUnmap), mapped);
        ensure_eq!(script.calls(Point::Release), 1);
        ensure_eq!(bench.dev().objects(), (0, 0, 0));
        // It is not in the way of the next one.
        let mr = bench.pd.reg(client.at(0), 4 * PAGE, USUAL)?;
        ensure!(mr.is_valid());
        drop(mr);
        bench.finish(&[&client])
    }

    /// On both kinds of device.
    fn fails(point: Point, n: u32) -> Result {
        on(Bench::hardware()?, Setup::SEED, point, n)?;
        on(Bench::software()?, Setup::SEED, point, n)
    }

    #[test]
    fn get_pages() -> Result {
        fails(Point::GetPages, 1)
    }

    #[test]
    fn dma_map() -> Result {
        on(Bench::hardware()?, Setup::SEED, Point::DmaMap, 1)?;
        on(Bench::hardware()?, Setup::OWN_TABLE, Point::DmaMap, 1)
    }

    #[test]
    fn dma_map_of_the_page_less() -> Result {
        on(Bench::hardware()?, Setup::GPU, Point::DmaMap, 1)
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
        on(Bench::hardware()?, Setup::LOCKED, Point::AllocMr, 1)
    }

    #[test]
    fn alloc_mr_for_one_that_unmaps_itself() -> Result {
        on(Bench::hardware()?, Setup::UNMAPS, Point::AllocMr, 1)
    }

    #[test]
    fn alloc_mr_for_one_without_release() -> Result {
        let bench = Bench::hardware()?;
        let client = Client::new(0, "kunit_one", Setup::BARE)?;
        bench.dev().script.fail(Point::AllocMr, ENOSPC);
        ensure_eq!(bench.pd.reg(client.at(0), PAGE, USUAL).err(), Some(ENOSPC));
        ensure_eq!(client.script()?.calls(Point::PutPages), 1);
        bench.finish(&[&client])
    }

    #[test]
    fn the_work_request_fails_in_the_adapter() -> Result {
        let bench = Bench::hardware()?;
        let client = Client::new(0, "kunit_one", Setup::SEED)?;
        bench.dev().fail_work_request();
        ensure_eq!(bench.pd.reg(client.at(0), PAGE, USUAL).err(), Some(EIO));
        ensure_eq!(client.script()?.calls(Point::PutPages), 1);
        bench.finish(&[&client])
    }

    #[test]
    fn the_queue_pair_works_again_after_a_failed_work_request() -> Result {
        let bench = Bench::hardware()?;
        let client = Client::new(0, "kunit_one", Setup::SEED)?;
        // This one keeps the queue pair.
        let mr = bench.pd.reg(client.at(0), PAGE, USUAL)?;
        bench.dev().fail_work_request();
        ensure!(bench.pd.reg(client.at(8 * PAGE), PAGE, USUAL).is_err());
        let next = bench.pd.reg(client.at(8 * PAGE), PAGE, USUAL)?;
        ensure!(mr.is_valid() && next.is_valid());
        ensure_eq!(bench.dev().script.calls(Point::CreateQp), 1);
        client.invalidate_it()?;
        ensure!(!next.is_valid() && mr.is_valid());
        drop((mr, next));
        bench.finish(&[&client])
    }

    #[test]
    fn mrs_of_one_pd_share_a_queue_pair() -> Result {
        let bench = Bench::hardware()?;
        let client = Client::new(0, "kunit_one", Setup::SEED)?;
        let one = bench.pd.reg(client.at(0), PAGE, USUAL)?;
        let two = bench.pd.reg(client.at(8 * PAGE), PAGE, USUAL)?;
        let pd = user::Pd::new(bench.pd.dev())?;
        let three = pd.reg(client.at(16 * PAGE), PAGE, USUAL)?;
        ensure_eq!(bench.dev().objects(), (3, 2, 2));
        drop(three);
        ensure_eq!(bench.dev().objects(), (2, 1, 1));
        drop(pd);
        drop((one, two));
        bench.finish(&[&client])
    }

    #[test]
    fn dma_unmap_may_fail() -> Result {
        let bench = Bench::hardware()?;
        let client = Client::new(0, "kunit_one", Setup::SEED)?;
        client.script()?.fail(Point::DmaUnmap, EIO);
        let mr = bench.pd.reg(client.at(0), PAGE, USUAL)?;
        mr.dereg()?;
        ensure_eq!(client.script()?.calls(Point::PutPages), 1);
        bench.finish(&[&client])
    }
}
