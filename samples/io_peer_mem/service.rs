// SPDX-License-Identifier: GPL-2.0

//! The registration of the client, which exists while there is memory to serve: while a function is bound,
//! or a parameter asks for memory of other functions. Applications take the existence of a client for
//! device memory that can be registered.
//!
//! A worker unregisters the client, since that may wait for a process, and an unbind must not.
//!
//! Locking: [`Service::state`] is taken below the lock of a device and the lock of the parameters. It is
//! held while the client is registered, not while it is unregistered. No callback takes it.

use crate::{
    client::BarClient,
    ext::{
        base::snapshot::{
            Published,
            Snapshot, //
        },
        p2pdma::work, //
    },
    functions::Functions,
    options,
    peer_client::Registration,
    prelude::*, //
};
use kernel::{
    impl_has_work,
    new_work,
    sync::{
        CondVarTimeoutResult,
        MutexGuard, //
    },
    time::msecs_to_jiffies,
    workqueue::{
        self,
        Work,
        WorkItem, //
    }, //
};

/// How long a bind waits for the end of an earlier registration.
const WAIT_MS: u32 = 10_000;

/// The parameters that are set, a bit for each that keeps the client registered. The lock of the
/// parameters serializes changes.
static KEPT: Atomic<u32> = Atomic::new(0);

static SERVICE: Snapshot<Service> = Snapshot::new();

enum Client {
    Absent,
    Registered(Registration<BarClient>),
    Ending,
}

/// The data that [`Service::state`] protects.
struct State {
    client: Client,
    users: usize,
    closed: bool,
}

impl State {
    fn is_wanted(&self) -> bool {
        !self.closed && (self.users > 0 || KEPT.load(Relaxed) != 0)
    }
}

#[pin_data]
pub(crate) struct Service {
    functions: Arc<Functions>,
    #[pin]
    state: Mutex<State>,
    /// Signals that [`Client::Ending`] is over.
    #[pin]
    ended: CondVar,
    #[pin]
    work: Work<Self>,
}

impl_has_work! {
    impl HasWork<Self> for Service { self.work }
}

impl WorkItem for Service {
    type Pointer = Arc<Self>;

    fn run(this: Arc<Self>) {
        this.end_if_unwanted();
    }
}

impl Service {
    /// Registers the client unless it is. If a task unregisters it, that task registers it again.
    fn register(&self, state: &mut State) -> Result {
        if matches!(state.client, Client::Absent) {
            let client = Registration::new(self.functions.clone())
                .inspect_err(|e| pr_err!("cannot register the peer memory client: {:?}\n", e))?;
            state.client = Client::Registered(client);
        }
        Ok(())
    }

    /// Unregisters the client unless it is wanted, and registers it again if it is wanted afterwards.
    fn end_if_unwanted(&self) {
        let mut state = self.state.lock();
        if state.is_wanted() {
            return;
        }
        match core::mem::replace(&mut state.client, Client::Ending) {
            Client::Registered(client) => {
                drop(state);
                drop(client);
                let mut state = self.state.lock();
                state.client = Client::Absent;
                if state.is_wanted() {
                    // The log has the error.
                    let _ = self.register(&mut state);
                }
                drop(state);
                self.ended.notify_all();
            }
            other => state.client = other,
        }
    }

    /// Has a worker unregister the client, unless it is wanted when that runs.
    fn end_later(this: &Arc<Self>) {
        // One that is queued already has not begun, and serves as well.
        let _ = workqueue::system_unbound().enqueue(this.clone());
    }

    /// Waits while the client is being unregistered, for [`WAIT_MS`] at most.
    fn settled(&self) -> Result<MutexGuard<'_, State>> {
        let mut state = self.state.lock();
        let mut left = msecs_to_jiffies(WAIT_MS);
        while matches!(state.client, Client::Ending) {
            left = match self.ended.wait_interruptible_timeout(&mut state, left) {
                CondVarTimeoutResult::Woken { jiffies } => jiffies,
                CondVarTimeoutResult::Signal { .. } => return Err(EINTR),
                CondVarTimeoutResult::Timeout if matches!(state.client, Client::Ending) => {
                    pr_err!("the peer memory client is still being unregistered: that waits for a process, which may have to be killed\n");
                    return Err(EBUSY);
                }
                CondVarTimeoutResult::Timeout => 0,
            };
        }
        Ok(state)
    }

    /// Registers the client, or has it unregistered, after a change of [`KEPT`]. Does not wait for the end
    /// of an earlier registration: a callback may wait for the lock of the parameters.
    fn adjust(this: &Arc<Self>) -> Result {
        let mut state = this.state.lock();
        if state.closed {
            return Err(ENODEV);
        }
        if state.is_wanted() {
            return this.register(&mut state);
        }
        Self::end_later(this);
        Ok(())
    }
}

/// A bound function. The client is registered until the last one is dropped, or longer.
pub(crate) struct User(Arc<Service>);

impl User {
    /// Registers the client unless it is. If it is being unregistered, waits for the end of that; returns
    /// `EBUSY` after 10 s, and `EINTR` at a signal.
    pub(crate) fn new() -> Result<Self> {
        let service = SERVICE.load().ok_or(ENODEV)?;
        let mut state = service.settled()?;
        service.register(&mut state)?;
        state.users += 1;
        drop(state);
        Ok(Self(service))
    }
}

impl Drop for User {
    fn drop(&mut self) {
        let mut state = self.0.state.lock();
        state.users -= 1;
        if !state.is_wanted() {
            Service::end_later(&self.0);
        }
    }
}

/// The service while the module is loaded. Drop unregisters the client; no [`User`] may exist then.
pub(crate) struct Open {
    // Drop order: no parameter is applied any more, but for calls that go on.
    _published: Published<Service>,
    service: Closing,
}

struct Closing(Arc<Service>);

impl Open {
    /// Opens the service, with the client registered if a parameter keeps it so.
    pub(crate) fn new(functions: Arc<Functions>) -> Result<Self> {
        let service = Arc::pin_init(
            pin_init!(Service {
                functions,
                state <- new_mutex!(State {
                    client: Client::Absent,
                    users: 0,
                    closed: false,
                }, "io_peer_mem::Service::state"),
                ended <- new_condvar!("io_peer_mem::Service::ended"),
                work <- new_work!("io_peer_mem::Service::work"),
            }),
            GFP_KERNEL,
        )?;
        let open = Self {
            _published: SERVICE.publish(service.clone()),
            service: Closing(service),
        };
        Service::adjust(&open.service.0)?;
        Ok(open)
    }
}

impl Drop for Closing {
    fn drop(&mut self) {
        self.0.state.lock().closed = true;
        self.0.end_if_unwanted();
        // The worker may have taken the registration before, or is in its last instructions.
        work::flush(&self.0.work);
    }
}

/// Applies a new value of the parameter `name`, which [`options`] has accepted. A client that cannot be
/// registered is not asked for.
fn apply(name: &CStr, text: &CStr) -> Result {
    let Some((bit, on)) = options::keeps_client(name, text) else {
        return Ok(());
    };
    let before = KEPT.load(Relaxed);
    KEPT.store(if on { before | bit } else { before & !bit }, Relaxed);
    match SERVICE.load() {
        // The module is being loaded.
        None => Ok(()),
        Some(service) => {
            Service::adjust(&service).inspect_err(|_| KEPT.store(before & !bit, Relaxed))
        }
    }
}

// Called before the module's init, and on a write in sysfs.
crate::param_function!(ext_module_param_apply, apply);
