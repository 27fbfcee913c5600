// SPDX-License-Identifier: GPL-2.0

//! Memory that a process has mapped, until a part of the mapping ends: the process unmaps, moves or protects
//! it, exits or executes another program, or the driver of the file takes the memory back.
//!
//! A [`Watched`] is an interval notifier of the process. Each of these calls the notifiers before the memory
//! is used for something else, and waits for them. The notifier calls [`OnUnmap::unmapped`] once, in a worker,
//! and waits for it, for a [`Limit`].
//!
//! The use of page tables follows the order of the kernel: [`Watched::begin`], the look-up of the pages,
//! [`Watched::arm`]. A mapping that ends between the first and the last makes the last fail.
//!
//! # Locking
//!
//! A notifier runs with locks of the unmapping task: the `mmap_lock`, the lock of a file's mappings, locks of
//! a driver. So neither the owner of a [`Watched`] nor [`OnUnmap::unmapped`] may wait for them once it is
//! armed. lockdep does not see what the worker takes, and for lockdep memory reclaim may call any notifier:
//!
//! - the worker allocates from the reserves and never reclaims, and has a rescuer, so it does not wait for
//!   memory;
//! - a task that reclaims memory with a lock that [`OnUnmap::unmapped`] needs, as the reservation lock of a
//!   dma-buf, never waits for such a notifier: reclaim unmaps RAM alone, and the notifier is of a range
//!   without RAM. The owner ensures that.

use crate::shared::prelude::raw::*;
use kernel::{
    impl_has_work,
    mm::MmWithUser,
    new_work,
    workqueue::{
        Queue,
        Work,
        WorkItem, //
    }, //
};

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Limit {
    /// As a rule: so many milliseconds.
    Usual(u32),
    /// So many milliseconds, as earlier waits were in vain.
    Short(u32),
}

/// The user of memory that a process has mapped.
pub trait OnUnmap: Send + Sync + 'static {
    /// Ends all use of the memory. Context: a worker, which does not reclaim memory; may sleep.
    fn unmapped(&self);

    /// Returns how long an unmapping task waits for [`Self::unmapped`]. Context: any; with a spin
    /// lock held.
    fn limit(&self) -> Limit;

    /// Records that the time has passed, or that [`Self::unmapped`] has returned after all.
    /// Context: any; with a spin lock held.
    fn set_late(&self, late: bool);

    /// Logs that the time has passed. Context: may sleep, with locks of the unmapping task held.
    fn log_late(&self);
}

/// A workqueue for work that is not bound to a CPU.
///
/// # Invariants
///
/// The pointer is a workqueue, and this object owns it.
struct OwnedQueue(NonNull<bindings::workqueue_struct>);

// SAFETY: Any task may queue work, and destroy the queue.
unsafe impl Send for OwnedQueue {}
// SAFETY: As for `Send`.
unsafe impl Sync for OwnedQueue {}

impl OwnedQueue {
    fn new(name: &CStr, flags: bindings::wq_flags) -> Result<Self> {
        let (format, name) = (c"%s".as_char_ptr(), name.as_char_ptr());
        let flags = bindings::wq_flags_WQ_UNBOUND | flags;
        // SAFETY: The format takes one C string, which the function copies.
        let queue = unsafe { bindings::alloc_workqueue_noprof(format, flags, 0, name) };
        // INVARIANT: The function returns NULL or a new workqueue.
        NonNull::new(queue).map(Self).ok_or(ENOMEM)
    }

    fn get(&self) -> &Queue {
        // SAFETY: By the type invariants the queue is valid, at least as long as `self` is borrowed.
        unsafe { Queue::from_raw(self.0.as_ptr()) }
    }
}

impl Drop for OwnedQueue {
    fn drop(&mut self) {
        // SAFETY: By the type invariants this object owns the queue.
        unsafe { bindings::destroy_workqueue(self.0.as_ptr()) };
    }
}

