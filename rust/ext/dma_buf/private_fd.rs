// SPDX-License-Identifier: GPL-2.0

//! Lets a driver import a dma-buf without a file descriptor that any process can see.
//!
//! The verb that imports a dma-buf takes a file descriptor of the calling task. [`call`] passes
//! [`PRIVATE_FD`] instead, which is no descriptor: the hook on `dma_buf_get()` (see
//! [`UmemHook`](crate::shared::ext::rdma::UmemHook)) returns the dma-buf for that value, in this
//! task only. Without the hook the verb is called in a kernel worker, with a descriptor of the
//! kernel threads.
//!
//! In both cases no process has a descriptor of the dma-buf, so no process can use, close,
//! duplicate or inherit a descriptor.

use crate::shared::ext::{
    base::compat,
    task::{
        calls::INFLIGHT,
        id::TaskId,
        task_value::{
            value_of,
            TaskValue, //
        },
        worker, //
    }, //
};
use crate::shared::prelude::*;
use core::cell::Cell;
use kernel::{
    bindings,
    fs::File,
    static_lock_class, //
};
use pin_init::stack_pin_init;

/// Private descriptor of the dma-buf that the current task imports. Real descriptors are not
/// negative, and ib_core passes this value on unchecked.
const PRIVATE_FD: i32 = -0x1b_be05;

/// Also the owner of the values of tasks that import: the [`Pending`] of each.
static HOOKED: Atomic<bool> = Atomic::new(false);

struct Pending {
    file: NonNull<bindings::file>,
    /// A pointer for the exporter, see [`call`].
    cookie: *const c_void,
    /// The hook has returned the dma-buf.
    used: Cell<bool>,
}

/// Calls `f` in the current task as one that imports `pending`. Returns `EDEADLK` if the task imports
/// already.
fn during<R>(pending: &Pending, f: impl FnOnce() -> R) -> Result<R> {
    if with_current(|_| ()).is_some() {
        return Err(compat::edeadlk());
    }
    stack_pin_init!(let _value = TaskValue::new(&HOOKED, TaskId::current(), pending));
    Ok(f())
}

/// Calls `f` with the import of the current task. Returns `None` if the task imports nothing.
fn with_current<R>(f: impl FnOnce(&Pending) -> R) -> Option<R> {
    let pending = value_of(&HOOKED, TaskId::current())?;
    // SAFETY: The task is inside `call`, and the value is a `Pending` that lives until `call` returns.
    // `call` returns after `f`. (After an oops in the driver, `call` does not return: a later task at
    // the same address would find the value of the dead task.)
    Some(f(unsafe { pending.cast::<Pending>().as_ref() }))
}

pub(in super::super) fn set_hooked(hooked: bool) {
    HOOKED.store(hooked, Release);
}

/// Returns the dma-buf that the current task imports as `fd`, with a reference for the caller.
fn get(fd: i32) -> Option<*mut bindings::dma_buf> {
    if fd != PRIVATE_FD {
        return None;
    }
    let file: ARef<File> = with_current(|pending| {
        pending.used.set(true);
        // SAFETY: The caller of `call` keeps the file, and the file belongs to a dma-buf.
        unsafe { File::from_raw_file(pending.file.as_ptr()) }.into()
    })?;
    let file = ARef::into_raw(file).cast::<bindings::file>();
    // SAFETY: The private data of the file of a dma-buf is the dma-buf.
    Some(unsafe { (*file.as_ptr()).private_data.cast() })
}

/// Replaces `dma_buf_get()`, for the private descriptor of a dma-buf in the current task.
pub(in super::super) extern "C" fn dma_buf_get(fd: c_int) -> *mut bindings::dma_buf {
    // SAFETY: The original takes any number.
    INFLIGHT.within(|| get(fd).unwrap_or_else(|| unsafe { bindings::dma_buf_get(fd) }))
}

/// Returns the cookie of the current task's import of `buf`.
pub(super) fn cookie(buf: *mut bindings::dma_buf) -> Option<*const c_void> {
    // SAFETY: The dma-buf is valid, as the exporter is being called for the dma-buf.
    let file = unsafe { (*buf).file };
    let (of, cookie) = with_current(|pending| (pending.file.as_ptr(), pending.cookie))?;
    (of == file && !cookie.is_null()).then_some(cookie)
}

