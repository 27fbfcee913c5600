// SPDX-License-Identifier: GPL-2.0

//! Clients on unsuitable devices: devices with pinned dma-bufs, without revocation, and devices
//! without peer-to-peer DMA.

#[kernel::prelude::kunit_tests(peer_mem_dma_buf_mismatch)]
mod tests {
    use crate::suites::prelude::*;

    /// Checks that a registration fails with the driver's error if the device cannot use the
    /// memory.
    fn skipped(t: &Fixture, client: &Client) -> Result {
        ensure_eq!(t.reg(client, 4 * PAGE).err(), Some(EFAULT));
        Ok(())
    }

    #[test]
    fn a_client_with_invalidation_is_skipped_for_a_pinning_device() -> Result {
        let setups = [Setup::SEED, Setup::GPU, Setup::OWN_TABLE, Setup::LOCKED];
        each(setups, |setup| {
            let t = Fixture::temporary(PINNED)?;
            let client = t.client(setup)?;
            skipped(&t, &client)?;
            undone_once(&client)?;
            ensure_eq!(t.calls(Point::RegUserMr)?, 1);
            // From now on the core knows the device.
            skipped(&t, &client)?;
            ensure_eq!(client.script().calls(Point::Acquire), 1);
            ensure_eq!(t.calls(Point::Import)?, 1);
            t.finish()
        })
    }

    #[test]
    fn an_import_of_another_client_shows_that_the_device_pins() -> Result {
        let t = Fixture::temporary(PINNED)?;
        let first = t.client(Setup::PERSISTENT)?;
        let mr = t.reg(&first, PAGE)?;
        ensure!(mr.is_valid());
        mr.dereg()?;
        let client = t.client(Setup::SEED)?;
        skipped(&t, &client)?;
        ensure_eq!(client.script().calls(Point::Acquire), 0);
        t.finish()
    }

    #[test]
    fn the_next_client_gets_the_range() -> Result {
        let t = Fixture::temporary(PINNED)?;
        let first = t.client(Setup::SEED)?;
        let second = t.client(Setup::PERSISTENT.at_place_of(0))?;
        let mr = t.reg(&first, PAGE)?;
        ensure!(mr.is_served());
        mr.dereg()?;
        undone_once(&first)?;
        undone_once(&second)?;
        t.finish()
    }

    #[test]
    fn an_invalidation_during_the_rejection_returns() -> Result {
        let t = Fixture::temporary(PINNED)?;
        let client = t.client(Setup::SEED)?;
        let first = t.held(Point::Import, || t.registration(&client, 0, PAGE))?;
        let result = first.overlap(Wait::Region, invalidation(&client)?)?;
        ensure_eq!(result.err(), Some(EFAULT));
        t.finish_undone(&client)
    }

    #[test]
    fn a_client_that_fits_the_device_is_served() -> Result {
        let without_invalidation = [Setup::SEED, Setup::GPU, Setup::OWN_TABLE, Setup::HUGE];
        let with_pages = [Setup::SEED, Setup::HUGE, Setup::LOCKED, Setup::PERSISTENT];
        let served = |kind, setups: [Setup; 4]| {
            each(setups, |setup| {
                let (t, client, mr) = live(kind, setup)?;
                t.dereg_and_finish_undone(&mr, &client)
            })
        };
        served(PINNED, without_invalidation)?;
        served(NO_PEER2PEER, with_pages)
    }

    #[test]
    fn memory_without_pages_is_skipped_for_a_device_without_peer_to_peer() -> Result {
        each([Setup::GPU, Setup::OWN_TABLE], |setup| {
            let (t, client) = with_client(NO_PEER2PEER, setup)?;
            skipped(&t, &client)?;
            undone_once(&client)?;
            ensure_eq!(t.calls(Point::RegUserMr)?, 1);
            // The next client is not affected.
            let next = t.client(Setup::SEED)?;
            let mr = t.reg(&next, PAGE)?;
            ensure!(mr.is_valid());
            next.invalidate_last()?;
            ensure!(!mr.is_valid());
            t.dereg_and_finish(&mr)
        })
    }
}
