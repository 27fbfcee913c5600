// SPDX-License-Identifier: GPL-2.0

//! Dma-bufs exported by the ioctl, and imports of such dma-bufs.

#[kernel::prelude::kunit_tests(peer_mem_dma_buf_export)]
mod tests {
    use crate::suites::prelude::*;

    const FOUR: u64 = 4 * PAGE;

    /// Returns a client and a dma-buf of four pages of the client.
    fn exported(kind: Kind, setup: Setup) -> Result<(Fixture, Arc<Client>, DmaBuf)> {
        let (t, client) = with_client(kind, setup)?;
        let buf = DmaBuf::export(client.at(0), FOUR)?;
        Ok((t, client, buf))
    }

    /// Returns the numbers of calls of dma_map, dma_unmap and put_pages.
    fn calls(client: &Client) -> [u32; 3] {
        [Point::DmaMap, Point::DmaUnmap, Point::PutPages].map(|point| client.script().calls(point))
    }

    #[test]
    fn without_an_import() -> Result {
        let (t, client, buf) = exported(DYNAMIC, Setup::SEED)?;
        ensure_eq!(client.flags(), (1, 1, -1));
        ensure_eq!(counters::in_use(client.name())?, (1, 4, FOUR));
        ensure_eq!(calls(&client), [0, 0, 0]);
        drop(buf);
        ensure_eq!(counters::in_use(client.name())?, (0, 0, 0));
        ensure_eq!(calls(&client), [0, 0, 1]);
        ensure_eq!(t.calls(Point::Release)?, 1);
        t.finish()
    }

    /// Imports the dma-buf. The file is closed before the MR is deregistered, or later.
    fn imported(kind: Kind, setup: Setup, file_first: bool) -> Result {
        let (t, client, buf) = exported(kind, setup)?;
        let mr = t.pd.import(&buf, 0, FOUR)?;
        if file_first {
            drop(buf);
            ensure!(mr.is_valid());
            ensure_eq!(calls(&client), [1, 0, 0]);
            return t.dereg_and_finish_undone(&mr, &client);
        }
        ensure!(mr.is_valid());
        mr.dereg()?;
        undone_once(&client)?;
        // The open descriptor is useless now.
        ensure_eq!(t.pd.import(&buf, 0, FOUR).err(), Some(ENODEV));
        ensure_eq!(calls(&client), [1, 1, 1]);
        t.drop_and_finish(buf)
    }

    #[test]
    fn imported_from_each_shape() -> Result {
        each(PEER2PEER, |kind| {
            let shapes = [Setup::SEED, Setup::GPU, Setup::OWN_TABLE, Setup::HUGE];
            each(shapes, |setup| imported(kind, setup, false))?;
            imported(kind, Setup::SEED, true)
        })
    }

    #[test]
    fn many_mrs_of_one_device() -> Result {
        let (t, client, buf) = exported(DYNAMIC, Setup::SEED)?;
        let one = t.pd.import(&buf, 0, PAGE)?;
        let two = t.pd.import(&buf, PAGE, FOUR - PAGE)?;
        one.dereg()?;
        let three = t.pd.import(&buf, 0, FOUR)?;
        two.dereg()?;
        ensure!(three.is_valid());
        ensure_eq!(calls(&client), [1, 0, 0]);
        three.dereg()?;
        undone_once(&client)?;
        t.drop_and_finish(buf)
    }

    #[test]
    fn is_for_one_device() -> Result {
        let (t, _, buf) = exported(DYNAMIC, Setup::SEED)?;
        let other = Fixture::new(REVOCABLE)?;
        let mr = t.pd.import(&buf, 0, FOUR)?;
        ensure_eq!(other.pd.import(&buf, 0, FOUR).err(), Some(EBUSY));
        drop((mr, buf));
        other.finish()?;
        t.finish()
    }

