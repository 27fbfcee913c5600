// SPDX-License-Identifier: GPL-2.0

//! Forcing two tasks to meet, with a bound on every wait: a broken core fails a test, it does not
//! hang it.

use kernel::{
    bindings,
    new_condvar,
    new_mutex,
    prelude::*,
    sync::{
        atomic::{
            Atomic,
            Full,
            Relaxed, //
        },
        Arc,
        CondVar,
        CondVarTimeoutResult,
        Mutex, //
    },
    time::{
        delay::fsleep,
        msecs_to_jiffies,
        Delta, //
    },
    workqueue, //
};

/// No step of a test takes this long, even emulated with all checks on.
const BOUND_MS: u32 = 40_000;

/// A wait has run into its bound: a task is stuck in the core. From then on nobody tries to
/// clean up, which would only get the test's own task stuck as well.
static STUCK: Atomic<bool> = Atomic::new(false);

/// Is anybody stuck?
pub(crate) fn is_stuck() -> bool {
    STUCK.load(Relaxed)
}

/// Somebody is.
fn set_stuck() {
    if !STUCK.xchg(true, Full) {
        // SAFETY: A test is running, so the module is there; it must stay for the stuck task.
        unsafe { bindings::__module_get(&raw mut bindings::__this_module) };
    }
}

/// Something that happens once.
#[pin_data]
pub(crate) struct Event {
    #[pin]
    happened: Mutex<bool>,
    #[pin]
    changed: CondVar,
}

impl Event {
    /// It has not happened.
    pub(crate) fn new() -> Result<Arc<Self>> {
        Arc::pin_init(
            pin_init!(Self {
                happened <- new_mutex!(false, "kunit::Event"),
                changed <- new_condvar!("kunit::Event"),
            }),
            GFP_KERNEL,
        )
    }

    /// It happens.
    pub(crate) fn fire(&self) {
        *self.happened.lock() = true;
        self.changed.notify_all();
    }

    /// Waits until it has; `false` where it has not within `ms`.
    pub(crate) fn wait_ms(&self, ms: u32) -> bool {
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

    /// Waits until it has; `ETIMEDOUT` where something is broken.
    pub(crate) fn wait(&self) -> Result {
        if self.wait_ms(BOUND_MS) {
            Ok(())
        } else {
            pr_err!("what a test waits for does not happen\n");
            set_stuck();
            Err(ETIMEDOUT)
        }
    }

    /// Has it happened?
    pub(crate) fn happened(&self) -> bool {
        *self.happened.lock()
    }
}

/// Waits until `what` is so; `ETIMEDOUT` where something is broken.
pub(crate) fn until(what: impl Fn() -> bool) -> Result {
    const STEP_MS: u32 = 10;
    for _ in 0..BOUND_MS / STEP_MS {
        if what() {
            return Ok(());
        }
        fsleep(Delta::from_millis(STEP_MS.into()));
    }
    pr_err!("what a test waits for does not happen\n");
    set_stuck();
    Err(ETIMEDOUT)
}

/// A place in a callback or a device operation at which a task is held up.
pub(crate) struct Gate {
    reached: Arc<Event>,
    go: Arc<Event>,
}

impl Gate {
    /// A closed gate.
    pub(crate) fn new() -> Result<Arc<Self>> {
        let gate = Self {
            reached: Event::new()?,
            go: Event::new()?,
        };
        Ok(Arc::new(gate, GFP_KERNEL)?)
    }

    /// The task that is held up: arrives and waits.
    pub(crate) fn pass(&self) {
        self.reached.fire();
        // Bounded: where the test is broken the task goes on all the same.
        let _ = self.go.wait();
    }

    /// The test: waits until somebody is held up here.
    pub(crate) fn reached(&self) -> Result {
        self.reached.wait()
    }

    /// The test: lets everybody through.
    pub(crate) fn open(&self) {
        self.go.fire();
    }
}

/// Something that another task does.
pub(crate) struct Task<T: Send + 'static> {
    done: Arc<Event>,
    result: Arc<Mutex<Option<T>>>,
}

impl<T: Send + Unpin + 'static> Task<T> {
    /// Has a kernel worker do `f`.
    pub(crate) fn spawn(f: impl FnOnce() -> T + Send + 'static) -> Result<Self> {
        let done = Event::new()?;
        let result = Arc::pin_init(new_mutex!(None, "kunit::Task"), GFP_KERNEL)?;
        let (fire, slot) = (done.clone(), result.clone());
        workqueue::system_unbound().try_spawn(GFP_KERNEL, move || {
            let value = f();
            *slot.lock() = Some(value);
            fire.fire();
        })?;
        Ok(Self { done, result })
    }

    /// Is it done?
    pub(crate) fn is_done(&self) -> bool {
        self.done.happened()
    }

    /// Is it still at it after a while? What a wait looks like from outside.
    pub(crate) fn is_waiting(&self) -> bool {
        !self.done.wait_ms(150)
    }

    /// Waits until it is done.
    pub(crate) fn join(self) -> Result<T> {
        self.done.wait()?;
        self.result.lock().take().ok_or(EINVAL)
    }
}

impl<T: Send + 'static> Drop for Task<T> {
    fn drop(&mut self) {
        // What it uses is counted; only the order of the log gains from this.
        if !is_stuck() {
            let _ = self.done.wait();
        }
    }
}