pub struct Queues {
    /// The ends of uses, with the usual limit. They make progress without free memory.
    usual: OwnedQueue,
    /// Those with the short limit, which may fill the queue, and removals of notifiers.
    late: OwnedQueue,
}

/// The owner of [`Queues`]. Drop waits for all work of watches that have been dropped before.
/// Context: drop may sleep.
pub struct QueuesOwner(Arc<Queues>);

impl QueuesOwner {
    /// Creates the queues; `name` is for process lists. Context: may sleep.
    pub fn new(name: &CStr) -> Result<Self> {
        let queues = Queues {
            usual: OwnedQueue::new(name, bindings::wq_flags_WQ_MEM_RECLAIM)?,
            late: OwnedQueue::new(name, 0)?,
        };
        Ok(Self(Arc::new(queues, GFP_KERNEL)?))
    }

    pub fn queues(&self) -> &Arc<Queues> {
        &self.0
    }
}

impl Drop for QueuesOwner {
    fn drop(&mut self) {
        // Work on the first queues work on the second, as does work on the second. Each item drops its watch, and
        // so the reference to the queues, before it ends: the last reference is this one.
        //
        // SAFETY: By the type invariants the queues are valid.
        unsafe {
            bindings::__flush_workqueue(self.0.usual.0.as_ptr());
            bindings::drain_workqueue(self.0.late.0.as_ptr());
        }
    }
}

enum Phase {
    /// The owner looks the pages up, or does not use them any more.
    Idle,
    /// The owner uses the memory.
    Armed,
    /// [`OnUnmap::unmapped`] is queued or runs. `late`: a task has waited for too long.
    Ending { late: bool },
    /// [`OnUnmap::unmapped`] has returned.
    Ended,
}

struct State {
    phase: Phase,
    /// The owner has dropped the [`Watched`], and a work item removes the notifier.
    dropped: bool,
}

/// Identifies the work item that calls [`OnUnmap::unmapped`].
const END: u64 = 0;
/// Identifies the work item that removes the notifier.
const REMOVE: u64 = 1;

/// The notifier, and what it calls.
#[pin_data]
struct Watch<T: OnUnmap> {
    #[pin]
    notifier: Opaque<bindings::mmu_interval_notifier>,
    /// A leaf but for the locks of [`OnUnmap::limit`] and [`OnUnmap::set_late`], and of workqueues.
    #[pin]
    state: SpinLock<State>,
    /// Completed when [`OnUnmap::unmapped`] has returned.
    #[pin]
    ended: Opaque<bindings::completion>,
    #[pin]
    end: Work<Self, END>,
    #[pin]
    remove: Work<Self, REMOVE>,
    queues: Arc<Queues>,
    #[pin]
    user: T,
}

// SAFETY: The kernel's objects belong to no task; all other fields are `Send`.
unsafe impl<T: OnUnmap> Send for Watch<T> {}
// SAFETY: The kernel serializes accesses to the notifier and the completion; all other fields are `Sync`.
unsafe impl<T: OnUnmap> Sync for Watch<T> {}

impl_has_work! {
    impl{T: OnUnmap} HasWork<Self, END> for Watch<T> { self.end }
    impl{T: OnUnmap} HasWork<Self, REMOVE> for Watch<T> { self.remove }
}

impl<T: OnUnmap> WorkItem<END> for Watch<T> {
    type Pointer = Arc<Self>;

    fn run(this: Arc<Self>) {
        // SAFETY: The function only sets a flag of the current task, which is reset below.
        let flags = unsafe { helpers::memalloc_noreclaim_save() };
        this.user.unmapped();
        // SAFETY: The flags are those that this task had.
        unsafe { helpers::memalloc_noreclaim_restore(flags) };

        let mut state = this.state.lock();
        if let Phase::Ending { late: true } = state.phase {
            this.user.set_late(false);
        }
        state.phase = Phase::Ended;
        let dropped = state.dropped;
        drop(state);
        // SAFETY: The completion is initialised, and valid while `this` is.
        unsafe { bindings::complete_all(this.ended.get()) };
        if dropped {
            this.remove_later();
        }
    }
}

