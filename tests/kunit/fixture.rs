// SPDX-License-Identifier: GPL-2.0

//! The device, the PD and the clients of one test, and the most frequent tasks of tests.

use crate::prelude::*;
use core::{
    cell::OnceCell,
    fmt::Debug, //
};

/// Names of a fixture's clients, in the order of registration.
const NAMES: [&str; SLOTS] = ["kunit_first", "kunit_second", "kunit_third"];

/// A device, a PD of the device, and the clients registered by the test.
pub(crate) struct Fixture {
    // Dropped in this order.
    clients: [OnceCell<Arc<Client>>; SLOTS],
    pub(crate) pd: Arc<Pd>,
}

impl Fixture {
    /// Allocates a PD on the shared device of the kind.
    pub(crate) fn new(kind: Kind) -> Result<Self> {
        Self::on(Testbed::get()?.device(kind)?)
    }

    /// Allocates a PD on a device used only by this test.
    pub(crate) fn temporary(kind: Kind) -> Result<Self> {
        Self::on(&Testbed::get()?.temporary(kind)?)
    }

    fn on(dev: &Arc<Registered>) -> Result<Self> {
        dev.fake().reset();
        Ok(Self {
            clients: Default::default(),
            pd: Pd::new(dev)?,
        })
    }

    /// Returns the device's own side: the script and the records.
    pub(crate) fn dev(&self) -> &Arc<FakeDevice> {
        self.registered().fake()
    }

    pub(crate) fn registered(&self) -> &Arc<Registered> {
        self.pd.dev()
    }

    /// Registers a client in the next slot.
    pub(crate) fn client(&self, setup: Setup) -> Result<Arc<Client>> {
        self.altered(setup, |_| ())
    }

    /// Registers a client in the next slot, after `change` of the structure.
    pub(crate) fn altered(
        &self,
        setup: Setup,
        change: impl FnOnce(&mut crate::peer::peer_memory_client_ex),
    ) -> Result<Arc<Client>> {
        let mut slots = self.clients.iter().zip(NAMES).enumerate();
        let (number, (cell, name)) = slots.find(|(_, (c, _))| c.get().is_none()).ok_or(ENOSPC)?;
        let client = Client::altered(number, name, setup, change)?;
        Ok(cell.get_or_init(|| client).clone())
    }

    /// Registers `len` bytes from the start of the client's memory.
    pub(crate) fn reg(&self, client: &Client, len: u64) -> Result<Arc<Mr>> {
        self.reg_at(client, 0, len)
    }

    /// Registers `len` bytes of the client's memory from `offset` on.
    pub(crate) fn reg_at(&self, client: &Client, offset: u64, len: u64) -> Result<Arc<Mr>> {
        let mr = self.pd.reg(client.at(offset), len, USUAL)?;
        Ok(Arc::new(mr, GFP_KERNEL)?)
    }

    /// Like [`Self::reg_at`], in another task.
    pub(crate) fn registration(
        &self,
        client: &Client,
        offset: u64,
        len: u64,
    ) -> Result<Task<Result<Mr>>> {
        let (pd, at) = (self.pd.clone(), client.at(offset));
        Task::spawn(move || pd.reg(at, len, USUAL))
    }

    /// Registers the client, and an MR on four pages of the client.
    pub(crate) fn live(&self, setup: Setup) -> Result<(Arc<Client>, Arc<Mr>)> {
        let client = self.client(setup)?;
        let mr = self.reg(&client, 4 * PAGE)?;
        let state = mr.state()?;
        ensure!(state.valid && !state.original);
        Ok((client, mr))
    }

    /// Returns the script that has `point`: the device's or the first client's.
    pub(crate) fn script(&self, point: Point) -> Result<&Script> {
        if point.is_clients() {
            Ok(self.clients[0].get().ok_or(ENOENT)?.script())
        } else {
            Ok(&self.dev().script)
        }
    }

    pub(crate) fn fail(&self, point: Point, errno: Error) -> Result {
        self.script(point)?.fail(point, errno);
        Ok(())
    }

    pub(crate) fn fail_always(&self, point: Point, errno: Error) -> Result {
        self.script(point)?.fail_always(point, errno.to_errno());
        Ok(())
    }

    /// Makes the next call at `point` wait at the returned gate.
    pub(crate) fn hold(&self, point: Point) -> Result<Arc<Gate>> {
        self.script(point)?.hold(point)
    }

