// SPDX-License-Identifier: GPL-2.0

//! Re-registration: another dma-buf replaces the first.

use kernel::prelude::*;

#[kunit_tests(peer_mem_dma_buf_rereg)]
mod tests {
    use super::super::*;
    use user::{
        ACCESS,
        TRANS, //
    };

    #[test]
    fn with_a_new_range() -> Result {
        each(PEER2PEER, |mode| {
            let (t, client, mr) = live(mode, Setup::SHARED)?;
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
        ensure!(is_unsupported(&new) && mr.is_valid());
        mr.dereg()?;
        ensure_eq!(client.script().calls(Point::Acquire), 1);
        t.finish_undone(&client)
    }

    #[test]
    fn with_new_access() -> Result {
        each(PEER2PEER, common::rereg_with_new_access)
    }

    #[test]
    fn with_a_new_pd() -> Result {
        each(PEER2PEER, |mode| common::rereg_with_a_new_pd(mode, 1))
    }

    #[test]
    fn of_a_revoked_mr() -> Result {
        each(REVOCABLE, common::rereg_of_a_revoked_mr)
    }

    #[test]
    fn a_failure_leaves_the_old_mr() -> Result {
        each([Point::Import, Point::Imported], |point| {
            common::rereg_that_fails(Mode::Dynamic, point)
        })
    }
}
