// SPDX-License-Identifier: GPL-2.0

//! The tables of clients: the pages that the device gets, and rejected tables.

use kernel::prelude::*;

#[kunit_tests(peer_mem_tables)]
mod tests {
    use crate::{
        device::MrState,
        suites::prelude::*, //
    };

    /// Registers `[offset, offset + len)` and returns the state of the MR.
    fn registered(t: Fixture, setup: Setup, offset: u64, len: u64) -> Result<MrState> {
        let client = t.client(setup)?;
        let mr = t.reg_at(&client, offset, len)?;
        let state = mr.state()?;
        let checked = client.check();
        drop(mr);
        checked?;
        let lo = client.device_address(offset & !(PAGE - 1));
        t.finish()?;
        ensure!(state.valid && !state.original);
        if !setup.scattered {
            ensure_eq!(state.lo, lo);
        }
        Ok(state)
    }

    /// Registers on both kinds of device, and checks the number of pages of `PAGE` bytes.
    fn on_both(setup: Setup, offset: u64, len: u64, pages: u32) -> Result {
        for kind in [Kind::Dma, Kind::Virtual] {
            let state = registered(Fixture::new(kind)?, setup, offset, len)?;
            ensure_eq!((state.pages, state.page_size), (pages, PAGE as u32));
            ensure_eq!(state.hi - state.lo, u64::from(pages) * PAGE);
        }
        Ok(())
    }

    /// Registers 64 KiB at 64 KiB on both kinds of device. The memory is one page for the device
    /// that copies by the CPU.
    fn of_one_large_page(setup: Setup, offset: u64) -> Result {
        for (kind, page_size) in [(Kind::Dma, PAGE), (Kind::Virtual, 64 * K)] {
            let state = registered(Fixture::new(kind)?, setup, offset, 64 * K)?;
            ensure_eq!(u64::from(state.page_size), page_size);
            ensure_eq!(u64::from(state.pages) * page_size, 64 * K);
            ensure_eq!(state.hi - state.lo, 64 * K);
        }
        Ok(())
    }

    /// Registers on the device that does DMA, and checks the number of pages.
    fn on_hardware(setup: Setup, offset: u64, len: u64, pages: u32) -> Result {
        let state = registered(Fixture::new(Kind::Dma)?, setup, offset, len)?;
        ensure_eq!((state.pages, state.page_size), (pages, PAGE as u32));
        Ok(())
    }

    #[test]
    fn seed_style() -> Result {
        of_one_large_page(Setup::SEED, 0)
    }

    #[test]
    fn page_less() -> Result {
        on_hardware(Setup::GPU, 0, 128 * K, 32)
    }

    #[test]
    fn a_table_of_the_clients_own() -> Result {
        on_hardware(Setup::OWN_TABLE, 0, 8 * PAGE, 8)
    }

    #[test]
    fn self_aligning_in_2_mib() -> Result {
        of_one_large_page(Setup::HUGE, M)
    }

    #[test]
    fn of_each_other_shape() -> Result {
        let shapes = [Setup::BARE, Setup::LOCKED, Setup::PERSISTENT, Setup::UNMAPS];
        each(shapes, |setup| on_both(setup, 0, 4 * PAGE, 4))
    }

    #[test]
    fn one_byte() -> Result {
        on_both(Setup::SEED, 5, 1, 1)
    }

    #[test]
    fn two_bytes_in_two_pages() -> Result {
        on_both(Setup::SEED, PAGE - 1, 2, 2)
    }

    #[test]
    fn an_offset_at_both_ends() -> Result {
        on_both(Setup::SEED, 3 * PAGE + 7, 2 * PAGE + 9, 3)
    }

    #[test]
    fn the_last_byte_of_the_client() -> Result {
        on_both(Setup::SEED, Setup::SEED.len - 1, 1, 1)
    }

    #[test]
    fn a_table_that_begins_before_the_range() -> Result {
        on_hardware(Setup::GPU, 60 * K, PAGE, 1)
    }

    #[test]
    fn a_table_that_ends_after_the_range() -> Result {
        on_hardware(Setup::GPU, 0, 1, 1)
    }

    #[test]
    fn a_table_that_covers_more_at_both_ends() -> Result {
        on_hardware(Setup::GPU, 64 * K - 3, 6, 2)?;
        on_both(Setup::HUGE, 2 * M - PAGE - 3, PAGE + 6, 3)
    }

    #[test]
    fn pages_in_another_order() -> Result {
        on_both(Setup::SCATTERED, 0, 8 * PAGE, 8)
    }

