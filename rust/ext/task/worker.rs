// SPDX-License-Identifier: GPL-2.0

//! Calls in a kernel worker, for imports of a dma-buf, and for objects that must not belong to the calling
//! process.
//!
//! A worker uses the file table of the kernel threads. A file descriptor installed by
//! [`Worker::with_fd`] is invisible to every process: no process can use, close, duplicate or
//! inherit the descriptor, and no `RLIMIT_NOFILE` counts the descriptor.
//!
//! # Differences from a direct call
//!
//! - `current` is a kernel thread, without an address space, and with the credentials of the
//!   kernel. The function must not access user memory and must not check privileges.
//! - Allocations with `GFP_KERNEL_ACCOUNT` are not charged to the caller's memory cgroup.
//!
//! # Locking
//!
//! The caller may hold any lock that may be held across a sleep, if the function does not take the
//! same lock. lockdep knows the dependency: lockdep sees the wait as a lock of the class passed to
//! [`run`], so each call site needs its own class.
//!
//! The caller must not be in memory reclaim. The worker has no rescuer: the start of the worker,
//! like the function itself, may wait for memory. A rescuer would not help, because the function
//! allocates as well.

use crate::shared::prelude::raw::*;
use core::{
    mem::MaybeUninit,
    pin::Pin, //
};
use kernel::{
    fs::{
        file::FileDescriptorReservation,
        File, //
    },
    sync::LockClassKey,
    task::Task,
    types::NotThreadSafe, //
};

/// The current task as a kernel thread. Exists only inside the function given to [`run`].
///
/// # Invariants
///
/// The current task is a kernel thread, and uses the file table of all kernel threads.
pub struct Worker(NotThreadSafe);

impl Worker {
    /// Calls `f` with a file descriptor of `file`, and closes the descriptor.
    ///
    /// Returns `EMFILE` if 1024 descriptors are open in this way. `execve()` closes the copy of a usermode
    /// helper that the kernel starts meanwhile. Context: may sleep.
    pub fn with_fd<R>(&self, file: &File, f: impl FnOnce(i32) -> R) -> Result<R> {
        let fd = FileDescriptorReservation::get_unused_fd_flags(bindings::O_CLOEXEC)?;
        let number = fd.reserved_fd();
        fd.fd_install(file.into());
        let result = f(number as i32);
        // SAFETY: Closes the descriptor that was installed above. The descriptor is still open, as
        // a kernel thread closes only descriptors that the same thread has opened.
        unsafe { bindings::close_fd(number) };
        Ok(result)
    }
}

struct Call<F, T> {
    /// Present until the call begins.
    function: Option<F>,
    /// Initialized when the call is over.
    result: MaybeUninit<T>,
}

/// # Safety
///
/// - `call` must point to a `Call<F, T>` with the function present, and no other code may access
///   the `Call` during this call.
/// - The current task must be a kernel thread.
unsafe extern "C" fn execute<F, T>(call: *mut c_void)
where
    F: FnOnce(&Worker) -> T,
{
    // SAFETY: By the safety requirements only this function accesses the `Call<F, T>`.
    let call = unsafe { &mut *call.cast::<Call<F, T>>() };
    if let Some(function) = call.function.take() {
        // INVARIANT: The current task is a kernel thread, as this function requires.
        call.result.write(function(&Worker(NotThreadSafe)));
    }
}

/// Calls `f` in a kernel worker and returns the result. Waits uninterruptibly until `f` has
/// returned, so `f` can borrow from the caller. A kernel thread executes `f` directly: it has the file
/// table already, and so no worker waits for another worker. Context: may sleep; see above for locks.
pub fn run<T, F>(class: Pin<&'static LockClassKey>, f: F) -> T
where
    T: Send,
    F: FnOnce(&Worker) -> T + Send,
{
    // SAFETY: The current task exists, and alone changes its flags.
    if unsafe { (*Task::current_raw()).flags } & bindings::PF_KTHREAD != 0 {
        // INVARIANT: Just checked.
        f(&Worker(NotThreadSafe))
    } else {
        queue(class, f)
    }
}

/// Like [`run`], but calls `f` in a kernel worker also if the caller is a kernel thread.
fn queue<T, F>(class: Pin<&'static LockClassKey>, f: F) -> T
where
    T: Send,
    F: FnOnce(&Worker) -> T + Send,
{
    let mut call = Call {
        function: Some(f),
        result: MaybeUninit::uninit(),
    };
    // SAFETY:
    // - `call` has the function. This function waits until the worker has returned from
    //   `execute()`, and does not move or access `call` before.
    // - `F` and `T` are `Send`, so the worker may call `f` and create the result.
    // - The class is pinned and `'static`.
    unsafe {
        helpers::ext_call_in_worker(
            Some(execute::<F, T>),
            ptr::from_mut(&mut call).cast(),
            class.as_ptr(),
        )
    };
    // SAFETY: The function was present, so `execute()` has written the result.
    unsafe { call.result.assume_init() }
}

/// Calls in a worker, and file descriptors of a worker.
#[cfg(ext_tests)]
#[kunit_tests(ext_worker)]
pub mod tests {
    use super::*;
    use crate::shared::ext::base::chardev::anon_file;
    use kernel::{
        fs::LocalFile,
        static_lock_class,
        sync::aref::ARef, //
    };

    /// Creates a file whose private data is `data`.
    pub fn file(data: *mut c_void) -> Result<ARef<File>> {
        let ops = &raw const bindings::generic_ro_fops;
        // SAFETY: The operations are part of the kernel image, and use no private data.
        unsafe { anon_file(c"ext_worker", ops, data, bindings::O_RDWR as c_int) }
    }

    /// Returns whether `fd` is a descriptor of `file` in the current task.
    fn is_open(fd: i32, file: &File) -> bool {
        LocalFile::fget(fd as u32).is_ok_and(|f| ptr::eq(f.as_ptr(), file.as_ptr()))
    }

    fn current_pid() -> i32 {
        let task: &Task = current!();
        task.pid()
    }

    /// The function runs in another task and uses the caller's stack.
    #[test]
    fn queued() {
        let caller = current_pid();
        let mut pid = caller;
        let doubled = queue(static_lock_class!(), |_| {
            pid = current_pid();
            caller * 2
        });
        assert_ne!(pid, caller);
        assert_eq!(doubled, caller * 2);
    }

    /// A kernel thread, such as the thread of the test, calls the function itself.
    #[test]
    fn in_place() {
        assert_eq!(run(static_lock_class!(), |_| current_pid()), current_pid());
    }

    /// The descriptor exists inside the function only.
    #[test]
    fn descriptor() -> Result {
        let file = file(ptr::null_mut())?;
        let inside = queue(static_lock_class!(), |worker| {
            worker.with_fd(&file, |fd| (fd, is_open(fd, &file)))
        })?;
        let after = queue(static_lock_class!(), |_| is_open(inside.0, &file));
        assert!(inside.1);
        assert!(!after);
        Ok(())
    }
}
