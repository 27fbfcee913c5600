// SPDX-License-Identifier: GPL-2.0

//! Which client gets a range, the arguments of the callbacks, and the devices that fast registration
//! serves.

#[kernel::prelude::kunit_tests(peer_mem_dispatch)]
mod tests {
    use crate::suites::prelude::*;

    /// Registers four pages of `client`, which a client must get.
    fn is_served(t: &Fixture, client: &Client) -> Result {
        ensure!(t.reg(client, 4 * PAGE)?.is_served());
        Ok(())
    }

    #[test]
    fn other_memory_falls_through_to_the_driver_unchanged() -> Result {
        let (t, client) = with_client(Kind::Virtual, Setup::SEED)?;
        let (at, access) = (client.at(0), USUAL | user::RELAXED);
        for (start, len, access) in [
            (0x1234_5678, 77, access),
            // An empty range, and ranges that wrap.
            (at, 0, access),
            (at, u64::MAX, access),
            (u64::MAX - 10, 20, access),
            (u64::MAX - 9, 5, access),
        ] {
            let mr = t.pd.reg_at(start, len, 0x9999, access)?;
            let args = t.dev().last_original();
            ensure!(mr.state()?.original);
            drop(mr);
            ensure_eq!(
                (args.start, args.length, args.iova, args.access),
                (start, len, 0x9999, access as i32)
            );
        }
        ensure_eq!(client.script().calls(Point::Acquire), 0);
        t.finish()
    }

    /// Registers four pages, which the driver cannot pin, of a client whose memory is there. The bits that
    /// a CPU ignores in a pointer may be the client's.
    #[test]
    fn addresses_of_the_kernel_reach_no_client() -> Result {
        for (addr, expected) in [
            (0x0101_0000_0000_0000u64, Ok(true)),
            (0x8001_0000_0000_0000, Ok(true)),
            (0xffff_8880_0000_0000, Err(EFAULT)),
            (0xffff_ffff_0000_0000, Err(EFAULT)),
        ] {
            let t = Fixture::new(Kind::Dma)?;
            // The place of slot 0 is 0x7000_0000_0000, and 4 GiB are between two places.
            let place = (addr.wrapping_sub(0x7000_0000_0000) >> 32) as usize;
            t.client(Setup::SEED.at_place_of(place))?;
            t.fail(Point::RegUserMr, EFAULT)?;
            let served = t.pd.reg(addr, 4 * PAGE, USUAL).map(|mr| mr.is_served());
            ensure_eq!((addr, served), (addr, expected));
            ensure_eq!(t.calls(Point::Acquire)?, u32::from(expected.is_ok()));
            t.finish()?;
        }
        Ok(())
    }

    #[test]
    fn without_a_client_the_driver_answers() -> Result {
        each([Kind::Dma, Kind::Virtual, DYNAMIC], |kind| {
            let t = Fixture::new(kind)?;
            let mr = t.pd.reg(0x5000, PAGE, USUAL)?;
            ensure!(mr.state()?.original);
            t.fail(Point::RegUserMr, EFAULT)?;
            ensure_eq!(t.pd.reg(0x1000, 77, USUAL).err(), Some(EFAULT));
            ensure_eq!(t.calls(Point::Import)?, 0);
            t.drop_and_finish(mr)
        })
    }

    #[test]
    fn clients_get_ranges_in_the_order_of_registration() -> Result {
        let t = Fixture::new(Kind::Dma)?;
        let first = t.client(Setup::SEED.at_place_of(1))?;
        let second = t.client(Setup::SEED)?;
        is_served(&t, &second)?;
        ensure_eq!(first.script().calls(Point::GetPages), 1);
        ensure_eq!(second.script().calls(Point::Acquire), 0);
        // Without the first client, the second client gets the range.
        first.finish()?;
        is_served(&t, &second)?;
        ensure_eq!(second.script().calls(Point::GetPages), 1);
        t.finish()
    }

