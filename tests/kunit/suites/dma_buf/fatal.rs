// SPDX-License-Identifier: GPL-2.0

//! Devices that have reported a fatal error, or have failed an invalidation of the driver, mlx5. The
//! device may access the memory until the MR is deregistered, or longer.

use kernel::prelude::*;

#[kunit_tests(peer_mem_dma_buf_fatal)]
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
}
