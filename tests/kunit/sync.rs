// SPDX-License-Identifier: GPL-2.0

//! Tasks of a test that meet at chosen points. Each wait has a bound, so a broken core fails a test
//! and does not hang the test.

use crate::prelude::*;
use kernel::{
    sync::{
        rcu,
        CondVarTimeoutResult, //
    },
    time::msecs_to_jiffies,
    workqueue, //
};

/// Longer than any step of a test takes, in an emulated guest with all checks on.
const BOUND_MS: u32 = 40_000;

/// A wait has exceeded the bound: a task is stuck in the core. From then on nothing is cleaned up,
/// as the cleanup would block the test's own task as well.
static STUCK: Atomic<bool> = Atomic::new(false);

pub(crate) fn is_stuck() -> bool {
    STUCK.load(Relaxed)
}

/// Records that a task is stuck, and that `what` did not happen.
fn set_stuck(what: &str) -> Error {
    diagnostic!("{} within {} ms: a task is stuck", what, BOUND_MS);
    if !STUCK.xchg(true, Full) {
        // SAFETY: A test of this module is running, so the module is loaded. The module must stay
        // for the stuck task.
        unsafe { bindings::__module_get(&raw mut bindings::__this_module) };
    }
    ETIMEDOUT
}

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
    pub(crate) fn new() -> Result<Arc<Self>> {
        Arc::pin_init(
            pin_init!(Self {
                happened <- new_mutex!(false, "kunit::Event"),
                changed <- new_condvar!("kunit::Event"),
            }),
            GFP_KERNEL,
        )
    }

    pub(crate) fn fire(&self) {
        *self.happened.lock() = true;
        self.changed.notify_all();
    }

    /// Waits until the event has happened, at most `ms`. Returns whether the event has happened.
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

    /// Waits until the event has happened. Fails with `ETIMEDOUT` if a task is stuck.
    pub(crate) fn wait(&self) -> Result {
        if self.wait_ms(BOUND_MS) {
            Ok(())
        } else {
            Err(set_stuck("an event did not happen"))
        }
    }

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

/// Runs `f` while a task is in an RCU read-side section: no RCU grace period ends meanwhile.
pub(crate) fn during_rcu_read<T>(f: impl FnOnce() -> T) -> Result<T> {
    // Whether the task is inside, and whether `f` has returned. No lock: the task must not sleep.
    let state = Arc::new([const { Atomic::new(false) }; 2], GFP_KERNEL)?;
    let shared = state.clone();
    let task = Task::spawn(move || {
        let start = Instant::<Monotonic>::now();
        let _rcu = rcu::read_lock();
        shared[0].store(true, Relaxed);
        // Less than the kernel takes for a stall.
        while !shared[1].load(Relaxed) && start.elapsed().as_millis() < 10_000 {
            core::hint::spin_loop();
        }
    })?;
    until(|| state[0].load(Relaxed))?;
    let result = f();
    state[1].store(true, Relaxed);
    task.join()?;
    Ok(result)
}

/// Holds a task at a point of a callback or a device operation.
pub(crate) struct Gate {
    reached: Arc<Event>,
    opened: Arc<Event>,
}

impl Gate {
    pub(crate) fn new() -> Result<Arc<Self>> {
        let gate = Self {
            reached: Event::new()?,
            opened: Event::new()?,
        };
        Ok(Arc::new(gate, GFP_KERNEL)?)
    }

    /// Waits until the gate is open. Called by the held task.
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

/// The wait of a task of a test. A task also sleeps in places that do not matter, such as for a
/// mutex. So a test names the expected wait.
#[derive(Clone, Copy)]
pub(crate) enum Wait {
    /// The completion of a work request.
    Completion,
    /// An importer that must unmap a dma-buf.
    Importer,
    /// The fences of a dma-buf.
    Fences,
    /// The next attempt, a second after a fence that has failed.
    Retry,
    /// Another task that has the region.
    Region,
    /// The tasks in the interposed functions of a device.
    Callers,
    /// Another module that must restore the replaced operations.
    OtherModule,
    /// The tasks that are in a client.
    Client,
    /// The test, holding the task in a fake.
    Test,
    /// Anything but an RCU grace period, and the test.
    Anything,
}

impl Wait {
    /// Returns parts of the names of the waiting function, and of the kernel function called for
    /// the wait. Symbols of Rust contain the lengths of the name's parts.
    fn symbols(self) -> &'static [&'static str] {
        match self {
            Self::Completion => &["ext_wait_for_completion_timeout"],
            Self::Importer => &["sleep", "6Tables13wait_unmapped"],
            Self::Fences => &["ext_dma_resv_wait"],
            Self::Retry => &["sleep", "6Region10revoke_for"],
            Self::Region => &["9Lifecycle", "4waitB"],
            Self::Callers => &["ext_inflight_close ["],
            Self::OtherModule => &["sleep", "9interpose", "12Registration"],
            Self::Client => &["6Client", "11wait_unused"],
            Self::Test => &["5Event4wait [peer_mem_kunit]"],
            Self::Anything => &[" "],
        }
    }
}

