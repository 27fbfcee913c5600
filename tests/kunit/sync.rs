// SPDX-License-Identifier: GPL-2.0

//! Tasks of a test that meet at chosen points. Each wait has a bound: a broken core fails a test, it
//! does not hang it.

use crate::{
    expect::diagnostic,
    helpers, //
};
use kernel::{
    bindings,
    current,
    new_condvar,
    new_mutex,
    new_spinlock,
    prelude::*,
    sync::{
        aref::ARef,
        atomic::{
            Atomic,
            Full,
            Relaxed, //
        },
        Arc,
        CondVar,
        CondVarTimeoutResult,
        Mutex,
        SpinLock, //
    },
    time::{
        delay::fsleep,
        msecs_to_jiffies,
        Delta,
        Instant,
        Monotonic, //
    },
    workqueue, //
};

/// Longer than any step of a test takes, in an emulated guest with all checks on.
const BOUND_MS: u32 = 40_000;

/// A wait has exceeded its bound: a task is stuck in the core. Nothing is cleaned up from then on,
/// as that would block the test's own task as well.
static STUCK: Atomic<bool> = Atomic::new(false);

/// Returns whether a task is stuck.
pub(crate) fn is_stuck() -> bool {
    STUCK.load(Relaxed)
}

/// Records that a task is stuck, and that `what` did not happen.
fn set_stuck(what: &str) -> Error {
    diagnostic!("{} within {} ms: a task is stuck", what, BOUND_MS);
    if !STUCK.xchg(true, Full) {
        // SAFETY: A test of this module is running, so the module is loaded. It must stay for the
        // stuck task.
        unsafe { bindings::__module_get(&raw mut bindings::__this_module) };
    }
    ETIMEDOUT
}

/// Sleeps between two looks at a state.
fn pause() {
    fsleep(Delta::from_millis(2));
}

/// A one-time event.
#[pin_data]
pub(crate) struct Event {
    #[pin]
    happened: Mutex<bool>,
    #[pin]
    changed: CondVar,
}

impl Event {
    /// Creates an event that has not happened.
    pub(crate) fn new() -> Result<Arc<Self>> {
        Arc::pin_init(
            pin_init!(Self {
                happened <- new_mutex!(false, "kunit::Event"),
                changed <- new_condvar!("kunit::Event"),
            }),
            GFP_KERNEL,
        )
    }

    /// Makes it happen.
    pub(crate) fn fire(&self) {
        *self.happened.lock() = true;
        self.changed.notify_all();
    }

    /// Waits until it has happened. Returns `false` if it has not within `ms`.
    fn wait_ms(&self, ms: u32) -> bool {
        let mut left = msecs_to_jiffies(ms);
        let mut happened = self.happened.lock();
        while !*happened {
            match self.changed.wait_interruptible_timeout(&mut happened, left) {
                CondVarTimeoutResult::Timeout => return *happened,
                CondVarTimeoutResult::Woken { jiffies }
                | CondVarTimeoutResult::Signal { jiffies } => left = jiffies,
            }
        }
        true
    }

    /// Waits until it has happened. Fails with `ETIMEDOUT` if a task is stuck.
    pub(crate) fn wait(&self) -> Result {
        if self.wait_ms(BOUND_MS) {
            Ok(())
        } else {
            Err(set_stuck("an event did not happen"))
        }
    }

    /// Returns whether it has happened.
    pub(crate) fn happened(&self) -> bool {
        *self.happened.lock()
    }
}

/// Waits until the condition holds. Fails with `ETIMEDOUT` if a task is stuck.
pub(crate) fn until(condition: impl Fn() -> bool) -> Result {
    let start = Instant::<Monotonic>::now();
    while start.elapsed().as_millis() < BOUND_MS.into() {
        if condition() {
            return Ok(());
        }
        pause();
    }
    Err(set_stuck("a condition did not become true"))
}

/// Holds a task at a point of a callback or a device operation.
pub(crate) struct Gate {
    reached: Arc<Event>,
    opened: Arc<Event>,
}

impl Gate {
    /// Creates a closed gate.
    pub(crate) fn new() -> Result<Arc<Self>> {
        let gate = Self {
            reached: Event::new()?,
            opened: Event::new()?,
        };
        Ok(Arc::new(gate, GFP_KERNEL)?)
    }

