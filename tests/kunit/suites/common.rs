// SPDX-License-Identifier: GPL-2.0

//! Bodies of tests that more than one suite runs, on devices of other kinds.

use super::prelude::*;
use user::{
    Pd,
    ACCESS,
    PD,
    REMOTE_READ,
    TRANS, //
};

/// The driver refuses to deregister, and the MR is live as before.
pub(super) fn a_refused_dereg_leaves_it_live(kind: impl Into<Kind>) -> Result {
    let (t, client, mr) = live(kind, Setup::SEED)?;
    t.fail(Point::DeregMr, EBUSY)?;
    ensure_eq!(mr.dereg().err(), Some(EBUSY));
    ensure!(mr.is_valid());
    ensure_eq!(client.stage(), Stage::Mapped);
    t.dereg_and_finish_undone(&mr, &client)
}

/// An invalidation waits while the driver deregisters.
pub(super) fn invalidate_during_dereg(kind: impl Into<Kind>, setup: Setup) -> Result {
    let (t, client, mr) = live(kind, setup)?;
    let first = t.held(Point::DeregMr, || deregistration(&mr))?;
    first.overlap(Wait::Region, invalidation(&client)?)??;
    if !setup.unmaps {
        undone_once(&client)?;
    }
    ensure_eq!(t.calls(Point::Release)?, 1);
    t.finish()
}

/// An invalidation waits while the driver refuses to deregister, and revokes the MR then.
pub(super) fn invalidate_during_a_refused_dereg(kind: impl Into<Kind>) -> Result {
    let (t, client, mr) = live(kind, Setup::SEED)?;
    t.fail(Point::DeregMr, EBUSY)?;
    let first = t.held(Point::DeregMr, || deregistration(&mr))?;
    let result = first.overlap(Wait::Region, invalidation(&client)?)?;
    ensure_eq!(result.err(), Some(EBUSY));
    ensure!(!mr.is_valid());
    ensure_eq!(client.stage(), Stage::Acquired);
    t.dereg_and_finish_undone(&mr, &client)
}

/// An invalidation waits for a registration that is held at `point`, and revokes the MR. If `fails`,
/// the registration fails at `point`.
pub(super) fn invalidate_during_registration(
    kind: impl Into<Kind>,
    setup: Setup,
    point: Point,
    fails: bool,
) -> Result {
    let (t, client) = with_client(kind, setup)?;
    if fails {
        t.fail(point, ENOSPC)?;
    }
    let first = t.held(point, || t.registration(&client, 0, 4 * PAGE))?;
    let result = first.overlap(Wait::Region, invalidation(&client)?)?;
    ensure_eq!(result.as_ref().err().copied(), fails.then_some(ENOSPC));
    if let Ok(mr) = result {
        ensure!(!mr.is_valid());
        ensure_eq!(client.stage(), Stage::Acquired);
        mr.dereg()?;
    }
    ensure_eq!(t.dev().objects(), (0, 0, 0));
    ensure_eq!(t.calls(Point::Release)?, 1);
    t.finish()
}

/// An invalidation revokes the last MR of the client, and no other.
pub(super) fn invalidation_leaves_the_others(kind: impl Into<Kind>) -> Result {
    let (t, client, mr) = live(kind, Setup::SEED)?;
    let other = t.reg_at(&client, 8 * PAGE, PAGE)?;
    client.invalidate_last()?;
    ensure!(mr.is_valid() && !other.is_valid());
    mr.dereg()?;
    t.dereg_and_finish(&other)
}

/// The end of the client revokes a live region, and the MR stays.
pub(super) fn end_of_the_client(kind: impl Into<Kind>, setup: Setup) -> Result {
    let (t, client, mr) = live(kind, setup)?;
    client.finish()?;
    ensure!(!mr.is_valid());
    t.dereg_and_finish(&mr)
}

/// Makes `end` wait for a device that cannot be made to stop, until the MR is deregistered.
pub(super) fn ends_with_dereg(
    (t, client, mr): (Fixture, Arc<Client>, Arc<user::Mr>),
    end: fn(&Arc<Client>) -> Result<Task<Result>>,
) -> Result {
    let ending = end(&client)?;
    let waited = ending.waits_for(Wait::Retry);
    let stage = client.stage();
    deregistration(&mr)?.join()??;
    ending.join()??;
    ensure!(waited);
    // Nothing was unmapped or put before.
    ensure_eq!(stage, Stage::Mapped);
    t.finish_undone(&client)
}

/// A re-registration with other access does not pin the memory again.
pub(super) fn rereg_with_new_access(kind: impl Into<Kind>) -> Result {
    let (t, _, mr) = live(kind, Setup::SHARED)?;
    let new = mr.rereg(ACCESS, &t.pd, (0, 0), REMOTE_READ)?;
    let state = new.as_ref().ok_or(ENOENT)?.state()?;
    ensure_eq!((state.pages, state.access), (4, REMOTE_READ as i32));
    ensure_eq!(t.calls(Point::GetPages)?, 1);
    t.drop_and_finish(new)
}

/// A re-registration with another PD, which then has as many users.
pub(super) fn rereg_with_a_new_pd(kind: impl Into<Kind>, users: i32) -> Result {
    let (t, _, mr) = live(kind, Setup::SHARED)?;
    let pd = Pd::new(t.registered())?;
    let new = mr.rereg(PD, &pd, (0, 0), 0)?.ok_or(ENOENT)?;
    ensure!(new.is_valid());
    ensure_eq!((t.pd.users(), pd.users()), (0, users));
    t.drop_and_finish((new, pd))
}

/// A re-registration of a revoked MR to other memory.
pub(super) fn rereg_of_a_revoked_mr(kind: impl Into<Kind>) -> Result {
    let (t, client, mr) = live(kind, Setup::SHARED)?;
    client.invalidate_last()?;
    let range = (client.at(32 * PAGE), 2 * PAGE);
    let new = mr.rereg(TRANS, &t.pd, range, 0)?.ok_or(ENOENT)?;
    ensure!(new.is_valid());
    t.drop_and_finish(new)
}

/// A re-registration that fails at `point` leaves the old MR.
pub(super) fn rereg_that_fails(kind: impl Into<Kind>, point: Point) -> Result {
    let (t, client, mr) = live(kind, Setup::SHARED)?;
    t.fail(point, ENOSPC)?;
    let range = (client.at(32 * PAGE), 2 * PAGE);
    ensure_eq!(mr.rereg(TRANS, &t.pd, range, 0).err(), Some(ENOSPC));
    ensure!(mr.is_valid());
    t.drop_and_finish(mr)
}

/// The driver gets a registration for on-demand paging, and no client is asked.
pub(super) fn on_demand_falls_through_to_the_driver(kind: impl Into<Kind>) -> Result {
    let (t, client) = with_client(kind, Setup::SEED)?;
    let mr = t.pd.reg(client.at(0), PAGE, USUAL | user::ON_DEMAND)?;
    ensure!(mr.state()?.original);
    drop(mr);
    ensure_eq!(t.calls(Point::Acquire)?, 0);
    t.finish()
}
