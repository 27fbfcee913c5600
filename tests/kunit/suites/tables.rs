// SPDX-License-Identifier: GPL-2.0

//! The tables of clients: the pages that the device gets, and rejected tables.

#[kernel::prelude::kunit_tests(peer_mem_tables)]
mod tests {
    use crate::suites::prelude::*;

    const ALL: [Kind; 6] = [
        Kind::Dma,
        Kind::Virtual,
        DYNAMIC,
        NO_PEER2PEER,
        REVOCABLE,
        PINNED,
    ];
    /// The devices that serve any client with struct pages.
    const WITH_PAGES: [Kind; 4] = [Kind::Dma, Kind::Virtual, DYNAMIC, REVOCABLE];
    /// The devices that map memory without struct pages.
    const PAGE_LESS: [Kind; 4] = [Kind::Dma, DYNAMIC, REVOCABLE, PINNED];

    /// Registers `[offset, offset + len)` and returns the state of the MR.
    fn registered(t: Fixture, setup: Setup, (offset, len): (u64, u64)) -> Result<MrState> {
        let client = t.client(setup)?;
        let mr = t.reg_at(&client, offset, len)?;
        let (state, import) = (mr.state()?, t.dev().last_import());
        let has_descriptor = is_dma_buf(import.fd);
        let checked = client.check();
        drop(mr);
        checked?;
        ensure_eq!(t.calls(Point::RegUserMr)?, 1);
        if t.calls(Point::Import)? > 0 {
            ensure_eq!((import.offset, import.length), (offset % PAGE, len));
            ensure_eq!(import.iova, client.at(offset));
            ensure_eq!(import.access, USUAL as i32);
            ensure!(!has_descriptor);
        }
        let lo = client.device_address(offset & !(PAGE - 1));
        t.finish()?;
        ensure!(state.valid && !state.original);
        if !setup.scattered {
            ensure_eq!(state.lo, lo);
        }
        Ok(state)
    }

    /// Registers on each device, and checks the number of pages of `PAGE` bytes.
    fn gives(kinds: &[Kind], setup: Setup, range: (u64, u64), pages: u32) -> Result {
        each(kinds.iter().copied(), |kind| {
            let state = registered(Fixture::new(kind)?, fitting(kind, setup), range)?;
            ensure_eq!((state.pages, state.page_size), (pages, PAGE as u32));
            let len = u64::from(pages) * PAGE;
            ensure_eq!(state.hi - state.lo, len);
            if let Kind::Importer(_) = kind {
                let (entries, longest) = if setup.scattered {
                    (pages, PAGE)
                } else {
                    (1, len)
                };
                ensure_eq!((state.entries, state.longest), (entries, longest));
            }
            Ok(())
        })
    }

    #[test]
    fn each_shape() -> Result {
        let setups = [
            Setup::SEED,
            Setup::BARE,
            Setup::LOCKED,
            Setup::PERSISTENT,
            Setup::UNMAPS,
        ];
        each(setups, |setup| gives(&WITH_PAGES, setup, (0, 4 * PAGE), 4))?;
        gives(&PAGE_LESS, Setup::GPU, (0, 128 * K), 32)?;
        gives(&PAGE_LESS, Setup::OWN_TABLE, (0, 8 * PAGE), 8)?;
        gives(&WITH_PAGES, Setup::SCATTERED, (0, 8 * PAGE), 8)
    }

    /// The memory is one page for the device that copies by the CPU.
    #[test]
    fn one_large_page() -> Result {
        for (setup, offset) in [(Setup::SEED, 0), (Setup::HUGE, M)] {
            for (kind, page_size) in [(Kind::Dma, PAGE), (Kind::Virtual, 64 * K)] {
                let state = registered(Fixture::new(kind)?, setup, (offset, 64 * K))?;
                ensure_eq!(u64::from(state.page_size), page_size);
                ensure_eq!(u64::from(state.pages) * page_size, 64 * K);
                ensure_eq!(state.hi - state.lo, 64 * K);
            }
        }
        gives(&PEER2PEER, Setup::HUGE, (M, 16 * PAGE), 16)
    }

    #[test]
    fn an_offset_at_both_ends() -> Result {
        let ranges = [
            (5, 1, 1),
            (PAGE - 1, 2, 2),
            (3 * PAGE + 7, 2 * PAGE + 9, 3),
            (Setup::SEED.len - 1, 1, 1),
        ];
        each(ranges, |(offset, len, pages)| {
            gives(&ALL, Setup::SEED, (offset, len), pages)
        })
    }

    #[test]
    fn a_table_that_covers_more_than_the_range() -> Result {
        let ranges = [
            (0, 1, 1),
            (60 * K, PAGE, 1),
            (60 * K + 1, 9, 1),
            (64 * K - 3, 6, 2),
        ];
        each(ranges, |(offset, len, pages)| {
            gives(&PAGE_LESS, Setup::GPU, (offset, len), pages)
        })?;
        gives(&ALL, Setup::HUGE, (2 * M - PAGE - 3, PAGE + 6), 3)
    }