    /// Waits at the gate until it is open. Called by the task that is held.
    pub(crate) fn pass(&self) {
        self.reached.fire();
        // If the test never opens the gate, the task continues after the bound.
        let _ = self.opened.wait();
    }

    /// Waits until a task is held at the gate. Called by the test.
    pub(crate) fn reached(&self) -> Result {
        self.reached.wait()
    }

    /// Lets all tasks pass. Called by the test.
    pub(crate) fn open(&self) {
        self.opened.fire();
    }
}

/// The worker of a [`Task`], while it runs.
type Worker = SpinLock<Option<ARef<kernel::task::Task>>>;

/// A function that runs in another task.
pub(crate) struct Task<T: Send + 'static> {
    done: Arc<Event>,
    worker: Arc<Worker>,
    result: Arc<Mutex<Option<T>>>,
}

impl<T: Send + Unpin + 'static> Task<T> {
    /// Runs `f` in a kernel worker.
    pub(crate) fn spawn(f: impl FnOnce() -> T + Send + 'static) -> Result<Self> {
        let done = Event::new()?;
        let worker = Arc::pin_init(new_spinlock!(None, "kunit::Task::worker"), GFP_KERNEL)?;
        let result = Arc::pin_init(new_mutex!(None, "kunit::Task::result"), GFP_KERNEL)?;
        let (fire, running, slot) = (done.clone(), worker.clone(), result.clone());
        workqueue::system_unbound().try_spawn(GFP_KERNEL, move || {
            let this: &kernel::task::Task = current!();
            *running.lock() = Some(this.into());
            let value = f();
            let this = running.lock().take();
            drop(this);
            *slot.lock() = Some(value);
            fire.fire();
        })?;
        Ok(Self {
            done,
            worker,
            result,
        })
    }

    /// Returns whether the function has returned.
    pub(crate) fn is_done(&self) -> bool {
        self.done.happened()
    }

    /// Waits until the function has returned or is blocked in the code under test. Returns whether it
    /// is blocked: it sleeps at one place of the code for three samples.
    ///
    /// A task that sleeps in a fake, or for an RCU grace period, is not blocked.
    pub(crate) fn is_waiting(&self) -> bool {
        self.is_blocked(false)
    }

    /// Waits as [`Self::is_waiting`] does. A task that sleeps in a fake is blocked as well.
    pub(crate) fn is_waiting_or_held(&self) -> bool {
        self.is_blocked(true)
    }

    fn is_blocked(&self, fakes: bool) -> bool {
        const SAMPLES: u32 = 3;
        // Shorter than the time that a gate holds a task.
        const LIMIT_MS: i64 = BOUND_MS as i64 / 2;
        let start = Instant::<Monotonic>::now();
        let (mut last, mut samples) = (0, 0);
        while start.elapsed().as_millis() < LIMIT_MS {
            if self.is_done() {
                return false;
            }
            let site = self.wait_site(fakes);
            samples = match site {
                0 => 0,
                _ if site == last => samples + 1,
                _ => 1,
            };
            if samples == SAMPLES {
                return true;
            }
            last = site;
            pause();
        }
        diagnostic!("a task neither returns nor waits within {} ms", LIMIT_MS);
        false
    }

    /// Returns the address of the call in which the worker sleeps; 0 if it does not. Calls of the
    /// fakes count if `fakes`.
    fn wait_site(&self, fakes: bool) -> usize {
        let Some(worker) = self.worker.lock().clone() else {
            return 0;
        };
        // SAFETY: `worker` holds a reference to the task.
        unsafe { helpers::kt_wait_site(worker.as_ptr(), fakes) }
    }

    /// Waits until the function has returned, and returns its result.
    pub(crate) fn join(self) -> Result<T> {
        self.done.wait()?;
        self.result.lock().take().ok_or(EINVAL)
    }
}

impl<T: Send + 'static> Drop for Task<T> {
    fn drop(&mut self) {
        // The function owns references to all that it uses. Waiting keeps the log in order.
        if !is_stuck() {
            let _ = self.done.wait();
        }
    }
}
