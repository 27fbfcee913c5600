// SPDX-License-Identifier: GPL-2.0

//! The order in which the driver and the clients are asked for an MR.

#[kernel::prelude::kunit_tests(peer_mem_host_first)]
mod tests {
    use crate::{
        ext::base::{
            compat::{
                eopnotsupp,
                eremoteio, //
            },
            pinned::untagged, //
        },
        suites::prelude::*, //
    };

    const ORDINARY: i32 = shared::ext_memory_EXT_MEMORY_ORDINARY as i32;
    const UNKNOWN: i32 = shared::ext_memory_EXT_MEMORY_UNKNOWN as i32;

    const CALLBACKS: [Point; 7] = [
        Point::Acquire,
        Point::GetPages,
        Point::PageSize,
        Point::DmaMap,
        Point::DmaUnmap,
        Point::PutPages,
        Point::Release,
    ];

    fn untouched(client: &Client) -> Result {
        for point in CALLBACKS {
            ensure_eq!(client.script().calls(point), 0);
        }
        Ok(())
    }

    /// The tables of the kernel half may be freed during the walk, and no other address belongs to
    /// a process.
    #[test]
    fn the_page_tables_are_read_for_user_addresses_only() -> Result {
        // SAFETY: The function accepts any address.
        let walk = |addr: u64| unsafe { helpers::kt_walk(addr as usize) };
        let is_ordinary = |addr| walk(addr) == ORDINARY;
        // With four levels or with five.
        let end = match walk(1 << 47) {
            ORDINARY => 1u64 << 56,
            UNKNOWN => 1u64 << 47,
            // Only x86 has this walk.
            e if Error::from_errno(e) == eopnotsupp() => return Ok(()),
            e => return Err(Error::from_errno(e)),
        };
        for addr in [0, 0x7000, end - 1] {
            ensure!(is_ordinary(addr));
        }
        for bit in 0..u64::BITS {
            let addr = 0x7000 | 1 << bit;
            // The walk ignores the bits that the CPU ignores.
            ensure_eq!(is_ordinary(addr), untagged(addr) < end);
        }
        for addr in [end, 0xffff_8880_0000_0000, 0xffff_ffff_8100_0000, u64::MAX] {
            ensure_eq!(walk(addr), UNKNOWN);
        }
        Ok(())
    }

    #[test]
    fn no_callback_runs_for_host_memory() -> Result {
        each([Kind::Dma, Kind::Virtual, DYNAMIC], |kind| {
            let t = Fixture::new(kind)?;
            let first = t.client(Setup::SEED)?;
            let second = t.client(Setup::GPU)?;
            for i in 0..8 {
                let mr = t.pd.reg(0x5000 + i * PAGE, PAGE, USUAL)?;
                ensure!(mr.state()?.original);
                let change = TRANS | ACCESS;
                let new = mr.rereg(change, &t.pd, (0x9000, 77), USUAL)?;
                ensure!(new.is_none());
            }
            ensure_eq!(t.calls(Point::RegUserMr)?, 8);
            untouched(&first)?;
            untouched(&second)?;
            t.finish()
        })
    }

    #[test]
    fn a_client_with_pinnable_memory_is_asked_before_the_driver() -> Result {
        let t = Fixture::new(Kind::Virtual)?;
        t.dev().set(|d| d.pins_all = true);
        let (client, mr) = t.live(Setup::PINNABLE)?;
        ensure_eq!(t.calls(Point::RegUserMr)?, 0);
        drop(mr);
        // Memory that the client does not claim falls through to the driver.
        let mr = t.pd.reg(0x5000, PAGE, USUAL)?;
        ensure!(mr.state()?.original);
        drop(mr);
        ensure_eq!(client.script().calls(Point::Acquire), 2);
        t.finish()
    }

    #[test]
    fn a_client_that_cannot_pin_does_not_take_memory_from_the_driver() -> Result {
        let t = Fixture::new(Kind::Virtual)?;
        t.dev().set(|d| d.pins_all = true);
        let client = t.client(Setup::PINNABLE)?;
        t.fail(Point::GetPages, EFAULT)?;
        let mr = t.reg(&client, PAGE)?;
        ensure!(mr.state()?.original);
        drop(mr);
        ensure_eq!(client.script().calls(Point::Release), 1);
        t.finish()
    }

    /// `policy/order.rs` has the errors.
    #[test]
    fn the_clients_are_asked_only_after_an_error_of_pinning() -> Result {
        let (t, client) = with_client(Kind::Dma, Setup::SEED)?;
        t.fail(Point::RegUserMr, EBUSY)?;
        ensure_eq!(t.reg(&client, PAGE).err(), Some(EBUSY));
        untouched(&client)?;
        t.fail(Point::RegUserMr, EPERM)?;
        let mr = t.reg(&client, PAGE)?;
        ensure!(!mr.state()?.original);
        t.drop_and_finish(mr)
    }

    #[test]
    fn unclaimed_memory_gets_the_drivers_error() -> Result {
        let (t, client) = with_client(Kind::Dma, Setup::SEED)?;
        t.fail(Point::RegUserMr, eremoteio())?;
        let mr = t.pd.reg(0x5000, PAGE, USUAL);
        ensure_eq!(mr.err(), Some(eremoteio()));
        ensure_eq!(client.script().calls(Point::Acquire), 1);
        ensure_eq!(client.script().calls(Point::Release), 0);
        t.finish()
    }

    #[test]
    fn after_a_failed_get_pages_the_next_client_is_asked() -> Result {
        let (t, first, second) = with_rival(Kind::Dma, Setup::SEED)?;
        t.fail(Point::GetPages, ENOSPC)?;
        let mr = t.reg(&first, PAGE)?;
        ensure!(!mr.state()?.original);
        drop(mr);
        ensure_eq!(first.script().calls(Point::Release), 1);
        ensure_eq!(second.script().calls(Point::GetPages), 1);
        t.finish()
    }

    #[test]
    fn the_error_of_the_first_client_that_claims_stands() -> Result {
        let (t, first, second) = with_rival(Kind::Dma, Setup::SEED)?;
        first.script().fail(Point::GetPages, ENOSPC);
        second.script().fail(Point::GetPages, EBUSY);
        ensure_eq!(t.reg(&first, PAGE).err(), Some(ENOSPC));
        t.finish()
    }
}
