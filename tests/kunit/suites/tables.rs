// SPDX-License-Identifier: GPL-2.0

//! Clients' tables: what the adapter gets of them, and which are refused.

use kernel::prelude::*;

#[kunit_tests(peer_mem_table)]
mod tests {
    use crate::{
        device::MrState,
        suites::prelude::*, //
    };

    const K: u64 = 1 << 10;
    const M: u64 = 1 << 20;

    /// Registers `[offset, offset + len)`; what the adapter has then.
    fn registered(bench: Bench, setup: Setup, offset: u64, len: u64) -> Result<MrState> {
        let client = Client::new(0, "kunit_one", setup)?;
        let mr = bench.pd.reg(client.at(offset), len, USUAL)?;
        let state = mr.state()?;
        let order = client.is_in_order();
        drop(mr);
        order?;
        let lo = client.device_address(offset & !(PAGE - 1))?;
        bench.finish(&[&client])?;
        ensure!(state.valid && !state.original);
        if !setup.scattered {
            ensure_eq!(state.lo, lo);
        }
        Ok(state)
    }

    /// On both kinds of device, in pages of `PAGE`.
    fn on_both(setup: Setup, offset: u64, len: u64, pages: u32) -> Result {
        for bench in [Bench::hardware()?, Bench::software()?] {
            let state = registered(bench, setup, offset, len)?;
            ensure_eq!((state.pages, state.page_size), (pages, PAGE as u32));
            ensure_eq!(state.hi - state.lo, u64::from(pages) * PAGE);
        }
        Ok(())
    }

    /// On the device that does DMA.
    fn on_hardware(setup: Setup, offset: u64, len: u64, pages: u32) -> Result {
        let state = registered(Bench::hardware()?, setup, offset, len)?;
        ensure_eq!((state.pages, state.page_size), (pages, PAGE as u32));
        Ok(())
    }

    #[test]
    fn seed_style() -> Result {
        on_both(Setup::SEED, 0, 16 * PAGE, 16)
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
        on_both(Setup::HUGE, M, 16 * PAGE, 16)
    }

    #[test]
    fn without_release_and_get_page_size() -> Result {
        on_both(Setup::BARE, 0, 4 * PAGE, 4)
    }

    #[test]
    fn under_its_own_mutex() -> Result {
        on_both(Setup::LOCKED, 0, 4 * PAGE, 4)
    }

    #[test]
    fn persistent() -> Result {
        on_both(Setup::PERSISTENT, 0, 4 * PAGE, 4)
    }

    #[test]
    fn extended() -> Result {
        on_both(Setup::UNMAPS, 0, 4 * PAGE, 4)
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
    fn a_table_that_ends_behind_the_range() -> Result {
        on_hardware(Setup::GPU, 0, 1, 1)
    }

    #[test]
    fn a_table_that_covers_more_at_both_ends() -> Result {
        on_hardware(Setup::GPU, 64 * K - 3, 6, 2)?;
        on_both(Setup::HUGE, 2 * M - PAGE - 3, PAGE + 6, 3)
    }

    #[test]
    fn pages_in_another_order() -> Result {
        let setup = Setup {
            scattered: true,
            ..Setup::SEED
        };
        on_both(setup, 0, 8 * PAGE, 8)
    }

    #[test]
    fn nmap_less_than_the_table_has_is_honoured() -> Result {
        let setup = Setup {
            spare: 3,
            ..Setup::GPU
        };
        on_hardware(setup, 0, 128 * K, 32)
    }

    #[test]
    fn larger_pages_where_the_device_takes_few() -> Result {
        let bench = Bench::hardware()?;
        let dev = bench.pd.dev().clone();
        let old = dev.set_max_pages(2);
        let state = registered(bench, Setup::GPU, 0, 128 * K);
        dev.set_max_pages(old);
        let state = state?;
        ensure_eq!((state.pages, state.page_size), (2, 64 << 10));
        Ok(())
    }

    #[test]
    fn more_pages_than_the_device_takes_are_refused() -> Result {
        let bench = Bench::hardware()?;
        let dev = bench.pd.dev().clone();
        // In no order that larger pages could describe.
        let setup = Setup {
            scattered: true,
            ..Setup::SEED
        };
        let client = Client::new(0, "kunit_one", setup)?;
        let old = dev.set_max_pages(3);
        let mr = bench.pd.reg(client.at(0), 4 * PAGE, USUAL);
        dev.set_max_pages(old);
        ensure_eq!(
            mr.err().map(|e| e.to_errno()),
            Some(-(kernel::bindings::EOPNOTSUPP as i32))
        );
        bench.finish(&[&client])
    }

    /// The client's fault: `EINVAL`, and what was done is undone.
    fn refused(bench: Bench, setup: Setup, len: u64) -> Result {
        let client = Client::new(0, "kunit_one", setup)?;
        ensure_eq!(bench.pd.reg(client.at(0), len, USUAL).err(), Some(EINVAL));
        let script = client.script()?;
        ensure_eq!(script.calls(Point::GetPages), 1);
        ensure_eq!(script.calls(Point::PutPages), 1);
        ensure_eq!(script.calls(Point::DmaMap), script.calls(Point::DmaUnmap));
        ensure_eq!(script.calls(Point::Release), 1);
        bench.finish(&[&client])
    }

    /// On both kinds of device.
    fn fault(setup: Setup, fault: Fault, len: u64) -> Result {
        let setup = Setup { fault, ..setup };
        refused(Bench::hardware()?, setup, len)?;
        refused(Bench::software()?, setup, len)
    }

    #[test]
    fn a_short_table_is_refused() -> Result {
        fault(Setup::SEED, Fault::Short, 4 * PAGE)
    }

    #[test]
    fn a_short_table_of_large_pages_is_refused() -> Result {
        let setup = Setup {
            fault: Fault::Short,
            ..Setup::GPU
        };
        refused(Bench::hardware()?, setup, 64 * K + 1)
    }

    #[test]
    fn an_empty_table_is_refused() -> Result {
        let setup = Setup {
            fault: Fault::Empty,
            ..Setup::GPU
        };
        refused(Bench::hardware()?, setup, 4 * PAGE)
    }

    #[test]
    fn a_table_that_begins_inside_a_page_is_refused() -> Result {
        fault(Setup::SEED, Fault::Misaligned, 4 * PAGE)
    }

    #[test]
    fn a_table_that_ends_inside_a_page_is_refused() -> Result {
        fault(Setup::SEED, Fault::Odd, 4 * PAGE)
    }

    #[test]
    fn nmap_too_small_is_refused() -> Result {
        let setup = Setup {
            fault: Fault::MapsLess,
            ..Setup::GPU
        };
        refused(Bench::hardware()?, setup, 128 * K)
    }

    #[test]
    fn nmap_0_is_refused() -> Result {
        let setup = Setup {
            fault: Fault::MapsNone,
            ..Setup::SEED
        };
        refused(Bench::hardware()?, setup, 4 * PAGE)
    }

    /// `get_page_size` says something that is no page size.
    fn says(size: u64) -> Result {
        let setup = Setup {
            says: Some(size),
            ..Setup::SEED
        };
        refused(Bench::hardware()?, setup, PAGE)?;
        refused(Bench::software()?, setup, PAGE)
    }

    #[test]
    fn page_size_0_is_refused() -> Result {
        says(0)
    }

    #[test]
    fn page_size_that_is_no_power_of_two_is_refused() -> Result {
        says(3 * PAGE)
    }

    #[test]
    fn page_size_below_the_cpus_is_refused() -> Result {
        says(2048)
    }
}
