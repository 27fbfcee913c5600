// SPDX-License-Identifier: GPL-2.0

//! Devices that have reported a fatal error, or have failed an invalidation of the driver, mlx5. The
//! device may access the memory until the MR is deregistered, or longer. And drivers whose import fails
//! and stays mapped, as on a device where every command fails.

#[kernel::prelude::kunit_tests(peer_mem_dma_buf_fatal)]
mod tests {
    use crate::{
        ext::task::return_probe::ReturnProbe,
        suites::prelude::*, //
    };

    /// Returns a client with a live region on a device of this test. The device has had a fatal
    /// error since.
    fn fatal(kind: Kind) -> Result<(Fixture, Arc<Client>, Arc<user::Mr>)> {
        let live = live_temporary(kind)?;
        live.0.registered().report_fatal();
        Ok(live)
    }

    /// The driver removes the device at once when it recovers.
    #[test]
    fn the_removal_does_not_wait_and_leaves_the_pages_pinned() -> Result {
        each(DMA_BUFS, |kind| {
            let (t, client, mr) = fatal(kind)?;
            let invalidating = invalidation(&client)?;
            let waited = invalidating.waits_for(Wait::Retry);
            // ib_core waits for the MR before freeing the device.
            let leaving = bare_removal(&t)?;
            let asked = t.calls(Point::Invalidate)?;
            mr.dereg()?;
            invalidating.join()??;
            leaving.join()?;
            ensure!(waited);
            ensure!(asked <= 1);
            t.unregister_and_finish_undone(&client)
        })
    }

    /// The driver may never deregister, so an invalidation does not wait.
    #[test]
    fn the_pages_of_a_removed_device_are_put_when_the_driver_deregisters() -> Result {
        each([false, true], |invalidates| {
            each(DMA_BUFS, |kind| {
                let (t, client, mr) = fatal(kind)?;
                let leaving = bare_removal(&t)?;
                let stage = client.stage();
                if invalidates {
                    invalidation(&client)?.join()??;
                }
                let later = client.stage();
                // The device has no interposed operations, so the call goes to the driver directly.
                mr.dereg()?;
                let released = t.calls(Point::Release)?;
                leaving.join()?;
                ensure_eq!((stage, released), (Stage::Mapped, 1));
                ensure_eq!(later == Stage::Mapped, !invalidates);
                t.unregister_and_finish_undone(&client)
            })
        })
    }

    /// Returns the number of tasks inside the driver's function.
    fn held() -> u32 {
        // SAFETY: The function has no requirements.
        unsafe { helpers::kt_held() }
    }

    /// More tasks than a probe has instances, all inside the driver at the same time.
    #[test]
    fn each_of_many_tasks_sees_its_own_error() -> Result {
        const TASKS: usize = 300;
        let probe = Arc::new(ReturnProbe::new(c"mlx5r_umr_update_mr_pas")?, GFP_KERNEL)?;
        let mut tasks = KVec::new();
        // SAFETY: The function has no requirements.
        unsafe { helpers::kt_hold(true) };
        for i in 0..TASKS {
            let probe = probe.clone();
            let errno = if i % 2 == 0 { 0 } else { ENOMEM.to_errno() };
            let task = Task::spawn(move || {
                let watch = probe.watch()?;
                // SAFETY: The function has no requirements.
                unsafe { helpers::kt_update_mr(errno) };
                watch.error()
            })?;
            tasks.push(task, GFP_KERNEL)?;
        }
        let many = until(|| held() >= 128);
        // A caller that is not watched takes no instance of those that are.
        let other = Task::spawn(|| {
            // SAFETY: The function has no requirements.
            unsafe { helpers::kt_update_mr(EIO.to_errno()) }
        })?;
        let all = until(|| held() >= 129);
        // SAFETY: The function has no requirements.
        unsafe { helpers::kt_hold(false) };
        other.join()?;
        for (i, task) in tasks.into_iter().enumerate() {
            let result = task.join()?;
            ensure_eq!(result, if i % 2 == 0 { Ok(()) } else { Err(ENOMEM) });
        }
        many.and(all)
    }

    #[test]
    fn the_error_of_another_device_does_not_matter() -> Result {
        let (t, client, mr) = live(DYNAMIC, Setup::SEED)?;
        let other = Fixture::temporary(DYNAMIC)?;
        other.registered().report_fatal();
        client.invalidate_last()?;
        ensure!(!mr.is_valid());
        mr.dereg()?;
        other.finish()?;
        t.finish()
    }

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