    #[test]
    fn neighbours_are_merged_up_to_the_longest_segment() -> Result {
        for (setup, max, len, entries, longest) in [
            (Setup::HUGE, 2 * M, 4 * M, 2, 2 * M),
            (Setup::SEED, 64 * K, 17 * PAGE, 2, 64 * K),
            (Setup::SEED, PAGE, 4 * PAGE, 4, PAGE),
        ] {
            let t = Fixture::new(DYNAMIC)?;
            let dev = t.registered().clone();
            let old = dev.set_max_segment(max as u32);
            let result = registered(t, setup, (0, len));
            dev.set_max_segment(old);
            let state = result?;
            ensure_eq!((state.entries, state.longest), (entries, longest));
        }
        Ok(())
    }

    /// Checks that `len` bytes are more than the device can register, if an MR has at most `max` pages.
    fn too_many(max: u32, setup: Setup, len: u64) -> Result {
        let (t, client) = with_client(Kind::Dma, setup)?;
        let dev = t.registered().clone();
        let old = dev.set_max_pages(max);
        let mr = t.reg(&client, len);
        dev.set_max_pages(old);
        ensure!(is_unsupported(&mr));
        t.finish()
    }

    #[test]
    fn only_pages_of_the_cpus_size_for_other_devices_than_rdma_rxe() -> Result {
        // Two pages of 64 KiB would do.
        too_many(2, Setup::GPU, 128 * K)?;
        // No larger page covers two of the pages.
        too_many(3, Setup::SCATTERED, 4 * PAGE)
    }

    #[test]
    fn at_most_512_pages_for_other_devices_than_rdma_rxe() -> Result {
        too_many(4096, Setup::HUGE, 513 * PAGE)?;
        let state = registered(Fixture::new(Kind::Virtual)?, Setup::HUGE, (0, 513 * PAGE))?;
        ensure_eq!(state.pages, 513);
        Ok(())
    }

    /// Tables that the kernel's functions do not make.
    #[test]
    fn an_unusual_table_is_accepted() -> Result {
        let gpu = Setup::GPU;
        let setups = [
            (gpu.with_fault(Fault::NoOrigNents), 0, 128 * K, 32),
            // KASAN detects an access behind the five entries.
            (gpu.with_fault(Fault::NoEndMark), 0, 320 * K, 80),
            // The page size is known after dma_map.
            (gpu.with_fault(Fault::LatePageSize), 60 * K, PAGE, 1),
            // The number of entries stands for an nmap that is left alone.
            (gpu.with_fault(Fault::NoNmap), 0, 128 * K, 32),
            (Setup::SEED.with_fault(Fault::NoNmap), 0, 4 * PAGE, 4),
            // An nmap below the size of the table is honoured.
            (Setup { spare: 3, ..gpu }, 0, 128 * K, 32),
        ];
        each(setups, |(setup, offset, len, pages)| {
            gives(&[Kind::Dma], setup, (offset, len), pages)
        })?;
        // The outer entries may begin and end inside a page.
        each([Fault::Misaligned, Fault::Odd], |fault| {
            let setup = Setup::SEED.with_fault(fault);
            gives(&[Kind::Dma, Kind::Virtual], setup, (0, 4 * PAGE), 4)
        })
    }

    /// Checks that the registration fails with `EINVAL` and is undone.
    fn refused(kind: Kind, setup: Setup, len: u64) -> Result {
        let (t, client) = with_client(kind, setup)?;
        ensure_eq!(t.reg(&client, len).err(), Some(EINVAL));
        let script = client.script();
        ensure_eq!(script.calls(Point::GetPages), 1);
        ensure_eq!(script.calls(Point::PutPages), 1);
        ensure_eq!(script.calls(Point::DmaMap), script.calls(Point::DmaUnmap));
        ensure_eq!(script.calls(Point::Release), 1);
        ensure_eq!(t.calls(Point::Import)?, 0);
        t.finish()
    }

    #[test]
    fn a_bad_table_is_refused() -> Result {
        for (setup, fault, len) in [
            (Setup::GPU, Fault::Short, 64 * K + 1),
            (Setup::GPU, Fault::Empty, 4 * PAGE),
            (Setup::GPU, Fault::MapsLess, 128 * K),
            (Setup::SEED, Fault::MapsNone, 4 * PAGE),
        ] {
            refused(Kind::Dma, setup.with_fault(fault), len)
                .inspect_err(|_| diagnostic!("with {:?}", fault))?;
        }
        each(
            [Fault::Short, Fault::InnerMisaligned, Fault::InnerOdd],
            |fault| {
                each([Kind::Dma, Kind::Virtual, DYNAMIC], |kind| {
                    refused(kind, Setup::SEED.with_fault(fault), 4 * PAGE)
                })
            },
        )
    }

    /// 0, not a power of two, and below the CPU's.
    #[test]
    fn a_bad_page_size_is_refused() -> Result {
        each([0, 3 * PAGE, 2048], |size| {
            let setup = Setup {
                says: Some(size),
                ..Setup::SEED
            };
            each([Kind::Dma, Kind::Virtual], |kind| {
                refused(kind, setup, PAGE)
            })
        })
    }
}
