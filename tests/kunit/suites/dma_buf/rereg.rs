// SPDX-License-Identifier: GPL-2.0

//! Re-registration: another dma-buf takes the place of the first.

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

    /// A client two regions of which may be on the same memory, and an MR.
    fn to_change(kind: Kind) -> Result<(Bench, Arc<Client>, Arc<user::Mr>)> {
        let setup = Setup {
            shared: true,
            ..Setup::SEED
        };
        live(kind, setup)
    }

    #[test]
    fn rereg_with_a_new_range() -> Result {
        for kind in PEER2PEER {
            let (bench, client, mr) = to_change(kind)?;
            let range = (client.at(32 * PAGE + 3), 2 * PAGE);
            let new = mr.rereg(TRANS, &bench.pd, range, 0)?.ok_or(ENOENT)?;
            let (import, state) = (bench.dev().last_import(), new.state()?);
            drop((mr, new));
            ensure!(state.valid);
            ensure_eq!((state.pages, state.access), (3, USUAL as i32));
            ensure_eq!((import.offset, import.length), (3, 2 * PAGE));
            bench.finish(&[&client])?;
        }
        Ok(())
    }

    #[test]
    fn rereg_with_new_access() -> Result {
        for kind in PEER2PEER {
            let (bench, client, mr) = to_change(kind)?;
            let read = user::REMOTE_READ;
            let new = mr.rereg(ACCESS, &bench.pd, (0, 0), read)?.ok_or(ENOENT)?;
            let state = new.state()?;
            drop((mr, new));
            ensure_eq!((state.pages, state.access), (4, read as i32));
            bench.finish(&[&client])?;
        }
        Ok(())
    }

    #[test]
    fn rereg_with_a_new_pd() -> Result {
        for kind in PEER2PEER {
            let (bench, client, mr) = to_change(kind)?;
            let pd = Pd::new(bench.pd.dev())?;
            let new = mr.rereg(PD, &pd, (0, 0), 0)?.ok_or(ENOENT)?;
            ensure!(new.is_valid());
            ensure_eq!((bench.pd.users(), pd.users()), (0, 1));
            drop((mr, new));
            drop(pd);
            bench.finish(&[&client])?;
        }
        Ok(())
    }

    #[test]
    fn rereg_of_a_revoked_one() -> Result {
        for kind in FENCED {
            let (bench, client, mr) = to_change(kind)?;
            client.invalidate_it()?;
            let range = (client.at(32 * PAGE), 2 * PAGE);
            let new = mr.rereg(TRANS, &bench.pd, range, 0)?.ok_or(ENOENT)?;
            let valid = new.is_valid();
            drop((mr, new));
            ensure!(valid);
            bench.finish(&[&client])?;
        }
        Ok(())
    }

    #[test]
    fn rereg_that_fails_leaves_the_old() -> Result {
        for point in [Point::Import, Point::Imported] {
            let (bench, client, mr) = to_change(Kind::Dynamic)?;
            bench.dev().script.fail(point, ENOSPC);
            let range = (client.at(32 * PAGE), 2 * PAGE);
            let new = mr.rereg(TRANS, &bench.pd, range, 0);
            ensure_eq!(new.err(), Some(ENOSPC));
            ensure!(mr.is_valid());
            drop(mr);
            bench.finish(&[&client])?;
        }
        Ok(())
    }
}