/// Calls `import` with a private descriptor of the dma-buf of `file`, which is valid in the task
/// that calls `import`. During the call [`cookie`] returns `cookie` in that task.
///
/// Returns `EMFILE` if the kernel threads have no free file descriptor. Context: may sleep; see
/// [`worker`] for locks.
///
/// # Safety
///
/// - `file` must belong to a dma-buf.
/// - `cookie` must be valid for the exporter of the dma-buf until this function returns, in all
///   tasks.
pub(in super::super) unsafe fn call<T: Send>(
    file: &File,
    cookie: *const c_void,
    import: impl Fn(i32) -> Result<T> + Sync,
) -> Result<T> {
    let pending = |cookie| Pending {
        file: NonNull::from(file).cast(),
        cookie,
        used: Cell::new(false),
    };
    if HOOKED.load(Acquire) {
        let pending = pending(cookie);
        let result = during(&pending, || import(PRIVATE_FD))?;
        // The hook may have been removed before the driver used the descriptor. Then the driver got
        // `EBADF`, as no file has the descriptor.
        if pending.used.get() || !matches!(result, Err(e) if e == EBADF) {
            return result;
        }
    }
    // A pointer is not `Send`. By the safety requirements any task may use `cookie`.
    let cookie = cookie.expose_provenance();
    worker::run(static_lock_class!(), |worker| {
        let pending = pending(ptr::with_exposed_provenance(cookie));
        during(&pending, || worker.with_fd(file, &import))??
    })
}

#[cfg(ext_tests)]
#[kunit_tests(ext_dma_buf_private_fd)]
mod tests {
    use super::*;
    use crate::shared::ext::task::worker::tests::file;

    /// Calls `import` as if the hook was placed.
    fn call_hooked<T: Send>(file: &File, import: impl Fn(i32) -> Result<T> + Sync) -> Result<T> {
        set_hooked(true);
        // SAFETY: Only the private data of the file is used, and the cookie is NULL.
        let result = unsafe { call(file, ptr::null(), import) };
        set_hooked(false);
        result
    }

    /// Returns the address of the dma-buf that `fd` stands for.
    fn address(file: &File, fd: i32) -> Option<usize> {
        let buf = get(fd)?;
        // SAFETY: Drops the reference taken by `get`.
        unsafe { bindings::fput(ptr::from_ref(file).cast_mut().cast()) };
        Some(buf.addr())
    }

    #[test]
    fn stands_for_the_dma_buf_during_the_call() -> Result {
        let file = file(ptr::without_provenance_mut(0x1000))?;
        let inside = call_hooked(&file, |fd| {
            Ok((fd, address(&file, fd), address(&file, fd - 1)))
        })?;
        assert_eq!(inside, (PRIVATE_FD, Some(0x1000), None));
        assert_eq!(address(&file, PRIVATE_FD), None);
        Ok(())
    }

    /// Also while other tasks hold all slots of this task: it does not wait, as they may be blocked on
    /// hardware.
    #[test]
    fn an_import_within_an_import_fails() -> Result {
        let file = file(ptr::without_provenance_mut(0x1000))?;
        let inner = call_hooked(&file, |fd| {
            let inner = call_hooked(&file, |_| Ok(()));
            Ok((inner.err(), address(&file, fd)))
        })?;
        assert_eq!(inner, (Some(compat::edeadlk()), Some(0x1000)));
        Ok(())
    }

    #[test]
    fn is_a_descriptor_if_the_hook_has_gone() -> Result {
        let file = file(ptr::without_provenance_mut(0x1000))?;
        let calls = Atomic::new(0);
        let import = |e: Error| {
            calls.store(0, Release);
            let result = call_hooked(&file, |fd| {
                calls.store(calls.load(Acquire) + 1, Release);
                if fd < 0 {
                    Err(e)
                } else {
                    Ok(())
                }
            });
            (result.err(), calls.load(Acquire))
        };
        assert_eq!(import(EBADF), (None, 2));
        // Any other error comes from the driver.
        assert_eq!(import(ENOSPC), (Some(ENOSPC), 1));
        Ok(())
    }
}
