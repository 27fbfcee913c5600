// SPDX-License-Identifier: GPL-2.0

//! Dma-bufs that a user has, to be imported by whom he likes.

use kernel::prelude::*;

#[kunit_tests(peer_mem_dma_buf_offer)]
mod tests {
    use super::super::*;
    use crate::{
        device::Leaked,
        user::DmaBuf, //
    };

    const FOUR: u64 = 4 * PAGE;

    /// A client, and a dma-buf of four pages of it.
    fn offered(kind: Kind, setup: Setup) -> Result<(Bench, Arc<Client>, DmaBuf)> {
        let bench = Bench::importer(kind)?;
        let client = Client::new(0, "kunit_one", fitting(kind, setup))?;
        let buf = DmaBuf::export(client.at(0), FOUR)?;
        Ok((bench, client, buf))
    }

    /// How often the client has been called: dma_map, dma_unmap, put_pages.
    fn calls(client: &Client) -> Result<[u32; 3]> {
        let script = client.script()?;
        Ok([Point::DmaMap, Point::DmaUnmap, Point::PutPages].map(|point| script.calls(point)))
    }

    #[test]
    fn nobody_imports_it() -> Result {
        let (bench, client, buf) = offered(Kind::Dynamic, Setup::SEED)?;
        ensure_eq!(client.flags()?, (1, 1, -1));
        ensure_eq!(counters::in_use(client.name())?, (1, 4, FOUR));
        ensure_eq!(calls(&client)?, [0, 0, 0]);
        drop(buf);
        ensure_eq!(counters::in_use(client.name())?, (0, 0, 0));
        ensure_eq!(calls(&client)?, [0, 0, 1]);
        ensure_eq!(client.script()?.calls(Point::Release), 1);
        bench.finish(&[&client])
    }

    /// An MR on it that ends before the file is closed.
    fn imported(setup: Setup) -> Result {
        for kind in PEER2PEER {
            let (bench, client, buf) = offered(kind, setup)?;
            let mr = bench.pd.import(&buf, 0, FOUR)?;
            let valid = mr.is_valid();
            mr.dereg()?;
            ensure!(valid);
            undone_once(&client)?;
            // Who still has the descriptor has nothing.
            ensure_eq!(bench.pd.import(&buf, 0, FOUR).err(), Some(ENODEV));
            ensure_eq!(calls(&client)?, [1, 1, 1]);
            drop(buf);
            bench.finish(&[&client])?;
        }
        Ok(())
    }

    #[test]
    fn of_the_seed_style() -> Result {
        imported(Setup::SEED)
    }

    #[test]
    fn page_less() -> Result {
        imported(Setup::GPU)
    }

    #[test]
    fn of_a_table_of_the_clients_own() -> Result {
        imported(Setup::OWN_TABLE)
    }

    #[test]
    fn of_one_that_aligns_to_2_mib() -> Result {
        imported(Setup::HUGE)
    }

    #[test]
    fn the_file_is_closed_before_the_mr() -> Result {
        for kind in PEER2PEER {
            let (bench, client, buf) = offered(kind, Setup::SEED)?;
            let mr = bench.pd.import(&buf, PAGE, 2 * PAGE)?;
            drop(buf);
            let (valid, called) = (mr.is_valid(), calls(&client)?);
            mr.dereg()?;
            ensure!(valid);
            ensure_eq!(called, [1, 0, 0]);
            undone_once(&client)?;
            bench.finish(&[&client])?;
        }
        Ok(())
    }

    #[test]
    fn many_mrs_of_one_device() -> Result {
        let (bench, client, buf) = offered(Kind::Dynamic, Setup::SEED)?;
        let one = bench.pd.import(&buf, 0, PAGE)?;
        let two = bench.pd.import(&buf, PAGE, FOUR - PAGE)?;
        one.dereg()?;
        let three = bench.pd.import(&buf, 0, FOUR)?;
        two.dereg()?;
        let (valid, called) = (three.is_valid(), calls(&client)?);
        three.dereg()?;
        ensure!(valid);
        ensure_eq!(called, [1, 0, 0]);
        undone_once(&client)?;
        drop(buf);
        bench.finish(&[&client])
    }

    #[test]
    fn is_for_one_device() -> Result {
        let (bench, client, buf) = offered(Kind::Dynamic, Setup::SEED)?;
        let other = Bench::importer(Kind::Revocable)?;
        let mr = bench.pd.import(&buf, 0, FOUR)?;
        let result = other.pd.import(&buf, 0, FOUR);
        mr.dereg()?;
        ensure_eq!(result.err(), Some(EBUSY));
        drop(buf);
        other.finish(&[])?;
        bench.finish(&[&client])
    }

