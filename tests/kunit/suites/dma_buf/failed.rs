// SPDX-License-Identifier: GPL-2.0

//! Drivers whose import fails and stays mapped, as on a device where every command fails.

use kernel::prelude::*;

#[kunit_tests(peer_mem_dma_buf_failed)]
mod tests {
    use crate::suites::prelude::*;

    const ERROR: Error = ENOSPC;

    /// Registers a client, and memory of the client. The driver fails the registration and does not
    /// undo the import. Another task registers: the wait for the task has a bound.
    fn kept(t: &Fixture, setup: Setup) -> Result<Arc<Client>> {
        let client = t.client(setup)?;
        t.dev().set(|d| d.keeps = Some(ERROR));
        let registered = t.registration(&client, 0, 4 * PAGE)?.join()?;
        ensure_eq!(registered.err(), Some(ERROR));
        Ok(client)
    }

    #[test]
    fn the_pages_stay_until_the_driver_detaches() -> Result {
        each([DYNAMIC, PINNED], |kind| {
            let t = Fixture::temporary(kind)?;
            let client = kept(&t, fitting(kind, Setup::SEED))?;
            let (stage, counted) = (client.stage(), counters::in_use(client.name())?);
            removal(&t)?.join()??;
            let released = t.calls(Point::Release)?;
            let later = client.stage();
            t.dev().undo_import()?;
            ensure_eq!((stage, later), (Stage::Mapped, Stage::Mapped));
            ensure_eq!(counted, (1, 4, 4 * PAGE));
            ensure_eq!(released, 0);
            t.finish_undone(&client)
        })
    }

    #[test]
    fn an_importer_that_unmaps_in_time_is_waited_for() -> Result {
        let (t, client) = with_client(DYNAMIC, Setup::SEED)?;
        t.dev().set(|d| d.keeps = Some(ERROR));
        let registering = t.registration(&client, 0, PAGE)?;
        let imported = until(|| t.dev().has_kept_import());
        let undone = t.dev().undo_import();
        let registered = registering.join()?;
        imported?;
        undone?;
        ensure_eq!(registered.err(), Some(ERROR));
        t.finish_undone(&client)
    }

    /// The client invalidates under its mutex while the driver imports.
    #[test]
    fn an_invalidation_waits_until_the_driver_detaches() -> Result {
        let t = Fixture::new(DYNAMIC)?;
        t.dev().set(|d| d.quiesce = Quiesce::UnmapLater);
        let client = t.client(Setup::LOCKED)?;
        t.dev().set(|d| d.keeps = Some(ERROR));
        let registering = t.held(Point::Imported, || t.registration(&client, 0, PAGE))?;
        let invalidating = invalidation(&client)?;
        let waited = invalidating.waits_for(Wait::Region);
        let registered = registering.join()?;
        let waited = invalidating.waits_for(Wait::Importer) && waited;
        let stage = client.stage();
        t.dev().undo_import()?;
        invalidating.join()??;
        ensure_eq!(registered.err(), Some(ERROR));
        ensure!(waited);
        ensure_eq!(stage, Stage::Mapped);
        t.unregister_and_finish_undone(&client)
    }

    #[test]
    fn an_importer_that_can_be_revoked_is_asked_to_unmap() -> Result {
        let t = Fixture::new(DYNAMIC)?;
        let client = kept(&t, Setup::SEED)?;
        invalidation(&client)?.join()??;
        let (stage, released) = (client.stage(), t.calls(Point::Release)?);
        t.dev().undo_import()?;
        ensure_eq!((stage, released), (Stage::Acquired, 0));
        t.finish_undone(&client)
    }

    #[test]
    fn the_end_of_the_client_ends_with_the_removal_of_the_device() -> Result {
        let t = Fixture::temporary(PINNED)?;
        let client = kept(&t, fitting(PINNED, Setup::SEED))?;
        let ending = unregistration(&client)?;
        let waited = ending.waits_for(Wait::Retry);
        let stage = client.stage();
        t.registered().leave_bus();
        removal(&t)?.join()??;
        ending.join()??;
        t.dev().undo_import()?;
        ensure!(waited);
        ensure_eq!(stage, Stage::Mapped);
        t.finish_undone(&client)
    }

    #[test]
    fn a_re_registration_that_fails_leaves_the_region_until_both_are_gone() -> Result {
        let (t, client, mr) = live(PINNED, Setup::SEED)?;
        t.dev().set(|d| d.keeps = Some(ERROR));
        let again = mr.rereg_only(ACCESS, &t.pd, (0, 0), REMOTE_READ);
        let valid = mr.is_valid();
        mr.dereg()?;
        let (stage, released) = (client.stage(), t.calls(Point::Release)?);
        t.dev().undo_import()?;
        ensure_eq!(again.err(), Some(ERROR));
        ensure!(valid);
        ensure_eq!((stage, released), (Stage::Mapped, 0));
        t.finish_undone(&client)
    }
}