    /// A device that is not the DMA device of an RDMA device is refused, unless the client maps for any
    /// device. An RDMA device may come after a device that was refused.
    #[test]
    fn a_device_that_is_no_rdma_adapter() -> Result {
        for (setup, called, then) in [
            (Setup::GPU, [0, 0, 0], None),
            (Setup::ANY_DEVICE, [1, 1, 1], Some(ENODEV)),
        ] {
            let (t, client, buf) = exported(DYNAMIC, setup)?;
            let result = Leaked::of(&buf)?.attach_foreign();
            ensure_eq!(result.is_ok(), setup.any_device);
            ensure!(result.is_ok() || is_unsupported(&result));
            ensure_eq!(calls(&client), called);
            let imported = t.pd.import(&buf, 0, FOUR).and_then(|mr| mr.dereg());
            ensure_eq!(imported.err(), then);
            t.drop_and_finish(buf)?;
        }
        Ok(())
    }

    #[test]
    fn a_driver_that_pins_is_refused() -> Result {
        let (t, _, buf) = exported(DYNAMIC, Setup::SEED)?;
        let pinning = Fixture::new(PINNED)?;
        ensure!(is_unsupported(&pinning.pd.import(&buf, 0, FOUR)));
        // The next driver gets no error.
        t.pd.import(&buf, 0, FOUR)?.dereg()?;
        drop(buf);
        pinning.finish()?;
        t.finish()
    }

    #[test]
    fn a_driver_without_peer_to_peer_is_refused_without_pages() -> Result {
        let (t, client, buf) = exported(NO_PEER2PEER, Setup::GPU)?;
        ensure!(is_unsupported(&t.pd.import(&buf, 0, FOUR)));
        ensure_eq!(calls(&client), [0, 0, 0]);
        drop(buf);
        t.finish()?;
        let (t, _, buf) = exported(NO_PEER2PEER, Setup::SEED)?;
        t.pd.import(&buf, 0, FOUR)?.dereg()?;
        t.drop_and_finish(buf)
    }

    #[test]
    fn dma_map_fails_and_then_works() -> Result {
        let (t, client, buf) = exported(DYNAMIC, Setup::SEED)?;
        t.fail(Point::DmaMap, EIO)?;
        ensure_eq!(t.pd.import(&buf, 0, FOUR).err(), Some(EIO));
        ensure_eq!(calls(&client), [1, 0, 0]);
        t.pd.import(&buf, 0, FOUR)?.dereg()?;
        ensure_eq!(calls(&client), [2, 1, 1]);
        t.drop_and_finish(buf)
    }

    #[test]
    fn the_device_fails_after_it_has_imported() -> Result {
        each(PEER2PEER, |kind| {
            let (t, client, buf) = exported(kind, Setup::SEED)?;
            t.fail(Point::Imported, EIO)?;
            ensure_eq!(t.pd.import(&buf, 0, FOUR).err(), Some(EIO));
            undone_once(&client)?;
            t.drop_and_finish(buf)
        })
    }

    #[test]
    fn memory_that_cannot_be_exported() -> Result {
        let (t, client) = with_client(DYNAMIC, Setup::SEED)?;
        t.fail(Point::GetPages, EIO)?;
        ensure_eq!(DmaBuf::export(client.at(0), FOUR).err(), Some(EIO));
        ensure_eq!(calls(&client), [0, 0, 0]);
        ensure_eq!(t.calls(Point::Release)?, 1);
        // Unclaimed.
        let after_the_end = DmaBuf::export(client.at(Setup::SEED.len), PAGE);
        ensure_eq!(after_the_end.err(), Some(EFAULT));
        client.finish()?;
        ensure_eq!(DmaBuf::export(client.at(0), FOUR).err(), Some(EFAULT));
        t.finish()
    }

    #[test]
    fn the_first_client_that_claims_it_has_it() -> Result {
        let (t, first, second) = with_rival(DYNAMIC, Setup::SEED)?;
        let buf = DmaBuf::export(first.at(0), FOUR)?;
        ensure_eq!(counters::in_use(first.name())?, (1, 4, FOUR));
        ensure_eq!(second.script().calls(Point::Acquire), 0);
        t.drop_and_finish(buf)
    }