    /// Starts a task, and returns when the task is held at `point`.
    pub(crate) fn held<A: Send + Unpin>(
        &self,
        point: Point,
        start: impl FnOnce() -> Result<Task<A>>,
    ) -> Result<Held<A>> {
        let gate = OpenedOnDrop(self.hold(point)?);
        let task = start()?;
        let held = Held { gate, task };
        held.gate.0.reached()?;
        Ok(held)
    }

    pub(crate) fn calls(&self, point: Point) -> Result<u32> {
        Ok(self.script(point)?.calls(point))
    }

    /// Checks that all MRs are gone: the device has no objects, the counters are balanced, and the
    /// clients have seen only valid calls.
    pub(crate) fn check(&self) -> Result {
        let mut result = Ok(());
        let mut check = |what: &str, ok: bool| {
            if !ok {
                diagnostic!("after the test: {}", what);
                result = Err(EINVAL);
            }
        };
        check(
            "the device has MRs, queue pairs or completion queues",
            self.dev().objects() == (0, 0, 0),
        );
        check("the PD is in use", self.pd.users() == 0);
        for client in self.clients.iter().filter_map(|c| c.get()) {
            if let Ok(in_use) = counters::in_use(client.name()) {
                check("a client's counters are not balanced", in_use == (0, 0, 0));
            }
            check("a client saw an invalid call", client.check().is_ok());
        }
        result
    }

    /// Like [`Self::check`]. Then unregisters the clients and checks that no region is left.
    pub(crate) fn finish(self) -> Result {
        let result = self.check();
        let clients = self.clients.iter().filter_map(|c| c.get());
        // Unregister all clients, also after an error.
        clients.fold(result, |result, client| client.finish().and(result))
    }

    /// Like [`Self::finish`], after [`undone_once`].
    pub(crate) fn finish_undone(self, client: &Client) -> Result {
        undone_once(client)?;
        self.finish()
    }

    /// Like [`Self::finish`], after the deregistration of the last MR.
    pub(crate) fn dereg_and_finish(self, last: &Mr) -> Result {
        last.dereg()?;
        self.finish()
    }

    /// Like [`Self::finish_undone`], after the deregistration of the last MR.
    pub(crate) fn dereg_and_finish_undone(self, last: &Mr, client: &Client) -> Result {
        last.dereg()?;
        self.finish_undone(client)
    }

    /// Like [`Self::finish`], after the drop of the last objects.
    pub(crate) fn drop_and_finish<T>(self, last: T) -> Result {
        drop(last);
        self.finish()
    }

    /// Like [`Self::finish_undone`], after the client is unregistered in another task: the wait for
    /// the task has a bound.
    pub(crate) fn unregister_and_finish_undone(self, client: &Arc<Client>) -> Result {
        unregistration(client)?.join()??;
        self.finish_undone(client)
    }
}

struct OpenedOnDrop(Arc<Gate>);

impl Drop for OpenedOnDrop {
    fn drop(&mut self) {
        self.0.open();
    }
}

/// A task that is held at a point. Drop lets the task continue, and waits for the task.
pub(crate) struct Held<A: Send + 'static> {
    // Dropped in this order.
    gate: OpenedOnDrop,
    task: Task<A>,
}

impl<A: Send + Unpin + 'static> Held<A> {
    pub(crate) fn let_go(self) -> Task<A> {
        drop(self.gate);
        self.task
    }

    pub(crate) fn join(self) -> Result<A> {
        self.let_go().join()
    }

    /// Lets the task continue when `second` waits for `what`. Returns the result of the task, and
    /// fails unless `second` waited and succeeded.
    pub(crate) fn overlap(self, what: Wait, second: Task<Result>) -> Result<A> {
        let waited = second.waits_for(what);
        let result = self.join()?;
        second.join()??;
        ensure!(waited);
        Ok(result)
    }
}

/// Returns a fixture on the shared device of the kind with a registered client.
///
/// On a device whose MRs cannot be revoked the client does not ask for invalidation.
pub(crate) fn with_client(kind: Kind, setup: Setup) -> Result<(Fixture, Arc<Client>)> {
    let t = Fixture::new(kind)?;
    let client = t.client(fitting(kind, setup))?;
    Ok((t, client))
}