    #[test]
    fn a_driver_that_keeps_what_it_has_is_refused() -> Result {
        let (bench, client, buf) = offered(Kind::Dynamic, Setup::SEED)?;
        let pinning = Bench::importer(Kind::Pinned)?;
        ensure!(is_unsupported(&pinning.pd.import(&buf, 0, FOUR)));
        // The next one is not.
        bench.pd.import(&buf, 0, FOUR)?.dereg()?;
        drop(buf);
        pinning.finish(&[])?;
        bench.finish(&[&client])
    }

    #[test]
    fn a_driver_that_wants_pages_is_refused_where_there_are_none() -> Result {
        let (bench, client, buf) = offered(Kind::Local, Setup::GPU)?;
        ensure!(is_unsupported(&bench.pd.import(&buf, 0, FOUR)));
        ensure_eq!(calls(&client)?, [0, 0, 0]);
        drop(buf);
        bench.finish(&[&client])?;
        let (bench, client, buf) = offered(Kind::Local, Setup::SEED)?;
        bench.pd.import(&buf, 0, FOUR)?.dereg()?;
        drop(buf);
        bench.finish(&[&client])
    }

    #[test]
    fn dma_map_fails_and_works_then() -> Result {
        let (bench, client, buf) = offered(Kind::Dynamic, Setup::SEED)?;
        client.script()?.fail(Point::DmaMap, EIO);
        ensure_eq!(bench.pd.import(&buf, 0, FOUR).err(), Some(EIO));
        ensure_eq!(calls(&client)?, [1, 0, 0]);
        bench.pd.import(&buf, 0, FOUR)?.dereg()?;
        ensure_eq!(calls(&client)?, [2, 1, 1]);
        drop(buf);
        bench.finish(&[&client])
    }

    #[test]
    fn the_device_fails_after_it_has_imported() -> Result {
        for kind in PEER2PEER {
            let (bench, client, buf) = offered(kind, Setup::SEED)?;
            bench.dev().script.fail(Point::Imported, EIO);
            ensure_eq!(bench.pd.import(&buf, 0, FOUR).err(), Some(EIO));
            undone_once(&client)?;
            drop(buf);
            bench.finish(&[&client])?;
        }
        Ok(())
    }

    #[test]
    fn get_pages_fails() -> Result {
        let bench = Bench::importer(Kind::Dynamic)?;
        let client = Client::new(0, "kunit_one", Setup::SEED)?;
        client.script()?.fail(Point::GetPages, EIO);
        ensure_eq!(DmaBuf::export(client.at(0), FOUR).err(), Some(EIO));
        ensure_eq!(calls(&client)?, [0, 0, 0]);
        ensure_eq!(client.script()?.calls(Point::Release), 1);
        bench.finish(&[&client])
    }

    #[test]
    fn memory_of_nobody() -> Result {
        let at = {
            let client = Client::new(0, "kunit_one", Setup::SEED)?;
            let at = client.at(0);
            // Past its end.
            let beyond = DmaBuf::export(client.at(Setup::SEED.len), PAGE);
            ensure_eq!(beyond.err(), Some(EFAULT));
            client.finish()?;
            at
        };
        ensure_eq!(DmaBuf::export(at, FOUR).err(), Some(EFAULT));
        Ok(())
    }

    #[test]
    fn the_first_client_that_wants_it_has_it() -> Result {
        let first = Client::new(0, "kunit_one", Setup::SEED)?;
        let place = Some(0);
        let second = Client::new(
            1,
            "kunit_two",
            Setup {
                place,
                ..Setup::SEED
            },
        )?;
        let buf = DmaBuf::export(first.at(0), FOUR)?;
        ensure_eq!(counters::in_use(first.name())?, (1, 4, FOUR));
        ensure_eq!(second.script()?.calls(Point::Acquire), 0);
        drop(buf);
        first.finish()?;
        second.finish()
    }

    /// Takes the memory back while an MR is on it.
    fn revoked(setup: Setup) -> Result {
        for kind in FENCED {
            let (bench, client, buf) = offered(kind, setup)?;
            let mr = bench.pd.import(&buf, 0, FOUR)?;
            let result = client.invalidate_it();
            let valid = mr.is_valid();
            ensure_eq!(client.stage()?, Stage::Acquired);
            mr.dereg()?;
            result?;
            ensure!(!valid);
            let ours = u32::from(!setup.unmaps);
            ensure_eq!(calls(&client)?, [1, ours, ours]);
            ensure_eq!(bench.pd.import(&buf, 0, FOUR).err(), Some(ENODEV));
            drop(buf);
            bench.finish(&[&client])?;
        }
        Ok(())
    }

    #[test]
    fn revoked_of_the_seed_style() -> Result {
        revoked(Setup::SEED)
    }

    #[test]
    fn revoked_page_less() -> Result {
        revoked(Setup::GPU)
    }

    #[test]
    fn revoked_under_the_mutex_of_its_own_callbacks() -> Result {
        revoked(Setup::LOCKED)
    }