impl<T: OnUnmap> WorkItem<REMOVE> for Watch<T> {
    type Pointer = Arc<Self>;

    fn run(this: Arc<Self>) {
        this.remove_now();
    }
}

impl<T: OnUnmap> Watch<T> {
    const OPS: bindings::mmu_interval_notifier_ops = bindings::mmu_interval_notifier_ops {
        invalidate: Some(Self::invalidate),
        ..pin_init::zeroed()
    };

    /// Handles the end of a part of the mapping. Returns `false` if the call may not sleep, and the memory may
    /// still be in use.
    ///
    /// # Safety
    ///
    /// `raw` must be the notifier of an inserted `Watch<T>`, which is not removed before the call returns.
    /// `range` must be valid.
    unsafe extern "C" fn invalidate(
        raw: *mut bindings::mmu_interval_notifier,
        range: *const bindings::mmu_notifier_range,
        seq: c_ulong,
    ) -> bool {
        // SAFETY: By the safety requirements `raw` is the field of a `Watch<T>`, which is in an `Arc`. Until the
        // notifier is removed, the owner has a reference, or a work item that removes it.
        let this =
            unsafe { ArcBorrow::from_raw(container_of!(Opaque::cast_from(raw), Self, notifier)) };
        // SAFETY: By the safety requirements the range is valid.
        let (flags, event) = unsafe { ((*range).flags, (*range).event) };

        let mut state = this.state.lock();
        // SAFETY: The notifier is valid, and the lock is the one under which `arm` reads the number.
        unsafe { helpers::mmu_interval_set_seq(raw, seq) };
        // The mapping stays as it is: a bit for the detection of writes, of which this range has none.
        if event == bindings::mmu_notifier_event_MMU_NOTIFY_SOFT_DIRTY {
            return true;
        }
        let limit = this.user.limit();
        match state.phase {
            Phase::Idle | Phase::Ended => return true,
            Phase::Armed => {
                state.phase = Phase::Ending { late: false };
                let queue = match limit {
                    Limit::Usual(_) => &this.queues.usual,
                    Limit::Short(_) => &this.queues.late,
                };
                // With the lock held: the owner may drop its reference as soon as the phase is seen. The item
                // is not queued yet.
                let _ = queue.get().enqueue::<_, END>(Arc::from(this));
            }
            Phase::Ending { .. } => {}
        }
        drop(state);
        // From here on the notifier is removed by a work item with a reference, which waits for this call.

        // CAST: The flag is a bit of the field.
        if flags & bindings::MMU_NOTIFIER_RANGE_BLOCKABLE as c_uint == 0 {
            return false;
        }
        let (Limit::Usual(ms) | Limit::Short(ms)) = limit;
        // SAFETY: The completion is initialised, and valid while `this` is.
        if !unsafe { helpers::ext_wait_for_completion_timeout(this.ended.get(), ms) } {
            this.set_late();
        }
        true
    }

    /// Records that a task has waited for too long, once.
    fn set_late(&self) {
        let mut state = self.state.lock();
        let Phase::Ending { late: late @ false } = &mut state.phase else {
            return;
        };
        *late = true;
        self.user.set_late(true);
        drop(state);
        self.user.log_late();
    }

    /// Removes the notifier. Waits for calls of notifiers of the address space. Context: may sleep;
    /// not in a notifier, nor in what a notifier waits for.
    fn remove_now(&self) {
        // SAFETY: The notifier is inserted, and this is the only removal: that of the owner, or the one that
        // the owner has left to the work item.
        unsafe { bindings::mmu_interval_notifier_remove(self.notifier.get()) };
    }

    /// Has a worker remove the notifier.
    fn remove_later(self: &Arc<Self>) {
        // The item is queued once: by the owner, or for the owner.
        let _ = self.queues.late.get().enqueue::<_, REMOVE>(self.clone());
    }
}