    /// Ends the client, or invalidates the memory, while an MR is on it.
    fn revoked(kind: Kind, setup: Setup, ends: bool) -> Result {
        let (t, client, buf) = exported(kind, setup)?;
        let mr = t.pd.import(&buf, 0, FOUR)?;
        if ends {
            client.finish()?;
        } else {
            client.invalidate_last()?;
            ensure_eq!(client.stage(), Stage::Acquired);
        }
        ensure!(!mr.is_valid());
        if kind == DYNAMIC {
            let after = t.dev().page_fault(mr.key());
            ensure_eq!(after.err(), Some(ENODEV));
        }
        mr.dereg()?;
        let calls_of_core = u32::from(!setup.unmaps);
        ensure_eq!(calls(&client), [1, calls_of_core, calls_of_core]);
        ensure_eq!(t.pd.import(&buf, 0, FOUR).err(), Some(ENODEV));
        t.drop_and_finish(buf)
    }

    #[test]
    fn revoked_from_each_shape() -> Result {
        each(DMA_BUFS, |kind| {
            each(Setup::ALL_REVOCABLE, |setup| revoked(kind, setup, false))?;
            revoked(kind, Setup::SEED, true)
        })
    }

    #[test]
    fn revoked_before_an_import() -> Result {
        let (t, client, buf) = exported(DYNAMIC, Setup::SEED)?;
        client.invalidate_last()?;
        ensure_eq!(calls(&client), [0, 0, 1]);
        ensure_eq!(t.pd.import(&buf, 0, FOUR).err(), Some(ENODEV));
        ensure_eq!(calls(&client), [0, 0, 1]);
        drop(buf);
        // The ticket of a region that was released.
        client.invalidate_last()?;
        t.finish()
    }

    #[test]
    fn an_invalidation_waits_for_a_mapping_under_way() -> Result {
        let (t, client, buf) = exported(DYNAMIC, Setup::SEED)?;
        let pd = t.pd.clone();
        let import = move || {
            let result = pd.import(&buf, 0, FOUR);
            drop(buf);
            result
        };
        let first = t.held(Point::DmaMap, || Task::spawn(import))?;
        let result = first.overlap(Wait::Region, invalidation(&client)?)?;
        // Either the mapping failed, or the mapping was invalidated.
        if let Ok(mr) = result {
            ensure!(!mr.is_valid());
            mr.dereg()?;
        }
        ensure_eq!(calls(&client), [1, 1, 1]);
        t.finish()
    }

    /// The attachment may be incomplete: in the callback ib_umem_dmabuf uses its own pointer to the
    /// attachment.
    #[test]
    fn an_attachment_without_a_mapping_is_not_invalidated() -> Result {
        each(DMA_BUFS, |kind| {
            let (t, client, buf) = exported(kind, Setup::SEED)?;
            let mr = t.pd.import(&buf, 0, FOUR)?;
            let attached = Leaked::of(&buf)?;
            let invalidations = attached.attached(t.registered(), || client.invalidate_last());
            drop(attached);
            ensure_eq!(invalidations?, 0);
            ensure!(!mr.is_valid());
            mr.dereg()?;
            ensure_eq!(calls(&client), [1, 1, 1]);
            t.finish()
        })
    }

    #[test]
    fn everything_at_once() -> Result {
        each(0..20, |round| {
            let (t, client, buf) = exported(DMA_BUFS[round % 2], Setup::SEED)?;
            let pd = t.pd.clone();
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
            t.finish()
        })
    }

    #[test]
    fn no_importer_attaches_during_a_revocation() -> Result {
        let (t, client, buf) = exported(DYNAMIC, Setup::PERSISTENT)?;
        let mr = t.pd.import(&buf, 0, FOUR)?;
        let leaked = Leaked::of(&buf)?;
        let leaving = t.held(Point::Invalidate, || unregistration(&client))?;
        // An importer that pins could not be fenced.
        let attached = leaked.attach_pinning(t.registered());
        ensure_eq!(attached.err(), Some(ENODEV));
        leaving.join()??;
        ensure!(!mr.is_valid());
        mr.dereg()?;
        drop((leaked, buf));
        t.finish_undone(&client)
    }
}