/// The names of the sleeping functions: the kernel's function, a space, the module's function.
/// Empty if the task does not sleep.
struct Names([u8; 512]);

impl Names {
    fn as_str(&self) -> &str {
        CStr::from_bytes_until_nul(&self.0).map_or("", |names| names.to_str().unwrap_or(""))
    }

    fn are_of(&self, wait: Wait) -> bool {
        let names = self.as_str();
        let in_test = names.contains(Wait::Test.symbols()[0]);
        wait.symbols().iter().all(|part| names.contains(part))
            && !(in_test && matches!(wait, Wait::Anything))
    }
}

/// The worker of a [`Task`], while the worker runs.
type Worker = SpinLock<Option<ARef<kernel::task::Task>>>;

/// A function that runs in another task.
pub(crate) struct Task<T: Send + 'static> {
    done: Arc<Event>,
    worker: Arc<Worker>,
    result: Arc<Mutex<Option<T>>>,
}

impl<T: Send + Unpin + 'static> Task<T> {
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

    pub(crate) fn is_done(&self) -> bool {
        self.done.happened()
    }

    /// Waits until the function has returned or waits for `what`. Returns whether the function
    /// waits: the task sleeps at one place of the code under test for three samples, and the place
    /// is a wait for `what`. A task that sleeps elsewhere, such as for a mutex, gets time to
    /// continue.
    pub(crate) fn waits_for(&self, what: Wait) -> bool {
        self.waits_for_one_of(&[what])
    }

    /// Like [`Self::waits_for`], for any of `what`.
    pub(crate) fn waits_for_one_of(&self, what: &[Wait]) -> bool {
        const SAMPLES: u32 = 3;
        // Shorter than the longest time for which a gate holds a task.
        const LIMIT_MS: i64 = BOUND_MS as i64 / 2;
        let start = Instant::<Monotonic>::now();
        let mut names = Names([0; 512]);
        let (mut last, mut samples) = (0, 0);
        while start.elapsed().as_millis() < LIMIT_MS {
            if self.is_done() {
                return false;
            }
            let site = self.wait_site(&mut names);
            samples = match site {
                0 => 0,
                _ if !what.iter().any(|wait| names.are_of(*wait)) => 0,
                _ if site == last => samples + 1,
                _ => 1,
            };
            if samples == SAMPLES {
                return true;
            }
            last = site;
            pause();
        }
        diagnostic!(
            "a task neither returns nor waits as expected within {} ms; it sleeps in: {}",
            LIMIT_MS,
            names.as_str()
        );
        false
    }

    /// Returns the address of the call in which the worker sleeps, and sets `names`. Returns 0 if
    /// the worker does not sleep.
    fn wait_site(&self, names: &mut Names) -> usize {
        names.0[0] = 0;
        let Some(worker) = self.worker.lock().clone() else {
            return 0;
        };
        let (to, size) = (names.0.as_mut_ptr(), names.0.len());
        // SAFETY: `worker` holds a reference to the task, and there is room for `size` bytes at `to`.
        // CAST: The size is a small constant.
        unsafe { helpers::kt_wait_site(worker.as_ptr(), to, size as u32) }
    }

    pub(crate) fn join(self) -> Result<T> {
        self.done.wait()?;
        self.result.lock().take().ok_or(EINVAL)
    }
}

impl<T: Send + 'static> Drop for Task<T> {
    fn drop(&mut self) {
        // The function owns references to everything the function uses, so the wait is not needed
        // for memory. Waiting keeps the log in order.
        if !is_stuck() {
            let _ = self.done.wait();
        }
    }
}

/// Counts the core's waits of one kind while the object exists: their number does not depend on the speed
/// of the machine. Tests run one at a time, so there is at most one object.
pub(crate) struct Waits(());

impl Waits {
    /// Counts the waits for copies that software RDMA has begun.
    pub(crate) fn for_software() -> Result<Self> {
        Self::watch(c"ib_peer_mem:ext_synchronize_rcu_tasks__extern", 0)
    }

    /// Counts the waits for fences of dma-bufs with a limit of at least `ms`.
    pub(crate) fn for_fences(ms: usize) -> Result<Self> {
        Self::watch(c"ib_peer_mem:ext_dma_resv_wait__extern", ms)
    }

    /// Counts the calls of `function`, whose second argument is at least `least`.
    fn watch(function: &'static CStr, least: usize) -> Result<Self> {
        // SAFETY: The probe is not registered, as only one object of the type may exist. The name
        // is static.
        to_result(unsafe { helpers::kt_waits_begin(function.as_char_ptr(), least) })?;
        Ok(Self(()))
    }

    pub(crate) fn count(&self) -> u32 {
        // SAFETY: The function reads a counter.
        unsafe { helpers::kt_waits() }
    }
}

impl Drop for Waits {
    fn drop(&mut self) {
        // SAFETY: `watch` has registered the probe.
        unsafe { helpers::kt_waits_end() }
    }
}