/// Like [`with_client`], with [`Fixture::live`].
pub(crate) fn live(kind: Kind, setup: Setup) -> Result<(Fixture, Arc<Client>, Arc<Mr>)> {
    live_on(Fixture::new(kind)?, fitting(kind, setup))
}

pub(crate) fn live_on(t: Fixture, setup: Setup) -> Result<(Fixture, Arc<Client>, Arc<Mr>)> {
    let (client, mr) = t.live(setup)?;
    Ok((t, client, mr))
}

/// Returns a client with a live region on a device that only this test uses.
pub(crate) fn live_temporary(kind: Kind) -> Result<(Fixture, Arc<Client>, Arc<Mr>)> {
    live_on(Fixture::temporary(kind)?, fitting(kind, Setup::SEED))
}

/// Returns a fixture with two clients. The second claims the memory of the first, too.
pub(crate) fn with_rival(kind: Kind, setup: Setup) -> Result<(Fixture, Arc<Client>, Arc<Client>)> {
    let t = Fixture::new(kind)?;
    let first = t.client(setup)?;
    let second = t.client(Setup::SEED.at_place_of(0))?;
    Ok((t, first, second))
}

/// Returns `setup`, without invalidation if a device of the kind cannot be made to stop.
pub(crate) fn fitting(kind: Kind, setup: Setup) -> Setup {
    Setup {
        invalidates: setup.invalidates && kind != Kind::Importer(Mode::Pinned),
        ..setup
    }
}

/// Invalidates the client's last region in another task.
pub(crate) fn invalidation(client: &Arc<Client>) -> Result<Task<Result>> {
    let client = client.clone();
    Task::spawn(move || client.invalidate_last())
}

/// Deregisters in another task, as the exit of a process does.
pub(crate) fn deregistration(mr: &Arc<Mr>) -> Result<Task<Result>> {
    let mr = mr.clone();
    Task::spawn(move || mr.dereg())
}

/// Unregisters the client in another task, and checks the calls.
pub(crate) fn unregistration(client: &Arc<Client>) -> Result<Task<Result>> {
    let client = client.clone();
    Task::spawn(move || client.finish())
}

pub(crate) fn removal(t: &Fixture) -> Result<Task<Result>> {
    let dev = t.registered().clone();
    Task::spawn(move || {
        dev.unregister();
        Ok(())
    })
}

/// A task that ends a region.
pub(crate) type End = fn(&Fixture, &Arc<Client>, &Arc<Mr>) -> Result<Task<Result>>;

pub(crate) const DEREGISTER: End = |_, _, mr| deregistration(mr);
pub(crate) const INVALIDATE: End = |_, client, _| invalidation(client);
pub(crate) const UNREGISTER: End = |_, client, _| unregistration(client);
/// On a device that only one test uses.
pub(crate) const REMOVE: End = |t, _, _| removal(t);
/// What ends a region while the user has the MR.
pub(crate) const ENDS: [End; 3] = [INVALIDATE, UNREGISTER, REMOVE];

/// A removal that has restored the operations of the driver.
pub(crate) struct BareRemoval {
    task: Task<Result>,
    bare: Result,
}

impl BareRemoval {
    pub(crate) fn join(self) -> Result {
        self.task.join()??;
        self.bare
    }
}

/// Like [`removal`], and returns when the device has no interposed operations.
pub(crate) fn bare_removal(t: &Fixture) -> Result<BareRemoval> {
    let task = removal(t)?;
    let bare = until(|| t.registered().is_bare());
    Ok(BareRemoval { task, bare })
}

/// Checks that `dma_unmap`, `put_pages` and `release` were called once each.
pub(crate) fn undone_once(client: &Client) -> Result {
    let script = client.script();
    ensure_eq!(script.calls(Point::DmaUnmap), 1);
    ensure_eq!(script.calls(Point::PutPages), 1);
    ensure_eq!(script.calls(Point::Release), 1);
    Ok(())
}

/// Runs `case` for each value, and names the value that fails.
pub(crate) fn each<T: Copy + Debug>(
    values: impl IntoIterator<Item = T>,
    mut case: impl FnMut(T) -> Result,
) -> Result {
    for value in values {
        case(value).inspect_err(|_| diagnostic!("with {:?}", value))?;
    }
    Ok(())
}

/// Returns whether the result is `EOPNOTSUPP`.
pub(crate) fn is_unsupported<T>(result: &Result<T>) -> bool {
    result.as_ref().err() == Some(&crate::ext::base::compat::eopnotsupp())
}