    #[test]
    fn nmap_below_the_size_of_the_table_is_honoured() -> Result {
        let setup = Setup {
            spare: 3,
            ..Setup::GPU
        };
        on_hardware(setup, 0, 128 * K, 32)
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
        too_many(2, Setup::GPU, 128 * K)
    }

    #[test]
    fn at_most_512_pages_for_other_devices_than_rdma_rxe() -> Result {
        too_many(4096, Setup::HUGE, 513 * PAGE)?;
        let state = registered(Fixture::new(Kind::Virtual)?, Setup::HUGE, 0, 513 * PAGE)?;
        ensure_eq!(state.pages, 513);
        Ok(())
    }

    #[test]
    fn only_nents_is_set() -> Result {
        on_hardware(Setup::GPU.with_quirk(Quirk::NoOrigNents), 0, 128 * K, 32)
    }

    #[test]
    fn the_last_entry_has_no_end_mark() -> Result {
        // KASAN detects an access behind the five entries.
        on_hardware(Setup::GPU.with_quirk(Quirk::NoEndMark), 0, 320 * K, 80)
    }

    #[test]
    fn the_page_size_is_known_after_dma_map() -> Result {
        on_hardware(Setup::GPU.with_quirk(Quirk::LatePageSize), 60 * K, PAGE, 1)
    }

    #[test]
    fn the_first_entry_begins_inside_a_page() -> Result {
        on_both(Setup::SEED.with_fault(Fault::Misaligned), 0, 4 * PAGE, 4)
    }

    #[test]
    fn the_last_entry_ends_inside_a_page() -> Result {
        on_both(Setup::SEED.with_fault(Fault::Odd), 0, 4 * PAGE, 4)
    }

    #[test]
    fn more_pages_than_the_device_takes_are_refused() -> Result {
        // No larger page covers two of the pages.
        too_many(3, Setup::SCATTERED, 4 * PAGE)
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
        t.finish()
    }

    /// Checks on both kinds of device that a table with the fault is rejected.
    fn fault(fault: Fault, len: u64) -> Result {
        let setup = Setup::SEED.with_fault(fault);
        refused(Kind::Dma, setup, len)?;
        refused(Kind::Virtual, setup, len)
    }

    #[test]
    fn a_short_table_is_refused() -> Result {
        fault(Fault::Short, 4 * PAGE)
    }

    #[test]
    fn a_short_table_of_large_pages_is_refused() -> Result {
        let setup = Setup::GPU.with_fault(Fault::Short);
        refused(Kind::Dma, setup, 64 * K + 1)
    }

    #[test]
    fn an_empty_table_is_refused() -> Result {
        let setup = Setup::GPU.with_fault(Fault::Empty);
        refused(Kind::Dma, setup, 4 * PAGE)
    }

    #[test]
    fn an_inner_entry_that_begins_inside_a_page_is_refused() -> Result {
        fault(Fault::InnerMisaligned, 4 * PAGE)
    }

    #[test]
    fn an_inner_entry_that_ends_inside_a_page_is_refused() -> Result {
        fault(Fault::InnerOdd, 4 * PAGE)
    }

    #[test]
    fn nents_stand_for_an_nmap_that_is_left_alone() -> Result {
        on_hardware(Setup::GPU.with_quirk(Quirk::NoNmap), 0, 128 * K, 32)?;
        on_hardware(Setup::SEED.with_quirk(Quirk::NoNmap), 0, 4 * PAGE, 4)
    }

    #[test]
    fn nmap_too_small_is_refused() -> Result {
        let setup = Setup::GPU.with_fault(Fault::MapsLess);
        refused(Kind::Dma, setup, 128 * K)
    }

    #[test]
    fn nmap_0_is_refused() -> Result {
        let setup = Setup::SEED.with_fault(Fault::MapsNone);
        refused(Kind::Dma, setup, 4 * PAGE)
    }

    /// Checks that a client whose `get_page_size` returns `size` is rejected.
    fn says(size: u64) -> Result {
        let setup = Setup {
            says: Some(size),
            ..Setup::SEED
        };
        refused(Kind::Dma, setup, PAGE)?;
        refused(Kind::Virtual, setup, PAGE)
    }

    #[test]
    fn page_size_0_is_refused() -> Result {
        says(0)
    }

    #[test]
    fn page_size_that_is_not_a_power_of_two_is_refused() -> Result {
        says(3 * PAGE)
    }

    #[test]
    fn page_size_below_the_cpus_is_refused() -> Result {
        says(2048)
    }
}