    #[test]
    fn revoked_of_one_that_unmaps_itself() -> Result {
        revoked(Setup::UNMAPS)
    }

    #[test]
    fn revoked_before_anybody_imports_it() -> Result {
        let (bench, client, buf) = offered(Kind::Dynamic, Setup::SEED)?;
        client.invalidate_it()?;
        ensure_eq!(calls(&client)?, [0, 0, 1]);
        ensure_eq!(bench.pd.import(&buf, 0, FOUR).err(), Some(ENODEV));
        ensure_eq!(calls(&client)?, [0, 0, 1]);
        drop(buf);
        // A ticket of nothing.
        client.invalidate_it()?;
        bench.finish(&[&client])
    }

    #[test]
    fn a_page_fault_after_it_gets_nothing() -> Result {
        let (bench, client, buf) = offered(Kind::Dynamic, Setup::SEED)?;
        let mr = bench.pd.import(&buf, 0, FOUR)?;
        let before = bench.dev().page_fault(mr.key());
        client.invalidate_it()?;
        let after = bench.dev().page_fault(mr.key());
        mr.dereg()?;
        before?;
        ensure_eq!(after.err(), Some(ENODEV));
        drop(buf);
        bench.finish(&[&client])
    }

    #[test]
    fn the_client_goes() -> Result {
        for kind in FENCED {
            let (bench, client, buf) = offered(kind, Setup::SEED)?;
            let mr = bench.pd.import(&buf, 0, FOUR)?;
            let result = client.finish();
            let valid = mr.is_valid();
            mr.dereg()?;
            result?;
            ensure!(!valid);
            undone_once(&client)?;
            ensure_eq!(bench.pd.import(&buf, 0, FOUR).err(), Some(ENODEV));
            drop(buf);
            bench.finish(&[])?;
        }
        Ok(())
    }

    #[test]
    fn the_client_waits_for_a_driver_that_keeps_what_it_has() -> Result {
        let (bench, client, buf) = offered(Kind::Pinned, Setup::SEED)?;
        let mr = bench.pd.import(&buf, 0, FOUR)?;
        let ending = unregistration(&client)?;
        let waits = ending.is_waiting();
        let valid = mr.is_valid();
        mr.dereg()?;
        ending.join()??;
        ensure!(waits && valid);
        undone_once(&client)?;
        drop(buf);
        bench.finish(&[])
    }

    #[test]
    fn an_invalidation_waits_for_a_mapping_under_way() -> Result {
        let (bench, client, buf) = offered(Kind::Dynamic, Setup::SEED)?;
        let gate = client.script()?.hold(Point::DmaMap)?;
        let pd = bench.pd.clone();
        let importing = Task::spawn(move || {
            let result = pd.import(&buf, 0, FOUR);
            drop(buf);
            result
        })?;
        gate.reached()?;
        let invalidating = invalidation(&client)?;
        let waits = invalidating.is_waiting();
        gate.open();
        let result = importing.join()?;
        invalidating.join()??;
        ensure!(waits);
        // The mapping came too late for the one, or was taken from the other.
        if let Ok(mr) = result {
            let valid = mr.is_valid();
            mr.dereg()?;
            ensure!(!valid);
        }
        ensure_eq!(calls(&client)?, [1, 1, 1]);
        bench.finish(&[&client])
    }

    /// It may be about to attach, and not know its own attachment yet: ib_umem_dmabuf uses that
    /// when it is told.
    #[test]
    fn who_has_mapped_nothing_is_told_nothing() -> Result {
        for kind in FENCED {
            let (bench, client, buf) = offered(kind, Setup::SEED)?;
            let mr = bench.pd.import(&buf, 0, FOUR)?;
            let attached = Leaked::of(&buf)?;
            let told = attached.attached(bench.pd.dev(), || client.invalidate_it());
            drop(attached);
            let valid = mr.is_valid();
            mr.dereg()?;
            ensure_eq!(told?, 0);
            ensure!(!valid);
            ensure_eq!(calls(&client)?, [1, 1, 1]);
            bench.finish(&[&client])?;
        }
        Ok(())
    }

    #[test]
    fn everything_at_once() -> Result {
        for round in 0..20 {
            let (bench, client, buf) = offered(FENCED[round % 2], Setup::SEED)?;
            let pd = bench.pd.clone();
            let importing = Task::spawn(move || {
                for _ in 0..3 {
                    if let Ok(mr) = pd.import(&buf, 0, FOUR) {
                        let _ = mr.dereg();
                    }
                }
            })?;
            let invalidating = (round % 3 != 0)
                .then(|| invalidation(&client))
                .transpose()?;
            let ending = (round % 3 != 1)
                .then(|| unregistration(&client))
                .transpose()?;
            importing.join()?;
            if let Some(task) = invalidating {
                task.join()??;
            }
            if let Some(task) = ending {
                task.join()??;
            }
            bench.finish(&[&client])?;
        }
        Ok(())
    }
}
