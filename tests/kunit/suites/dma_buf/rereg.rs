// SPDX-License-Identifier: GPL-2.0

//! Re-registration: another dma-buf replaces the first.

use kernel::prelude::*;

#[kunit_tests(peer_mem_dma_buf_rereg)]
mod tests {
    use super::super::*;
    use user::{
        Pd,
        ACCESS,
        PD,
        TRANS, //
    };

    /// Returns a client that allows two regions on the same memory, with a live region.
    fn live_shared(mode: Mode) -> Result<(Fixture, Arc<Client>, Arc<user::Mr>)> {
        live(mode, Setup::SHARED)
    }

    #[test]
    fn with_a_new_range() -> Result {
        each(PEER2PEER, |mode| {
            let (t, client, mr) = live_shared(mode)?;
            let range = (client.at(32 * PAGE + 3), 2 * PAGE);
            let new = mr.rereg(TRANS, &t.pd, range, 0)?.ok_or(ENOENT)?;
            let (import, state) = (t.dev().last_import(), new.state()?);
            drop((mr, new));
            ensure!(state.valid);
            ensure_eq!((state.pages, state.access), (3, USUAL as i32));
            ensure_eq!((import.offset, import.length), (3, 2 * PAGE));
            t.finish()
        })
    }

    #[test]
    fn a_driver_that_pins_by_now_leaves_the_old_mr() -> Result {
        let (t, client, mr) = live_on(Fixture::temporary(Mode::Dynamic)?, Setup::SHARED)?;
        t.dev().set_mode(Mode::Pinned);
        let new = mr.rereg(ACCESS, &t.pd, (0, 0), user::REMOTE_READ);
        let unsupported = is_unsupported(&new);
        drop(new);
        let valid = mr.is_valid();
        mr.dereg()?;
        ensure!(unsupported && valid);
        ensure_eq!(client.script().calls(Point::Acquire), 1);
        t.finish_undone(&client)
    }

    #[test]
    fn with_new_access() -> Result {
        each(PEER2PEER, |mode| {
            let (t, _, mr) = live_shared(mode)?;
            let read = user::REMOTE_READ;
            let new = mr.rereg(ACCESS, &t.pd, (0, 0), read)?.ok_or(ENOENT)?;
            let state = new.state()?;
            drop((mr, new));
            ensure_eq!((state.pages, state.access), (4, read as i32));
            t.finish()
        })
    }

    #[test]
    fn with_a_new_pd() -> Result {
        each(PEER2PEER, |mode| {
            let (t, _, mr) = live_shared(mode)?;
            let pd = Pd::new(t.registered())?;
            let new = mr.rereg(PD, &pd, (0, 0), 0)?.ok_or(ENOENT)?;
            ensure!(new.is_valid());
            ensure_eq!((t.pd.users(), pd.users()), (0, 1));
            drop((mr, new));
            drop(pd);
            t.finish()
        })
    }

    #[test]
    fn of_a_revoked_mr() -> Result {
        each(REVOCABLE, |mode| {
            let (t, client, mr) = live_shared(mode)?;
            client.invalidate_last()?;
            let range = (client.at(32 * PAGE), 2 * PAGE);
            let new = mr.rereg(TRANS, &t.pd, range, 0)?.ok_or(ENOENT)?;
            let valid = new.is_valid();
            drop((mr, new));
            ensure!(valid);
            t.finish()
        })
    }

    #[test]
    fn a_failure_leaves_the_old_mr() -> Result {
        each([Point::Import, Point::Imported], |point| {
            let (t, client, mr) = live_shared(Mode::Dynamic)?;
            t.fail(point, ENOSPC)?;
            let range = (client.at(32 * PAGE), 2 * PAGE);
            let new = mr.rereg(TRANS, &t.pd, range, 0);
            ensure_eq!(new.err(), Some(ENOSPC));
            ensure!(mr.is_valid());
            drop(mr);
            t.finish()
        })
    }
}
