// SPDX-License-Identifier: GPL-2.0

//! The file descriptor, which other kernel threads can use during the import.

#[kernel::prelude::kunit_tests(peer_mem_dma_buf_descriptor)]
mod tests {
    use crate::suites::prelude::*;

    #[test]
    fn another_task_cannot_attach_during_the_import() -> Result {
        each(PEER2PEER, |kind| {
            let (t, client) = with_client(kind, Setup::SEED)?;
            t.dev().set(|d| d.leaks = true);
            let registering = t.held(Point::Import, || t.registration(&client, 0, PAGE))?;
            let result = t.dev().leaked().and_then(|l| l.attach(t.registered()));
            ensure_eq!(result.err(), Some(EPERM));
            // The driver is not affected.
            let mr = registering.join()??;
            ensure!(mr.is_served());
            t.dereg_and_finish(&mr)
        })
    }

    #[test]
    fn another_device_cannot_attach() -> Result {
        let (t, client) = with_client(DYNAMIC, Setup::SEED)?;
        let testbed = Testbed::get()?;
        let other = testbed.device(REVOCABLE)?;
        t.dev()
            .set(|d| (d.leaks, d.other) = (true, other.dma_device()));
        let mr = t.reg(&client, PAGE)?;
        let result = t.dev().other_attached();
        ensure!(mr.is_served());
        mr.dereg()?;
        drop(t.dev().leaked()?);
        ensure_eq!(result.map(|r| r.err()), Some(Some(EPERM)));
        t.finish()
    }

    #[test]
    fn nothing_can_attach_after_the_import() -> Result {
        each(PEER2PEER, |kind| {
            let t = Fixture::new(kind)?;
            t.dev().set(|d| d.leaks = true);
            let client = t.client(fitting(kind, Setup::SEED))?;
            let mr = t.reg(&client, PAGE)?;
            let leaked = t.dev().leaked()?;
            let live = leaked.attach(t.registered());
            if kind != PINNED {
                client.invalidate_last()?;
            }
            let revoked = leaked.attach(t.registered());
            mr.dereg()?;
            let gone = leaked.attach(t.registered());
            // A kept reference to the dma-buf does not delay the teardown.
            undone_once(&client)?;
            drop(leaked);
            ensure_eq!(live.err(), Some(EPERM));
            ensure_eq!(revoked.err(), Some(EPERM));
            ensure_eq!(gone.err(), Some(EPERM));
            t.finish()
        })
    }

    #[test]
    fn nothing_can_attach_after_an_import_that_failed() -> Result {
        each([Point::Import, Point::Imported], |point| {
            let t = Fixture::new(DYNAMIC)?;
            t.dev().set(|d| d.leaks = true);
            t.fail(point, ENOSPC)?;
            let client = t.client(Setup::SEED)?;
            let mr = t.reg(&client, PAGE);
            let leaked = t.dev().leaked()?;
            let result = leaked.attach(t.registered());
            drop(leaked);
            ensure_eq!(mr.err(), Some(ENOSPC));
            ensure_eq!(result.err(), Some(EPERM));
            t.finish_undone(&client)
        })
    }

    #[test]
    fn a_driver_that_imports_another_dma_buf() -> Result {
        each(PEER2PEER, |kind| {
            let (t, client) = with_client(kind, Setup::SEED)?;
            t.dev().set(|d| d.swaps_descriptors = true);
            let mr = t.reg(&client, PAGE);
            ensure_eq!(mr.err(), Some(EIO));
            // The driver's MR is on other memory, so the core deregisters the MR.
            ensure_eq!(t.dev().objects(), (0, 0, 0));
            ensure_eq!(t.calls(Point::DeregMr)?, 1);
            t.finish_undone(&client)
        })
    }
}