    /// The calls of `acquire`, `get_pages` and `release` of the first of two clients, and of `get_pages` of
    /// the second.
    #[test]
    fn only_a_positive_answer_of_acquire_is_a_claim() -> Result {
        for (answer, calls) in [
            (0, ([1, 0, 0], 1)),
            (EPERM.to_errno(), ([1, 0, 0], 1)),
            (2, ([1, 1, 1], 0)),
        ] {
            let setup = Setup {
                answer,
                ..Setup::SEED
            };
            let (t, first, second) = with_rival(Kind::Dma, setup)?;
            is_served(&t, &first)?;
            let points = [Point::Acquire, Point::GetPages, Point::Release];
            let of_first = points.map(|point| first.script().calls(point));
            let of_second = second.script().calls(Point::GetPages);
            ensure_eq!((answer, (of_first, of_second)), (answer, calls));
            t.finish()?;
        }
        Ok(())
    }

    #[test]
    fn write_is_1_and_force_is_1_for_a_writable_mr() -> Result {
        let atomic = user::LOCAL_WRITE | user::REMOTE_ATOMIC;
        for (access, force) in [
            (REMOTE_READ, 0),
            (0, 0),
            (user::LOCAL_WRITE, 1),
            (USUAL, 1),
            (atomic, 1),
        ] {
            let (t, client) = with_client(Kind::Dma, Setup::SEED)?;
            let mr = t.pd.reg(client.at(0), PAGE, access)?;
            let flags = client.flags();
            drop(mr);
            t.finish()?;
            ensure_eq!((flags.0, flags.1), (1, force));
        }
        Ok(())
    }

    #[test]
    fn dma_map_gets_the_dma_device_and_dmasync_0() -> Result {
        each([Kind::Dma, DYNAMIC], |kind| {
            let (t, client, mr) = live(kind, Setup::GPU)?;
            let (sync, dev) = (client.flags().2, client.dma_device());
            drop(mr);
            ensure_eq!(sync, 0);
            ensure!(dev != 0 && dev == t.registered().dma_device());
            t.finish()
        })
    }

    #[test]
    fn a_client_without_pages_is_skipped_for_software_rdma() -> Result {
        let (t, gpu, second) = with_rival(Kind::Virtual, Setup::GPU)?;
        is_served(&t, &gpu)?;
        ensure_eq!(gpu.script().calls(Point::Release), 1);
        let points = [Point::GetPages, Point::DmaMap, Point::DmaUnmap];
        let calls = points.map(|point| second.script().calls(point));
        ensure_eq!(calls, [1, 0, 0]);
        t.finish()
    }

    #[test]
    fn the_mr_has_the_iova_that_was_asked_for() -> Result {
        each(FENCED, |kind| {
            let (t, client) = with_client(kind, Setup::SEED)?;
            let mr = t.pd.reg_at(client.at(5), 2 * PAGE, 0x1_0005, USUAL)?;
            ensure_eq!(mr.place(), (0x1_0005, 2 * PAGE));
            ensure_eq!(mr.state()?.pages, 3);
            if kind != Kind::Dma {
                let Import { offset, iova, .. } = t.dev().last_import();
                ensure_eq!((offset, iova), (5, 0x1_0005));
            }
            t.drop_and_finish(mr)
        })
    }

