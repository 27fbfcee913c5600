// SPDX-License-Identifier: GPL-2.0

//! Devices that import dma-bufs, in all the ways in which drivers do it.

mod access;
mod fit;
mod handle;
mod import;
mod offer;
mod race;
mod removal;
mod rereg;
mod revoke;

use super::prelude::*;
use crate::device::Kind;

/// Those that let go when they are told to.
const FENCED: [Kind; 2] = [Kind::Dynamic, Kind::Revocable];
/// Those that take any memory.
const PEER2PEER: [Kind; 3] = [Kind::Dynamic, Kind::Revocable, Kind::Pinned];

/// A client, as `setup` says but such that a device of that kind can serve it.
fn fitting(kind: Kind, setup: Setup) -> Setup {
    Setup {
        invalidates: setup.invalidates && kind != Kind::Pinned,
        ..setup
    }
}

/// A client and an MR on four pages of it.
fn live_on(bench: Bench, setup: Setup) -> Result<(Bench, Arc<Client>, Arc<user::Mr>)> {
    let client = Client::new(0, "kunit_one", setup)?;
    let mr = bench.pd.reg(client.at(0), 4 * PAGE, USUAL)?;
    let mr = Arc::new(mr, GFP_KERNEL)?;
    let state = mr.state()?;
    ensure!(state.valid && !state.original);
    Ok((bench, client, mr))
}

/// On the device of that kind.
fn live(kind: Kind, setup: Setup) -> Result<(Bench, Arc<Client>, Arc<user::Mr>)> {
    live_on(Bench::importer(kind)?, fitting(kind, setup))
}

/// An invalidation in another task.
fn invalidation(client: &Arc<Client>) -> Result<Task<Result>> {
    let client = client.clone();
    Task::spawn(move || client.invalidate_it())
}

/// A deregistration in another task.
fn deregistration(mr: &Arc<user::Mr>) -> Result<Task<Result>> {
    let mr = mr.clone();
    Task::spawn(move || mr.dereg())
}

/// The end of a client in another task.
fn unregistration(client: &Arc<Client>) -> Result<Task<Result>> {
    let client = client.clone();
    Task::spawn(move || client.finish())
}

/// Everything was undone once.
fn undone_once(client: &Client) -> Result {
    let script = client.script()?;
    ensure_eq!(script.calls(Point::DmaUnmap), 1);
    ensure_eq!(script.calls(Point::PutPages), 1);
    ensure_eq!(script.calls(Point::Release), 1);
    Ok(())
}

/// Is it `EOPNOTSUPP`?
fn is_unsupported<T>(result: &Result<T>) -> bool {
    let wanted = -(kernel::bindings::EOPNOTSUPP as i32);
    result.as_ref().err().map(|e| e.to_errno()) == Some(wanted)
}