/// A number of [`Watched::begin`].
#[derive(Clone, Copy)]
pub struct Sequence(c_ulong);

/// A watch of memory that a process has mapped. Drop ends the watch, also in [`OnUnmap::unmapped`].
/// Context: drop may sleep, and waits for unmapping tasks of the process unless its own range is
/// unmapped.
///
/// # Invariants
///
/// The notifier is inserted. If `State::dropped` is not set, no other code removes it.
pub struct Watched<T: OnUnmap>(Arc<Watch<T>>);

impl<T: OnUnmap> Watched<T> {
    /// Watches `range` of `mm`, which is not empty. The range must have no RAM by the time of [`Self::arm`].
    /// Returns `ERESTARTNOINTR` at a signal. Context: the process of `mm`; may sleep. Takes the
    /// `mmap_lock`.
    pub fn new(
        mm: &MmWithUser,
        range: Range<usize>,
        queues: &Arc<Queues>,
        user: impl PinInit<T>,
    ) -> Result<Self> {
        let watch = Arc::pin_init(
            pin_init!(Watch {
                notifier: Opaque::zeroed(),
                state <- new_spinlock!(
                    State { phase: Phase::Idle, dropped: false },
                    "unmap_watch::Watch::state"
                ),
                ended <- Opaque::ffi_init(|slot| {
                    // SAFETY: The slot is valid for writes, and stays in place.
                    unsafe { bindings::init_completion(slot) }
                }),
                end <- new_work!("unmap_watch::Watch::end"),
                remove <- new_work!("unmap_watch::Watch::remove"),
                queues: queues.clone(),
                user <- user,
            }),
            GFP_KERNEL_ACCOUNT,
        )?;
        // SAFETY: The object stays in place, and is not freed before the notifier is removed. The process uses
        // `mm`, and holds no lock of `mm` here.
        let inserted = to_result(unsafe {
            bindings::mmu_interval_notifier_insert(
                watch.notifier.get(),
                mm.as_raw(),
                range.start,
                range.len(),
                &Watch::<T>::OPS,
            )
        });
        // The first notifier of an address space needs all its locks, and gives up at a signal.
        inserted.map_err(|e| if e == EINTR { ERESTARTNOINTR } else { e })?;
        // INVARIANT: Just inserted.
        Ok(Self(watch))
    }

    /// Begins a look-up of the pages. Waits for unmapping tasks. Context: may sleep. The caller
    /// holds no lock of the address space.
    pub fn begin(&self) -> Sequence {
        // SAFETY: By the type invariants the notifier is inserted.
        Sequence(unsafe { bindings::mmu_interval_read_begin(self.0.notifier.get()) })
    }

    /// Ends the look-up: from now on the end of any part of the mapping calls [`OnUnmap::unmapped`]. Returns
    /// `EAGAIN` if a part has ended since [`Self::begin`] returned `sequence`.
    pub fn arm(&self, sequence: Sequence) -> Result {
        let mut state = self.0.state.lock();
        // SAFETY: By the type invariants the notifier is inserted. The lock is that of `invalidate`.
        if unsafe { helpers::mmu_interval_read_retry(self.0.notifier.get(), sequence.0) } {
            return Err(EAGAIN);
        }
        state.phase = Phase::Armed;
        Ok(())
    }

    pub fn user(&self) -> &T {
        &self.0.user
    }
}

impl<T: OnUnmap> Drop for Watched<T> {
    fn drop(&mut self) {
        let mut state = self.0.state.lock();
        match state.phase {
            Phase::Idle | Phase::Armed => {
                state.phase = Phase::Idle;
                drop(state);
                self.0.remove_now();
            }
            // This may be within `unmapped`, which a notifier waits for.
            Phase::Ending { .. } => state.dropped = true,
            // The notifiers of the address space may not be over.
            Phase::Ended => {
                drop(state);
                self.0.remove_later();
            }
        }
    }
}