    /// The driver serves `Err(true)` itself, and `Err(false)` is refused once the client has claimed the
    /// range. The device of a client's MR gets the flags without hints, and without flags for host pages.
    #[test]
    fn access_flags() -> Result {
        let atomic = USUAL | user::REMOTE_ATOMIC;
        let relaxed = USUAL | user::RELAXED;
        for (kind, wanted, outcome) in [
            (Kind::Dma, USUAL | user::ON_DEMAND, Err(true)),
            (DYNAMIC, USUAL | user::ON_DEMAND, Err(true)),
            (Kind::Dma, USUAL | user::MW_BIND, Err(false)),
            (DYNAMIC, USUAL | user::MW_BIND, Err(false)),
            (Kind::Dma, relaxed, Ok(USUAL)),
            (DYNAMIC, user::LOCAL_WRITE, Ok(user::LOCAL_WRITE)),
            (DYNAMIC, REMOTE_READ, Ok(REMOTE_READ)),
            (DYNAMIC, atomic, Ok(atomic)),
            (DYNAMIC, relaxed, Ok(relaxed)),
            (DYNAMIC, USUAL | user::OPTIONAL_LAST, Ok(USUAL)),
            (DYNAMIC, USUAL | user::HUGETLB, Ok(USUAL)),
        ] {
            let (t, client) = with_client(kind, Setup::SEED)?;
            let mr = t.pd.reg(client.at(0), PAGE, wanted);
            let found = match &mr {
                Ok(mr) if mr.state()?.original => Err(true),
                Ok(mr) => Ok(mr.state()?.access as u32),
                result => {
                    ensure!(is_unsupported(result));
                    Err(false)
                }
            };
            drop(mr);
            ensure_eq!((wanted, found), (wanted, outcome));
            let claimed = u32::from(outcome != Err(true));
            ensure_eq!(t.calls(Point::Acquire)?, claimed);
            ensure_eq!(t.calls(Point::Release)?, claimed);
            let imports = u32::from(kind == DYNAMIC && outcome.is_ok());
            ensure_eq!(t.calls(Point::Import)?, imports);
            t.finish()?;
        }
        Ok(())
    }

    /// The bundle of a kernel caller is empty.
    #[test]
    fn a_users_file_and_dma_handle_but_no_attribute_reach_the_driver() -> Result {
        each([false, true], |by_verb| {
            let (t, client) = with_client(DYNAMIC, Setup::SEED)?;
            let (mr, caller) = if by_verb {
                (t.pd.reg_by_verb(client.at(0), PAGE)?, user::VERB)
            } else {
                (t.pd.reg(client.at(0), PAGE, USUAL)?, (0, 0, 0))
            };
            let import = t.dev().last_import();
            ensure!(mr.is_valid() && !import.attributes);
            ensure_eq!((import.ufile, import.context, import.dmah), caller);
            t.drop_and_finish(mr)
        })
    }

    #[test]
    fn hardware_is_served_by_fast_registration_only_on_request() -> Result {
        let (t, client) = with_client(Kind::Dma, Setup::SEED)?;
        // The parameter `backend` does not name the device. The device has everything needed for
        // fast registration.
        let dev = Registered::new(c"kunit_other_hw", Kind::Dma)?;
        let pd = Pd::new(&dev)?;
        let mr = pd.reg(client.at(0), PAGE, USUAL).map(drop);
        let allocated = dev.fake().script.calls(Point::AllocMr);
        drop(pd);
        ensure_eq!(mr.err(), Some(EFAULT));
        ensure_eq!(allocated, 0);
        // The same on the device named by the parameter.
        drop(t.reg(&client, PAGE)?);
        ensure_eq!(t.calls(Point::AllocMr)?, 1);
        t.finish()
    }

    /// Returns whether a device named by the parameter `backend` is served, if the device fails as
    /// `prepare` demands.
    fn passes(prepare: impl FnOnce(&FakeDevice)) -> Result<bool> {
        let dev = Registered::prepared(c"kunit_own_hw", Kind::Dma, prepare)?;
        let served = !dev.is_bare();
        ensure_eq!(dev.fake().objects(), (0, 0, 0));
        Ok(served)
    }

    #[test]
    fn a_device_must_pass_the_self_test() -> Result {
        ensure!(passes(|_| ())?);
        for point in [Point::AllocMr, Point::PostReg, Point::PostInv] {
            // Fast registration must work more than once.
            for n in [1, 2] {
                ensure!(!passes(|dev| dev.script.fail_at(point, n, EINVAL))?);
            }
        }
        ensure!(!passes(|dev| dev.set(|d| d.fails_work_request = true))?);
        Ok(())
    }
}
